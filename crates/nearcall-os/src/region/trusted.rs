#![allow(unsafe_code, reason = "makes references into memory that another process writes too")]
//! Memory that both sides write and read in place, because both are the same user's program.
//!
//! **Invariants:** inside this process a borrow of the bytes excludes every other access, as with
//! any `&mut`; that the other side does not touch borrowed bytes is what a
//! [`Trust`] stands for.
//! **Not here:** memory of an untrusted peer (`shared.rs`, of which there are only copies).

use std::ops::{Range, RangeInclusive};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;

use rustix::io::Errno;

use super::bytes::check_range;
use super::{Backing, RegionError, SharedRegion, Trust};

/// Memory that this process and a trusted peer write and read in place. For measured mechanisms
/// only.
///
/// Unmapped on drop. A forked child does not inherit it.
#[derive(Debug)]
pub struct TrustedRegion {
    /// Owned, so that nothing else of this process reaches the memory through it.
    shared: SharedRegion,
}

impl TrustedRegion {
    /// Creates a zeroed region of `bytes` bytes, and the descriptor to hand to the peer.
    ///
    /// # Errors
    ///
    /// As for [`SharedRegion::create`].
    pub fn create(
        name: &str,
        bytes: usize,
        backing: Backing,
        trust: Trust,
    ) -> Result<(Self, OwnedFd), RegionError> {
        let _: Trust = trust;
        let (shared, fd) = SharedRegion::create(name, bytes, backing)?;
        Ok((Self { shared }, fd))
    }

    /// Maps the region that the peer created, if its seals fix the size and it is within `bytes`.
    ///
    /// # Errors
    ///
    /// As for [`SharedRegion::open`].
    pub fn open(
        fd: impl AsFd,
        bytes: RangeInclusive<usize>,
        trust: Trust,
    ) -> Result<Self, RegionError> {
        let _: Trust = trust;
        Ok(Self { shared: SharedRegion::open(fd, bytes)? })
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
        self.shared.word32(offset)
    }

    /// The bytes of `range`, to read where they lie. Borrow them only between the message of the
    /// peer that they are there and the one of this process that it may write them again.
    ///
    /// # Panics
    ///
    /// If `range` is not inside the region.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn slice(&mut self, range: Range<usize>) -> &[u8] {
        self.slice_mut(range)
    }

    /// The bytes of `range`, to write where they lie, while the peer treats them as those of this
    /// process.
    ///
    /// # Panics
    ///
    /// If `range` is not inside the region.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn slice_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let bytes = check_range(&range, self.shared.len());
        let start = self.shared.bytes_ptr(range.start, bytes);
        // SAFETY: `check_range` proves that the range is inside the region, whose memory stays
        // mapped as long as `self`. The region is owned, and `&mut self` keeps words and other
        // slices of this process away. That the peer does not touch these bytes meanwhile is the
        // word given as a `Trust`.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }

    /// Touches every page, so that later accesses cost no page fault.
    ///
    /// # Errors
    ///
    /// As for [`SharedRegion::prefault`].
    pub fn prefault(&self) -> Result<(), Errno> {
        self.shared.prefault()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::socket::{Kind, unix_pair};

    fn pair(bytes: usize) -> (TrustedRegion, TrustedRegion) {
        let (a, _b) = unix_pair(Kind::Stream).unwrap();
        let trust = Trust::of_peer(a).unwrap();
        let (ours, fd) = TrustedRegion::create("trusted", bytes, Backing::Lazy, trust).unwrap();
        (ours, TrustedRegion::open(fd, bytes..=bytes, trust).unwrap())
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn each_side_reads_what_the_other_wrote_in_place() {
        let (mut ours, mut theirs) = pair(4096);
        ours.slice_mut(64..69).copy_from_slice(b"hello");
        ours.word32(0).store(5, Ordering::Release);
        assert_eq!(theirs.word32(0).load(Ordering::Acquire), 5);
        assert_eq!(theirs.slice(64..69), b"hello");
        theirs.slice_mut(64..69).copy_from_slice(b"world");
        assert_eq!(ours.slice(64..69), b"world");
        assert_eq!(ours.slice(4096..4096), b"");
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    #[should_panic(expected = "outside of 4096 bytes")]
    fn what_is_not_inside_is_refused() {
        let _ = pair(4096).0.slice(4095..4097);
    }
}
