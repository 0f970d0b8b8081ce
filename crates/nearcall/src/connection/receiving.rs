//! Receiving over a connection: one message at a time, judged once, returned as an event.
//!
//! A message is copied once, out of the channel into a buffer of ours, also while its sender still
//! writes; a reply keeps that buffer until its caller takes it, and long `bytes` fields of a long
//! message are slices of it.
//! **Invariants:** the peer's bytes are looked at only in our copy; no service runs in here.
//! **Not here:** what a service does with a call (`services/dispatch.rs`), waiting for several
//! connections (`reactor.rs`).

use std::time::Duration;

use nearcall_channel::account::{self, Exceeded};
use nearcall_channel::limits::CONNECTION_BYTES;
use nearcall_channel::{Endpoint, Interest, ReceiveError};
use nearcall_os::poll;
use nearcall_wire::{
    CallId, End, Event as ProtocolEvent, Frame, HEADER_BYTES, IncomingCall, Kind, OutgoingCall,
    Payload, ProtocolError, Shape, Time, has_references, needs_time, timeout_ns,
};

use super::calls::Reply;
use super::old_channel::receiver;
use super::{Connection, Host, Inner, RoomWanted};
use crate::borrowed::BorrowedSegments;
use crate::connection::buffer_pool::SMALL_BYTES_MAX;
use crate::deadline::{self, Deadline};
use crate::instance::own_thread;
use crate::limits::{CALL_BYTES, LOOK_AHEAD_BYTES_MAX, LOOK_AHEAD_MESSAGES_MAX};
use crate::nesting::Origin;
use crate::refusals::RefusalKind;
use crate::reservation::{Reservation, refuse};
use crate::status::{Code, Status};

/// The outcome of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// No message by the deadline.
    Empty,
    /// No message, and never again: the connection has ended.
    Closed,
    /// A message that needs no service and was handled.
    Handled,
    /// A call or one-way message, in the inline buffer.
    Call(RequestHead, Payload),
    /// Calls wait in the queue: [`Connection::take_inbound`].
    Queued,
    /// The reply or the item that was waited for; what it carries is in this part of the inline
    /// buffer.
    Reply(usize, usize),
}

/// A call or one-way message, without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestHead {
    /// None of a one-way message.
    pub(crate) call: Option<IncomingCall>,
    pub(crate) object: u64,
    pub(crate) method: u32,
    pub(crate) deadline: Deadline,
    pub(crate) shape: Shape,
}

/// A call or one-way message with the buffer that holds it.
pub(crate) struct InboundCall {
    pub(crate) head: RequestHead,
    pub(crate) payload: Payload,
    pub(crate) buffer: Vec<u8>,
    /// The part of it that lies in memory of the peer.
    pub(crate) borrowed: Option<Box<BorrowedSegments>>,
    /// Of its bytes, if it was received ahead of its turn.
    pub(crate) reservation: Reservation,
}

/// Why there is no message.
pub(super) enum Unreceived {
    /// The channel is of no further use.
    Channel(ReceiveError),
    /// The peer broke the protocol.
    Protocol(ProtocolError),
}

impl<H: Host> Connection<H> {
    /// Receives one message and judges it. Waits until `deadline` at most. The reply to `wanted`
    /// ends and releases that call where it was received; any other reply is kept for its caller.
    #[inline(always)]
    pub(crate) fn receive(
        &self,
        deadline: Deadline,
        buf: &mut [u8],
        wanted: Option<OutgoingCall>,
    ) -> Event {
        if self.has_inbound.get() {
            return Event::Queued;
        }
        let mut inner = self.inner.borrow_mut();
        let message_bytes = match inner.receiver().receive_small(buf, deadline) {
            Ok(message_bytes) => message_bytes,
            Err(ReceiveError::Empty) => return Event::Empty,
            Err(error) => {
                drop(inner);
                return event_of(self.receive_large(&error, deadline));
            }
        };
        inner.traffic.received.count(message_bytes);
        self.host.note_received(message_bytes);
        // The commonest messages first, by a way on which nothing is moved through memory.
        let message = &buf[..message_bytes];
        if let Some(plain) = inner.protocol.handle_plain(message, message_bytes) {
            let payload = plain.payload;
            if plain.kind != Kind::Reply {
                let (object, method) = (plain.object, plain.method);
                let call = (plain.kind == Kind::Call).then(|| plain.incoming_call());
                let (deadline, shape) = (Deadline::NEVER, Shape::Unary);
                return Event::Call(RequestHead { call, object, method, deadline, shape }, payload);
            }
            let call = plain.outgoing_call();
            if Some(call) == wanted {
                inner.protocol.release(call);
                let start = HEADER_BYTES + usize::from(payload.metadata_bytes);
                return Event::Reply(start, message_bytes);
            }
            drop(inner);
            self.keep_reply(call, payload, self.copy_of(message), None);
            return Event::Handled;
        }
        drop(inner);
        match self.handle_small(message) {
            Slow::Call(head, payload) => Event::Call(head, payload),
            other => event_of(other),
        }
    }

