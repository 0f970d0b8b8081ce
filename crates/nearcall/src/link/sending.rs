//! Sending over a connection: requests, answers and what the protocol itself has to say.
//!
//! A message of up to two cache lines is put together on the stack; a longer one is marshalled in
//! place, behind its header; one that the channel takes in several parts goes part by part, so that
//! the receiver copies the first while the next is marshalled.
//! Always true: messages leave in the order in which the protocol made their headers; a header that
//! was made is sent, kept in the outbox, or its call is ended.
//! Not here: waiting until a full channel has room again (`reactor.rs`).

use std::rc::Rc;

use bytes::BufMut;
use nearcall_channel::{Claim, Deadline, SendError};
use nearcall_os::sink::{Sink, SinkBuf};
use nearcall_wire::{
    HEADER_BYTES, IncomingCall, Payload, ReplyError, Request, StartError, Time, Timeout,
};

use super::calls::State;
use super::lending::Gathered;
use super::opening::{Answer, NewCall, NewOneway, Opening};
use super::{Inner, Link, Ticket};
use crate::codec::{self, Message};
use crate::dispatch;
use crate::options;
use crate::status::{Code, Status};

/// What is to be called, and with what beside the message.
pub(crate) struct Outgoing<'a> {
    pub(crate) object: u64,
    pub(crate) method: u32,
    /// When it ends by itself.
    pub(crate) until: Time,
    pub(crate) metadata: &'a [u8],
}

/// Why a message did not leave.
enum Unsent<E> {
    /// The protocol refused it.
    Protocol(E),
    /// No room by the deadline, or too much is waiting already.
    Full,
    /// The channel is of no further use.
    Channel(SendError),
    /// The message cannot be marshalled.
    Message(Status),
}

impl<E> From<Status> for Unsent<E> {
    fn from(status: Status) -> Self {
        Self::Message(status)
    }
}

impl Link {
    /// Starts a call. Waits for room until `until` at most.
    #[inline]
    pub(crate) fn start_call(
        self: &Rc<Self>,
        outgoing: &Outgoing<'_>,
        body: &impl Message,
        until: Deadline,
    ) -> Result<Ticket, Status> {
        if self.lending.may_lend() {
            let send = |body: &Gathered| self.start_call_of(outgoing, body, true, until);
            if let Some(started) = self.lend_with(outgoing.metadata, body, send) {
                return started;
            }
        }
        self.start_call_of(outgoing, body, false, until)
    }

    #[inline(always)]
    fn start_call_of(
        self: &Rc<Self>,
        outgoing: &Outgoing<'_>,
        body: &impl Message,
        lends: bool,
        until: Deadline,
    ) -> Result<Ticket, Status> {
        let Some(opening) = self.request(outgoing, body, lends) else {
            return Err(self.not_sent(outgoing, body));
        };
        let sent = self.inner.borrow_mut().send(&opening, outgoing.metadata, body, until);
        match sent {
            Ok(call) => {
                self.core.touched(self, outgoing.until);
                Ok(self.calls.borrow_mut().started(call))
            }
            Err(unsent) => Err(self.not_started(unsent, outgoing.until)),
        }
    }

    /// Sends a message that is never answered. Waits for room until `until` at most.
    pub(crate) fn send_oneway(
        self: &Rc<Self>,
        outgoing: &Outgoing<'_>,
        body: &impl Message,
        until: Deadline,
    ) -> Result<(), Status> {
        if self.lending.may_lend() {
            let send = |body: &Gathered| self.send_oneway_of(outgoing, body, true, until);
            if let Some(sent) = self.lend_with(outgoing.metadata, body, send) {
                return sent;
            }
        }
        self.send_oneway_of(outgoing, body, false, until)
    }

    #[inline(always)]
    fn send_oneway_of(
        self: &Rc<Self>,
        outgoing: &Outgoing<'_>,
        body: &impl Message,
        lends: bool,
        until: Deadline,
    ) -> Result<(), Status> {
        let Some(NewCall { request, .. }) = self.request(outgoing, body, lends) else {
            return Err(self.not_sent(outgoing, body));
        };
        let opening = NewOneway { request };
        let sent = self.inner.borrow_mut().send(&opening, outgoing.metadata, body, until);
        match sent {
            Ok(()) => {
                self.core.touched(self, Time::NEVER);
                Ok(())
            }
            Err(unsent) => Err(self.not_started(unsent, outgoing.until)),
        }
    }

