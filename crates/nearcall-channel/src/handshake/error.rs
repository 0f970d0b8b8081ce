//! Why two ends did not come together.
//!
//! **Invariants:** no text of the other end reaches a terminal unescaped.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use nearcall_os::descriptor;
use nearcall_os::users::is_overflow_user;
use thiserror::Error;

use crate::account::Exceeded;
use crate::address::Address;
use crate::error::{
    OpenError, ReceiveError, Unsupported, Violation, debug_as_display, means_peer_gone,
};
use crate::limits::{BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, MESSAGE_BYTES_MAX_CEILING};
use crate::mechanism::{Mechanism, MechanismSet, UnknownMechanism};
use crate::packet::{Refusal, Version};
use crate::wait::WaitPolicy;

/// Why a connection was not made.
///
/// Where the other end refused, [`Refusal`](crate::Refusal) says why.
#[derive(Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// No server listens at the address. Start the server, or wait until it is there.
    #[error("nothing listens at {0}: start its server, or wait until it is there")]
    NoListener(Address),
    /// The address is taken by a listener that lives, and what is known of that.
    #[error("{0} is in use by another server{1}: stop it, or use another address")]
    AddressInUse(Address, InUse),
    /// The address cannot be listened at: the directory, the socket or its lock forbids it.
    #[error("{0}")]
    CannotListen(#[source] io::Error),
    /// The runtime directory, where the server should be, is not one that only this user may
    /// change: no server in it is believed to be the right one.
    #[error("{0}")]
    UntrustedDirectory(#[source] io::Error),
    /// The socket of the name has a path that no unix socket can have, by the runtime directory.
    #[error("{0}")]
    PathTooLong(#[source] io::Error),
    /// What is bound at the address is no socket of a server of nearcall.
    #[error(
        "the socket at {address} is a {found} socket, and that of a server is SOCK_SEQPACKET: \
         another program has the address, or the socket unit that binds it has to say \
         `ListenSequentialPacket=`"
    )]
    OtherSocket {
        /// Where it is.
        address: Address,
        /// Its type.
        found: &'static str,
    },
    /// The file system does not let this user reach the socket.
    #[error("{0}")]
    NoAccess(#[source] io::Error),
    /// The wait policy or a limit cannot be had; nothing was sent.
    #[error("{0}")]
    BadOptions(BadOptions),
    /// The client asked for a mechanism that this build does not have.
    #[error("{0}")]
    UnknownMechanism(UnknownMechanism),
    /// The server belongs to another user than the one that the client demands.
    #[error(
        "the server is one of {}, and not of user {demanded} as this client demands: another \
         program has the address", user(*found)
    )]
    OtherUser {
        /// The user that the client demands.
        demanded: u32,
        /// The user of the server, by the kernel. None: the kernel does not know it.
        found: Option<u32>,
    },
    /// The client asked for a mechanism that this server does not open.
    #[error(
        "this server does not offer {mechanism}, only {}; use one of these, or have the server \
         allow it (`?allow={mechanism}`){}",
        list(*offered), why_named(*mechanism)
    )]
    NotOffered {
        /// What the client asked for.
        mechanism: Mechanism,
        /// What the server offers.
        offered: MechanismSet,
    },
    /// The other end speaks another major version.
    #[error(
        "the other end speaks version {}.{}, this program {}.{}: update the older one",
        theirs.major, theirs.minor, ours.major, ours.minor
    )]
    Version {
        /// The version of this build.
        ours: Version,
        /// The version of the other end.
        theirs: Version,
    },
    /// The other end refused the connection.
    #[error("the other end refused: {text}")]
    Refused {
        /// For programs.
        code: Refusal,
        /// For people.
        text: String,
    },
    /// This end could not open the mechanism.
    #[error("cannot open {0}: {1}")]
    Open(Mechanism, #[source] OpenError),
    /// The other end did not answer in time.
    #[error("the other end did not answer the handshake in time: try again, or allow more time")]
    TimedOut,
    /// The other end closed or died during the handshake.
    #[error("the other end closed the connection during the handshake: try again")]
    PeerGone,
    /// The other end does not speak this protocol.
    #[error("the other end {0}")]
    PeerBroken(Violation),
    /// The account of the client's user has no room for the connection.
    #[error("{0}")]
    Exceeded(#[from] Exceeded),
    /// No handshake for another mechanism between two ends that are connected; their channel is as
    /// before.
    #[error("cannot open another mechanism beside this channel: {0}")]
    CannotSwitch(#[from] CannotSwitch),
    /// A system call failed.
    #[error("the socket of the handshake failed: {0}")]
    Os(#[source] io::Error),
}

/// Which of the options of an end cannot be had.
#[derive(Error, Clone, PartialEq, Eq)]
pub enum BadOptions {
    /// The mechanism does not support the wait policy.
    #[error("{mechanism} cannot wait by {wait}, only by {}", names(mechanism))]
    WaitPolicy {
        /// The mechanism.
        mechanism: Mechanism,
        /// The policy that was asked for.
        wait: WaitPolicy,
    },
    /// The limit on messages is too high.
    #[error(
        "a message limit of {message_bytes_max} bytes is above the largest possible, \
         {MESSAGE_BYTES_MAX_CEILING}"
    )]
    MessageLimit {
        /// The limit that was asked for, in bytes.
        message_bytes_max: u32,
    },
    /// The room is out of range.
    #[error(
        "room of {buffer_bytes} bytes in each direction is not between {BUFFER_BYTES_MIN} and \
         {BUFFER_BYTES_MAX}"
    )]
    Buffer {
        /// The room that was asked for, in bytes.
        buffer_bytes: u32,
    },
    /// The server needs a descriptor to wait on, and the mechanism has none.
    #[error(
        "the server sleeps in another connection that has no descriptor, and {mechanism} has none \
         either; use a mechanism that is pollable, such as shm-eventfd or unix-stream"
    )]
    NotPollable {
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// The mechanism does not reach another machine.
    #[error("over tcp:// there is only the mechanism tcp, not {mechanism}")]
    NotOverTcp {
        /// The mechanism.
        mechanism: Mechanism,
    },
}

