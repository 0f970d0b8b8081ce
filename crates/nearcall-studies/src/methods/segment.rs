//! A managed segment: memory that both ends map and allocate from, with named objects in it.
//!
//! As the Motorola study used Boost.Interprocess: one lock for all of it, first fit over a list of
//! free blocks, objects that are found by name. The segment itself has no name, so nothing is left
//! behind; the server makes it and hands it over.
//!
//! ```text
//! | lock | directory: name, where, bytes | blocks: header, bytes |
//! ```
//!
//! **Invariants:** what the other end wrote is judged against the bounds of the segment before it
//! is used. A lock needs ends that trust each other all the same.
//! **Not here:** the list of blocks (`blocks.rs`), which end sends the place of a block
//! (`handover.rs`).

mod blocks;

use std::fmt;
use std::hint::black_box;
use std::io;
use std::sync::Arc;

use nearcall_bench::custom::{Failure, Job, Measured, Meeting, Role, measure_alone};
use nearcall_os::pshared::{Lock, Mutex};
use nearcall_os::region::{Backing, LockRegion, SharedRegion};
use nearcall_os::socket;

use self::blocks::Blocks;
use crate::methods::counter_process::{share, trust_of};

/// One end's view of the segment.
pub(super) struct Segment {
    region: Arc<LockRegion>,
    mutex: Mutex,
}

/// The place of a block, as one end sends it to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// Measures what a call pays for its place in the segment: allocating it and freeing it.
///
/// In batches, since that is below what a clock can tell; the lock is free meanwhile, as it is
/// between two ends that take turns.
pub(super) fn measure_allocation(job: &Job) -> Result<Measured, Failure> {
    let bytes = job.cell.bytes();
    let segment = Segment::alone(bytes)?;
    measure_alone(job, ALLOCATIONS_PER_SAMPLE, || {
        for _ in 0..ALLOCATIONS_PER_SAMPLE {
            segment.free(black_box(segment.allocate(black_box(bytes))?))?;
        }
        Ok(())
    })
}

/// Why the segment did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentError {
    /// No free block is large enough, or the directory has no place left.
    Full,
    /// A handle, a header or a list leads out of the segment.
    Broken,
    /// There is no object of that name, or one already.
    Name,
    /// The other end died while it held the lock.
    OwnerDied,
    /// The lock cannot be taken.
    Lock,
}

fn init(region: &Arc<LockRegion>) -> Result<(), Failure> {
    Mutex::init(region, LOCK)?;
    Blocks::new(region, BLOCKS).init();
    Ok(())
}

impl Segment {
    /// Makes a segment in which two messages of `message_bytes` have room, for this process alone.
    fn alone(message_bytes: usize) -> Result<Self, Failure> {
        let (own, _other) = socket::unix_pair(socket::Kind::Stream)?;
        let bytes = segment_bytes(message_bytes);
        let created = SharedRegion::create("nearcall-segment", bytes, Backing::Reserved);
        let (region, _fd) = created.map_err(Failure::other)?;
        let region = Arc::new(region.for_locks(trust_of(own)?));
        region.prefault().map_err(io::Error::from)?;
        init(&region)?;
        Ok(Self::attach(region))
    }

    /// The server makes it, the client gets it.
    pub(super) fn meet(
        meeting: &Meeting,
        role: Role,
        message_bytes: usize,
    ) -> Result<Self, Failure> {
        Ok(Self::attach(share(meeting, role, segment_bytes(message_bytes), init)?))
    }

    fn attach(region: Arc<LockRegion>) -> Self {
        let mutex = Mutex::attach(&region, LOCK);
        Self { region, mutex }
    }

    /// Takes `bytes` bytes out of the first free block that has them.
    pub(super) fn allocate(&self, bytes: usize) -> Result<Handle, SegmentError> {
        self.locked(|blocks| blocks.allocate(bytes))
    }

    /// Gives them back, joined with free neighbours.
    pub(super) fn free(&self, handle: Handle) -> Result<(), SegmentError> {
        self.locked(|blocks| blocks.free(handle))
    }

    /// Copies `source`, which has the length of `handle`, to where that is.
    pub(super) fn write(&self, handle: Handle, source: &[u8]) -> Result<(), SegmentError> {
        let at = self.resolve(handle)?;
        if handle.bytes != source.len() as u64 {
            return Err(SegmentError::Broken);
        }
        self.region.write(at, source);
        Ok(())
    }

    /// Copies what `handle` stands for into private memory of the same length.
    pub(super) fn read(&self, handle: Handle, target: &mut [u8]) -> Result<(), SegmentError> {
        let at = self.resolve(handle)?;
        if handle.bytes != target.len() as u64 {
            return Err(SegmentError::Broken);
        }
        self.region.read(at, target);
        Ok(())
    }

