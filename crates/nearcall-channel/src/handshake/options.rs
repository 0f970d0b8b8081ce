//! What one end asks for, and whether it can be had.
//!
//! **Invariants:** a number of either end is checked before it is used; the smaller limit wins.
//! **Not here:** sending the options (`handshake/local.rs`, `handshake/remote.rs`).

use std::time::Duration;

use nearcall_os::users::is_overflow_user;

use super::error::{BadOptions, HandshakeError};
use crate::account::UserAccount;
use crate::limits;
use crate::mechanism::{Mechanism, MechanismSet};
use crate::packet::{VERSION, Version};
use crate::spin::SpinOptions;
use crate::wait::WaitPolicy;

/// The options that one end sets for a connection.
#[derive(Debug, Clone)]
pub struct Options {
    /// The wait policy of this end; `None` takes the default of the mechanism.
    pub wait: Option<WaitPolicy>,
    /// Policies for a server, which learns of the mechanism from its client: if `wait` is `None`,
    /// the first of these that the mechanism supports is used instead of its default.
    pub wait_preferred: &'static [WaitPolicy],
    /// The spinning of this end before it sleeps, if it waits by `adaptive`.
    pub spin: SpinOptions,
    /// For a server in an event loop that sleeps in another connection already: a client that asks
    /// for an end without a descriptor to wait on is refused.
    pub pollable_only: bool,
    /// The mechanisms that a server opens for its client. One that asks for another is refused
    /// before anything is made for it. A client does not look at it, and neither does a server
    /// over `tcp://`, where there is one mechanism only.
    pub offered: MechanismSet,
    /// The user whose server a client demands, by its number: the user of the process that answers,
    /// whoever has bound its socket. Nothing is sent to a socket at which neither that user nor
    /// root listens, and nothing but the greeting if another user answers. Over `tcp://` no user is
    /// known, and no server is the one that it demands.
    pub server_user: Option<u32>,
    /// The longest message to agree on, in bytes.
    pub message_bytes_max: u32,
    /// Room in each direction to agree on, in bytes.
    pub buffer_bytes: u32,
    /// The account of the other end's user, which pays for what this end holds.
    pub account: Option<UserAccount>,
    /// The longest time that the other end may take for each step of the handshake.
    pub handshake_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wait: None,
            wait_preferred: &[],
            spin: SpinOptions::default(),
            pollable_only: false,
            offered: MechanismSet::BY_DEFAULT,
            server_user: None,
            message_bytes_max: limits::MESSAGE_BYTES_MAX_DEFAULT,
            buffer_bytes: limits::BUFFER_BYTES_DEFAULT,
            account: None,
            handshake_timeout: limits::HANDSHAKE_TIMEOUT,
        }
    }
}

impl Options {
    /// Returns the default options of a server that opens these mechanisms.
    #[must_use]
    pub fn offering(offered: MechanismSet) -> Self {
        Self { offered, ..Self::default() }
    }
}

/// Returns the wait policy of this end: the one asked for, the first preferred one that `mechanism`
/// has, or its usual one.
pub(super) fn choose_wait(
    mechanism: Mechanism,
    options: &Options,
) -> Result<WaitPolicy, BadOptions> {
    let possible = mechanism.waits();
    let preferred = options.wait_preferred.iter().copied().find(|wait| possible.contains(wait));
    let wait = options.wait.or(preferred).unwrap_or(possible[0]);
    if possible.contains(&wait) {
        Ok(wait)
    } else {
        Err(BadOptions::WaitPolicy { mechanism, wait })
    }
}

/// Returns an error unless a server with these options opens `mechanism`.
pub(super) fn check_offered(mechanism: Mechanism, options: &Options) -> Result<(), HandshakeError> {
    let offered = options.offered;
    match offered.contains(mechanism) {
        true => Ok(()),
        false => Err(HandshakeError::NotOffered { mechanism, offered }),
    }
}

/// Returns an error unless the server with these credentials is the one that a client demands.
pub(super) fn check_server_user(
    options: &Options,
    found: Option<u32>,
) -> Result<(), HandshakeError> {
    match options.server_user {
        // A number that stands for several users is that of no server.
        Some(demanded) if found != Some(demanded) || is_overflow_user(demanded) => {
            Err(HandshakeError::OtherUser { demanded, found })
        }
        _ => Ok(()),
    }
}

/// Returns an error if the user that listens at a socket is not one that may have handed it over to
/// the server that a client demands: that user itself, or root, which may have no number here.
pub(super) fn check_listening_user(options: &Options, found: u32) -> Result<(), HandshakeError> {
    match found == 0 || is_overflow_user(found) {
        true => Ok(()),
        false => check_server_user(options, Some(found)),
    }
}

pub(super) fn check_version(theirs: Version) -> Result<(), HandshakeError> {
    match theirs.major == VERSION.major {
        true => Ok(()),
        false => Err(HandshakeError::Version { ours: VERSION, theirs }),
    }
}

pub(super) fn check_limit(message_bytes_max: u32) -> Result<u32, BadOptions> {
    match message_bytes_max <= limits::MESSAGE_BYTES_MAX_CEILING {
        true => Ok(message_bytes_max),
        false => Err(BadOptions::MessageLimit { message_bytes_max }),
    }
}

pub(super) fn check_buffer(buffer_bytes: u32) -> Result<u32, BadOptions> {
    match (limits::BUFFER_BYTES_MIN..=limits::BUFFER_BYTES_MAX).contains(&buffer_bytes) {
        true => Ok(buffer_bytes),
        false => Err(BadOptions::Buffer { buffer_bytes }),
    }
}