/// What is known of the listener that has an address, for a text.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct InUse {
    /// What it holds, and which process that is.
    pub holder: Option<String>,
    /// What may have gone wrong in this process.
    pub hint: String,
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(holder) = &self.holder {
            write!(f, " ({holder})")?;
        }
        f.write_str(&self.hint)
    }
}

/// Why two ends that are connected cannot open another mechanism between them.
#[derive(Error, Clone, PartialEq, Eq)]
pub enum CannotSwitch {
    /// Two machines have one mechanism, and no line to pass a descriptor over.
    #[error("unsupported over tcp://, which has the mechanism tcp only (to {0})")]
    Remote(SocketAddr),
    /// A server cannot begin.
    #[error("only the end that has connected begins; ask it to, by a message")]
    NotTheClient,
    /// A client cannot serve.
    #[error("only the end that has accepted the connection serves; begin instead")]
    NotTheServer,
    /// The server has not taken what lies on the control line.
    #[error("the server has not taken yet what was passed to it; try again when it has")]
    LineFull,
    /// The client has passed no line.
    #[error(
        "the client has begun no handshake, or descriptors that it has passed lie before it: take \
         those"
    )]
    NoLine,
    /// The other end has not come to the meeting, or its socket takes nothing of this end.
    #[error(
        "the other end has not come to the meeting, or its socket takes nothing of this end; try \
         again"
    )]
    NotMet,
    /// A socket of the server's machine or network namespace cannot be reached.
    #[error(
        "the server is on another machine or in another network namespace, where no descriptor can \
         be passed"
    )]
    Elsewhere,
    /// The line was made, or the answer was sent, by another process than that of the connection;
    /// or a line was made by another user than its sender; or it cannot be told.
    #[error(
        "the kernel does not report the same process at the other end of the new line as at that \
         of the connection; have the process that has connected begin, and the one that has \
         accepted serve"
    )]
    OtherProcess,
}

debug_as_display!(HandshakeError, BadOptions, CannotSwitch, InUse);

impl HandshakeError {
    /// Returns the error of the kernel, if that is that this end has too little of something, such
    /// as descriptors. It may pass.
    #[must_use]
    pub fn shortage(&self) -> Option<&io::Error> {
        let error = match self {
            Self::Os(error)
            | Self::Open(_, OpenError::Os { error, .. })
            | Self::Open(_, OpenError::Unsupported(Unsupported::Os { error, .. })) => error,
            _ => return None,
        };
        descriptor::means_shortage(error).then_some(error)
    }
}

/// Returns a user for people.
fn user(uid: Option<u32>) -> String {
    match uid {
        Some(uid) if is_overflow_user(uid) => format!("a user unknown here ({uid})"),
        Some(uid) => format!("user {uid}"),
        None => "an unknown user".to_owned(),
    }
}

/// Returns the names of the mechanisms of a set for people.
fn list(offered: MechanismSet) -> String {
    let names: Vec<_> = offered.iter().map(Mechanism::name).collect();
    names.join(", ")
}

/// Returns why a server has to name a mechanism.
fn why_named(mechanism: Mechanism) -> String {
    mechanism.reason_to_be_named().map_or_else(String::new, |why| format!(": {why}"))
}

/// Returns the wait policies of `mechanism` for people.
fn names(mechanism: &Mechanism) -> String {
    let names: Vec<_> = mechanism.waits().iter().map(|wait| wait.name()).collect();
    names.join(" or ")
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match means_peer_gone(&error) {
            true => Self::PeerGone,
            false => Self::Os(error),
        }
    }
}

impl From<ReceiveError> for HandshakeError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Empty => Self::TimedOut,
            ReceiveError::PeerGone | ReceiveError::Aborted | ReceiveError::DoesNotFit { .. } => {
                Self::PeerGone
            }
            ReceiveError::PeerBroken(violation) => Self::PeerBroken(violation),
            ReceiveError::Exceeded(exceeded) => Self::Exceeded(exceeded),
            ReceiveError::Os(error) => Self::Os(error),
        }
    }
}

impl From<Violation> for HandshakeError {
    fn from(violation: Violation) -> Self {
        Self::PeerBroken(violation)
    }
}

impl From<BadOptions> for HandshakeError {
    fn from(options: BadOptions) -> Self {
        Self::BadOptions(options)
    }
}
