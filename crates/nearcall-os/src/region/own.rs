#![allow(unsafe_code, reason = "makes references into memory that the seals protect")]
//! Memory that only this process writes, and that a peer may read.
//!
//! **Invariants:** an [`OwnRegion`] is the only owner of its bytes in this process (a split gives
//! disjoint ones), and the seals of its file keep every other process from writing them.
//! **Not here:** the reading side (`peer.rs`), memory that both sides write (`shared.rs`).

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::io::Errno;

#[cfg(any(test, miri))]
use super::PeerRegion;
use super::bytes::{check_range, check_word};
use super::mapping::{Access, Mapping, create_file};
use super::{Backing, RegionError, SEALS_OWN};

/// Memory that only this process writes: a sealed memory file, mapped for writing.
///
/// Unmapped when the last part of it is dropped. A forked child does not inherit it.
#[derive(Debug)]
pub struct OwnRegion {
    start: NonNull<u8>,
    bytes: usize,
    /// Keeps the memory; `start` and `bytes` are inside it.
    mapping: Arc<Mapping>,
}

// SAFETY: the memory belongs to the process, and the region is its only owner there. Other
// processes only read it.
unsafe impl Send for OwnRegion {}
// SAFETY: through `&OwnRegion` it is written only by atomics; plain writes need `&mut`.
unsafe impl Sync for OwnRegion {}

impl OwnRegion {
    /// Creates a zeroed region of `bytes` bytes, and the descriptor to hand to the peer.
    ///
    /// `name` shows up in `/proc/PID/maps`. Six system calls; with [`Backing::Reserved`] the
    /// kernel also finds all pages now. The descriptor may be closed after it was sent.
    ///
    /// # Errors
    ///
    /// [`RegionError::Size`] for zero or too many bytes, [`RegionError::Os`] when the kernel has
    /// no memory or no descriptor left. Nothing is left behind.
    pub fn create(
        name: &str,
        bytes: usize,
        backing: Backing,
    ) -> Result<(Self, OwnedFd), RegionError> {
        let (mapping, file) = create_file(name, bytes, backing, SEALS_OWN)?;
        Ok((Self::over(Arc::new(mapping)), file))
    }

    fn over(mapping: Arc<Mapping>) -> Self {
        Self { start: mapping.start(), bytes: mapping.bytes(), mapping }
    }

    /// Cuts the region in two owners, so that two threads can write one part each.
    ///
    /// Offsets in the second part count from `offset`. The memory is unmapped with the later one.
    ///
    /// # Panics
    ///
    /// If `offset` is not a multiple of 8, or not inside the region.
    #[must_use]
    #[track_caller]
    pub fn split_at(self, offset: usize) -> (Self, Self) {
        assert!(offset.is_multiple_of(size_of::<u64>()), "words must stay aligned");
        let bytes = check_range(&(offset..self.bytes), self.bytes);
        // SAFETY: `check_range` proves that `offset` is inside the region.
        let start = unsafe { self.start.add(offset) };
        let second = Self { start, bytes, mapping: Arc::clone(&self.mapping) };
        (Self { bytes: offset, ..self }, second)
    }

    /// Size in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns whether the region has no bytes, as one half of a split at an end.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The 32-bit word at `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` is not a multiple of 4, or the word not inside the region.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        let word = check_word(self.start, self.bytes, offset);
        // SAFETY: `check_word` proves alignment and range; plain writes need `&mut self`; the
        // mapping outlives `&self`.
        unsafe { AtomicU32::from_ptr(word.as_ptr()) }
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` is not a multiple of 8, or the word not inside the region.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        let word = check_word(self.start, self.bytes, offset);
        // SAFETY: as in `word32`.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }
    }

    /// The bytes of `range`, to write in place.
    ///
    /// The peer may read them meanwhile, and then sees some of the new bytes: publish them with a
    /// release store to a word afterwards.
    ///
    /// # Panics
    ///
    /// If `range` is not inside the region.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn slice_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let bytes = check_range(&range, self.bytes);
        // SAFETY: `check_range` proves that the start is inside the region.
        let start = unsafe { self.start.add(range.start) };
        // SAFETY: the range is inside the mapping. `&mut self` keeps every other access of this
        // process away, the seals every write of another one.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }

    /// Copies `source` to `offset`. One copy, no system call.
    ///
    /// # Panics
    ///
    /// If it does not fit into the region there.
    #[inline]
    #[track_caller]
    pub fn write(&mut self, offset: usize, source: &[u8]) {
        self.slice_mut(offset..offset.saturating_add(source.len())).copy_from_slice(source);
    }

    /// Sets the bytes of `range` to zero.
    ///
    /// # Panics
    ///
    /// If `range` is not inside the region.
    #[track_caller]
    pub fn zero(&mut self, range: Range<usize>) {
        self.slice_mut(range).fill(0);
    }

    /// Touches every page, so that later writes cost no page fault. Changes no byte.
    ///
    /// # Errors
    ///
    /// When the memory for the pages cannot be found; some may be present then.
    pub fn prefault(&mut self) -> Result<(), Errno> {
        self.prefault_range(0..self.bytes)
    }

    /// As for [`prefault`](Self::prefault), for the pages of `range` only. For a region with
    /// [`Backing::Lazy`]: where memory has run out this returns an error, and no process is killed.
    ///
    /// # Errors
    ///
    /// As for [`prefault`](Self::prefault).
    ///
    /// # Panics
    ///
    /// If `range` is not inside the region.
    #[track_caller]
    pub fn prefault_range(&self, range: Range<usize>) -> Result<(), Errno> {
        check_range(&range, self.bytes);
        let first = self.range_in_mapping().start;
        if self.mapping.populate(first + range.start..first + range.end, Access::ReadWrite)? {
            return Ok(());
        }
        // One word of each page, and the last one.
        let words = range.start.next_multiple_of(8)..range.end / 8 * 8;
        let last_word = words.end.saturating_sub(size_of::<u64>());
        for offset in words.clone().step_by(rustix::param::page_size()).chain([last_word]) {
            if words.contains(&offset) {
                self.word64(offset).fetch_or(0, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Keeps the pages in memory until the region is dropped. `Ok(false)`: not allowed
    /// (`RLIMIT_MEMLOCK`), and nothing was done. Also brings the pages in.
    ///
    /// # Errors
    ///
    /// When the kernel refuses for another reason than the limit.
    pub fn lock(&self) -> Result<bool, Errno> {
        self.mapping.lock(self.range_in_mapping())
    }

    /// The start of the region. Valid for its length as long as the region lives.
    #[inline]
    pub(super) fn first_byte(&self) -> NonNull<u8> {
        self.start
    }

    fn range_in_mapping(&self) -> Range<usize> {
        let first = self.start.addr().get() - self.mapping.start().addr().get();
        first..first + self.bytes
    }
}

/// A region and its reader in one process, on memory of the heap, without a system call.
///
/// Only for the interpreter, which knows no memory files and reports a race; nothing else keeps the
/// two apart. The reader's rules stay the same.
///
/// # Panics
///
/// If `bytes` is zero.
#[cfg(any(test, miri))]
#[must_use]
pub fn region_pair_private(bytes: usize) -> (OwnRegion, PeerRegion) {
    let mapping = Arc::new(Mapping::of_heap(bytes));
    (OwnRegion::over(Arc::clone(&mapping)), PeerRegion::over(mapping))
}
