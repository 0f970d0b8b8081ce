//! The state after the channel is gone, or after a protocol violation of the peer.
//!
//! **Invariants:** nothing is sent or taken; the calls that were open end one by one, each once.
//! **Not here:** connecting again.

use super::event::{CancelReason, CloseReason, Counts, End, Event};
use super::session::Session;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closed<T> {
    /// Holds the calls that were open; none if it closed before the greeting.
    pub(super) session: Option<Session<T>>,
    reason: CloseReason,
}

impl<T: Default> Closed<T> {
    pub(super) fn new(session: Option<Session<T>>, reason: CloseReason) -> Self {
        Self { session, reason }
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        let session = self.session.as_mut()?;
        if let Some(call) = session.outgoing.end_next() {
            return Some(Event::Ended { call, end: End::Closed(self.reason) });
        }
        let call = session.incoming.end_next()?;
        Some(Event::Cancelled { call, reason: CancelReason::Closed(self.reason) })
    }

    pub(super) fn counts(&self) -> Counts {
        self.session.as_ref().map_or_else(Counts::default, Session::counts)
    }
}