    /// As [`receive`](Self::receive), for the reader of the items of `wanted` that has read all
    /// that were received: an item that is small is left where it was received.
    #[inline]
    pub(crate) fn receive_item(
        &self,
        deadline: Deadline,
        buf: &mut [u8],
        wanted: OutgoingCall,
    ) -> Event {
        if self.has_inbound.get() {
            return Event::Queued;
        }
        let received = {
            let inner = &mut *self.inner.borrow_mut();
            let received = inner.receiver().receive_small(buf, deadline);
            received.inspect(|message_bytes| inner.traffic.received.count(*message_bytes))
        };
        let message = match received {
            Ok(message_bytes) => &buf[..message_bytes],
            Err(ReceiveError::Empty) => return Event::Empty,
            Err(error) => return event_of(self.receive_large(&error, deadline)),
        };
        if message.get(1) != Some(&(Kind::Item as u8)) {
            return event_of(self.handle_small(message));
        }
        match self.judge(message) {
            Ok(Some(ProtocolEvent::Item { call, .. })) if call == wanted.into() => {
                Event::Reply(HEADER_BYTES, message.len())
            }
            Ok(Some(ProtocolEvent::Item { call, .. })) => {
                self.keep_item(call, message);
                Event::Handled
            }
            Ok(_) => Event::Handled,
            Err(error) => event_of(self.protocol_violation(error, message)),
        }
    }

    /// Handles a small message that is neither a plain call nor a plain reply.
    #[inline(never)]
    fn handle_small(&self, message: &[u8]) -> Slow {
        if has_references(message) {
            return self.handle_message(self.copy_of(message), message.len(), false);
        }
        match self.judge(message) {
            Ok(Some(ProtocolEvent::Item { call, .. })) => {
                self.keep_item(call, message);
                Slow::Handled
            }
            Ok(Some(event)) => match request_of(&event) {
                Some((head, payload)) => {
                    self.note_request(&head);
                    Slow::Call(head, payload)
                }
                None => {
                    self.handle_event(&event, message);
                    Slow::Handled
                }
            },
            Ok(None) => Slow::Handled,
            Err(error) => self.protocol_violation(error, message),
        }
    }

    /// Receives a message that is not small or has not come whole, or finds that none comes.
    #[inline(never)]
    fn receive_large(&self, error: &ReceiveError, deadline: Deadline) -> Slow {
        if !matches!(error, ReceiveError::DoesNotFit { .. }) {
            return self.not_received(error);
        }
        let mut buffer = self.buffers.take();
        match self.receive_bytes(&mut buffer, deadline) {
            Ok(message_bytes) => {
                self.host.note_received(message_bytes);
                self.handle_message(buffer, message_bytes, false)
            }
            Err(error) => {
                self.buffers.give(buffer);
                self.not_received(&error)
            }
        }
    }

    /// Receives one message into `buffer` and returns its length.
    fn receive_bytes(
        &self,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        let Inner { endpoint, old, receiving, traffic, .. } = &mut *self.inner.borrow_mut();
        let endpoint = receiver(endpoint, old);
        loop {
            match endpoint.receive_vec(buffer, deadline) {
                Err(ReceiveError::DoesNotFit { message_bytes }) => {
                    if message_bytes > CONNECTION_BYTES {
                        account::resize(receiving, message_bytes)?;
                    }
                    self.make_room(endpoint, buffer, message_bytes)?;
                }
                Ok(message_bytes) => {
                    if message_bytes > CONNECTION_BYTES {
                        // It is whole, and at most one of a thread is.
                        account::resize(receiving, 0)?;
                    }
                    traffic.received.count(message_bytes);
                    return Ok(message_bytes);
                }
                outcome => return outcome,
            }
        }
    }

