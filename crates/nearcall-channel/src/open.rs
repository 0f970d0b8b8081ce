//! How a mechanism is opened: what each end makes, hands over and gets.
//!
//! The server's end makes an [`Offer`]; the client's end makes its channel from the offer's parts
//! and answers with parts of its own; the server's end finishes with those.
//! Always true: whatever an end made is gone when it drops what it holds, also half way.
//! Not here: carrying the parts (`handshake.rs`), the ways themselves (`kernel/`, `shm/`).

use std::fmt;
use std::io;

use nearcall_os::region::RegionError;

use crate::channel::Channel;
use crate::error::Violation;
use crate::settings::{ChannelFds, Settings};

/// Why a mechanism could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// This kernel, its limits or its permissions do not allow the mechanism; the text says which.
    Unsupported(String),
    /// The other end handed over something that is not what it should be.
    BadParts(String),
    /// A system call failed.
    Os {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl OpenError {
    /// For `map_err`: the system call that failed was `doing` this.
    pub(crate) fn doing(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Os { doing, error }
    }

    /// The parts do not have the form that the mechanism needs.
    pub(crate) fn bad_parts(what: &str) -> Self {
        Self::BadParts(what.to_owned())
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(reason) => write!(f, "not supported here: {reason}"),
            Self::BadParts(what) => write!(f, "the other end handed over unusable parts: {what}"),
            Self::Os { doing, error } => write!(f, "{doing} failed: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Os { error, .. } => Some(error),
            Self::Unsupported(_) | Self::BadParts(_) => None,
        }
    }
}

impl From<Violation> for OpenError {
    fn from(violation: Violation) -> Self {
        Self::BadParts(violation.to_string())
    }
}

impl From<RegionError> for OpenError {
    fn from(error: RegionError) -> Self {
        Self::BadParts(error.to_string())
    }
}

/// Turns the client's parts into the server's channel.
pub(crate) type Finish = Box<dyn FnOnce(ChannelFds) -> Result<Box<dyn Channel>, OpenError> + Send>;

/// The server's half-open end.
pub(crate) struct Offer {
    /// For the client.
    pub(crate) parts: ChannelFds,
    /// To be called with the client's answer.
    pub(crate) finish: Finish,
}

/// The client's end and what it has to tell the server.
pub(crate) struct Accepted {
    /// For the server.
    pub(crate) parts: ChannelFds,
    /// Ready to use once the server is, too.
    pub(crate) channel: Box<dyn Channel>,
}

/// Makes the server's end.
pub(crate) type OfferFn = fn(&Settings) -> Result<Offer, OpenError>;

/// Makes the client's end from the server's parts.
pub(crate) type AcceptFn = fn(&Settings, ChannelFds) -> Result<Accepted, OpenError>;
