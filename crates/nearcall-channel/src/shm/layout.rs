//! Every byte that two processes share: the picture, the struct, the version, the assertions.
//!
//! Each end has one such memory file. It alone writes it; the other end maps it read-only.
//!
//! ```text
//! byte    0  header    magic, version, ring, flags           written once, before it is sent
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
//!         62 ABORT, 63 LAST. PAD without lengths: nothing; with them: a note, see `lane.rs`
//! ```
//!
//! The word is the ready flag: for up to 56 bytes, one cache line carries flag and payload. LAP
//! tells a word from the one that stood there a lap ago.
//! Words of different writers are 128 bytes apart, because x86 fetches lines in pairs.

use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nearcall_os::region::{Backing, OwnRegion, PeerRegion};
use std::os::fd::{AsFd, OwnedFd};

use crate::limits;
use crate::open::OpenError;
use crate::shm::ring;

/// Says that a memory file is one of ours: "nearshm" and a zero.
const MAGIC: u64 = u64::from_le_bytes(*b"nearshm\0");

/// Goes up with every change to this file's picture.
const LAYOUT_VERSION: u32 = 2;

/// Alignment of frames: a cache line.
pub(crate) const FRAME_ALIGN: usize = 64;

/// Size of the word in front of a fragment.
pub(crate) const FRAME_WORD_BYTES: usize = 8;

/// In the frame's word: the parity of the lap in which it was written.
pub(crate) const LAP: u64 = 1 << 59;

/// In the frame's word: a frame is there.
pub(crate) const READY: u64 = 1 << 60;

/// In the frame's word: nothing but the way to the ring's start, or a note of a fragment elsewhere.
pub(crate) const PAD: u64 = 1 << 61;

/// Pages that a ring has from the start, in bytes: the words and the window of small messages.
const FIRST_BYTES: usize = 12 << 10;

const _: () = assert!(FRAMES + ring::WINDOW_BYTES + FRAME_ALIGN <= FIRST_BYTES);

#[repr(C, align(128))]
struct Line<T>(T);

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
    /// The thread that sleeps, for who wakes by signal.
    thread: AtomicU32,
}

#[repr(C)]
struct Layout {
    header: Line<Header>,
    sleep: Line<Sleep>,
    bell: Line<AtomicU32>,
    consumed: Line<AtomicU64>,
}

/// Where the owner says how it waits.
pub(crate) const SLEEP: usize = offset_of!(Layout, sleep);
/// Where the owner says which of its threads sleeps.
pub(crate) const THREAD: usize = SLEEP + offset_of!(Sleep, thread);
/// What the peer's futex waits on.
pub(crate) const BELL: usize = offset_of!(Layout, bell);
/// How far the owner has read the peer's ring.
pub(crate) const CONSUMED: usize = offset_of!(Layout, consumed);
/// Where the frames begin.
pub(crate) const FRAMES: usize = size_of::<Layout>();

const VERSION: usize = offset_of!(Header, version);
const RING_BYTES: usize = offset_of!(Header, ring_bytes);
/// Not zero: the owner never sleeps, so nobody needs to look at its sleep word.
const FLAGS: usize = offset_of!(Header, flags);

const _: () = assert!(SLEEP == 128 && BELL == 256 && CONSUMED == 384 && FRAMES == 512);
const _: () = assert!(VERSION == 8 && RING_BYTES == 12 && FLAGS == 16 && THREAD == 132);
const _: () = assert!(FRAMES.is_multiple_of(FRAME_ALIGN));
const _: () = assert!(limits::BUFFER_BYTES_MIN as usize >= 16 * FRAME_ALIGN);

/// How many bytes a ring has: a power of two within the limits.
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

    /// How many bytes follow `position` before the ring starts again.
    #[inline(always)]
    pub(crate) fn bytes_to_end(self, position: u64) -> usize {
        self.region_bytes() - self.place(position)
    }
}

/// How much of the ring a fragment takes.
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
    own.prefault_range(0..pages.end(capacity)).map_err(|error| touching(error.into()))?;
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
        return Err(OpenError::BadParts(format!(
            "shared memory of layout version {version}, this program has {LAYOUT_VERSION}: \
             update the older one"
        )));
    }
    if ring_bytes != capacity.bytes() {
        return Err(OpenError::bad_parts("shared memory with another room than agreed"));
    }
    peer.prefault_range(0..pages.end(capacity)).map_err(|error| touching(error.into()))?;
    Ok(peer)
}

/// Whether the owner of this memory has said that it never sleeps. Who lies is not woken.
pub(crate) fn never_sleeps(peer: &PeerRegion) -> bool {
    peer.load32(FLAGS, Ordering::Relaxed) != 0
}

fn touching(error: std::io::Error) -> OpenError {
    OpenError::doing("touching shared memory")(error)
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
