//! Receiving over a connection: one message at a time, judged, then treated while it is at hand.
//!
//! A message is copied once, out of the channel into a buffer of ours, also while its sender still
//! writes; a reply keeps that buffer until who asked for it takes it, and long `bytes` fields of a
//! long message are slices of it. Always true: the peer's bytes are looked at only in our copy.
//! Not here: what a service does with a call (`dispatch.rs`), waiting for several connections
//! (`reactor.rs`).

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use nearcall_channel::{Deadline, Endpoint, Interest, ReceiveError};
use nearcall_os::poll;
use nearcall_wire::{
    Connection, End, Event, HEADER_BYTES, OutgoingCall, Payload, ProtocolError, TakenCall, Time,
    has_references,
};

use super::calls::{Outcome, Reply, Ticket};
use super::sending::SMALL_BYTES;
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

/// Room for a small message, on the stack.
pub(crate) type Near = [u8; NEAR_BYTES];

/// An empty one.
pub(crate) const NEAR: Near = [0; NEAR_BYTES];

/// How long a small message is, in bytes: as what is sent in one step.
const NEAR_BYTES: usize = SMALL_BYTES;

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
    pub(crate) fn take_message(self: &Rc<Self>, until: Deadline) -> Took {
        let mut near = NEAR;
        match self.take_near(until, &mut near, None) {
            Ok(_) => Took::Message,
            Err(took) => took,
        }
    }

    /// As [`take_message`](Self::take_message), for who waits for the reply to `wanted`: where in
    /// `near` the result is, if that is what has come.
    #[inline]
    pub(crate) fn take_reply(
        self: &Rc<Self>,
        until: Deadline,
        near: &mut Near,
        wanted: &Ticket,
    ) -> Result<Range<usize>, Took> {
        self.take_near(until, near, Some(wanted.call))
    }

    #[inline(always)]
    fn take_near(
        self: &Rc<Self>,
        until: Deadline,
        near: &mut Near,
        wanted: Option<OutgoingCall>,
    ) -> Result<Range<usize>, Took> {
        if self.has_postponed.get() {
            return Err(self.serve_first_postponed(until));
        }
        let mut inner = self.inner.borrow_mut();
        let message_bytes = match inner.endpoint.receive_small(near, until) {
            Ok(message_bytes) => message_bytes,
            Err(ReceiveError::Empty) => return Err(Took::Nothing),
            Err(ReceiveError::DoesNotFit { .. }) => {
                drop(inner);
                return Err(self.take_far(until));
            }
            Err(error) => {
                drop(inner);
                return Err(self.not_received(&error));
            }
        };
        // The commonest messages first, by a way on which nothing is moved through memory.
        let message = &near[..message_bytes];
        if let Some(taken) = inner.wire.take_call(message, message_bytes) {
            drop(inner);
            let TakenCall { call, object, method, payload } = taken;
            let deadline = Time::NEVER;
            let what = dispatch::Arrived { call: Some(call), object, method, deadline };
            let (metadata, body) = parts(message, payload);
            dispatch::serve(self, &what, metadata, Body::copied(body));
            return Err(self.after_message());
        }
        if let Some((call, payload)) = inner.wire.take_reply(message, message_bytes) {
            drop(inner);
            if Some(call) == wanted {
                let start = HEADER_BYTES + usize::from(payload.metadata_bytes);
                return Ok(start..message_bytes);
            }
            self.replied(call, payload, &mut self.copy_of(message));
            return Err(Took::Message);
        }
        drop(inner);
        let mut buffer = self.copy_of(message);
        let took = self.take_rare(&mut buffer, message_bytes);
        self.core.buffers.give(buffer);
        match took {
            Took::Message => Err(self.after_message()),
            took => Err(took),
        }
    }

    /// The same in a buffer that can be kept.
    #[inline(always)]
    fn copy_of(&self, message: &[u8]) -> Vec<u8> {
        let mut buffer = self.core.buffers.take();
        buffer[..message.len()].copy_from_slice(message);
        buffer
    }

    /// What the treatment of a message may have left.
    #[inline]
    fn after_message(self: &Rc<Self>) -> Took {
        if self.owes_look.take() {
            self.look_after_answer();
        }
        if self.has_postponed.get() && self.is_gone() {
            self.serve_postponed();
        }
        Took::Message
    }

    /// A message that is not small, or has not come whole.
    #[inline(never)]
    fn take_far(self: &Rc<Self>, until: Deadline) -> Took {
        let mut buffer = self.core.buffers.take();
        let received = self.receive_bytes(&mut buffer, until);
        let took = match received {
            Ok(message_bytes) => self.take_rare(&mut buffer, message_bytes),
            Err(ReceiveError::Empty) => Took::Nothing,
            Err(error) => self.not_received(&error),
        };
        self.core.buffers.give(buffer);
        if took != Took::Nothing {
            self.after_message();
        }
        took
    }

    /// The first of the messages that a service found when it looked ahead.
    #[cold]
    fn serve_first_postponed(self: &Rc<Self>, until: Deadline) -> Took {
        let Some(Arrival { event, mut buffer, lent }) = self.take_postponed() else {
            return self.take_far(until);
        };
        // It may have been given up since.
        if !matches!(event, Event::Call { call, .. } if !self.is_wanted(call)) {
            self.lent.set(lent);
            self.treat(&event, &mut buffer);
        }
        self.core.buffers.give(buffer);
        self.after_message()
    }

    /// A message that is neither a plain call nor a plain reply.
    #[inline(never)]
    fn take_rare(self: &Rc<Self>, buffer: &mut Vec<u8>, message_bytes: usize) -> Took {
        match self.judge(buffer, message_bytes) {
            Ok(Some(event)) => self.treat(&event, buffer),
            Ok(None) => {}
            Err(Unreceived::Protocol(error)) => {
                self.misbehaved(error);
                return Took::Gone;
            }
            Err(Unreceived::Channel(error)) => {
                self.receive_failed(&error);
                return Took::Gone;
            }
            Err(Unreceived::Nothing) => {}
        }
        Took::Message
    }

    #[cold]
    fn not_received(self: &Rc<Self>, error: &ReceiveError) -> Took {
        // A message that its sender has given up was something, too.
        if let ReceiveError::Aborted = error {
            return Took::Message;
        }
        self.receive_failed(error);
        Took::Gone
    }

    /// Looks so many times whether there may be a message.
    #[inline]
    pub(crate) fn has_come(&self, looks: u32) -> bool {
        self.has_postponed.get() || self.inner.borrow_mut().endpoint.poll_ready(looks)
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
            match self.receive(&mut buffer) {
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
    fn receive(self: &Rc<Self>, buffer: &mut Vec<u8>) -> Result<Option<Event>, Unreceived> {
        let received = self.receive_bytes(buffer, Deadline::NOW);
        let message_bytes = match received {
            Ok(message_bytes) => message_bytes,
            Err(ReceiveError::Empty) => return Err(Unreceived::Nothing),
            Err(ReceiveError::Aborted) => return Ok(None),
            Err(error) => return Err(Unreceived::Channel(error)),
        };
        self.judge(buffer, message_bytes)
    }

    /// One message into `buffer`: its length.
    fn receive_bytes(&self, buffer: &mut Vec<u8>, until: Deadline) -> Result<usize, ReceiveError> {
        let endpoint = &mut self.inner.borrow_mut().endpoint;
        loop {
            match endpoint.receive_vec(buffer, until) {
                Err(ReceiveError::DoesNotFit { message_bytes }) => {
                    self.make_room(endpoint, buffer, message_bytes);
                }
                outcome => return outcome,
            }
        }
    }

    /// For a message that does not fit, or comes in parts. The channel has judged the length: it is
    /// below the limit of the connection.
    #[cold]
    fn make_room(&self, endpoint: &mut Endpoint, buffer: &mut Vec<u8>, message_bytes: usize) {
        if buffer.len() < message_bytes && message_bytes <= SMALL_BYTES_MAX {
            self.core.buffers.grow(buffer, message_bytes);
        } else {
            self.lend(endpoint, message_bytes);
        }
    }

    /// What a message is to the protocol, which may have something to answer by itself.
    fn judge(
        self: &Rc<Self>,
        buffer: &mut Vec<u8>,
        message_bytes: usize,
    ) -> Result<Option<Event>, Unreceived> {
        let mut inner = self.inner.borrow_mut();
        let message = &buffer[..message_bytes];
        let now = match Connection::needs_time(message) {
            true => options::now(),
            false => Time::from_ns(0),
        };
        let event = inner.wire.handle_message(now, message, message_bytes);
        if inner.wire.has_transmit() {
            self.answer_by_itself(&mut inner);
        }
        let event = event.map_err(Unreceived::Protocol);
        if has_references(&buffer[..message_bytes]) {
            return self.borrow(&mut inner, event?, buffer, message_bytes);
        }
        event
    }

    /// Has a message that comes in parts collected in a buffer of ours.
    #[cold]
    fn lend(&self, endpoint: &mut Endpoint, message_bytes: usize) {
        let mut buffer = self.core.buffers.take_large(message_bytes);
        endpoint.swap_buffer(&mut buffer);
        self.core.buffers.give(buffer);
    }

    /// Sends what the protocol answers by itself, and has its events looked at afterwards.
    #[cold]
    fn answer_by_itself(self: &Rc<Self>, inner: &mut Inner) {
        // A channel that fails here fails the next receive as well.
        let _ = inner.send_own(Deadline::NOW);
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
                self.replied(call, payload, buffer);
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
            dispatch::serve(self, what, &buffer[HEADER_BYTES..start], body);
            return self.core.buffers.give_lent(lent);
        }
        let whole = self.core.buffers.share(std::mem::take(buffer), payload.message_bytes());
        dispatch::serve(self, what, &whole[HEADER_BYTES..start], Body::sliced(&whole, start));
    }

    #[inline(always)]
    fn replied(&self, call: OutgoingCall, payload: Payload, buffer: &mut Vec<u8>) {
        let start = HEADER_BYTES + usize::from(payload.metadata_bytes);
        let body = start..payload.message_bytes();
        let lent = if payload.references { self.lent.take() } else { None };
        self.ended(call, Ok(Reply { buffer: std::mem::take(buffer), body, lent }));
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
    fn ended(&self, call: OutgoingCall, outcome: Outcome) {
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

    /// Forgets a call whose reply has been read.
    #[inline]
    pub(crate) fn forget(&self, ticket: &Ticket) {
        self.calls.borrow_mut().forget(ticket);
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
