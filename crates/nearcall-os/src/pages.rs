//! Private memory in whole pages at an address that stays: for what the kernel or a peer reads
//! there.
//!
//! Used by `cma.rs` (the peer reads it by address) and `vmsplice.rs` (the pipe refers to its
//! pages).
//! **Not here:** memory that two processes share (`region.rs`).
#![allow(unsafe_code, reason = "mmap and slices of it")]

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};

/// Zeroed pages, unmapped when dropped. Derefs to its bytes.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and may be used from any thread.
unsafe impl Send for Pages {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least `bytes` bytes, rounded up to whole pages and at least one. Takes no memory before
    /// it is touched: see [`Pages::prefault`].
    ///
    /// # Errors
    ///
    /// ENOMEM when the address space or the overcommit limit does not allow it.
    pub fn create(bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes =
            bytes.max(1).checked_next_multiple_of(page).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so the mapping overlaps no other.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// The address in this process, for a peer. It does not change until the drop.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// Makes every page present, so that the first use takes no fault. The content stays.
    pub fn prefault(&mut self) {
        // SAFETY: the range is this mapping; populating changes no byte.
        let populated =
            unsafe { madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxPopulateWrite) };
        if populated.is_err() {
            // Before Linux 5.14: touch one byte of each page.
            let page = rustix::param::page_size();
            for at in (0..self.bytes).step_by(page) {
                self[at] = std::hint::black_box(self[at]);
            }
        }
    }

    /// Keeps the pages in memory; false where RLIMIT_MEMLOCK forbids it.
    ///
    /// # Errors
    ///
    /// The error of the kernel, other than that limit.
    pub fn lock(&mut self) -> io::Result<bool> {
        // SAFETY: the range is this mapping; locking changes no byte.
        match unsafe { mlock(self.start.as_ptr().cast(), self.bytes) } {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOMEM | rustix::io::Errno::PERM) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `bytes` long, readable, zeroed by the kernel and private.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, writable, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping that `create` made, and no reference to it is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap refused our own range: {unmapped:?}");
    }
}
