//! Another mechanism between two ends that are connected: a handshake over a line of its own, which
//! the client passes to the server over the control line of their connection.
//!
//! **Invariants:** the new endpoint shares nothing with the old one, which stays as it is whatever
//! becomes of the handshake; the kernel reports the same process at both; no step waits; nothing is
//! sent over a line before it is known to be that process's.
//! **Not here:** the handshake itself (`local.rs`); which message is the last of the old channel,
//! which the users of the two ends agree on by their messages.

use std::io;
use std::os::fd::AsFd;

use nearcall_os::socket::{self, Kind};

use super::Rendezvous;
use super::error::{CannotSwitch, HandshakeError};
use super::local::{self, Answerer};
use super::options::Options;
use super::steps::Handshake;
use crate::endpoint::Endpoint;
use crate::error::ReceiveError;
use crate::mechanism::Mechanism;
use crate::settings::{Peer, PeerIdentity};

/// The part of an end in a handshake.
#[derive(PartialEq, Eq)]
enum Part {
    Client,
    Server,
}

impl Endpoint {
    /// Begins to open `mechanism` between the two ends of this connection, beside its channel: asks
    /// the server for it, as [`connect`](crate::connect) does. The client's part: the end that has
    /// connected begins. Does not wait; go on with [`Handshake::advance`].
    ///
    /// The result is an endpoint of its own. This one stays in use until both ends have both, and
    /// its [`Lender`](crate::Lender) and [`Borrower`](crate::Borrower) serve what is lent for as
    /// long as they live. Users keep this order, so that no message is lost or overtaken:
    ///
    /// 1. The client calls this, which passes the line of the handshake, and then says so by a
    ///    message; the server calls [`serve_switch`](Self::serve_switch) when it has that message.
    ///    The client begins no other handshake before the server has the message or the client has
    ///    dropped the handshake.
    /// 2. Both advance. Once the client has its endpoint the server has one, too.
    /// 3. The client sends the last message of the old channel, flushes it, and sends by the new
    ///    one. When the server has received it, it sends a last message of its own on the old
    ///    channel, flushes it, and uses the new one for both directions.
    /// 4. When the client has received that, it receives by the new channel and drops the old
    ///    endpoint. The server drops its own when the other end is gone from it, or says so.
    ///
    /// A server of a version before this call takes the line for a broken rule, and ends the
    /// connection: let it say first, by a message, that it knows of this.
    ///
    /// To give up, drop the handshake and tell the other end by a message: this endpoint goes on.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::CannotSwitch`]: over `tcp://`, or for the server. Otherwise as
    /// [`Handshake::connect_over`]. Nothing was passed then, and this endpoint is as before.
    pub fn begin_switch(
        &mut self,
        mechanism: Mechanism,
        options: &Options,
    ) -> Result<Handshake, HandshakeError> {
        let server = self.identity_for(&Part::Client)?;
        let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).map_err(HandshakeError::Os)?;
        // Before the line: a handshake that fails here leaves nothing with the server.
        let handshake = Handshake::ask(ours, mechanism, options, Answerer::Process(server))?;
        self.control().pass_line(theirs.as_fd()).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => CannotSwitch::LineFull.into(),
            _ => HandshakeError::from(error),
        })?;
        Ok(handshake)
    }

    /// Begins to serve the handshake that the client has begun by
    /// [`begin_switch`](Self::begin_switch): checks, limits and charges are those of any client, by
    /// `options`. Call it when the client's message has come that says so. Does not wait; go on
    /// with [`Handshake::advance`].
    ///
    /// # Errors
    ///
    /// This endpoint goes on, but after [`HandshakeError::PeerGone`] and
    /// [`HandshakeError::PeerBroken`]. [`HandshakeError::CannotSwitch`]: the client has passed no
    /// line, another process has made it, or this end is the client's.
    /// [`HandshakeError::Exceeded`]: the account has no room for it.
    pub fn serve_switch(&mut self, options: &Options) -> Result<Handshake, HandshakeError> {
        let client = self.identity_for(&Part::Server)?;
        let line = self.control().take_line().map_err(|error| match error {
            ReceiveError::Empty => CannotSwitch::NoLine.into(),
            error => HandshakeError::from(error),
        })?;
        if !client.is_same_process(&local::client_identity(&line)?) {
            return Err(CannotSwitch::OtherProcess.into());
        }
        Handshake::serve(Rendezvous::Local, line, options)
    }

    /// Returns the identity of the other end, if this end has that part in a handshake.
    fn identity_for(&self, part: &Part) -> Result<PeerIdentity, CannotSwitch> {
        let own = if self.control().server().is_some() { Part::Client } else { Part::Server };
        match (self.peer(), part) {
            (Peer::Remote(address), _) => Err(CannotSwitch::Remote(*address)),
            (Peer::Process(identity), part) if *part == own => Ok(identity.clone()),
            (Peer::Process(_), Part::Client) => Err(CannotSwitch::NotTheClient),
            (Peer::Process(_), Part::Server) => Err(CannotSwitch::NotTheServer),
        }
    }
}
