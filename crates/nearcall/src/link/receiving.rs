//! Receiving over a connection: one message at a time, judged, then treated while it is at hand.
//!
//! A message is copied once, out of the channel into a buffer of ours, also while its sender still
//! writes; a reply keeps that buffer until who asked for it takes it, and long `bytes` fields of a
//! long message are slices of it. Always true: the peer's bytes are looked at only in our copy.
//! Not here: what a service does with a call (`dispatch.rs`), waiting for several connections
//! (`reactor.rs`).

use std::rc::Rc;
use std::time::Duration;

use nearcall_channel::{Deadline, Endpoint, Interest, ReceiveError};
use nearcall_os::poll;
use nearcall_wire::{
    Connection, End, Event, HEADER_BYTES, Payload, ProtocolError, Time, has_references,
};

use super::calls::{Outcome, Reply, Ticket};
use super::{Inner, Link, wake};
use crate::buffers::SMALL_BYTES_MAX;
use crate::codec::Body;
use crate::dispatch;
use crate::lent::LentParts;
use crate::limits::SHARED_BYTES_MIN;
use crate::options;
use crate::status::Status;

/// A call or one-way message that came in, with the buffer that holds it.
pub(crate) struct Arrival {
    pub(crate) event: Event,
    pub(crate) buffer: Vec<u8>,
    /// What of it lies in memory of the peer.
    pub(crate) lent: Option<Box<LentParts>>,
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

/// Why there is no message.
pub(super) enum Unreceived {
    /// None by the deadline.
    Nothing,
    /// The channel is of no further use.
    Channel(ReceiveError),
    /// The peer broke the rules.
    Protocol(ProtocolError),
}

impl Link {
    /// Receives one message and treats it, which may run a service. Waits until `until` at most.
    #[inline]
    pub(crate) fn take_message(self: &Rc<Self>, until: Deadline) -> Took {
        self.take_message_spinning(until, 1)
    }

    /// As [`take_message`](Self::take_message); under `Deadline::Now` looks so many times.
    #[inline]
    pub(crate) fn take_message_spinning(self: &Rc<Self>, until: Deadline, looks: u32) -> Took {
        if self.has_postponed.get()
            && let Some(Arrival { event, mut buffer, lent }) = self.take_postponed()
        {
            // It may have been given up since.
            if !matches!(event, Event::Call { call, .. } if !self.is_wanted(call)) {
                self.lent.set(lent);
                self.treat(&event, &mut buffer);
            }
            self.core.buffers.give(buffer);
            return Took::Message;
        }
        let mut buffer = self.core.buffers.take();
        // Matched where it lies: an event is large, and moving it costs more than reading it.
        let received = self.receive(&mut buffer, until, looks);
        let took = match &received {
            Ok(Some(event)) => {
                self.treat(event, &mut buffer);
                Took::Message
            }
            Ok(None) => Took::Message,
            Err(Unreceived::Nothing) => Took::Nothing,
            Err(Unreceived::Channel(error)) => {
                self.receive_failed(error);
                Took::Gone
            }
            Err(Unreceived::Protocol(error)) => {
                self.misbehaved(*error);
                Took::Gone
            }
        };
        self.core.buffers.give(buffer);
        if self.owes_look.take() {
            self.look_after_answer();
        }
        if self.has_postponed.get() && self.is_gone() {
            self.serve_postponed();
        }
        took
    }

    /// What a service found when it looked ahead until the end of the connection. Nobody else comes
    /// back to it, and one-way messages were sent.
    #[cold]
    fn serve_postponed(self: &Rc<Self>) {
        while let Some(Arrival { event, mut buffer, lent }) = self.take_postponed() {
            self.lent.set(lent);
            self.treat(&event, &mut buffer);
            self.core.buffers.give(buffer);
        }
    }

    /// After an answer of the protocol's own: a peer may ask for one with each message that it
    /// sends, such as a ping, and read none.
    #[cold]
    fn look_after_answer(self: &Rc<Self>) {
        self.take_events();
        if self.inner.borrow().outbox.is_overfull() {
            self.never_reads();
        }
    }

    #[cold]
    fn take_postponed(&self) -> Option<Arrival> {
        let mut postponed = self.postponed.borrow_mut();
        let first = postponed.pop_front();
        self.has_postponed.set(!postponed.is_empty());
        first
    }