    /// What to send, unless the connection has ended: `None`, and `not_sent` says why.
    #[inline(always)]
    fn request(
        &self,
        outgoing: &Outgoing<'_>,
        body: &impl Message,
        lends: bool,
    ) -> Option<NewCall> {
        let Payload { metadata_bytes, body_bytes, .. } =
            Payload::new(outgoing.metadata.len(), codec::encoded_bytes(body))?;
        let payload = Payload { metadata_bytes, body_bytes, references: lends };
        if self.is_gone() {
            return None;
        }
        let &Outgoing { object, method, until, .. } = outgoing;
        // Without a deadline nobody asks for the time.
        let (now, timeout) = match until {
            Time::NEVER => (Time::from_ns(0), Timeout::NEVER),
            until => {
                let now = options::now();
                (now, now.until(until))
            }
        };
        Some(NewCall { now, request: Request { object, method, timeout, payload } })
    }

    #[cold]
    fn not_sent(&self, outgoing: &Outgoing<'_>, body: &impl Message) -> Status {
        if self.is_gone() {
            return self.why_gone();
        }
        let bytes = outgoing.metadata.len() + codec::encoded_bytes(body);
        Status::resource_exhausted(format!("a message of {bytes} bytes is above every limit"))
    }

    #[cold]
    fn not_started(self: &Rc<Self>, unsent: Unsent<StartError>, until: Time) -> Status {
        // Room may have been claimed before the protocol refused, and that ends a sleep.
        self.core.touched(self, Time::NEVER);
        match unsent {
            Unsent::Protocol(StartError::Draining | StartError::Closed) => self.why_gone(),
            Unsent::Protocol(error) => {
                Status::new(error.status(), format!("{error}, on the way to {}", self.name))
            }
            Unsent::Full if dispatch::has_passed(until) => Status::deadline_exceeded(format!(
                "{} did not read what was sent before in time; the method has not run",
                self.name
            )),
            Unsent::Full => Status::resource_exhausted(format!(
                "{} does not read what was sent before; try again later",
                self.name
            )),
            Unsent::Message(status) => status,
            Unsent::Channel(error) => {
                self.channel_failed(&error);
                self.why_gone()
            }
        }
    }

    /// Answers a call of the peer. Never waits: what finds no room is kept and sent later.
    #[inline]
    pub(crate) fn reply(self: &Rc<Self>, call: IncomingCall, result: &impl Message) {
        let lent = match self.lending.may_lend() {
            true => self.lend_with(&[], result, |result| self.reply_of(call, result, true)),
            false => None,
        };
        let sent = lent.unwrap_or_else(|| self.reply_of(call, result, false));
        match sent {
            Ok(()) => self.core.touched(self, Time::NEVER),
            Err(unsent) => self.not_answered(call, unsent),
        }
    }

    #[inline(always)]
    fn reply_of(
        &self,
        call: IncomingCall,
        result: &impl Message,
        lends: bool,
    ) -> Result<(), Unsent<ReplyError>> {
        let payload = Payload::new(0, codec::encoded_bytes(result));
        let payload = payload.ok_or_else(|| Unsent::Message(too_large()))?;
        let opening = Answer { call, payload: Payload { references: lends, ..payload } };
        self.inner.borrow_mut().send(&opening, &[], result, Deadline::NOW)
    }

    #[cold]
    fn not_answered(self: &Rc<Self>, call: IncomingCall, unsent: Unsent<ReplyError>) {
        // As `not_started`: of a long answer to a call that was cancelled, say.
        self.core.touched(self, Time::NEVER);
        match unsent {
            Unsent::Protocol(ReplyError::Ended) => {}
            Unsent::Protocol(ReplyError::TooLarge) => self.fail(call, &too_large()),
            Unsent::Message(status) => self.fail(call, &status),
            Unsent::Protocol(ReplyError::TransmitFirst) | Unsent::Full => {
                let text = "the caller does not read the replies that it asked for";
                self.fail(call, &Status::resource_exhausted(text));
            }
            Unsent::Channel(error) => self.channel_failed(&error),
        }
    }

    /// Answers a call of the peer with an error. Never waits.
    pub(crate) fn fail(self: &Rc<Self>, call: IncomingCall, status: &Status) {
        let text = status.message().as_bytes();
        let text = &text[..text.len().min(TEXT_BYTES_MAX)];
        let sent = self.inner.borrow_mut().send_error(call, status.code(), text);
        match sent {
            Ok(()) => self.core.touched(self, Time::NEVER),
            // Something of the protocol's own may have left before.
            Err(Unsent::Protocol(_) | Unsent::Message(_)) => self.core.touched(self, Time::NEVER),
            Err(Unsent::Full) => self.never_reads(),
            Err(Unsent::Channel(error)) => self.channel_failed(&error),
        }
    }