    /// Makes room for a message that does not fit, or comes in parts. The channel has judged the
    /// length: it is below the limit of the connection.
    #[cold]
    fn make_room(
        &self,
        endpoint: &mut Endpoint,
        buffer: &mut Vec<u8>,
        message_bytes: usize,
    ) -> Result<(), ReceiveError> {
        if buffer.len() < message_bytes && message_bytes <= SMALL_BYTES_MAX {
            self.buffers.grow(buffer, message_bytes).map_err(ReceiveError::Os)?;
        } else {
            // Has a message that comes in parts collected in a buffer of ours.
            let mut large = self.buffers.take_large(message_bytes);
            endpoint.swap_buffer(&mut large);
            self.buffers.give(large);
        }
        Ok(())
    }

    /// Judges a message in `buffer`: queues a call, handles everything else. A call ahead of its
    /// turn is charged.
    fn handle_message(&self, mut buffer: Vec<u8>, message_bytes: usize, is_ahead: bool) -> Slow {
        let mut borrowed = None;
        let mut event = match self.judge(&buffer[..message_bytes]) {
            Ok(event) => event,
            Err(error) => {
                let closed = self.protocol_violation(error, &buffer[..message_bytes]);
                self.buffers.give(buffer);
                return closed;
            }
        };
        if has_references(&buffer[..message_bytes]) {
            match self.borrow_segments(event, &mut buffer, message_bytes) {
                Ok(whole) => (event, borrowed) = whole,
                Err(error) => {
                    let closed = match error {
                        Unreceived::Channel(error) => self.receive_failed(&error),
                        Unreceived::Protocol(error) => {
                            self.protocol_violation(error, &buffer[..message_bytes])
                        }
                    };
                    // The protocol has ended a call whose reply this was, and does so once.
                    if let Some(ProtocolEvent::Ended { call, .. }) = event {
                        self.complete(call, Err(self.close_reason()));
                    }
                    self.buffers.give(buffer);
                    return closed;
                }
            }
        }
        match event {
            Some(ProtocolEvent::Ended { call, end: End::Reply(payload) }) => {
                self.keep_reply(call, payload, buffer, borrowed);
                return Slow::Handled;
            }
            Some(ProtocolEvent::Item { call, .. }) => {
                self.keep_large_item(call, buffer, message_bytes);
                return Slow::Handled;
            }
            Some(event) => {
                if let Some((head, payload)) = request_of(&event) {
                    self.note_request(&head);
                    let reservation = Reservation::default();
                    let inbound = InboundCall { head, payload, buffer, borrowed, reservation };
                    return self.queue_inbound(inbound, is_ahead);
                }
                self.handle_event(&event, &buffer);
            }
            None => {}
        }
        self.buffers.give(buffer);
        Slow::Handled
    }

    /// Queues a call, unless it is ahead of its turn and its user may not have it wait so.
    fn queue_inbound(&self, mut inbound: InboundCall, is_ahead: bool) -> Slow {
        if let Some(memory) = self.memory.as_ref().filter(|_| is_ahead) {
            let lent = inbound.borrowed.as_ref().map_or(0, |borrowed| borrowed.parts_bytes());
            match memory.reserve(inbound.buffer.len() + lent + CALL_BYTES) {
                Ok(reservation) => inbound.reservation = reservation,
                Err(exceeded) => {
                    self.buffers.give(inbound.buffer);
                    let status = self.exceeded(&exceeded);
                    if let Some(call) = inbound.head.call {
                        self.fail(call, &status);
                    }
                    return Slow::Handled;
                }
            }
        }
        self.inbound.borrow_mut().push_back(inbound);
        self.has_inbound.set(true);
        Slow::Queued
    }

    /// Returns the status of a call that would hold more than its user may, and counts the refusal.
    #[cold]
    pub(super) fn exceeded(&self, exceeded: &Exceeded) -> Status {
        refuse(exceeded, |kind, why| self.note_refusal(kind, why))
    }

