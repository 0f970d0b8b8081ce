//! The state in which open calls end and no new ones start.
//!
//! Each end sends GOAWAY once, the one in reply to the other. An end whose peer does not read
//! closes without that reply, after a last GOAWAY: what the peer has sent meanwhile has not begun.
//! **Invariants:** our GOAWAY is sent or queued. When the peer's has come too, no call can be under
//! way any more.
//! **Not here:** closing the channel, which the driver does.

use super::event::Event;
use super::session::Session;
use crate::error::ProtocolError;
use crate::frame::Frame;
use crate::time::Time;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Draining<T> {
    pub(super) session: Session<T>,
    /// The peer's goodbye has come.
    pub(super) peer_drains: bool,
    /// [`Event::Drained`] has been given.
    pub(super) was_reported: bool,
    /// Our last GOAWAY is sent or queued: every call that was begun is answered.
    pub(super) has_ended: bool,
}

impl<T: Default> Draining<T> {
    pub(super) fn handle_message(
        &mut self,
        now: Time,
        head: &[u8],
        message_bytes: usize,
    ) -> Result<Option<Event>, ProtocolError> {
        match self.session.decode(head, message_bytes)? {
            Frame::Call { .. } | Frame::Oneway { .. } if self.peer_drains => {
                Err(ProtocolError::CallAfterGoAway)
            }
            // The last GOAWAY answers it, and what belongs to it is not judged: the call is not
            // known here.
            Frame::Call { .. }
            | Frame::Item { to_caller: false, .. }
            | Frame::End { .. }
            | Frame::Credit { to_caller: false, .. }
            | Frame::Cancel { .. }
            | Frame::Switch { .. }
                if self.has_ended =>
            {
                Ok(None)
            }
            Frame::Call { id, shape, .. } => {
                self.session.refuse(id, shape)?;
                Ok(None)
            }
            // The peer thinks that it is delivered, and it leaves nothing open.
            Frame::Oneway { object, method, timeout_ns, payload } => {
                let deadline = self.session.deadline(now, timeout_ns);
                Ok(Some(Event::Oneway { object, method, deadline, payload }))
            }
            Frame::GoAway if self.peer_drains => Err(ProtocolError::SecondGoAway),
            Frame::GoAway => {
                self.peer_drains = true;
                Ok(None)
            }
            Frame::LastGoAway => Ok(Some(Event::PeerDrained)),
            other => self.session.handle_other(now, other),
        }
    }

    /// Queues the last GOAWAY, once.
    pub(super) fn end(&mut self) {
        if !core::mem::replace(&mut self.has_ended, true) {
            self.session.queue_last_goaway();
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.session.poll_passed() {
            return Some(event);
        }
        let is_drained = self.peer_drains && self.session.is_idle();
        (is_drained && !core::mem::replace(&mut self.was_reported, true)).then_some(Event::Drained)
    }
}
