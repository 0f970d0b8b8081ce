//! The state after the channel is gone, or after a misdeed of the peer.
//!
//! Always true: nothing is sent or taken; the calls that were open end one by one, each once.
//! Not here: connecting again.

use super::event::{Counts, End, Event, Gone, Revoked};
use super::session::Session;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closed {
    /// Holds the calls that were open; none if it closed before the greeting.
    session: Option<Session>,
    gone: Gone,
}

impl Closed {
    pub(super) fn new(session: Option<Session>, gone: Gone) -> Self {
        Self { session, gone }
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        let session = self.session.as_mut()?;
        if let Some(call) = session.outgoing.end_next() {
            return Some(Event::Ended { call, end: End::Gone(self.gone) });
        }
        let call = session.incoming.end_next()?;
        Some(Event::Revoked { call, why: Revoked::Gone(self.gone) })
    }

    pub(super) fn counts(&self) -> Counts {
        self.session.as_ref().map_or_else(Counts::default, Session::counts)
    }
}
