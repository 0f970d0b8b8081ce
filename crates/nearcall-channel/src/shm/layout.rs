//! Every word of memory that two processes share: the pictures, the structs, the version, the
//! assertions.
//!
//! **The ring.** Each end has one such memory file. It alone writes it; the other end maps it
//! read-only.
//!
//! ```text
//! byte    0  header    magic, version, ring, flags            written once, before it is sent
//!       128  sleep     how the owner waits now, its thread    by the owner, when it waits
//!       256  bell      goes up when the owner wakes the peer  by the owner, when it rings
//!       384  consumed  what the owner has read of the PEER's ring, counted from the start
//!       512  frames    the owner's own messages, a ring of a power of two bytes
//! ```
//!
//! A frame begins at a multiple of 64 bytes and is contiguous:
//!
//! ```text
//! | word: u64 | fragment_bytes bytes | up to the next multiple of 64 |
//!   word: bits 0..32 length of the message, 32..59 of the fragment, 59 LAP, 60 READY, 61 PAD,
//!         62 ABORT, 63 LAST. PAD without lengths: nothing; with them: an indirect frame
//! ```
//!
//! The word is the ready flag: for up to 56 bytes, one cache line carries flag and payload. LAP
//! distinguishes a word from the one that stood there a lap ago.
//! Words of different writers are 128 bytes apart, because x86 fetches lines in pairs.
//!
//! **The lane** ([`lane`]) holds the fragments of long messages, **the counts** are the page in
//! which a borrower counts what it is done with, **the monitor** ([`monitor`]) with a
//! [`bounded_buffer`] or a [`slot_queue`] is one direction of `shm-condvar` and `shm-mq`.
//!
//! **Invariants:** no other file of the crate has an offset into shared memory. A change to a
//! picture raises [`LAYOUT_VERSION`].
//! **Not here:** the order in which words are written and read (`ring.rs`, `doorbell.rs`,
//! `monitor.rs`).
//!
//! **Invariant:** every word that two processes share is laid out here: a picture, `repr(C)`
//! structs or offsets. *Checked by* assertions of `src/shm/layout.rs` at compile time.

use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nearcall_os::region::{Backing, OwnRegion, PeerRegion};
use std::os::fd::{AsFd, OwnedFd};

use crate::error::{BadParts, OpenError};
use crate::limits;

/// Says that a memory file is one of ours: "nearshm" and a zero.
const MAGIC: u64 = u64::from_le_bytes(*b"nearshm\0");

/// Goes up with every change to a picture of this file.
const LAYOUT_VERSION: u32 = 3;

/// Alignment of frames: a cache line.
pub(crate) const FRAME_ALIGN: usize = 64;

/// Size of the word in front of a fragment.
pub(crate) const FRAME_WORD_BYTES: usize = 8;

/// In the frame's word: the parity of the lap in which it was written.
pub(crate) const LAP: u64 = 1 << 59;

/// In the frame's word: a frame is there.
pub(crate) const READY: u64 = 1 << 60;

/// In the frame's word: nothing but the way to the ring's start, or an indirect frame.
pub(crate) const PAD: u64 = 1 << 61;

/// In the frame's word: the length of the fragment.
pub(crate) const LENGTHS: u64 = (LENGTH as u64) << 32;

/// Size of the header of a fragment, in bytes: the frame's word without `LAP`, `READY` and `PAD`.
/// Fragments that travel through the kernel have the same.
pub(crate) const HEADER_BYTES: usize = 8;

/// In the second half of a header: the message is complete after this fragment.
pub(crate) const LAST: u32 = 1 << 31;

/// In the second half of a header: the sender aborts the message.
pub(crate) const ABORT: u32 = 1 << 30;

/// In the second half of a header: the length of the fragment.
pub(crate) const LENGTH: u32 = (1 << 27) - 1;

const _: () = assert!(HEADER_BYTES == FRAME_WORD_BYTES);
const _: () = assert!(((LAST | ABORT | LENGTH) as u64) << 32 & (LAP | READY | PAD) == 0);
const _: () = assert!(LAP | READY | PAD == 0b111 << 59);
const _: () = assert!(limits::FRAGMENT_BYTES <= LENGTH as usize);

