//! Receiving over a connection: one message at a time, judged, then treated while it is at hand.
//!
//! A message is copied once, out of the channel into a buffer of ours; a reply keeps that buffer
//! until who asked for it takes it. Always true: the peer's bytes are looked at only in our copy.
//! Not here: what a service does with a call (`dispatch.rs`), waiting for several connections
//! (`reactor.rs`).

use std::rc::Rc;

use nearcall_channel::{Deadline, Interest, ReceiveError};
use nearcall_wire::{Connection, End, Event, HEADER_BYTES, Payload, ProtocolError, Time};

use super::calls::{Outcome, Reply, Ticket};
use super::{Link, wake};
use crate::dispatch;
use crate::options;
use crate::status::Status;

/// A call or one-way message that came in, with the buffer that holds it.
pub(crate) struct Arrival {
    pub(crate) event: Event,
    pub(crate) buffer: Vec<u8>,
}

/// What taking one message came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Took {
    /// A message, which was treated.
    Message,
    /// None by the deadline.
    Nothing,
    /// None, ever again.
    Gone,
}

impl Link {
    /// Receives one message and treats it, which may run a service. Waits until `until` at most.
    #[inline]
    pub(crate) fn take_message(self: &Rc<Self>, until: Deadline) -> Took {
        if !self.postponed.borrow().is_empty() {
            // Not borrowed any more when the service runs, which may postpone others.
            let postponed = self.postponed.borrow_mut().pop_front();
            if let Some(Arrival { event, buffer }) = postponed {
                self.treat(event, buffer);
                return Took::Message;
            }
        }
        match self.receive(until) {
            Ok(Some(Arrival { event, buffer })) => {
                self.treat(event, buffer);
                Took::Message
            }
            Ok(None) => Took::Message,
            Err(ReceiveError::Empty) => Took::Nothing,
            Err(error) => {
                self.receive_failed(&error);
                Took::Gone
            }
        }
    }

    /// Looks whether a cancellation has come; calls that came before it wait for their turn.
    pub(crate) fn look_ahead(self: &Rc<Self>) {
        for _ in 0..LOOK_AHEAD_MESSAGES_MAX {
            if self.postponed.borrow().len() >= LOOK_AHEAD_MESSAGES_MAX {
                return;
            }
            match self.receive(Deadline::Now) {
                Ok(Some(arrival)) => match arrival.event {
                    Event::Call { .. } | Event::Oneway { .. } => {
                        self.postponed.borrow_mut().push_back(arrival);
                        self.core.touched(self, Time::NEVER);
                    }
                    event => self.treat(event, arrival.buffer),
                },
                Ok(None) => {}
                Err(ReceiveError::Empty) => return,
                Err(error) => return self.receive_failed(&error),
            }
        }
    }

    /// Whether calls wait that `look_ahead` has found.
    pub(crate) fn has_postponed(&self) -> bool {
        !self.postponed.borrow().is_empty()
    }

    /// One message: its event, if it has one, and the bytes.
    #[inline]
    fn receive(self: &Rc<Self>, until: Deadline) -> Result<Option<Arrival>, ReceiveError> {
        let mut buffer = self.core.buffers.take();
        let mut inner = self.inner.borrow_mut();
        let received = match inner.endpoint.receive_into(&mut buffer, until) {
            Err(ReceiveError::DoesNotFit { message_bytes }) => {
                // The channel has judged the length: it is below the limit of the connection.
                buffer.resize(message_bytes.next_power_of_two(), 0);
                inner.endpoint.receive_into(&mut buffer, until)
            }
            received => received,
        };
        let message_bytes = match received {
            Ok(message_bytes) => message_bytes,
            Err(ReceiveError::Aborted) => {
                self.core.buffers.give(buffer);
                return Ok(None);
            }
            Err(error) => {
                self.core.buffers.give(buffer);
                return Err(error);
            }
        };
        let message = &buffer[..message_bytes];
        let now = match Connection::needs_time(message) {
            true => options::now(),
            false => Time::from_ns(0),
        };
        let handled = inner.wire.handle_message(now, message, message_bytes);
        let has_own = inner.wire.has_transmit();
        drop(inner);
        if has_own {
            self.send_own(Deadline::Now);
        }
        match handled {
            Ok(Some(event)) => Ok(Some(Arrival { event, buffer })),
            Ok(None) => {
                self.core.buffers.give(buffer);
                Ok(None)
            }
            Err(error) => {
                self.core.buffers.give(buffer);
                self.misbehaved(error);
                Ok(None)
            }
        }
    }