    /// The peer asks, and reads not even refusals.
    #[cold]
    pub(super) fn never_reads(self: &Rc<Self>) {
        let why = format!("{} does not read its replies and was cut off", self.name);
        self.cut_off(Status::resource_exhausted(why));
    }

    /// Gives a call up: the peer is told, its end is forgotten.
    pub(crate) fn cancel(self: &Rc<Self>, ticket: &Ticket) {
        let was = self.calls.borrow_mut().forget(ticket);
        if let State::Done(Ok(reply)) = was {
            self.core.buffers.give(reply.buffer);
        }
        if self.inner.borrow_mut().wire.cancel(ticket.call).is_ok() {
            self.send_own(Deadline::NOW);
        }
    }

    /// Sends what the protocol itself has to say: greetings, cancellations, refusals, pongs.
    pub(crate) fn send_own(self: &Rc<Self>, until: Deadline) {
        let sent = self.inner.borrow_mut().send_own(until);
        self.take_events();
        match sent {
            Ok(true) => self.core.touched(self, Time::NEVER),
            Ok(false) => {}
            Err(error) => self.channel_failed(&error),
        }
    }

    /// Moves on what found no room before. False: some of it is still here.
    pub(crate) fn flush(self: &Rc<Self>, until: Deadline) -> bool {
        let flushed = self.inner.borrow_mut().flush(until);
        match flushed {
            Ok(done) => done,
            Err(error) => {
                self.channel_failed(&error);
                true
            }
        }
    }

    /// Whether something waits for room in the channel.
    #[inline]
    pub(crate) fn wants_room(&self) -> bool {
        let inner = self.inner.borrow();
        inner.unflushed || !inner.outbox.is_empty()
    }

    #[cold]
    pub(super) fn channel_failed(self: &Rc<Self>, error: &SendError) {
        self.close(Status::unavailable(match error {
            SendError::PeerGone => format!("{} went away", self.name),
            _ => format!("the connection to {} failed: {error}", self.name),
        }));
    }
}

impl Inner {
    /// Sends a message, or keeps it if that may not wait.
    #[inline]
    fn send<O: Opening>(
        &mut self,
        opening: &O,
        metadata: &[u8],
        body: &impl Message,
        until: Deadline,
    ) -> Result<O::Opened, Unsent<O::Refused>> {
        if self.wire.has_transmit() {
            self.send_own(until).map_err(Unsent::Channel)?;
        }
        let message_bytes = opening.message_bytes();
        if !self.outbox.is_empty() {
            if until == Deadline::NOW {
                return self.keep(opening, metadata, body);
            }
            // Who may wait lets nothing go past what found no room before.
            if !self.flush(until).map_err(Unsent::Channel)? {
                return Err(Unsent::Full);
            }
        }
        if message_bytes > SMALL_BYTES {
            return self.send_large(opening, metadata, body, until);
        }
        let opened = opening.open(&mut self.wire).map_err(Unsent::Protocol)?;
        let mut message = [0; SMALL_BYTES];
        let message = &mut message[..message_bytes];
        marshal_into(message, opening, opened, metadata, body).map_err(Unsent::Message)?;
        match self.endpoint.send(message, until) {
            Ok(()) if until == Deadline::NEVER || self.takes_whole => {
                self.unflushed = false;
                Ok(opened)
            }
            Ok(()) => self.flush_one().map(|()| opened).map_err(Unsent::Channel),
            Err(SendError::Full) if until == Deadline::NOW => {
                self.outbox.push(message.to_vec());
                Ok(opened)
            }
            Err(SendError::Full) => {
                opening.undo(&mut self.wire, opened);
                Err(Unsent::Full)
            }
            Err(error) => Err(Unsent::Channel(error)),
        }
    }

    /// Notes whether the mechanism has taken what was committed.
    #[inline]
    fn flush_one(&mut self) -> Result<(), SendError> {
        self.unflushed = !flush_channel(&mut self.endpoint, Deadline::NOW)?;
        Ok(())
    }