    /// Makes an object of that name: allocates it, copies `value` into it, and enters it.
    pub(super) fn construct(&self, name: &str, value: &[u8]) -> Result<(), SegmentError> {
        let name = padded(name)?;
        self.locked(|blocks| {
            if self.entry(&name).is_some() {
                return Err(SegmentError::Name);
            }
            let entry = self.entry(&[0; NAME_BYTES]).ok_or(SegmentError::Full)?;
            let handle = blocks.allocate(value.len())?;
            self.region.write(self.resolve(handle)?, value);
            let word = |at: usize| self.region.word64(entry + at);
            word(WHERE).store(handle.at, RELAXED);
            word(LENGTH).store(handle.bytes, RELAXED);
            self.region.write(entry, &name);
            Ok(())
        })
    }

    /// Copies the object of that name.
    pub(super) fn find(&self, name: &str, target: &mut [u8]) -> Result<(), SegmentError> {
        let name = padded(name)?;
        self.locked(|_| {
            let entry = self.entry(&name).ok_or(SegmentError::Name)?;
            self.read(self.handle_of(entry), target)
        })
    }

    /// Takes the object of that name out and frees it.
    pub(super) fn destroy(&self, name: &str) -> Result<(), SegmentError> {
        let name = padded(name)?;
        self.locked(|blocks| {
            let entry = self.entry(&name).ok_or(SegmentError::Name)?;
            let handle = self.handle_of(entry);
            self.region.write(entry, &[0; NAME_BYTES]);
            blocks.free(handle)
        })
    }

    /// Where the bytes of `handle` begin, if all of them are inside.
    fn resolve(&self, handle: Handle) -> Result<usize, SegmentError> {
        let at = usize::try_from(handle.at).map_err(|_| SegmentError::Broken)?;
        let bytes = usize::try_from(handle.bytes).map_err(|_| SegmentError::Broken)?;
        let inside = at >= BLOCKS && at <= self.region.len() && bytes <= self.region.len() - at;
        if inside { Ok(at) } else { Err(SegmentError::Broken) }
    }

    fn locked<T>(
        &self,
        act: impl FnOnce(&Blocks<'_>) -> Result<T, SegmentError>,
    ) -> Result<T, SegmentError> {
        let guard = self.mutex.lock().map_err(|_| SegmentError::Lock)?;
        if guard.lock_state() == Lock::OwnerDied {
            return Err(SegmentError::OwnerDied);
        }
        act(&Blocks::new(&self.region, BLOCKS))
    }

    /// The entry of that name; the empty one is that of a place without an object.
    fn entry(&self, name: &[u8; NAME_BYTES]) -> Option<usize> {
        (0..NAMES_MAX).map(|place| DIRECTORY + place * ENTRY_BYTES).find(|&entry| {
            let mut found = [0; NAME_BYTES];
            self.region.read(entry, &mut found);
            found == *name
        })
    }

    fn handle_of(&self, entry: usize) -> Handle {
        let word = |at: usize| self.region.word64(entry + at).load(RELAXED);
        Handle { at: word(WHERE), bytes: word(LENGTH) }
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the segment has no room left",
            Self::Broken => "what the other end wrote leads out of the segment",
            Self::Name => "the segment has no such name, or has it already",
            Self::OwnerDied => "the other end died with the lock of the segment",
            Self::Lock => "the lock of the segment cannot be taken",
        })
    }
}

impl From<SegmentError> for Failure {
    #[cold]
    fn from(error: SegmentError) -> Self {
        Self::other(error)
    }
}

fn padded(name: &str) -> Result<[u8; NAME_BYTES], SegmentError> {
    let mut padded = [0; NAME_BYTES];
    let room = padded.get_mut(..name.len()).ok_or(SegmentError::Name)?;
    room.copy_from_slice(name.as_bytes());
    if name.is_empty() { Err(SegmentError::Name) } else { Ok(padded) }
}

/// The study says "around 1 MB". Into that its own largest message does not fit beside what the
/// allocator needs, so we take room for two of them.
fn segment_bytes(message_bytes: usize) -> usize {
    let bytes = BLOCKS + 2 * message_bytes + SPARE_BYTES;
    bytes.max(SEGMENT_BYTES_MIN).next_multiple_of(PAGE_BYTES)
}

/// Some ten nanoseconds each.
const ALLOCATIONS_PER_SAMPLE: u64 = 100;

/// The lock orders everything.
const RELAXED: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;

/// What the study's segment had.
const SEGMENT_BYTES_MIN: usize = 1 << 20;

/// For headers and named objects.
const SPARE_BYTES: usize = 4 << 10;

const PAGE_BYTES: usize = 4 << 10;

const LOCK: usize = 0;

/// Apart from the lock by a pair of cache lines.
const DIRECTORY: usize = 128;

/// Objects with a name. Two are in use at most.
const NAMES_MAX: usize = 16;

/// Bytes of a name, the last of them zero or used.
const NAME_BYTES: usize = 32;

/// Of an entry: behind the name.
const WHERE: usize = NAME_BYTES;
const LENGTH: usize = WHERE + 8;
const ENTRY_BYTES: usize = 64;

/// Blocks begin on a page of their own.
const BLOCKS: usize = PAGE_BYTES;

#[cfg(test)]
mod tests;
