#![allow(unsafe_code, reason = "reads and writes memory that another process writes too")]
//! Memory that both sides write: for the measured mechanisms that keep locks in it.
//!
//! **Invariants:** the size is sealed; no reference to plain bytes of it exists, only atomics and
//! copies. The peer may change any byte at any time, also those under a lock.
//! **Not here:** the product's own channel, which has one writer per region (`own.rs`, `peer.rs`);
//! the locks (`pshared.rs`).
//!
//! **Invariant:** no lock is in shared memory, except in `shm-semaphore`, `shm-condvar` and
//! `shm-mq`, which are named after it. *Checked by* documentation tests of `src/region/shared.rs`
//! that must not compile.

use std::ops::{Deref, Range, RangeInclusive};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use rustix::io::Errno;

use super::bytes::{SharedBytes, check_range, check_word, copy_shared};
use super::mapping::{Access, Mapping, create_file, open_file};
use super::{Backing, RegionError, SEALS_SHARED, Trust};

/// Memory that this process and a peer both write.
///
/// Unmapped on drop. A forked child does not inherit it.
#[derive(Debug)]
pub struct SharedRegion {
    mapping: Mapping,
}

/// Memory that this process and a trusted peer both write, and in which both may keep locks of the
/// C library: see `pshared.rs`. A peer that breaks a lock there could break this process.
///
/// ```compile_fail,E0308
/// # use std::sync::Arc;
/// # use nearcall_os::pshared::Mutex;
/// # use nearcall_os::region::{Backing, SharedRegion};
/// let (region, _fd) = SharedRegion::create("locks", 4096, Backing::Lazy).unwrap();
/// let mutex = Mutex::attach(&Arc::new(region), 0);
/// ```
#[derive(Debug)]
pub struct LockRegion {
    shared: SharedRegion,
}

impl Deref for LockRegion {
    type Target = SharedRegion;

    #[inline]
    fn deref(&self) -> &SharedRegion {
        &self.shared
    }
}

impl SharedRegion {
    /// Has it hold locks, if the peer is trusted.
    #[must_use]
    pub fn for_locks(self, trust: Trust) -> LockRegion {
        let _: Trust = trust;
        LockRegion { shared: self }
    }

    /// Creates a zeroed region of `bytes` bytes, and the descriptor to hand to the peer.
    ///
    /// # Errors
    ///
    /// As for [`OwnRegion::create`](super::OwnRegion::create).
    pub fn create(
        name: &str,
        bytes: usize,
        backing: Backing,
    ) -> Result<(Self, OwnedFd), RegionError> {
        let (mapping, file) = create_file(name, bytes, backing, SEALS_SHARED)?;
        Ok((Self { mapping }, file))
    }

    /// Maps the region that the peer created, if its seals fix the size and it is within `bytes`.
    ///
    /// # Errors
    ///
    /// As for [`PeerRegion::open`](super::PeerRegion::open).
    pub fn open(fd: impl AsFd, bytes: RangeInclusive<usize>) -> Result<Self, RegionError> {
        let mapping = open_file(fd.as_fd(), &bytes, SEALS_SHARED, Access::ReadWrite)?;
        Ok(Self { mapping })
    }

    /// Size in bytes. A peer cannot change it.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.mapping.bytes()
    }

    /// Never true: an empty region cannot be made.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        let word = check_word(self.mapping.start(), self.len(), offset);
        // SAFETY: `check_word` proves alignment and range; the mapping outlives `&self`.
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
        let word = check_word(self.mapping.start(), self.len(), offset);
        // SAFETY: as in `word32`.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }
    }

    /// The byte at `offset`, for code that copies one byte at a time on purpose.
    ///
    /// # Panics
    ///
    /// If `offset` is not inside the region.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn byte(&self, offset: usize) -> &AtomicU8 {
        let byte = check_word(self.mapping.start(), self.len(), offset);
        // SAFETY: as in `word32`.
        unsafe { AtomicU8::from_ptr(byte.as_ptr()) }
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
        let bytes = check_range(&range, self.len());
        // SAFETY: `check_range` proves that the start is inside the region.
        let start = unsafe { self.mapping.start().add(range.start) };
        // SAFETY: the range is inside the mapping, which outlives the borrow of `self`; no `&mut`
        // to its bytes is ever made.
        unsafe { SharedBytes::new(start, bytes) }
    }

    /// Copies the bytes from `offset` on into `target`.
    ///
    /// # Panics
    ///
    /// If they are not inside the region.
    #[inline]
    #[track_caller]
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        self.bytes(offset..offset.saturating_add(target.len())).copy_to(target);
    }

    /// Copies `source` to `offset`.
    ///
    /// Two writers of the same bytes at the same time leave a mixture of both; a lock in the region
    /// is what keeps the sides apart.
    ///
    /// # Panics
    ///
    /// If it does not fit into the region there.
    #[inline]
    #[track_caller]
    pub fn write(&self, offset: usize, source: &[u8]) {
        let target = self.bytes_ptr(offset, source.len());
        // SAFETY: `bytes_ptr` checked the range; private memory does not overlap the region. A
        // racing write is as one of another process: nothing here depends on what the bytes are,
        // no reference to them exists, and they are read only by `copy_shared` and atomics.
        unsafe { copy_shared(source.as_ptr(), target.as_ptr(), source.len()) }
    }

    /// Pointer to `bytes` bytes at `offset`, which stay mapped as long as `self`.
    #[inline]
    #[track_caller]
    pub(crate) fn bytes_ptr(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        check_range(&(offset..offset.saturating_add(bytes)), self.len());
        // SAFETY: `check_range` proves that `offset` is inside the region.
        unsafe { self.mapping.start().add(offset) }
    }

    /// Touches every page, so that later accesses cost no page fault.
    ///
    /// # Errors
    ///
    /// When the memory for the pages cannot be found; some may be present then.
    pub fn prefault(&self) -> Result<(), Errno> {
        if !self.mapping.populate(0..self.len(), Access::ReadWrite)? {
            for offset in (0..self.len()).step_by(rustix::param::page_size()) {
                self.read(offset, &mut [0]);
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
        self.mapping.lock(0..self.len())
    }
}
