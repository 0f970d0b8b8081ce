//! The state in which either end may start calls.
//!
//! Always true: neither end has said goodbye.
//! Not here: what draining connections do as well (`session.rs`).

use super::draining::Draining;
use super::event::{End, Event};
use super::session::Session;
use crate::error::ProtocolError;
use crate::frame::Frame;
use crate::time::Time;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) session: Session,
}

impl Open {
    #[inline]
    /// Takes a frame. [`Event::PeerDrains`] asks for the change to [`Draining`].
    pub(super) fn handle_message(
        &mut self,
        now: Time,
        head: &[u8],
        message_bytes: usize,
    ) -> Result<Option<Event>, ProtocolError> {
        match self.session.decode(head, message_bytes)? {
            Frame::Call { id, object, method, timeout, payload } => {
                let deadline = now.after(timeout);
                let call = self.session.handle_call(id, deadline)?;
                Ok(Some(Event::Call { call, object, method, deadline, payload }))
            }
            Frame::Oneway { object, method, timeout, payload } => {
                let deadline = now.after(timeout);
                Ok(Some(Event::Oneway { object, method, deadline, payload }))
            }
            Frame::Reply { id, payload } => self.session.handle_answer(id, End::Reply(payload)),
            Frame::GoAway => Ok(Some(Event::PeerDrains)),
            other => self.session.handle_other(now, other),
        }
    }

    /// Says goodbye, or answers the peer's.
    pub(super) fn drain(self, peer_drains: bool) -> Draining {
        let mut session = self.session;
        session.say_goodbye();
        Draining { session, peer_drains, is_told: false }
    }
}