/// Bytes of the ring that small messages use before they wrap early.
///
/// Both directions together stay inside a first-level cache of 32 KiB, and a pad for every 128
/// messages does not show.
pub(crate) const WINDOW_BYTES: usize = 8 << 10;

/// Pages that a ring has from the start, in bytes: the words and the window of small messages.
const FIRST_BYTES: usize = 12 << 10;

const _: () = assert!(FRAMES + WINDOW_BYTES + FRAME_ALIGN <= FIRST_BYTES);

#[repr(C, align(128))]
struct OwnLines<T>(T);

#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    ring_bytes: AtomicU32,
    flags: AtomicU32,
}

#[repr(C)]
struct Sleep {
    /// Zero while awake; else the number of this sleep and what for, see `doorbell.rs`.
    state: AtomicU32,
    /// The thread that sleeps, for an end that wakes by signal.
    thread: AtomicU32,
}

#[repr(C)]
struct Layout {
    header: OwnLines<Header>,
    sleep: OwnLines<Sleep>,
    bell: OwnLines<AtomicU32>,
    consumed: OwnLines<AtomicU64>,
}

/// The word in which the owner states how it waits.
pub(crate) const SLEEP: usize = offset_of!(Layout, sleep);
/// The word in which the owner states which of its threads sleeps.
pub(crate) const THREAD: usize = SLEEP + offset_of!(Sleep, thread);
/// The word that the peer's futex waits on.
pub(crate) const BELL: usize = offset_of!(Layout, bell);
/// The position up to which the owner has read the peer's ring.
pub(crate) const CONSUMED: usize = offset_of!(Layout, consumed);
/// The offset of the frames.
pub(crate) const FRAMES: usize = size_of::<Layout>();

const VERSION: usize = offset_of!(Header, version);
const RING_BYTES: usize = offset_of!(Header, ring_bytes);
/// Not zero: the owner never sleeps, so the other end need not look at its sleep word.
const FLAGS: usize = offset_of!(Header, flags);

const _: () = assert!(SLEEP == 128 && BELL == 256 && CONSUMED == 384 && FRAMES == 512);
const _: () = assert!(VERSION == 8 && RING_BYTES == 12 && FLAGS == 16 && THREAD == 132);
const _: () = assert!(FRAMES.is_multiple_of(FRAME_ALIGN));
const _: () = assert!(limits::BUFFER_BYTES_MIN as usize >= 16 * FRAME_ALIGN);

/// The bytes of a ring: a power of two within the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity(usize);

impl Capacity {
    /// The smallest ring that has the room asked for, which is within `limits.rs`.
    pub(crate) fn at_least(buffer_bytes: u32) -> Self {
        let bytes = buffer_bytes.clamp(limits::BUFFER_BYTES_MIN, limits::BUFFER_BYTES_MAX);
        Self(bytes.next_power_of_two() as usize)
    }

    /// Bytes of the ring.
    pub(crate) const fn bytes(self) -> usize {
        self.0
    }

    /// Bytes of the whole memory file.
    pub(crate) const fn region_bytes(self) -> usize {
        FRAMES + self.0
    }

    /// The longest fragment: four of them fit, so that writer and reader work side by side.
    pub(crate) fn fragment_bytes_max(self) -> usize {
        limits::FRAGMENT_BYTES.min(self.0 / 4 - 2 * FRAME_ALIGN)
    }

    /// Where in the region the frame at `position` begins, counted from the ring's first byte ever.
    #[inline(always)]
    pub(crate) fn place(self, position: u64) -> usize {
        #[allow(clippy::cast_possible_truncation, reason = "masked to less than the capacity")]
        let offset = position as usize & (self.0 - 1);
        FRAMES + offset
    }

    /// What LAP says in the word of a frame at `position`.
    #[inline(always)]
    pub(crate) fn lap(self, position: u64) -> u64 {
        if position & self.0 as u64 == 0 { 0 } else { LAP }
    }

    /// Returns how many bytes follow `position` before the ring starts again.
    #[inline(always)]
    pub(crate) fn bytes_to_end(self, position: u64) -> usize {
        self.region_bytes() - self.place(position)
    }
}

