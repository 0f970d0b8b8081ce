#![allow(unsafe_code, reason = "makes references into memory that two processes map")]
//! Regions as plain bytes: our own once nothing else uses it, and a peer's on the user's word.
//!
//! Always true: a [`PlainRegion`] has one owner and no words, so `&` and `&mut` to its bytes follow
//! the usual rules; [`TrustedBytes`] cannot be made without a [`Trust`].
//! Not here: bytes of a peer that nobody trusts, of which there are only copies (`bytes.rs`); when
//! the memory may be written again (`nearcall-channel`).

use std::ops::Range;

use super::{OwnRegion, PeerRegion};

/// A region of ours that holds nothing but bytes: what is lent to a peer.
///
/// The peer maps it read-only. It sees writes as they are made, so write before you tell it, and
/// not again before it has said that it is done.
#[derive(Debug)]
pub struct PlainRegion {
    region: OwnRegion,
}

impl From<OwnRegion> for PlainRegion {
    fn from(region: OwnRegion) -> Self {
        Self { region }
    }
}

impl PlainRegion {
    /// Its bytes, to read.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        let start = self.region.first_byte();
        // SAFETY: `start` and `len` are the region's, which stays mapped as long as `self`. The
        // region was moved in here, so nothing writes words of it; bytes are written through
        // `as_mut_slice`, which borrows `self` alone. The seals keep every other process from it.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.region.len()) }
    }

    /// Its bytes, to write.
    #[must_use]
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let bytes = self.region.len();
        self.region.slice_mut(0..bytes)
    }

    /// The addresses of its bytes in this process, to recognise a slice of them.
    #[must_use]
    #[inline]
    pub fn addresses(&self) -> Range<usize> {
        let start = self.region.first_byte().addr().get();
        start..start + self.region.len()
    }
}

/// The word of this program's user that a peer does not change what it has handed over while it is
/// read here. Nothing else keeps a peer from it: its memory is its own.
///
/// A peer that breaks this word makes Rust's slices change under their readers, which is undefined
/// behaviour in this process, not only wrong bytes. So it is given for a connection, by an option
/// that says so, and never assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    given: (),
}

impl Trust {
    /// To be called where the user's option says that the peer is trusted, and nowhere else.
    #[must_use]
    pub fn given_by_the_user() -> Self {
        Self { given: () }
    }
}

/// Bytes of a trusted peer's region where they lie. Keeps the region mapped, whatever becomes of
/// the connection and of the peer.
#[derive(Debug)]
pub struct TrustedBytes {
    region: PeerRegion,
    range: Range<usize>,
}

impl TrustedBytes {
    /// The bytes of `range`, or `None` if it is not inside the region.
    #[must_use]
    pub fn new(region: PeerRegion, range: Range<usize>, trust: Trust) -> Option<Self> {
        let Trust { given: () } = trust;
        region.get(range.clone()).is_some().then_some(Self { region, range })
    }
}

impl AsRef<[u8]> for TrustedBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        let start = self.region.bytes(self.range.clone()).as_ptr();
        // SAFETY: `new` judged the range; the region stays mapped as long as `self`, and its size is
        // sealed. That nobody writes the bytes meanwhile is the user's word, given as a `Trust`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::region_pair_private;
    use super::*;

    #[test]
    fn what_is_written_is_read_by_who_trusts() {
        let (own, peer) = region_pair_private(4096);
        let mut plain = PlainRegion::from(own);
        plain.as_mut_slice()[10..15].copy_from_slice(b"hello");
        let trust = Trust::given_by_the_user();
        let trusted = TrustedBytes::new(peer, 10..15, trust).unwrap();
        assert_eq!(trusted.as_ref(), b"hello");
        assert_eq!(&plain.as_slice()[10..15], b"hello");
        assert_eq!(plain.addresses().len(), 4096);
        assert!(plain.addresses().contains(&plain.as_slice().as_ptr().addr()));
    }

    #[test]
    fn nothing_outside_of_the_region_is_trusted() {
        let (_own, peer) = region_pair_private(4096);
        let trust = Trust::given_by_the_user();
        for range in [0..4097, 4097..4097, usize::MAX - 1..usize::MAX, 0..usize::MAX] {
            assert!(TrustedBytes::new(peer.clone(), range.clone(), trust).is_none(), "{range:?}");
        }
        assert!(TrustedBytes::new(peer, 4096..4096, trust).is_some());
    }
}
