#![allow(unsafe_code, reason = "makes references into memory that two processes map")]
//! Regions as plain bytes: those of this process once nothing else uses them, and those of a peer
//! that is trusted.
//!
//! **Invariants:** the bytes of a [`PlainRegion`] have one user at a time, and it has no words, so
//! `&` and `&mut` to them follow the usual rules; [`TrustedBytes`] cannot be made without a
//! [`Trust`].
//! **Not here:** bytes of an untrusted peer, of which there are only copies (`bytes.rs`); when the
//! memory may be written again (`nearcall-channel`).

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{OwnRegion, PeerRegion};
use crate::process::user_id;
use crate::sender::Sender;
use crate::socket::peer_credentials;
use crate::users::is_overflow_user;

/// A region of this process that holds only bytes, to be lent to one writer at a time.
///
/// The peer maps it read-only. It sees writes as they are made, so write before you announce the
/// bytes, and not again before the peer has released them.
#[derive(Debug)]
pub struct PlainRegion {
    shared: Arc<Plain>,
}

/// The bytes of a [`PlainRegion`], alone. Dropped, in any thread, they can be lent again; until
/// then they stay mapped, whatever becomes of the region.
#[derive(Debug)]
pub struct PlainBytes {
    shared: Arc<Plain>,
}

#[derive(Debug)]
struct Plain {
    region: OwnRegion,
    /// A `PlainBytes` lives.
    is_lent: AtomicBool,
}

impl From<OwnRegion> for PlainRegion {
    fn from(region: OwnRegion) -> Self {
        Self { shared: Arc::new(Plain { region, is_lent: AtomicBool::new(false) }) }
    }
}

impl PlainRegion {
    /// The bytes, unless they are lent.
    #[must_use]
    #[inline]
    pub fn lend(&mut self) -> Option<PlainBytes> {
        if self.is_lent() {
            return None;
        }
        // Only here does it become true, and `&mut self` excludes every other user.
        self.shared.is_lent.store(true, Ordering::Relaxed);
        Some(PlainBytes { shared: Arc::clone(&self.shared) })
    }

    /// Returns whether the bytes are lent.
    #[must_use]
    #[inline]
    pub fn is_lent(&self) -> bool {
        // Acquire: what the last borrower did comes before what the next one does.
        self.shared.is_lent.load(Ordering::Acquire)
    }

    /// The addresses of its bytes in this process, to recognise a slice of them.
    #[must_use]
    #[inline]
    pub fn addresses(&self) -> Range<usize> {
        let start = self.shared.region.first_byte().addr().get();
        start..start + self.shared.region.len()
    }
}

impl PlainBytes {
    /// To read.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        let start = self.shared.region.first_byte();
        // SAFETY: `start` and `len` are the region's, which stays mapped as long as `self`. The
        // region was moved into `Plain`, where nothing writes words of it; its bytes are reached
        // only through a `PlainBytes`, of which `is_lent` lets one live at a time. The seals keep
        // every other process from writing.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.shared.region.len()) }
    }

    /// To write.
    #[must_use]
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let start = self.shared.region.first_byte();
        // SAFETY: as in `as_slice`; `&mut self` makes this the only access.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.shared.region.len()) }
    }
}

impl Drop for PlainBytes {
    #[inline]
    fn drop(&mut self) {
        self.shared.is_lent.store(false, Ordering::Release);
    }
}

/// The kernel's word that a peer could change the memory of this process in any case: it is a
/// process of the same user, or of root.
///
/// A peer that changes bytes under their readers, or words inside a lock of the C library, makes
/// this process undefined, not only its bytes wrong. Between processes of one user that is no new
/// power: one may write the memory of another by `/proc`, by a debugger, or by what it has the
/// other load. From any other user it is not taken, whatever an option says; an option of the user
/// decides in addition whether a peer that could be trusted is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    granted: (),
}