/// Returns the bytes of the ring that a fragment takes.
#[inline(always)]
pub(crate) const fn frame_bytes(fragment_bytes: usize) -> usize {
    (FRAME_WORD_BYTES + fragment_bytes).next_multiple_of(FRAME_ALIGN)
}

/// Where the bytes of the fragment lie whose frame begins at `place`.
#[inline(always)]
pub(crate) const fn fragment_range(place: usize, fragment_bytes: usize) -> Range<usize> {
    place + FRAME_WORD_BYTES..place + FRAME_WORD_BYTES + fragment_bytes
}

/// How much of a ring has pages from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// All: no page fault inside a message, neither here nor there.
    All,
    /// Those that a connection with small messages uses; the ring asks for more when it needs more.
    First,
}

impl Pages {
    /// Where in the region the pages of a new ring end.
    pub(crate) fn end(self, capacity: Capacity) -> usize {
        match self {
            Self::All => capacity.region_bytes(),
            Self::First => FIRST_BYTES.min(capacity.region_bytes()),
        }
    }
}

/// Makes our memory file, and the descriptor for the other end.
pub(crate) fn create(
    capacity: Capacity,
    pages: Pages,
    never_sleeps: bool,
) -> Result<(OwnRegion, OwnedFd), OpenError> {
    let backing = match pages {
        Pages::All => Backing::Reserved,
        Pages::First => Backing::Lazy,
    };
    let (own, fd) = OwnRegion::create("nearcall-ring", capacity.region_bytes(), backing)?;
    own.prefault_range(0..pages.end(capacity)).map_err(|error| prefault_error(error.into()))?;
    let ring_bytes = u32::try_from(capacity.bytes()).expect("a ring has at most BUFFER_BYTES_MAX");
    own.word64(0).store(MAGIC, Ordering::Relaxed);
    own.word32(VERSION).store(LAYOUT_VERSION, Ordering::Relaxed);
    own.word32(FLAGS).store(never_sleeps.into(), Ordering::Relaxed);
    own.word32(RING_BYTES).store(ring_bytes, Ordering::Release);
    Ok((own, fd))
}

/// Maps the other end's memory file, if it is what it must be.
pub(crate) fn open(
    fd: impl AsFd,
    capacity: Capacity,
    pages: Pages,
) -> Result<PeerRegion, OpenError> {
    let bytes = capacity.region_bytes();
    let peer = PeerRegion::open(fd, bytes..=bytes)?;
    let ring_bytes = peer.load32(RING_BYTES, Ordering::Acquire) as usize;
    let version = peer.load32(VERSION, Ordering::Relaxed);
    if peer.load64(0, Ordering::Relaxed) != MAGIC {
        return Err(OpenError::bad_parts("shared memory without our mark"));
    }
    if version != LAYOUT_VERSION {
        return Err(OpenError::BadParts(BadParts::LayoutVersion {
            theirs: version,
            ours: LAYOUT_VERSION,
        }));
    }
    if ring_bytes != capacity.bytes() {
        return Err(OpenError::bad_parts("shared memory with another room than agreed"));
    }
    peer.prefault_range(0..pages.end(capacity)).map_err(|error| prefault_error(error.into()))?;
    Ok(peer)
}

/// Returns whether the owner of this memory has said that it never sleeps. A false
/// statement only costs the owner its wake-ups.
pub(crate) fn never_sleeps(peer: &PeerRegion) -> bool {
    peer.load32(FLAGS, Ordering::Relaxed) != 0
}

fn prefault_error(error: std::io::Error) -> OpenError {
    OpenError::doing("touching shared memory")(error)
}

/// Bytes of the page of counts: one word for each slot of the lender.
pub(crate) const COUNTS_BYTES: usize = limits::SLOTS_PER_END_MAX * size_of::<u32>();

/// Returns where in its page the borrower counts how often it was done with a slot.
pub(crate) const fn counter_at(slot: u16) -> usize {
    slot as usize * size_of::<u32>()
}

const _: () = assert!(COUNTS_BYTES == 256);