    /// Looks whether a cancellation has come; calls that came before it wait for their turn.
    pub(crate) fn look_ahead(self: &Rc<Self>) {
        for _ in 0..LOOK_AHEAD_MESSAGES_MAX {
            if self.postpones_enough() {
                return self.look_for_hang_up();
            }
            let mut buffer = self.core.buffers.take();
            match self.receive(&mut buffer, Deadline::Now, 1) {
                Ok(Some(event @ (Event::Call { .. } | Event::Oneway { .. }))) => {
                    let lent = self.lent.take();
                    self.postponed.borrow_mut().push_back(Arrival { event, buffer, lent });
                    self.has_postponed.set(true);
                    self.core.touched(self, Time::NEVER);
                    continue;
                }
                Ok(Some(event)) => self.treat(&event, &mut buffer),
                Ok(None) if self.owes_look.take() => self.look_after_answer(),
                Ok(None) => {}
                Err(Unreceived::Nothing) => return self.core.buffers.give(buffer),
                Err(Unreceived::Channel(error)) => return self.receive_failed(&error),
                Err(Unreceived::Protocol(error)) => return self.misbehaved(error),
            }
            self.core.buffers.give(buffer);
        }
    }

    fn postpones_enough(&self) -> bool {
        let postponed = self.postponed.borrow();
        let bytes: usize = postponed.iter().map(|arrival| arrival.buffer.len()).sum();
        postponed.len() >= LOOK_AHEAD_MESSAGES_MAX || bytes >= LOOK_AHEAD_BYTES_MAX
    }

    /// What the peer has sent cannot be looked through any more, but its end can still be seen.
    #[cold]
    fn look_for_hang_up(self: &Rc<Self>) {
        let looked = self.with_endpoint(|endpoint| {
            poll::poll_one(endpoint.control_fd(), poll::Interest::HangUp, Some(Duration::ZERO))
        });
        if let Ok(Some(_)) = looked {
            self.receive_failed(&ReceiveError::PeerGone);
        }
    }

    /// Whether calls wait that `look_ahead` has found.
    pub(crate) fn has_postponed(&self) -> bool {
        self.has_postponed.get()
    }

    /// One message into `buffer`: its event, if it has one.
    #[inline(always)]
    fn receive(
        self: &Rc<Self>,
        buffer: &mut Vec<u8>,
        until: Deadline,
        looks: u32,
    ) -> Result<Option<Event>, Unreceived> {
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        let mut looks_left = looks;
        let message_bytes = loop {
            match inner.endpoint.receive_vec(buffer, until) {
                Ok(message_bytes) => break message_bytes,
                Err(ReceiveError::Empty) if looks_left > 1 => {
                    looks_left -= 1;
                    std::hint::spin_loop();
                }
                Err(ReceiveError::Empty) => return Err(Unreceived::Nothing),
                // The channel has judged the length: it is below the limit of the connection.
                Err(ReceiveError::DoesNotFit { message_bytes }) => {
                    let is_small = (buffer.len()..=SMALL_BYTES_MAX).contains(&message_bytes);
                    match is_small {
                        true => self.core.buffers.grow(buffer, message_bytes),
                        false => self.lend(&mut inner.endpoint, message_bytes),
                    }
                }
                Err(ReceiveError::Aborted) => return Ok(None),
                Err(error) => return Err(Unreceived::Channel(error)),
            }
        };
        let message = &buffer[..message_bytes];
        let now = match Connection::needs_time(message) {
            true => options::now(),
            false => Time::from_ns(0),
        };
        let event = inner.wire.handle_message(now, message, message_bytes);
        if inner.wire.has_transmit() {
            self.answer_by_itself(inner);
        }
        let event = event.map_err(Unreceived::Protocol);
        if has_references(&buffer[..message_bytes]) {
            return self.borrow(inner, event?, buffer, message_bytes);
        }
        event
    }

    /// Has a message that comes in parts collected in a buffer of ours.
    #[cold]
    fn lend(&self, endpoint: &mut Endpoint, message_bytes: usize) {
        let mut buffer = self.core.buffers.take_large(message_bytes);
        endpoint.lend(&mut buffer);
        self.core.buffers.give(buffer);
    }

