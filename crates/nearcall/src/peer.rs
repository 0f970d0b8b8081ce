//! The caller: what the kernel reports of the process at the other end of a connection.
//!
//! **Invariants:** nothing of it comes from the peer itself; of what users share, another one than
//! the program's own gets at most half of what the others leave.
//! **Not here:** deciding what a peer may do, which is the service's.

use std::net::SocketAddr;

use nearcall_channel::Endpoint;
pub use nearcall_channel::PeerIdentity;
use nearcall_os::process;

use crate::deadline::Deadline;

/// The other end of a connection.
///
/// See [`Context::peer`](crate::Context::peer); also stands in a
/// [`ConnectionInfo`](crate::observe::ConnectionInfo).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Peer {
    /// This thread: the call did not leave it.
    Local,
    /// A process of this machine, as the kernel knows it.
    Process(PeerIdentity),
    /// Another machine, or this one over `tcp://`. Its identity is not verified.
    Remote(SocketAddr),
}

impl Peer {
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        match endpoint.peer() {
            nearcall_channel::Peer::Process(identity) => Self::Process(identity.clone()),
            nearcall_channel::Peer::Remote(address) => Self::Remote(*address),
        }
    }

    /// Returns whether the kernel reports this process at the other end. Without a pidfd (Linux
    /// before 6.5) it cannot be known: the number may have been another process's before.
    pub(crate) fn is_this_process(&self) -> bool {
        let Self::Process(PeerIdentity { pid, pidfd: Some(pidfd), .. }) = self else {
            return matches!(self, Self::Local);
        };
        // A process that lives shares its number with no other one.
        *pid == Some(process::pid())
            && process::wait_pidfd(pidfd, Deadline::NOW).is_ok_and(|has_ended| !has_ended)
    }

    /// Returns the user that it counts as.
    pub(crate) fn user(&self) -> User {
        match self.uid() {
            Some(uid) if uid == process::user_id() => User::Own,
            uid => User::Other(uid),
        }
    }

    /// The user id of the caller; `None` for another machine.
    pub fn uid(&self) -> Option<u32> {
        match self {
            Self::Local => Some(process::user_id()),
            Self::Process(identity) => Some(identity.uid),
            Self::Remote(_) => None,
        }
    }

    /// The process id of the caller, unless it is in a PID namespace that we cannot see.
    pub fn pid(&self) -> Option<i32> {
        match self {
            Self::Local => i32::try_from(std::process::id()).ok(),
            Self::Process(identity) => identity.pid,
            Self::Remote(_) => None,
        }
    }
}

/// Whose clients they are, where users share what a program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum User {
    /// The program itself, and clients of its user: they could end it as well.
    Own,
    /// Clients of another user. Those from other machines count as one user.
    Other(Option<u32>),
}

impl User {
    /// Returns how many of `max` this user may have while the others have so many: all that are
    /// left, or half of these, rounded up, of another user than the program's own.
    pub(crate) fn share(self, max: usize, of_others: usize) -> usize {
        let left = max.saturating_sub(of_others);
        match self {
            Self::Own => left,
            Self::Other(_) => left.div_ceil(2),
        }
    }
}
