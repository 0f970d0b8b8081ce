//! What can go wrong with a channel: one type per operation, "not now" apart from "never again".
//!
//! **Invariants:** after `PeerGone`, `PeerBroken`, `Exceeded` or `Os` the connection is of no
//! further use; after `Full`, `Empty`, `TooLarge`, `DoesNotFit`, `Incomplete` and `Aborted` it is
//! as good as before. `Debug` prints what `Display` prints, so that a `main` that returns the error
//! prints it for people.
//! **Not here:** failures of the handshake (`handshake/error.rs`).

use std::io;
use std::path::PathBuf;

use nearcall_os::region::RegionError;
use nearcall_os::{cma, descriptor, mqueue, uring};
use thiserror::Error;

use crate::account::Exceeded;

/// Implements `Debug` by `Display`.
macro_rules! debug_as_display {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        })+
    };
}

pub(crate) use debug_as_display;

/// Why a message was not sent.
#[derive(Error)]
pub enum SendError {
    /// No room by the deadline. Try again later, or wait for the channel to become writable.
    #[error("no room in the channel by the deadline; try again, or wait until it is writable")]
    Full,
    /// The message is longer than the connection's limit. Send less, or agree on a larger limit.
    #[error(
        "message of {message_bytes} bytes is above the connection's limit of {message_bytes_max}; \
         send less, or raise `message_bytes_max` on both ends"
    )]
    TooLarge {
        /// Length that was asked for.
        message_bytes: usize,
        /// The connection's limit.
        message_bytes_max: usize,
    },
    /// The claim was committed before all of it was written. The message was aborted.
    #[error("message committed with {missing_bytes} bytes not written; it was aborted")]
    Incomplete {
        /// Bytes that were claimed but not written.
        missing_bytes: usize,
    },
    /// The other end has closed or died. No later send can succeed: connect again.
    #[error("the other end is gone; connect again")]
    PeerGone,
    /// The other end broke the rules of the mechanism. Close the connection.
    #[error("the other end {0}; close the connection")]
    PeerBroken(Violation),
    /// The kernel refused. Close the connection.
    #[error("sending failed: {0}; close the connection")]
    Os(#[source] io::Error),
}

/// Why no message was received.
#[derive(Error)]
pub enum ReceiveError {
    /// Nothing by the deadline. Try again later, or wait for the channel to become readable.
    #[error("no message by the deadline")]
    Empty,
    /// The message is longer than the buffer. It is still there: receive it with more room.
    #[error("the next message has {message_bytes} bytes, more than the buffer; use a longer one")]
    DoesNotFit {
        /// Its length.
        message_bytes: usize,
    },
    /// The sender aborted this message half way. The next one can be received as usual.
    #[error("the sender aborted the message; receive the next one")]
    Aborted,
    /// The other end has closed or died, and everything that it sent has been received.
    #[error("the other end is gone; connect again")]
    PeerGone,
    /// The other end broke the rules of the mechanism. Close the connection.
    #[error("the other end {0}; close the connection")]
    PeerBroken(Violation),
    /// The account of the other end's user has no room for what it sends. Close the connection.
    #[error("{0}")]
    Exceeded(#[from] Exceeded),
    /// The kernel refused. Close the connection.
    #[error("receiving failed: {0}; close the connection")]
    Os(#[source] io::Error),
}

/// A violation of the protocol, which no correct peer commits.
#[derive(Error, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A message longer than the limit that both ends agreed on.
    #[error("announced a message of {message_bytes} bytes, above the agreed limit")]
    MessageTooLarge {
        /// Announced length.
        message_bytes: u64,
    },
    /// A fragment that is longer than what is left of its message, or than any fragment may be.
    #[error("announced a fragment of {fragment_bytes} bytes, more than fits there")]
    FragmentTooLarge {
        /// Announced length.
        fragment_bytes: u64,
    },
    /// A fragment of another message while one was under way, or an end before all bytes had come.
    #[error("sent a fragment that does not continue its message")]
    FragmentOutOfOrder,
    /// A header with bits that have no meaning.
    #[error("sent a header with reserved bits set")]
    BadHeader,
    /// An index in shared memory that points past what can be there.
    #[error("published an out-of-range index")]
    BadIndex,
    /// A packet was lost or repeated by a mechanism that loses none.
    #[error("lost or repeated a packet")]
    LostPacket,
    /// An address or length that cannot be read from the peer's memory.
    #[error("sent an address that cannot be read")]
    BadAddress,
    /// Something on the control line that is not a packet of the handshake.
    #[error("sent an invalid control packet")]
    BadPacket,
    /// Shared memory that was handed over unsealed, too large or out of turn, or that was named
    /// and never handed over.
    #[error("handed over or named invalid shared memory")]
    BadSegment,
}

/// Why a mechanism could not be opened.
///
/// Stands in a [`HandshakeError`](crate::HandshakeError).
#[derive(Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This kernel, its limits or its permissions do not allow the mechanism.
    #[error("not supported: {0}")]
    Unsupported(Unsupported),
    /// The other end handed over something that is not what it should be.
    #[error("the other end handed over unusable parts: {0}")]
    BadParts(BadParts),
    /// A system call failed.
    #[error("{doing} failed: {error}")]
    Os {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the kernel.
        #[source]
        error: io::Error,
    },
}

