//! What both ends agreed on, and what a mechanism may know of its connection.
//!
//! **Invariants:** the numbers lie within `limits.rs`, whichever end asked for them.
//! **Not here:** asking for them (`options` of `handshake.rs`).

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nearcall_os::region::Trust;

use crate::control::Control;
use crate::error::{OpenError, Unsupported};
use crate::liveness::PeerLiveness;
use crate::spin::SpinOptions;
use crate::wait::WaitPolicy;

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
    /// Returns the trust in the other end that locks in shared memory take.
    pub(crate) fn trust_for_locks(&self) -> Result<Trust, OpenError> {
        let trust = self.control.trust();
        trust.ok_or_else(|| Unsupported::LocksOfOtherUser.into())
    }
}