/// The sleep word: zero while awake, else the number of the sleep above these bits.
pub(crate) mod sleep_word {
    /// The owner sleeps until there is a message.
    pub(crate) const FOR_MESSAGE: u32 = 1;
    /// The owner sleeps until there is room.
    pub(crate) const FOR_ROOM: u32 = 2;
    /// The owner waits on the descriptor.
    pub(crate) const ON_DESCRIPTOR: u32 = 4;
    /// The owner leaves rings in the descriptor: only one more reports that there is something.
    pub(crate) const EDGE: u32 = 8;
    /// The increment of the number for one sleep.
    pub(crate) const NEXT_SLEEP: u32 = 16;

    const _: () = assert!(FOR_MESSAGE | FOR_ROOM | ON_DESCRIPTOR | EDGE == NEXT_SLEEP - 1);
}

/// A lane: a segment of room for fragments, and the indirect frames that name their places.
///
/// ```text
/// | word: as of a fragment, with PAD | segment: u16, place: u32, 0: u16 | ... |
///   place: where the fragment begins in the room, in units of 64 bytes
/// ```
pub(crate) mod lane {
    use super::{FRAME_ALIGN, FRAME_WORD_BYTES};
    use crate::limits::{FRAGMENT_BYTES, LANE_SLOTS};

    /// The offset of the room. Half a page off the users' buffers, which usually begin at a page or
    /// just behind: a copy between places that agree in their lower 12 bits took six times as long,
    /// since the processor takes its own stores for what it loads.
    const ROOM_AT: usize = 2 << 10;

    /// Size of a slot, which has one long fragment or several shorter ones, in bytes.
    pub(crate) const SLOT_BYTES: usize = FRAGMENT_BYTES;

    /// Sizes of lanes, in bytes.
    pub(crate) const LANE_BYTES: [usize; 2] =
        [ROOM_AT + LANE_SLOTS[0] * SLOT_BYTES, ROOM_AT + LANE_SLOTS[1] * SLOT_BYTES];

    /// Bytes of an indirect frame, behind the word.
    pub(crate) const INDIRECT_BYTES: usize = 8;

    /// Returns the offset of a place of the room in the segment.
    pub(crate) const fn offset_of(place: usize) -> usize {
        ROOM_AT + place
    }

    /// Returns the slots of a lane of `bytes`.
    pub(crate) const fn slots_of(bytes: usize) -> usize {
        (bytes - ROOM_AT) / SLOT_BYTES
    }

    /// Returns the bytes of the indirect frame that names a place, a multiple of 64.
    pub(crate) fn indirect_word(segment: u16, place: usize) -> u64 {
        u64::from(segment) | ((place / FRAME_ALIGN) as u64) << 16
    }

    /// Returns the segment and the place that an indirect frame of the peer names; `None` if no
    /// correct peer writes that. The place may be in no lane.
    pub(crate) fn indirect_place(word: u64) -> Option<(u16, usize)> {
        #[allow(clippy::cast_possible_truncation, reason = "the two fields of the word")]
        let (segment, unit) = (word as u16, (word >> 16) as u32);
        (word >> 48 == 0).then_some((segment, unit as usize * FRAME_ALIGN))
    }

    const _: () = assert!(INDIRECT_BYTES == FRAME_WORD_BYTES);
    const _: () = assert!(SLOT_BYTES.is_multiple_of(FRAME_ALIGN));
}

/// The memory file of two semaphores, one for each end. Both write it.
pub(crate) mod semaphores {
    use nearcall_os::pshared::Semaphore;

    /// The server waits here.
    pub(crate) const SERVER: usize = 0;
    /// The client waits here; far enough that the two do not share cache lines fetched in pairs.
    pub(crate) const CLIENT: usize = 128;
    /// Size of the memory file: a page, the least there is.
    pub(crate) const REGION_BYTES: usize = 4096;

    const _: () = assert!(CLIENT.is_multiple_of(Semaphore::ALIGN));
    const _: () = assert!(SERVER + Semaphore::SIZE <= CLIENT);
    const _: () = assert!(CLIENT + Semaphore::SIZE <= REGION_BYTES);
}

/// A monitor: a mutex and two condition variables in front of what it guards.
pub(crate) mod monitor {
    use nearcall_os::pshared::{Condvar, Mutex};

    /// Bytes that it takes in the region, at a multiple of 128.
    pub(crate) const MONITOR_BYTES: usize = 512;

