//! What can go wrong with a channel: one type per operation, "not now" apart from "never again".
//!
//! Always true: after `PeerGone`, `PeerBroken` or `Os` the connection is of no further use; after
//! `Full`, `Empty`, `TooLarge`, `DoesNotFit`, `Incomplete` and `Aborted` it is as good as before.

use std::fmt;
use std::io;

/// Why a message was not sent.
#[derive(Debug)]
pub enum SendError {
    /// No room by the deadline. Attempt again later, or wait for the channel to become writable.
    Full,
    /// The message is longer than the connection's limit. Send less, or agree on a larger limit.
    TooLarge {
        /// Length that was asked for.
        message_bytes: usize,
        /// The connection's limit.
        message_bytes_max: usize,
    },
    /// The claim was committed before all of it was written. The message was given up.
    Incomplete {
        /// Bytes that were claimed but not written.
        missing_bytes: usize,
    },
    /// The other end has closed or died. No later send can succeed: connect again.
    PeerGone,
    /// The other end broke the rules of the mechanism. Close the connection.
    PeerBroken(Violation),
    /// The kernel refused. Close the connection.
    Os(io::Error),
}

/// Why no message was received.
#[derive(Debug)]
pub enum ReceiveError {
    /// Nothing by the deadline. Attempt again later, or wait for the channel to become readable.
    Empty,
    /// The message is longer than the buffer. It is still there: receive it with more room.
    DoesNotFit {
        /// Its length.
        message_bytes: usize,
    },
    /// The sender gave up this message half way. The next one can be received as usual.
    Aborted,
    /// The other end has closed or died, and everything that it sent has been received.
    PeerGone,
    /// The other end broke the rules of the mechanism. Close the connection.
    PeerBroken(Violation),
    /// The kernel refused. Close the connection.
    Os(io::Error),
}

/// What a peer did that no correct peer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A message longer than the limit that both ends agreed on.
    MessageTooLarge {
        /// Announced length.
        message_bytes: u64,
    },
    /// A fragment that is longer than what is left of its message, or than any fragment may be.
    FragmentTooLarge {
        /// Announced length.
        fragment_bytes: u64,
    },
    /// A fragment of another message while one was under way, or an end before all bytes had come.
    FragmentOutOfOrder,
    /// A header with bits that have no meaning.
    BadHeader,
    /// An index in shared memory that points past what can be there.
    BadIndex,
    /// A packet was lost or repeated on a way that loses none.
    LostPacket,
    /// An address or length that cannot be read from the peer's memory.
    BadAddress,
    /// Something on the control line that is not a packet of the handshake.
    BadPacket,
    /// Shared memory that was handed over unsealed, too large or out of turn, or that was named
    /// and never handed over.
    BadSegment,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MessageTooLarge { message_bytes } => {
                write!(f, "announced a message of {message_bytes} bytes, above the agreed limit")
            }
            Self::FragmentTooLarge { fragment_bytes } => {
                write!(f, "announced a fragment of {fragment_bytes} bytes, more than fits there")
            }
            Self::FragmentOutOfOrder => {
                f.write_str("sent a fragment that does not continue its message")
            }
            Self::BadHeader => f.write_str("sent a header with meaningless bits"),
            Self::BadIndex => f.write_str("published an index that cannot be"),
            Self::LostPacket => f.write_str("lost or repeated a packet"),
            Self::BadAddress => f.write_str("gave an address that cannot be read"),
            Self::BadPacket => f.write_str("sent a control packet that makes no sense"),
            Self::BadSegment => f.write_str("handed over or named shared memory that cannot be"),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("no room in the channel now"),
            Self::TooLarge { message_bytes, message_bytes_max } => write!(
                f,
                "message of {message_bytes} bytes is above the connection's limit of \
                 {message_bytes_max}"
            ),
            Self::Incomplete { missing_bytes } => {
                write!(f, "message committed with {missing_bytes} bytes not written")
            }
            Self::PeerGone => f.write_str("the other end is gone"),
            Self::PeerBroken(violation) => write!(f, "the other end {violation}"),
            Self::Os(error) => write!(f, "sending failed: {error}"),
        }
    }
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no message now"),
            Self::DoesNotFit { message_bytes } => {
                write!(f, "the next message has {message_bytes} bytes, more than the buffer")
            }
            Self::Aborted => f.write_str("the sender gave the message up"),
            Self::PeerGone => f.write_str("the other end is gone"),
            Self::PeerBroken(violation) => write!(f, "the other end {violation}"),
            Self::Os(error) => write!(f, "receiving failed: {error}"),
        }
    }
}

impl std::error::Error for Violation {}

impl std::error::Error for SendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Os(error) => Some(error),
            _ => None,
        }
    }
}

impl std::error::Error for ReceiveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Os(error) => Some(error),
            _ => None,
        }
    }
}

/// A peer that has gone shows as one of these errors, by mechanism and by moment.
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
