//! What both ends agreed on, and what a mechanism may know of its connection.
//!
//! **Invariants:** the numbers lie within `limits.rs`, whichever end asked for them.
//! **Not here:** asking for them (`options` of `handshake.rs`).

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nearcall_os::region::Trust;
use nearcall_os::{descriptor, process, pshared};

use crate::control::Control;
use crate::error::{OpenError, Unsupported};
use crate::liveness::PeerLiveness;
use crate::spin::SpinOptions;
use crate::wait::{Deadline, WaitPolicy};

/// The identity of the other end as the kernel reports it, never as the peer does.
#[derive(Debug, Clone)]
pub struct PeerIdentity {
    /// Process id, unless the peer lives in a PID namespace that we cannot see.
    pub pid: Option<i32>,
    /// Effective user id of a client when it connected, of a server when it answered.
    pub uid: u32,
    /// Effective group id at the same moment.
    pub gid: u32,
    /// Refers to the process even after its id was given to another (Linux 6.5 or newer).
    pub pidfd: Option<Arc<OwnedFd>>,
}

impl PeerIdentity {
    /// Returns whether the kernel reports the same process with the same user and group here and
    /// there, and what it says of the other is worth no less. `false`: it cannot be told either.
    pub(crate) fn is_same_process(&self, other: &Self) -> bool {
        let is_same = self.pid == other.pid && self.uid == other.uid && self.gid == other.gid;
        is_same
            && match (&self.pidfd, &other.pidfd) {
                // Of two processes that live the numbers differ.
                (Some(one), Some(two)) => {
                    lives(one) && lives(two) && (self.pid.is_some() || is_same_pidfd(one, two))
                }
                (None, None) => self.pid.is_some(),
                _ => false,
            }
    }
}

fn lives(pidfd: &OwnedFd) -> bool {
    process::wait_pidfd(pidfd, Deadline::NOW).is_ok_and(|has_died| !has_died)
}

/// Returns whether two pidfds refer to the same process, which is not this one: by their inodes,
/// which before Linux 6.9 are the same for all.
fn is_same_pidfd(one: &OwnedFd, two: &OwnedFd) -> bool {
    let file = |pidfd: &OwnedFd| descriptor::identity(pidfd).ok();
    let own = process::pidfd_open(process::pid()).ok().and_then(|own| file(&own));
    file(one).is_some_and(|it| own.is_some_and(|own| own != it) && file(two) == Some(it))
}

/// The other end of a connection.
#[derive(Debug, Clone)]
pub enum Peer {
    /// A process of this machine.
    Process(PeerIdentity),
    /// A client that connected over the network from this address; its identity is not verified.
    Remote(SocketAddr),
}

impl Peer {
    /// The process, if it is one of this machine.
    pub fn process(&self) -> Option<&PeerIdentity> {
        match self {
            Self::Process(identity) => Some(identity),
            Self::Remote(_) => None,
        }
    }

    /// Its number, if it has one here.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.process().and_then(|identity| identity.pid)
    }

    /// Returns its pidfd, if the kernel has one.
    pub(crate) fn pidfd(&self) -> Option<&Arc<OwnedFd>> {
        self.process().and_then(|identity| identity.pidfd.as_ref())
    }
}

/// The settings that a mechanism is opened with.
#[derive(Clone)]
pub struct Settings {
    /// The wait policy of this end.
    pub wait: WaitPolicy,
    /// The spinning of this end before it sleeps, if it waits by `adaptive`.
    pub spin: SpinOptions,
    /// The longest message, in bytes.
    pub message_bytes_max: u32,
    /// Room in each direction, in bytes.
    pub buffer_bytes: u32,
    /// The other end.
    pub peer: Peer,
    /// Reports whether the other end still lives.
    pub liveness: Arc<PeerLiveness>,
    /// The line on which the two ends met; over `tcp://` the stream itself.
    pub(crate) control: Arc<Control>,
}

impl Settings {
    /// Returns the trust in the other end that locks in shared memory take, if the C library has
    /// such.
    pub(crate) fn trust_for_locks(&self) -> Result<Trust, OpenError> {
        pshared::probe().map_err(Unsupported::Missing)?;
        let trust = self.control.trust();
        trust.ok_or_else(|| Unsupported::LocksOfOtherUser.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn a_process_is_the_same_only_if_the_kernel_can_tell() {
        let open = |pid| Some(Arc::new(process::pidfd_open(pid).unwrap()));
        let own = process::pid();
        let identity = |pid, pidfd| PeerIdentity { pid, uid: 7, gid: 8, pidfd };
        let old = identity(Some(own), open(own));
        assert!(old.is_same_process(&identity(Some(own), open(own))));
        assert!(!old.is_same_process(&identity(Some(own), None)), "worth less");
        assert!(!old.is_same_process(&identity(Some(1), open(1))));
        assert!(!old.is_same_process(&PeerIdentity { uid: 6, ..old.clone() }));
        assert!(!old.is_same_process(&PeerIdentity { gid: 6, ..old.clone() }));
        // Before Linux 6.5.
        assert!(identity(Some(own), None).is_same_process(&identity(Some(own), None)));
        // Without numbers, as in a namespace of processes that cannot see the other: this very
        // process has one, so that it stands for what cannot be told.
        assert!(!identity(None, None).is_same_process(&identity(None, None)));
        assert!(!identity(None, open(own)).is_same_process(&identity(None, open(own))));
        assert!(!identity(None, open(own)).is_same_process(&identity(None, open(1))));
    }
}