/// The reason why a mechanism does not work here.
#[derive(Error)]
pub enum Unsupported {
    /// The other process has no number here.
    #[error("the other end lives in a PID namespace that this process cannot see")]
    PidNamespace,
    /// The kernel does not let this process send a signal to the other one.
    #[error("no permission to send signals to the other end, process {pid}")]
    SignalPermission {
        /// The other process.
        pid: i32,
    },
    /// The ends do not agree on the number of a process.
    #[error(
        "the process that the socket names as {socket_pid} calls itself {own_pid}: signals need \
         one PID namespace, and sockets used by the processes that connected them"
    )]
    PidMismatch {
        /// The number by the socket.
        socket_pid: i32,
        /// The number by the process itself.
        own_pid: i32,
    },
    /// A POSIX message queue cannot be made; it names the limit.
    #[error("{0}")]
    PosixQueue(mqueue::CreateError),
    /// A System V queue cannot be made.
    #[error(
        "no System V queue can be made (kernel.msgmni is {}): {error}",
        queues_max.map_or("unknown".to_owned(), |max| max.to_string())
    )]
    SysvQueue {
        /// The machine's limit, if it can be read.
        queues_max: Option<u64>,
        /// The error of the kernel.
        error: io::Error,
    },
    /// The machine's limits leave a queue no room for a message.
    #[error("kernel.msgmax or kernel.msgmnb allow only {message_bytes} bytes in a message")]
    SysvMessage {
        /// The longest message.
        message_bytes: usize,
    },
    /// A queue that belongs to one user cannot connect two.
    #[error("queues are for one user only: this is {own_uid}, the other end {peer_uid}")]
    OtherUser {
        /// The user of this end.
        own_uid: u32,
        /// The user of the other end.
        peer_uid: u32,
    },
    /// The other end is of another user, who could break this process by what it writes to a lock.
    #[error(
        "its locks lie in memory that both ends write, so both must be of one user, or the other \
         end of root; use shm or a mechanism of the kernel"
    )]
    LocksOfOtherUser,
    /// The other end is on another machine.
    #[error("queues do not reach another machine")]
    OtherMachine,
    /// The memory of the other end cannot be read.
    #[error("{0}")]
    CrossMemory(cma::Refusal),
    /// The process that made the connection is not the one that uses it.
    #[error("process {pid}, which made the connection, is not the other end")]
    NotTheConnector {
        /// The process that made the connection.
        pid: i32,
    },
    /// io_uring cannot be used.
    #[error("{0}")]
    Uring(uring::Refusal),
    /// The directory for sockets and FIFOs cannot be used.
    #[error("no FIFO can be made in {}: {error}", directory.display())]
    RuntimeDir {
        /// The directory.
        directory: PathBuf,
        /// The error of the kernel.
        error: io::Error,
    },
    /// A system call is missing or forbidden.
    #[error("{0}")]
    Missing(&'static str),
    /// A system call failed when the mechanism was tried.
    #[error("{doing} failed: {error}")]
    Os {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the kernel.
        error: io::Error,
    },
}

impl Unsupported {
    /// For `map_err`: the system call that failed was `doing` this.
    pub(crate) fn doing(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Os { doing, error }
    }
}

impl From<Unsupported> for OpenError {
    fn from(reason: Unsupported) -> Self {
        Self::Unsupported(reason)
    }
}

/// An error in the parts that the other end handed over to open a mechanism.
#[derive(Error)]
pub enum BadParts {
    /// The number, form or kind of the parts.
    #[error("{0}")]
    Form(&'static str),
    /// A packet or number that no correct peer sends.
    #[error("it {0}")]
    Violation(Violation),
    /// A memory file that is not as it must be.
    #[error("{0}")]
    Region(RegionError),
    /// Shared memory of another layout.
    #[error(
        "shared memory of layout version {theirs}, this program has {ours}: update the older one"
    )]
    LayoutVersion {
        /// The version of the other end.
        theirs: u32,
        /// The version of this build.
        ours: u32,
    },
}

debug_as_display!(SendError, ReceiveError, Violation, OpenError, Unsupported, BadParts);

impl OpenError {
    /// For `map_err`: the system call that failed was `doing` this.
    pub(crate) fn doing(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Os { doing, error }
    }

    /// The parts do not have the form that the mechanism needs.
    pub(crate) fn bad_parts(what: &'static str) -> Self {
        Self::BadParts(BadParts::Form(what))
    }
}

impl From<Violation> for OpenError {
    fn from(violation: Violation) -> Self {
        Self::BadParts(BadParts::Violation(violation))
    }
}

impl From<RegionError> for OpenError {
    fn from(error: RegionError) -> Self {
        match error {
            // What is missing is missing here: the other end did nothing wrong.
            RegionError::Os(errno) if error.is_shortage() => {
                let kernel = io::Error::from(errno);
                // The text of the region has the limit of memory and space.
                let error = match descriptor::means_no_descriptor(&kernel) {
                    true => kernel,
                    false => io::Error::new(kernel.kind(), error),
                };
                Self::Os { doing: "making or mapping shared memory", error }
            }
            error => Self::BadParts(BadParts::Region(error)),
        }
    }
}

/// Returns whether `error` is one of those by which a peer that has gone shows, by mechanism and by
/// moment.
pub(crate) fn means_peer_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset};
    use io::ErrorKind::{NotConnected, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe
            | ConnectionReset
            | ConnectionAborted
            | ConnectionRefused
            | NotConnected
            | UnexpectedEof
    )
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Full,
            _ if means_peer_gone(&error) => Self::PeerGone,
            _ => Self::Os(error),
        }
    }
}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Empty,
            _ if means_peer_gone(&error) => Self::PeerGone,
            _ => Self::Os(error),
        }
    }
}

impl From<Violation> for SendError {
    fn from(violation: Violation) -> Self {
        Self::PeerBroken(violation)
    }
}

impl From<Violation> for ReceiveError {
    fn from(violation: Violation) -> Self {
        Self::PeerBroken(violation)
    }
}
