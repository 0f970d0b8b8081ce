//! How a mechanism is opened: what each end makes, hands over and gets.
//!
//! The server's end makes an [`Offer`]; the client's end makes its channel from the offer's parts
//! and answers with parts of its own; the server's end finishes with those.
//!
//! **Invariants:** whatever an end made is gone when it drops what it holds, also half way.
//! **Not here:** carrying the parts (`handshake.rs`), the ways themselves (`kernel/`, `shm/`).

use crate::channel::Channel;
use crate::error::OpenError;
use crate::fds::ChannelFds;
use crate::settings::Settings;

/// Turns the client's parts into the server's channel.
pub(crate) type Finish = Box<dyn FnOnce(ChannelFds) -> Result<Box<dyn Channel>, OpenError> + Send>;

/// The server's half-open end.
pub(crate) struct Offer {
    /// For the client.
    pub(crate) parts: ChannelFds,
    /// To be called with the client's answer.
    pub(crate) finish: Finish,
}

/// The client's end, and its parts for the server.
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