    /// Sends what the protocol answers by itself, and has its events looked at afterwards.
    #[cold]
    fn answer_by_itself(self: &Rc<Self>, inner: &mut Inner) {
        // A channel that fails here fails the next receive as well.
        let _ = inner.send_own(Deadline::Now);
        self.owes_look.set(true);
        self.core.touched(self, Time::NEVER);
    }

    #[inline(always)]
    fn treat(self: &Rc<Self>, event: &Event, buffer: &mut Vec<u8>) {
        match *event {
            Event::Call { call, object, method, deadline, payload } => {
                let what = dispatch::Arrived { call: Some(call), object, method, deadline };
                self.serve(&what, payload, buffer);
            }
            Event::Oneway { object, method, deadline, payload } => {
                let what = dispatch::Arrived { call: None, object, method, deadline };
                self.serve(&what, payload, buffer);
            }
            Event::Ended { call, end: End::Reply(payload) } => {
                let start = HEADER_BYTES + usize::from(payload.metadata_bytes);
                let body = start..payload.message_bytes();
                let lent = if payload.references { self.lent.take() } else { None };
                self.ended(call, Ok(Reply { buffer: std::mem::take(buffer), body, lent }));
            }
            Event::Ended { call, end: End::Error { status, payload } } => {
                self.ended(call, Err(Status::from_peer(status, parts(buffer, payload).1)));
            }
            event => self.treat_rare(event),
        }
    }

    #[inline(always)]
    fn serve(self: &Rc<Self>, what: &dispatch::Arrived, payload: Payload, buffer: &mut Vec<u8>) {
        if payload.message_bytes() >= SHARED_BYTES_MIN || payload.references {
            return self.serve_large(what, payload, buffer);
        }
        let (metadata, body) = parts(buffer, payload);
        dispatch::serve(self, what, metadata, Body::copied(body));
    }

    #[inline(never)]
    fn serve_large(
        self: &Rc<Self>,
        what: &dispatch::Arrived,
        payload: Payload,
        buffer: &mut Vec<u8>,
    ) {
        let start = HEADER_BYTES + usize::from(payload.metadata_bytes);
        if let Some(lent) = self.lent.take() {
            let body = Body::lent(&buffer[lent.rest.clone()], &lent);
            return dispatch::serve(self, what, &buffer[HEADER_BYTES..start], body);
        }
        let whole = self.core.buffers.share(std::mem::take(buffer), payload.message_bytes());
        dispatch::serve(self, what, &whole[HEADER_BYTES..start], Body::sliced(&whole, start));
    }

    #[cold]
    fn treat_rare(self: &Rc<Self>, event: Event) {
        match event {
            Event::Opened(peer) => {
                self.peer_instance.set(Some(peer.instance));
                self.message_bytes_max.set(peer.message_bytes_max);
            }
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
        let waker = waker.clone();
        let before = self.calls.borrow_mut().wake_at_end(ticket, waker);
        drop(before);
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
    pub(crate) fn with_endpoint<T>(&self, use_it: impl FnOnce(&mut Endpoint) -> T) -> T {
        use_it(&mut self.inner.borrow_mut().endpoint)
    }

    #[cold]
    fn receive_failed(self: &Rc<Self>, error: &ReceiveError) {
        self.cut_off(Status::unavailable(match error {
            ReceiveError::PeerGone => format!("{} went away", self.name),
            _ => format!("the connection to {} failed: {error}", self.name),
        }));
    }

    #[cold]
    fn misbehaved(self: &Rc<Self>, error: ProtocolError) {
        self.cut_off(Status::internal(format!("{} {error}; the connection is closed", self.name)));
    }
}

/// Metadata and body of a message.
#[inline]
fn parts(buffer: &[u8], payload: Payload) -> (&[u8], &[u8]) {
    let rest = &buffer[HEADER_BYTES..payload.message_bytes()];
    rest.split_at(payload.metadata_bytes.into())
}

/// The same in bytes: two messages of the largest default size.
const LOOK_AHEAD_BYTES_MAX: usize = 8 << 20;

/// Calls that wait while a service looks for its cancellation. A service that looks often must not
/// take more than a channel would hold.
const LOOK_AHEAD_MESSAGES_MAX: usize = 64;