impl Trust {
    /// Returns the trust in the process that connected the other end of a unix socket. Two or three
    /// system calls.
    ///
    /// `None`: it is of another user, the socket is no connected unix socket, or this process is of
    /// the user that stands for all users without a name in its namespace.
    #[must_use]
    pub fn of_peer(socket: impl AsFd) -> Option<Self> {
        Self::of_user(peer_credentials(socket).ok()?.uid)
    }

    /// Returns the trust in the process that has sent a packet.
    ///
    /// `None`: as [`of_peer`](Self::of_peer).
    #[must_use]
    pub fn of_sender(sender: &Sender) -> Option<Self> {
        Self::of_user(sender.credentials().uid)
    }

    fn of_user(peer: u32) -> Option<Self> {
        is_trusted(peer, user_id(), is_overflow_user).then_some(Self { granted: () })
    }
}

fn is_trusted(peer: u32, own: u32, is_overflow: impl Fn(u32) -> bool) -> bool {
    peer == ROOT || peer == own && !is_overflow(own)
}

/// The user who may do anything to every process of its namespace.
const ROOT: u32 = 0;

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
    #[inline]
    pub fn new(region: PeerRegion, range: Range<usize>, trust: Trust) -> Option<Self> {
        let Trust { granted: () } = trust;
        region.get(range.clone()).is_some().then_some(Self { region, range })
    }
}

impl AsRef<[u8]> for TrustedBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        let start = self.region.bytes(self.range.clone()).as_ptr();
        // SAFETY: `new` checked the range; the region stays mapped as long as `self`, its size is
        // sealed. Who could write them meanwhile could write any memory of this process: `Trust`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::region_pair_private;
    use super::*;

    #[test]
    fn what_is_written_is_read_by_an_end_that_trusts() {
        let (own, peer) = region_pair_private(4096);
        let mut plain = PlainRegion::from(own);
        let mut bytes = plain.lend().unwrap();
        bytes.as_mut_slice()[10..15].copy_from_slice(b"hello");
        let trust = Trust { granted: () };
        let trusted = TrustedBytes::new(peer, 10..15, trust).unwrap();
        assert_eq!(trusted.as_ref(), b"hello");
        assert_eq!(&bytes.as_slice()[10..15], b"hello");
        assert_eq!(plain.addresses().len(), 4096);
        assert!(plain.addresses().contains(&bytes.as_slice().as_ptr().addr()));
    }

    #[test]
    fn bytes_are_lent_to_one_at_a_time() {
        let mut plain = PlainRegion::from(region_pair_private(4096).0);
        let mut bytes = plain.lend().unwrap();
        assert!(plain.lend().is_none() && plain.is_lent());
        let thread = std::thread::spawn(move || bytes.as_mut_slice().fill(7));
        thread.join().unwrap();
        let bytes = plain.lend().unwrap();
        drop(plain);
        assert_eq!(bytes.as_slice(), [7; 4096], "whatever becomes of the region");
    }

    #[test]
    fn only_the_same_user_and_root_are_trusted() {
        const OVERFLOW_UID: u32 = 65534;
        let overflow = |uid| uid == OVERFLOW_UID;
        assert!(is_trusted(1000, 1000, overflow) && is_trusted(0, 1000, overflow));
        assert!(is_trusted(0, 0, overflow) && is_trusted(0, OVERFLOW_UID, overflow));
        assert!(!is_trusted(1000, 0, overflow), "what root trusts runs as root");
        assert!(!is_trusted(1000, 1001, overflow) && !is_trusted(OVERFLOW_UID, 0, overflow));
        assert!(!is_trusted(OVERFLOW_UID, OVERFLOW_UID, overflow), "it stands for any user");
    }

    #[test]
    fn nothing_outside_of_the_region_is_trusted() {
        let (_own, peer) = region_pair_private(4096);
        let trust = Trust { granted: () };
        for range in [0..4097, 4097..4097, usize::MAX - 1..usize::MAX, 0..usize::MAX] {
            assert!(TrustedBytes::new(peer.clone(), range.clone(), trust).is_none(), "{range:?}");
        }
        assert!(TrustedBytes::new(peer, 4096..4096, trust).is_some());
    }
}