    /// Claims room, marshals in place.
    fn send_large<O: Opening>(
        &mut self,
        opening: &O,
        metadata: &[u8],
        body: &impl Message,
        until: Deadline,
    ) -> Result<O::Opened, Unsent<O::Refused>> {
        match self.send_claimed(opening, metadata, body, until)? {
            Some(opened) if until == Deadline::NEVER => Ok(opened),
            Some(opened) => self.flush_one().map(|()| opened).map_err(Unsent::Channel),
            None if until == Deadline::NOW => self.keep(opening, metadata, body),
            None => Err(Unsent::Full),
        }
    }

    /// `None`: no room in time, and the protocol knows of nothing.
    fn send_claimed<O: Opening>(
        &mut self,
        opening: &O,
        metadata: &[u8],
        body: &impl Message,
        until: Deadline,
    ) -> Result<Option<O::Opened>, Unsent<O::Refused>> {
        let Self { endpoint, wire, .. } = self;
        let message_bytes = opening.message_bytes();
        let claim = match endpoint.claim(message_bytes, until) {
            Ok(claim) => claim,
            Err(SendError::Full) => return Ok(None),
            // The limit of the protocol is not above that of the channel.
            Err(SendError::TooLarge { .. }) => {
                let opened = opening.open(wire).map_err(Unsent::Protocol)?;
                opening.undo(wire, opened);
                return Err(Unsent::Message(too_large()));
            }
            Err(error) => return Err(Unsent::Channel(error)),
        };
        let opened = opening.open(wire).map_err(Unsent::Protocol)?;
        match fill(claim, opening, opened, metadata, body) {
            Ok(()) => Ok(Some(opened)),
            Err(unsent) => {
                opening.undo(wire, opened);
                match unsent {
                    // Its time was up in the middle; the channel has told the peer to forget it.
                    Unsent::Channel(SendError::Full) => Ok(None),
                    unsent => Err(unsent),
                }
            }
        }
    }

    /// Keeps a message until there is room.
    #[cold]
    fn keep<O: Opening>(
        &mut self,
        opening: &O,
        metadata: &[u8],
        body: &impl Message,
    ) -> Result<O::Opened, Unsent<O::Refused>> {
        if !self.outbox.has_room_for(opening.message_bytes()) {
            return Err(Unsent::Full);
        }
        let opened = opening.open(&mut self.wire).map_err(Unsent::Protocol)?;
        self.outbox.push(marshal(opening, opened, metadata, body).map_err(Unsent::Message)?);
        Ok(opened)
    }

    /// Sends an error, or keeps it: a refusal finds room in an outbox that takes no more replies.
    fn send_error(
        &mut self,
        call: IncomingCall,
        code: Code,
        text: &[u8],
    ) -> Result<(), Unsent<ReplyError>> {
        self.send_own(Deadline::NOW).map_err(Unsent::Channel)?;
        let payload = Payload::new(0, text.len()).unwrap_or(Payload::EMPTY);
        let (head, text) = match self.wire.fail(call, code, payload) {
            // A connection for tiny messages: the code alone.
            Err(ReplyError::TooLarge) => (self.wire.fail(call, code, Payload::EMPTY), &[][..]),
            outcome => (outcome, text),
        };
        let head = head.map_err(Unsent::Protocol)?;
        self.send_bytes(&[&head, text].concat())
    }

    /// Sends a whole message, or keeps it.
    fn send_bytes<E>(&mut self, message: &[u8]) -> Result<(), Unsent<E>> {
        if self.outbox.is_empty() {
            match self.endpoint.send(message, Deadline::NOW) {
                Ok(()) => {
                    let done = flush_channel(&mut self.endpoint, Deadline::NOW);
                    self.unflushed = !done.map_err(Unsent::Channel)?;
                    return Ok(());
                }
                Err(SendError::Full) => {}
                Err(error) => return Err(Unsent::Channel(error)),
            }
        }
        if self.outbox.is_overfull() {
            return Err(Unsent::Full);
        }
        self.outbox.push(message.to_vec());
        Ok(())
    }

    /// Sends the protocol's own messages, or keeps them. Whether there were any.
    pub(super) fn send_own(&mut self, until: Deadline) -> Result<bool, SendError> {
        let mut sent = false;
        while self.wire.has_transmit() {
            sent = true;
            if self.outbox.is_empty() && self.send_own_now(until)? {
                self.unflushed = !flush_channel(&mut self.endpoint, Deadline::NOW)?;
                continue;
            }
            let Some(head) = self.wire.poll_transmit() else { return Ok(sent) };
            // Bounded by who receives: a peer that has too many of them here is cut off.
            self.outbox.push(head.to_vec());
        }
        Ok(sent)
    }