    #[inline]
    fn treat(self: &Rc<Self>, event: Event, buffer: Vec<u8>) {
        match event {
            Event::Call { call, object, method, deadline, payload } => {
                let what = dispatch::Arrived { call: Some(call), object, method, deadline };
                dispatch::serve(self, &what, parts(&buffer, payload));
                self.core.buffers.give(buffer);
            }
            Event::Oneway { object, method, deadline, payload } => {
                let what = dispatch::Arrived { call: None, object, method, deadline };
                dispatch::serve(self, &what, parts(&buffer, payload));
                self.core.buffers.give(buffer);
            }
            Event::Ended { call, end: End::Reply(payload) } => {
                let start = HEADER_BYTES + usize::from(payload.metadata_bytes);
                let body = start..payload.message_bytes();
                self.ended(call, Ok(Reply { buffer, body }));
            }
            Event::Ended { call, end: End::Error { status, payload } } => {
                let status = Status::from_peer(status, parts(&buffer, payload).1);
                self.core.buffers.give(buffer);
                self.ended(call, Err(status));
            }
            event => {
                self.core.buffers.give(buffer);
                self.treat_rare(event);
            }
        }
    }

    fn treat_rare(self: &Rc<Self>, event: Event) {
        match event {
            Event::Opened(peer) => self.peer_instance.set(Some(peer.instance)),
            Event::Drained => self.close(self.why_gone()),
            Event::PeerDrains => self.take_events(),
            // Services ask by themselves; nobody pings yet.
            _ => {}
        }
    }

    #[inline]
    fn ended(&self, call: nearcall_wire::OutgoingCall, outcome: Outcome) {
        let woken = self.calls.borrow_mut().end(call, outcome);
        match woken {
            Ok(None) => {}
            Err(Ok(reply)) => self.core.buffers.give(reply.buffer),
            woken => wake(woken),
        }
    }

    /// Whether the call has ended.
    #[inline]
    pub(crate) fn has_ended(&self, ticket: &Ticket) -> bool {
        self.calls.borrow().has_ended(ticket)
    }

    /// Takes the end of a call, if it has come.
    #[inline]
    pub(crate) fn take_end(&self, ticket: &Ticket) -> Option<Outcome> {
        self.calls.borrow_mut().take(ticket)
    }

    /// Has somebody woken when the call ends.
    pub(crate) fn wake_at_end(&self, ticket: &Ticket, waker: &std::task::Waker) {
        self.calls.borrow_mut().wake_at_end(ticket, waker);
    }

    /// Announces a sleep on the channel's descriptor. False: look again first.
    #[inline]
    pub(crate) fn arm(&self) -> bool {
        if self.has_postponed() {
            return false;
        }
        let mut inner = self.inner.borrow_mut();
        let room = inner.unflushed || !inner.outbox.is_empty();
        (!room || inner.endpoint.arm(Interest::Send)) && inner.endpoint.arm(Interest::Receive)
    }

    /// Uses the channel itself, for what only the loop needs of it.
    pub(crate) fn with_endpoint<T>(
        &self,
        use_it: impl FnOnce(&mut nearcall_channel::Endpoint) -> T,
    ) -> T {
        use_it(&mut self.inner.borrow_mut().endpoint)
    }

    #[cold]
    fn receive_failed(self: &Rc<Self>, error: &ReceiveError) {
        self.close(Status::unavailable(match error {
            ReceiveError::PeerGone => format!("{} went away", self.name),
            _ => format!("the connection to {} failed: {error}", self.name),
        }));
    }

    #[cold]
    fn misbehaved(self: &Rc<Self>, error: ProtocolError) {
        self.close(Status::internal(format!("{} {error}; the connection is closed", self.name)));
    }
}

/// Metadata and body of a message.
#[inline]
fn parts(buffer: &[u8], payload: Payload) -> (&[u8], &[u8]) {
    let rest = &buffer[HEADER_BYTES..payload.message_bytes()];
    rest.split_at(payload.metadata_bytes.into())
}

/// Calls that wait while a service looks for its cancellation. A service that looks often must not
/// take more than a channel would hold.
const LOOK_AHEAD_MESSAGES_MAX: usize = 64;
