//! The state in which either end may start calls.
//!
//! **Invariants:** neither end has sent GOAWAY.
//! **Not here:** what draining connections do as well (`session.rs`).

use super::draining::Draining;
use super::event::{End, Event};
use super::session::Session;
use crate::error::ProtocolError;
use crate::frame::Frame;
use crate::time::Time;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open<T> {
    pub(super) session: Session<T>,
}

impl<T: Default> Open<T> {
    /// Takes a frame. [`Event::PeerDrains`] asks for the change to [`Draining`].
    #[inline]
    pub(super) fn handle_message(
        &mut self,
        now: Time,
        head: &[u8],
        message_bytes: usize,
    ) -> Result<Option<Event>, ProtocolError> {
        match self.session.decode(head, message_bytes)? {
            Frame::Call { id, object, method, timeout_ns, payload, shape } => {
                let deadline = self.session.deadline(now, timeout_ns);
                let call = self.session.handle_call(id, deadline, shape)?;
                Ok(Some(Event::Call { call, object, method, deadline, payload, shape }))
            }
            Frame::Oneway { object, method, timeout_ns, payload } => {
                let deadline = self.session.deadline(now, timeout_ns);
                Ok(Some(Event::Oneway { object, method, deadline, payload }))
            }
            Frame::Reply { id, payload } => self.session.handle_answer(id, End::Reply(payload)),
            Frame::GoAway => Ok(Some(Event::PeerDrains)),
            Frame::LastGoAway => Ok(Some(Event::PeerDrained)),
            other => self.session.handle_other(now, other),
        }
    }

    /// Sends GOAWAY, or replies to the peer's.
    pub(super) fn drain(self, peer_drains: bool) -> Draining<T> {
        let mut session = self.session;
        if let Some(switch) = &mut session.switch {
            switch.drain();
        }
        session.queue_goaway();
        Draining { session, peer_drains, was_reported: false, has_ended: false }
    }
}
