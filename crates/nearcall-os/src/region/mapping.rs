#![allow(unsafe_code, reason = "maps and unmaps memory, and makes pointers into it")]
//! One stretch of memory that several regions may point into: a mapped file or a heap block.
//!
//! **Invariants:** the memory is readable from `start` for `bytes` bytes until the last `Arc` of
//! the mapping is dropped, and `start` is aligned to a page (heap block: `HEAP_ALIGN`).
//! **Not here:** which side may write, and the checks of a peer's file (`own.rs`, `peer.rs`,
//! `shared.rs`).

#[cfg(any(test, miri))]
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::platform;
use crate::seam::{self, Call};

use super::{Backing, REGION_BYTES_MAX, RegionError};

/// Memory with its way of being given back.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    source: Source,
}

/// The access that a mapping allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadOnly,
    ReadWrite,
}

#[derive(Debug)]
enum Source {
    File,
    /// Without memory files: see `region_pair_private`.
    #[cfg(any(test, miri))]
    Heap,
}

// SAFETY: the memory belongs to the process, not to a thread. `Mapping` itself hands out only a raw
// pointer; the region types decide which side may write through it.
unsafe impl Send for Mapping {}
// SAFETY: as for Send: shared access to a `Mapping` yields only numbers and a raw pointer.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes of a memory file whose size is sealed, or about to be sealed by the
    /// caller.
    ///
    /// A forked child does not get the mapping: it would be a second writer.
    pub(super) fn of_file(fd: impl AsFd, bytes: usize, access: Access) -> Result<Self, Errno> {
        let protection = match access {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        seam::enter(Call::Memory)?;
        // SAFETY: the kernel chooses the address, so the mapping overlaps no other.
        let start = unsafe {
            rustix::mm::mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, &fd, 0)
        }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        let mapping = Self { start, bytes, source: Source::File };
        seam::note_mapping(start.addr().get(), bytes, fd.as_fd(), access == Access::ReadWrite);
        // SAFETY: the range is exactly the mapping made above; the advice changes no byte.
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontFork) }?;
        Ok(mapping)
    }

    /// Zeroed memory from the heap, for two ends in one process under Miri.
    #[cfg(any(test, miri))]
    pub(super) fn of_heap(bytes: usize) -> Self {
        let layout = heap_layout(bytes);
        // SAFETY: `heap_layout` panics for a size of zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, bytes, source: Source::Heap }
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the pages of `range` present, for reading or (breaking nothing) for writing.
    /// `Ok(false)`: this kernel cannot, so the caller touches the pages itself.
    pub(super) fn populate(&self, range: Range<usize>, access: Access) -> Result<bool, Errno> {
        #[cfg(any(test, miri))]
        if matches!(self.source, Source::Heap) {
            return Ok(true);
        }
        let advice = match access {
            Access::ReadOnly => Advice::LinuxPopulateRead,
            Access::ReadWrite => Advice::LinuxPopulateWrite,
        };
        let (start, bytes) = self.whole_pages(&range);
        let populate = || {
            // SAFETY: `whole_pages` stays inside the mapping, which `self` keeps; populating
            // changes no byte.
            unsafe { rustix::mm::madvise(start.cast(), bytes, advice) }
        };
        match retry_on_intr(populate) {
            Ok(()) => Ok(true),
            Err(Errno::INVAL) => Ok(false), // Before Linux 5.14.
            Err(errno) => Err(errno),
        }
    }

    /// Keeps the pages of `range` in memory. `Ok(false)`: the limit forbids it.
    pub(super) fn lock(&self, range: Range<usize>) -> Result<bool, Errno> {
        #[cfg(any(test, miri))]
        if matches!(self.source, Source::Heap) {
            return Ok(false);
        }
        let (start, bytes) = self.whole_pages(&range);
        // SAFETY: `whole_pages` stays inside the mapping, which `self` keeps; locking changes
        // no byte, and unmapping ends it.
        match unsafe { rustix::mm::mlock(start.cast(), bytes) } {
            Ok(()) => Ok(true),
            Err(Errno::NOMEM | Errno::PERM | Errno::AGAIN) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Start and length of the pages that hold `range`.
    fn whole_pages(&self, range: &Range<usize>) -> (*mut u8, usize) {
        assert!(range.start <= range.end && range.end <= self.bytes);
        let first = range.start - range.start % rustix::param::page_size();
        // `wrapping_add` needs no promise, and the assertion keeps it inside the mapping.
        (self.start.as_ptr().wrapping_add(first), range.end - first)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        match self.source {
            Source::File => {
                seam::forget_mapping(self.start.addr().get());
                // SAFETY: `of_file` mapped exactly this range, and every pointer into it lives
                // in a region that holds an `Arc` of this mapping, or borrows from one.
                let unmapped =
                    unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
                debug_assert!(unmapped.is_ok(), "the range is ours");
            }
            #[cfg(any(test, miri))]
            Source::Heap => {
                // SAFETY: `of_heap` allocated it with this layout; as above for the pointers.
                unsafe { dealloc(self.start.as_ptr(), heap_layout(self.bytes)) };
            }
        }
    }
}

/// Creates a memory file of `bytes` bytes, maps it for writing, then seals it.
pub(super) fn create_file(
    name: &str,
    bytes: usize,
    backing: Backing,
    seals: SealFlags,
) -> Result<(Mapping, OwnedFd), RegionError> {
    let bytes_file = bytes as u64;
    if bytes == 0 || bytes_file > REGION_BYTES_MAX {
        let bytes_max = usize::try_from(REGION_BYTES_MAX).unwrap_or(usize::MAX);
        return Err(RegionError::Size { expected: 1..=bytes_max, found: bytes_file });
    }
    let file = open_memory_file(name)?;
    match backing {
        Backing::Reserved => {
            retry_on_intr(|| rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes_file))?
        }
        Backing::Lazy => retry_on_intr(|| rustix::fs::ftruncate(&file, bytes_file))?,
    }
    // Mapped first: FUTURE_WRITE leaves this mapping writable and forbids every later one.
    let mapping = Mapping::of_file(&file, bytes, Access::ReadWrite)?;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok((mapping, file))
}

/// Maps a peer's memory file, after its kind, seals and size were checked.
pub(super) fn open_file(
    fd: BorrowedFd<'_>,
    bytes: &std::ops::RangeInclusive<usize>,
    seals: SealFlags,
    access: Access,
) -> Result<Mapping, RegionError> {
    let found = match rustix::fs::fcntl_get_seals(fd) {
        Ok(found) => found,
        Err(Errno::INVAL) => return Err(RegionError::NotMemoryFile),
        Err(errno) => return Err(errno.into()),
    };
    // Whether the file may be executed is a choice of the kernel of the creator, and harmless here.
    if found.difference(SealFlags::EXEC) != seals {
        let (expected, found) = (seals.bits(), found.bits());
        return Err(RegionError::Seals { expected, found });
    }
    // A sealed file of huge pages exists too. Its pages come from a pool that can be empty.
    if platform::count(rustix::fs::fstatfs(fd)?.f_type) != TMPFS_MAGIC {
        return Err(RegionError::NotMemoryFile);
    }
    // After the seals: from here on the size cannot change.
    let size = rustix::fs::fstat(fd)?.st_size;
    let found = u64::try_from(size).unwrap_or(0);
    match usize::try_from(size) {
        Ok(size) if size != 0 && found <= REGION_BYTES_MAX && bytes.contains(&size) => {
            Ok(Mapping::of_file(fd, size, access)?)
        }
        _ => Err(RegionError::Size { expected: bytes.clone(), found }),
    }
}

fn open_memory_file(name: &str) -> Result<OwnedFd, Errno> {
    seam::enter(Call::Memory)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3 the flag is unknown.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        result => result,
    }
}

#[cfg(any(test, miri))]
fn heap_layout(bytes: usize) -> Layout {
    assert!(bytes != 0, "a region has at least one byte");
    match Layout::from_size_align(bytes, HEAP_ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("a region of {bytes} bytes does not fit the address space"),
    }
}

/// Alignment of a heap block, in bytes. A page, so that it behaves like a mapped file.
#[cfg(any(test, miri))]
const HEAP_ALIGN: usize = 4096;

/// `f_type` of the file system behind a memory file of normal pages (`TMPFS_MAGIC`).
const TMPFS_MAGIC: u64 = 0x0102_1994;
