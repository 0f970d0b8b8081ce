#![allow(unsafe_code, reason = "reads memory that another process writes")]
//! A peer's memory, mapped read-only.
//!
//! **Invariants:** the file is sealed so that it cannot shrink while mapped, and every word is
//! loaded atomically, one load per call. Its content is a claim of the peer: load it once, validate
//! it, use it. **Not here:** the writing side (`own.rs`), judging the values (the caller).

use std::ops::{Range, RangeInclusive};
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::io::Errno;

use super::bytes::{SharedBytes, check_range, check_word};
use super::mapping::{Access, Mapping, open_file};
use super::{RegionError, SEALS_OWN};
use crate::futex::FutexWord;

/// Memory that a peer writes and this process only reads. A clone reads the same memory.
///
/// Unmapped when the last clone is dropped. A forked child does not inherit it.
#[derive(Debug, Clone)]
pub struct PeerRegion {
    start: NonNull<u8>,
    bytes: usize,
    /// Keeps the memory that `start` and `bytes` describe.
    mapping: Arc<Mapping>,
}

// SAFETY: the memory belongs to the process, and the region only reads it.
unsafe impl Send for PeerRegion {}
// SAFETY: as for Send; reading from two threads at once is fine.
unsafe impl Sync for PeerRegion {}

impl PeerRegion {
    /// Maps a peer's memory file read-only, if it is one that the peer can no longer truncate and
    /// no other process can write, and if its size is within `bytes`.
    ///
    /// Five system calls. The descriptor may be closed afterwards. The pages may not exist yet:
    /// reading a page that the peer left out takes memory from the system.
    ///
    /// # Errors
    ///
    /// [`RegionError::NotMemoryFile`], [`RegionError::Seals`] and [`RegionError::Size`] describe
    /// what the peer sent instead; nothing was mapped. [`RegionError::Os`] when mapping failed.
    pub fn open(fd: impl AsFd, bytes: RangeInclusive<usize>) -> Result<Self, RegionError> {
        let mapping = open_file(fd.as_fd(), &bytes, SEALS_OWN, Access::ReadOnly)?;
        Ok(Self::over(Arc::new(mapping)))
    }

    pub(super) fn over(mapping: Arc<Mapping>) -> Self {
        Self { start: mapping.start(), bytes: mapping.bytes(), mapping }
    }

    /// Size in bytes, as checked when it was opened. A peer cannot change it.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never true: an empty file is refused.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Loads the 32-bit word at `offset`, once.
    ///
    /// # Panics
    ///
    /// If `offset` is not a multiple of 4, the word not inside the region, or `order` not one of a
    /// load.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn load32(&self, offset: usize, order: Ordering) -> u32 {
        self.word32(offset).load(order)
    }

    /// Loads the 64-bit word at `offset`, once.
    ///
    /// # Panics
    ///
    /// As for [`load32`](Self::load32), with a multiple of 8.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn load64(&self, offset: usize, order: Ordering) -> u64 {
        let word = check_word(self.start, self.bytes, offset);
        // SAFETY: as in `word32`.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }.load(order)
    }

    /// The bytes of `range`, to copy from.
    ///
    /// # Panics
    ///
    /// If `range` is not inside the region.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn bytes(&self, range: Range<usize>) -> SharedBytes<'_> {
        check_range(&range, self.bytes);
        self.view(range)
    }

    /// The bytes of `range`, or `None` if it is not inside the region. For offsets that a peer
    /// wrote.
    #[must_use]
    #[inline]
    pub fn get(&self, range: Range<usize>) -> Option<SharedBytes<'_>> {
        let inside = range.start <= range.end && range.end <= self.bytes;
        inside.then(|| self.view(range))
    }

    /// The word at `offset`, to sleep on and to wake.
    ///
    /// # Panics
    ///
    /// If `offset` is not a multiple of 4, or the word not inside the region.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn futex_word(&self, offset: usize) -> FutexWord<'_> {
        FutexWord::from(self.word32(offset))
    }

    /// Maps every page now, so that later reads cost no page fault.
    ///
    /// # Errors
    ///
    /// When the memory for the pages cannot be found; some may be present then.
    pub fn prefault(&self) -> Result<(), Errno> {
        self.prefault_range(0..self.bytes)
    }

    /// As for [`prefault`](Self::prefault), for the pages of `range` only. Where the peer left
    /// pages out and memory has run out, this returns an error, and no process is killed.
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
        if self.mapping.populate(range.clone(), Access::ReadOnly)? {
            return Ok(());
        }
        let last = range.end.saturating_sub(1);
        for offset in range.clone().step_by(rustix::param::page_size()).chain([last]) {
            if range.contains(&offset) {
                self.bytes(offset..offset + 1).copy_to(&mut [0]);
            }
        }
        Ok(())
    }

    /// Keeps the pages in memory until the region is dropped. `Ok(false)`: the limit forbids it.
    ///
    /// # Errors
    ///
    /// When the kernel refuses for another reason than the limit.
    pub fn lock(&self) -> Result<bool, Errno> {
        self.mapping.lock(0..self.bytes)
    }

    /// `range` is inside the region.
    #[inline]
    fn view(&self, range: Range<usize>) -> SharedBytes<'_> {
        debug_assert!(range.end <= self.bytes);
        // SAFETY: both callers checked that the start is inside the region.
        let start = unsafe { self.start.add(range.start) };
        // SAFETY: both callers checked the range; the mapping outlives the borrow of `self`; the
        // writer of private memory publishes a byte with a release store before it is read.
        unsafe { SharedBytes::new(start, range.end - range.start) }
    }

    /// Private: the memory is read-only, so nothing but loads and futex calls may use it.
    #[inline]
    #[track_caller]
    fn word32(&self, offset: usize) -> &AtomicU32 {
        let word = check_word(self.start, self.bytes, offset);
        // SAFETY: `check_word` proves alignment and range; the mapping outlives `&self`. Only
        // loads are made through it, and loads of up to 8 bytes work on read-only pages.
        unsafe { AtomicU32::from_ptr(word.as_ptr()) }
    }
}