    /// Prepares for the items of a call that streams: they may come before it has its turn.
    #[inline]
    fn note_request(&self, head: &RequestHead) {
        if let (Some(call), true) = (head.call, head.shape != Shape::Unary) {
            self.open_incoming_stream(call, head.shape);
        }
    }

    /// Judges a message by the protocol, which may have something to reply by itself.
    fn judge(&self, message: &[u8]) -> Result<Option<ProtocolEvent>, ProtocolError> {
        let now = match needs_time(message) {
            true => {
                self.check_timeout(timeout_ns(message));
                deadline::to_wire(deadline::now())
            }
            false => Time::from_ns(0),
        };
        let mut inner = self.inner.borrow_mut();
        let event = inner.protocol.handle_message(now, message, message.len());
        if inner.protocol.has_transmit() {
            self.reply_to_control(&mut inner);
        }
        event
    }

    /// Counts the first call that asks for more than the longest deadline that the server grants.
    #[inline]
    fn check_timeout(&self, timeout_ns: u64) {
        if Duration::from_nanos(timeout_ns) > self.deadline_max
            && self.refusals.is_some()
            && !self.has_capped.replace(true)
        {
            let max = self.deadline_max;
            let why = format!("a call asked for {timeout_ns} ns and got the longest, {max:?}");
            self.note_refusal(RefusalKind::DeadlineCapped, &why);
        }
    }

    /// Sends what the protocol replies by itself, and has its events handled afterwards.
    #[cold]
    fn reply_to_control(&self, inner: &mut Inner) {
        // A channel that fails here fails the next receive as well.
        let _ = inner.send_control(Deadline::NOW);
        self.owes_events.set(true);
        self.touch(Deadline::NEVER);
    }

    /// Handles an event that is neither a call nor a reply.
    #[cold]
    fn handle_event(&self, event: &ProtocolEvent, message: &[u8]) {
        match *event {
            ProtocolEvent::Ended { call, end: End::Reply(payload) } => {
                self.keep_reply(call, payload, self.copy_of(message), None);
            }
            ProtocolEvent::Ended { call, end: End::Error { status, payload } } => {
                let (metadata, text) = split_payload(message, payload);
                let status = Status::from_peer(status, metadata, text);
                // The peer ends a late call without a text.
                let is_late = status.code() == Code::DeadlineExceeded && text.is_empty();
                self.complete(call, Err(if is_late { self.late() } else { status }));
            }
            ProtocolEvent::Ended { call, end: End::Refused } => {
                self.complete(call, Err(self.not_begun()));
            }
            ProtocolEvent::Opened(peer) => {
                self.peer_instance.set(Some(peer.instance));
                // By the kernel's word: any peer may greet so.
                if peer.instance == own_thread() && self.peer.is_this_process() {
                    self.origin.set(Origin::OWN);
                }
                self.message_bytes_max.set(peer.message_bytes_max);
                self.metadata_bytes_max.set(peer.metadata_bytes_max);
            }
            ProtocolEvent::Drained => self.close(self.close_reason()),
            ProtocolEvent::PeerDrained => {
                self.peer_drains.set(true);
                self.close(self.close_reason());
            }
            ProtocolEvent::PeerDrains => {
                self.peer_drains.set(true);
                self.handle_events();
            }
            ProtocolEvent::Cancelled { call, reason } => self.end_incoming(call, reason),
            ProtocolEvent::Switch(event) => self.handle_switch(event),
            ProtocolEvent::HalfClosed { call } => self.note_half_close(call),
            ProtocolEvent::Credit { call } => self.note_credit(call),
            ProtocolEvent::Headers { call, payload } => {
                self.note_headers(call, split_payload(message, payload).0);
            }
            // Of a pong it counts that the next ping is allowed.
            _ => {}
        }
    }

    /// Keeps a reply for its caller.
    fn keep_reply(
        &self,
        call: OutgoingCall,
        payload: Payload,
        buffer: Vec<u8>,
        borrowed: Option<Box<BorrowedSegments>>,
    ) {
        let start = HEADER_BYTES + usize::from(payload.metadata_bytes);
        let body = start..payload.message_bytes();
        self.complete(call, Ok(Reply { buffer, body, borrowed, headers: None }));
    }

