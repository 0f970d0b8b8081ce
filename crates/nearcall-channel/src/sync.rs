//! The one place that chooses the atomics: the standard ones, or loom's under `cfg(loom)`.
//!
//! The ring and the bell reach shared words through [`Own`] and [`Peer`], so that loom can put its
//! own words there.
//!
//! **Invariants:** what is written through `Own` is written by this end only.
//! **Not here:** the words' places (`shm/layout.rs`).

use std::ops::Range;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, fence};
pub(crate) use std::sync::atomic::Ordering;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, fence};

use nearcall_os::region::{OwnRegion, PeerRegion};

/// Words that only this end writes.
pub(crate) trait Own {
    fn store32(&self, at: usize, value: u32, order: Ordering);
    fn store64(&self, at: usize, value: u64, order: Ordering);
    /// Asks for pages; false if there are none.
    fn make_present(&self, range: Range<usize>) -> bool;
}

/// Words that the other end writes; each load may give anything.
pub(crate) trait Peer {
    fn load32(&self, at: usize, order: Ordering) -> u32;
    fn load64(&self, at: usize, order: Ordering) -> u64;
    /// Asks for pages; false if there are none.
    fn make_present(&self, range: Range<usize>) -> bool;
}

impl Own for OwnRegion {
    #[inline]
    fn store32(&self, at: usize, value: u32, order: Ordering) {
        self.word32(at).store(value, order);
    }

    #[inline]
    fn store64(&self, at: usize, value: u64, order: Ordering) {
        self.word64(at).store(value, order);
    }

    fn make_present(&self, range: Range<usize>) -> bool {
        self.prefault_range(range).is_ok()
    }
}

impl Peer for PeerRegion {
    #[inline]
    fn load32(&self, at: usize, order: Ordering) -> u32 {
        Self::load32(self, at, order)
    }

    #[inline]
    fn load64(&self, at: usize, order: Ordering) -> u64 {
        Self::load64(self, at, order)
    }

    fn make_present(&self, range: Range<usize>) -> bool {
        self.prefault_range(range).is_ok()
    }
}