    pub(crate) const MUTEX: usize = 0;
    pub(crate) const NOT_EMPTY: usize = 128;
    pub(crate) const NOT_FULL: usize = 256;
    /// Not zero while the receiver waits and was not signalled. Under the lock.
    pub(crate) const RECEIVER_WAITS: usize = 384;
    /// The same for the sender.
    pub(crate) const SENDER_WAITS: usize = 388;

    const _: () = assert!(Mutex::SIZE <= NOT_EMPTY - MUTEX);
    const _: () = assert!(128usize.is_multiple_of(Mutex::ALIGN));
    const _: () = assert!(Condvar::SIZE <= 128 && 128usize.is_multiple_of(Condvar::ALIGN));
    const _: () = assert!(SENDER_WAITS + size_of::<u32>() <= MONITOR_BYTES);
}

/// A bounded buffer behind a monitor: two positions, counted from the start, and a ring of bytes.
pub(crate) mod bounded_buffer {
    /// The bytes that the sender has put in.
    pub(crate) const PUT: usize = 0;
    /// The bytes that the receiver has taken out.
    pub(crate) const TAKEN: usize = 8;
    /// The offset of the bytes.
    pub(crate) const BYTES: usize = 64;

    const _: () = assert!(TAKEN + size_of::<u64>() <= BYTES);
}

/// A queue of slots behind a monitor.
///
/// ```text
/// | first: u32, count: u32 | index: slot numbers | free: slot numbers | slots: header, bytes |
/// ```
pub(crate) mod slot_queue {
    use super::{Capacity, HEADER_BYTES};
    use crate::limits::FRAGMENT_BYTES;

    /// Where `first` and `count` lie, in one word.
    pub(crate) const STATE: usize = 0;
    /// Where the index and after it the free list begin.
    const LISTS: usize = 64;
    /// Slots do not share cache lines.
    const SLOT_ALIGN: usize = 64;
    /// Fewest slots of a queue, so that a small room still lets sender and receiver work at once.
    const SLOTS_MIN: usize = 4;

    const _: () = assert!(STATE + size_of::<u64>() <= LISTS);

    /// Boost's max_num_msg and max_msg_size, and where things lie.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Shape {
        pub(crate) slots: u32,
        pub(crate) payload_bytes: usize,
    }

    impl Shape {
        /// Slots of a fragment each, at least [`SLOTS_MIN`], that hold `capacity` together.
        pub(crate) fn new(capacity: Capacity) -> Self {
            let payload_bytes = FRAGMENT_BYTES.min(capacity.bytes() / SLOTS_MIN);
            let slots = u32::try_from(capacity.bytes() / payload_bytes);
            Self { slots: slots.expect("rooms are below 2^32 bytes"), payload_bytes }
        }

        fn list_bytes(self) -> usize {
            self.slots as usize * size_of::<u32>()
        }

        fn slot_bytes(self) -> usize {
            (HEADER_BYTES + self.payload_bytes).next_multiple_of(SLOT_ALIGN)
        }

        pub(crate) fn index(self, place: u32) -> usize {
            LISTS + (place % self.slots) as usize * size_of::<u32>()
        }

        pub(crate) fn free(self, place: u32) -> usize {
            LISTS + self.list_bytes() + (place % self.slots) as usize * size_of::<u32>()
        }

        pub(crate) fn slot(self, slot: u32) -> usize {
            let slots = (LISTS + 2 * self.list_bytes()).next_multiple_of(SLOT_ALIGN);
            slots + slot as usize * self.slot_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_56_bytes_fills_one_cache_line() {
        assert_eq!(frame_bytes(0), 64);
        assert_eq!(frame_bytes(56), 64);
        assert_eq!(frame_bytes(57), 128);
    }

    #[test]
    fn positions_wrap_at_the_capacity() {
        let capacity = Capacity::at_least(5000);
        assert_eq!(capacity.bytes(), 8192);
        assert_eq!(capacity.place(0), FRAMES);
        assert_eq!(capacity.place(8192 * 7 + 64), FRAMES + 64);
        assert_eq!(capacity.bytes_to_end(8192 * 3 - 64), 64);
    }
}