    /// Returns the same in a buffer that can be kept.
    #[inline(always)]
    fn copy_of(&self, message: &[u8]) -> Vec<u8> {
        let mut buffer = self.buffers.take();
        buffer[..message.len()].copy_from_slice(message);
        buffer
    }

    /// Handles what a message may have left, after its service has run.
    #[inline]
    pub(crate) fn finish_message(&self) {
        if self.owes_events.take() {
            self.handle_events();
        }
    }

    /// Polls up to `spins` times whether there may be a message.
    #[inline]
    pub(crate) fn poll_ready(&self, spins: u32) -> bool {
        self.has_inbound.get() || self.inner.borrow_mut().receiver().poll_ready(spins)
    }

    /// Returns whether calls wait in the queue.
    #[inline]
    pub(crate) fn has_inbound(&self) -> bool {
        self.has_inbound.get()
    }

    /// Takes the first call of the queue.
    #[cold]
    pub(crate) fn take_inbound(&self) -> Option<InboundCall> {
        let mut inbound = self.inbound.borrow_mut();
        let first = inbound.pop_front();
        self.has_inbound.set(!inbound.is_empty());
        first
    }

    /// Receives what has come, to find out whether a call was cancelled, or while room is waited
    /// for; calls that came before the cancellation wait in the queue. A peer that has to read
    /// first is only asked whether it is gone. Returns whether there was anything.
    pub(crate) fn look_ahead(&self) -> bool {
        // A wait inside the service may have armed the connection.
        self.touch(Deadline::NEVER);
        for taken in 0..LOOK_AHEAD_MESSAGES_MAX {
            if self.is_queue_full() || self.is_paused() {
                self.check_hang_up();
                return taken > 0;
            }
            let mut buffer = self.buffers.take();
            match self.receive_bytes(&mut buffer, Deadline::NOW) {
                Ok(message_bytes) => match self.handle_message(buffer, message_bytes, true) {
                    Slow::Queued => {}
                    Slow::Closed => return true,
                    _ => self.finish_message(),
                },
                Err(ReceiveError::Aborted) => self.buffers.give(buffer),
                Err(error) => {
                    self.buffers.give(buffer);
                    if !matches!(error, ReceiveError::Empty) {
                        self.receive_failed(&error);
                    }
                    return taken > 0;
                }
            }
        }
        true
    }

    fn is_queue_full(&self) -> bool {
        let inbound = self.inbound.borrow();
        let bytes: usize = inbound.iter().map(|call| call.buffer.len()).sum();
        inbound.len() >= LOOK_AHEAD_MESSAGES_MAX || bytes >= LOOK_AHEAD_BYTES_MAX
    }

    /// Finds out whether the peer is gone: what it has sent cannot be looked through any more, but
    /// its end can still be seen.
    #[cold]
    fn check_hang_up(&self) {
        let polled = self.with_endpoint(|endpoint| {
            poll::poll_one(endpoint.control_fd(), poll::Interest::HangUp, Deadline::NOW)
        });
        if let Ok(Some(_)) = polled {
            self.receive_failed(&ReceiveError::PeerGone);
        }
    }

    /// Announces a sleep on the channel's descriptor, for room only while the peer has to read
    /// first. False: receive first, or send on.
    #[inline]
    pub(crate) fn arm(&self) -> bool {
        let is_paused = self.is_paused();
        if self.has_inbound() && !is_paused {
            return false;
        }
        let mut inner = self.inner.borrow_mut();
        let has_no_room = match (inner.room_wanted(), &mut inner.old) {
            (RoomWanted::Here, _) => inner.receiver().arm(Interest::Send),
            (RoomWanted::Before, Some(old)) => old.endpoint.arm(Interest::Send),
            (RoomWanted::Nowhere | RoomWanted::Before, _) => true,
        };
        has_no_room && (is_paused || inner.receiver().arm(Interest::Receive))
    }

    #[cold]
    fn not_received(&self, error: &ReceiveError) -> Slow {
        match error {
            ReceiveError::Empty => Slow::Empty,
            // A message that its sender has given up was something, too.
            ReceiveError::Aborted => Slow::Handled,
            error => self.receive_failed(error),
        }
    }