    /// Sends one message of the protocol's own. False: no room.
    fn send_own_now(&mut self, until: Deadline) -> Result<bool, SendError> {
        let Self { endpoint, wire, .. } = self;
        let mut claim = match endpoint.claim(HEADER_BYTES, until) {
            Ok(claim) => claim,
            Err(SendError::Full) => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(head) = wire.poll_transmit() else { return Ok(false) };
        claim.write(&head)?;
        claim.commit()?;
        Ok(true)
    }

    fn flush(&mut self, until: Deadline) -> Result<bool, SendError> {
        let Self { endpoint, outbox, unflushed, .. } = self;
        *unflushed = !flush_channel(endpoint, until)?;
        while !*unflushed {
            let Some(message) = outbox.front() else { return Ok(true) };
            match endpoint.send(message, until) {
                Ok(()) => outbox.pop(),
                Err(SendError::Full) => return Ok(false),
                Err(error) => return Err(error),
            }
            *unflushed = !flush_channel(endpoint, until)?;
        }
        Ok(false)
    }
}

/// Writes a whole message into the room for it, and sends it.
#[inline]
fn fill<O: Opening>(
    mut claim: Claim<'_>,
    opening: &O,
    opened: O::Opened,
    metadata: &[u8],
    body: &impl Message,
) -> Result<(), Unsent<O::Refused>> {
    let message_bytes = opening.message_bytes();
    let space = claim.space().map_err(Unsent::Channel)?;
    if let Some(space) = space.get_mut(..message_bytes) {
        marshal_into(space, opening, opened, metadata, body).map_err(Unsent::Message)?;
        claim.written(message_bytes).map_err(Unsent::Channel)?;
    } else {
        let mut into = SinkBuf::new(Pieces { claim: &mut claim, failed: None });
        into.put_slice(&opening.head(opened));
        into.put_slice(metadata);
        codec::encode_all(body, &mut into);
        match into.finish().failed {
            // The message has said less of its length than it has.
            Some(SendError::TooLarge { .. }) => return Err(Unsent::Message(changed())),
            Some(error) => return Err(Unsent::Channel(error)),
            None if claim.left_bytes() > 0 => return Err(Unsent::Message(changed())),
            None => {}
        }
    }
    claim.commit().map_err(Unsent::Channel)
}

/// A long message on its way into a channel: each part leaves when it is full. After a failure the
/// rest is dropped, since marshalling cannot be stopped.
struct Pieces<'a, 'b> {
    claim: &'a mut Claim<'b>,
    failed: Option<SendError>,
}

impl Sink for Pieces<'_, '_> {
    fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.claim.write(bytes).err();
        }
    }
}

/// True: nothing is left in this process.
#[inline]
fn flush_channel(
    endpoint: &mut nearcall_channel::Endpoint,
    until: Deadline,
) -> Result<bool, SendError> {
    match endpoint.flush(until) {
        Ok(()) => Ok(true),
        Err(SendError::Full) => Ok(false),
        Err(error) => Err(error),
    }
}

#[inline]
fn write_payload(into: &mut [u8], metadata: &[u8], body: &impl Message) -> Result<(), Status> {
    let (place, rest) = into.split_at_mut(metadata.len());
    place.copy_from_slice(metadata);
    codec::encode_into(body, rest)
}

/// A whole message, to be kept. Allocates.
fn marshal<O: Opening>(
    opening: &O,
    opened: O::Opened,
    metadata: &[u8],
    body: &impl Message,
) -> Result<Vec<u8>, Status> {
    let mut message = vec![0; opening.message_bytes()];
    marshal_into(&mut message, opening, opened, metadata, body)?;
    Ok(message)
}

#[inline]
fn marshal_into<O: Opening>(
    message: &mut [u8],
    opening: &O,
    opened: O::Opened,
    metadata: &[u8],
    body: &impl Message,
) -> Result<(), Status> {
    message[..HEADER_BYTES].copy_from_slice(&opening.head(opened));
    write_payload(&mut message[HEADER_BYTES..], metadata, body)
}

#[cold]
fn changed() -> Status {
    Status::internal("the message has another length than it says")
}

#[cold]
fn too_large() -> Status {
    Status::resource_exhausted("the reply is above the message limit of the connection")
}

/// Up to this length, in bytes, a message is put together on the stack and handed over in one step:
/// two cache lines, header included. Copying them again costs less than the steps of a claim.
pub(super) const SMALL_BYTES: usize = 128;

/// Longest text of an error that is sent, in bytes: a few lines for a terminal.
const TEXT_BYTES_MAX: usize = 1024;