    #[cold]
    fn receive_failed(&self, error: &ReceiveError) -> Slow {
        let reason = self.failure(matches!(error, ReceiveError::PeerGone), error);
        match error {
            ReceiveError::PeerBroken(_) => self.abort_for(RefusalKind::BROKEN_CHANNEL, reason),
            ReceiveError::Exceeded(exceeded) => {
                let status = self.exceeded(exceeded);
                self.with_endpoint(Endpoint::discard_unsent);
                self.refuse(status);
            }
            _ => self.abort(reason),
        }
        Slow::Closed
    }

    /// Ends the connection to a peer that broke the protocol by `message`. The peer gets the reason
    /// as the error of one of its calls, if it has any.
    #[cold]
    fn protocol_violation(&self, error: ProtocolError, message: &[u8]) -> Slow {
        if !self.is_greeting()
            && let Some(call) = call_id(message)
        {
            self.notify_violation(call, &error);
        }
        let why = format!("{} {error}; the connection is closed", self.name);
        self.abort_for(RefusalKind::ProtocolViolation(error.name()), Status::internal(why));
        Slow::Closed
    }

    /// Ends a call of a peer that broke the protocol with an error that names the reason. Once, and
    /// only if there is room now.
    #[cold]
    pub(super) fn notify_violation(&self, call: CallId, error: &ProtocolError) {
        if self.has_notified.replace(true) {
            return;
        }
        let text = format!("the connection is closed: this peer {error}");
        let inner = &mut *self.inner.borrow_mut();
        let message_bytes_max = self.message_bytes_max.get() as usize;
        let text_bytes = text.len().min(message_bytes_max.saturating_sub(HEADER_BYTES));
        let payload = Payload::new(0, text_bytes).unwrap_or(Payload::EMPTY);
        let head = Frame::Error { id: call, status: Code::Internal, payload }.encode();
        if inner.outbox.is_empty() && !inner.unflushed {
            let notice = [&head, &text.as_bytes()[..text_bytes]].concat();
            // The connection ends in any case.
            let _ = inner.endpoint.send(&notice, Deadline::NOW);
            let _ = inner.endpoint.flush(Deadline::NOW);
        }
    }
}

/// Returns the id in the header of a call, whatever is wrong with the message.
fn call_id(message: &[u8]) -> Option<CallId> {
    let is_call = message.len() >= HEADER_BYTES && message[1] == Kind::Call as u8;
    let word = message.get(16..24)?.first_chunk()?;
    is_call.then(|| CallId::from_word(u64::from_le_bytes(*word)))
}

/// The outcome of the slow paths of receiving. A type of its own, so that an [`Event`] is made
/// where it is matched, and stays in registers.
enum Slow {
    Empty,
    Closed,
    Handled,
    Queued,
    Call(RequestHead, Payload),
}

#[inline(always)]
fn event_of(slow: Slow) -> Event {
    match slow {
        Slow::Empty => Event::Empty,
        Slow::Closed => Event::Closed,
        Slow::Handled => Event::Handled,
        Slow::Queued => Event::Queued,
        Slow::Call(head, payload) => Event::Call(head, payload),
    }
}

/// The call or one-way message that an event is, if it is one.
#[inline]
fn request_of(event: &ProtocolEvent) -> Option<(RequestHead, Payload)> {
    match *event {
        ProtocolEvent::Call { call, object, method, deadline, payload, shape } => {
            let (call, deadline) = (Some(call), deadline::from_wire(deadline));
            Some((RequestHead { call, object, method, deadline, shape }, payload))
        }
        ProtocolEvent::Oneway { object, method, deadline, payload } => {
            let deadline = deadline::from_wire(deadline);
            let (call, shape) = (None, Shape::Unary);
            Some((RequestHead { call, object, method, deadline, shape }, payload))
        }
        _ => None,
    }
}

/// Returns metadata and body of a message.
#[inline]
pub(crate) fn split_payload(message: &[u8], payload: Payload) -> (&[u8], &[u8]) {
    let rest = &message[HEADER_BYTES..payload.message_bytes()];
    rest.split_at(payload.metadata_bytes.into())
}
