//! Sending over a connection: requests, replies and control messages of the protocol.
//!
//! A message of up to two cache lines is put together on the stack; a longer one is marshalled
//! where the channel takes it from; one that the channel takes in several parts goes part by part,
//! so that the receiver copies the first while the next is marshalled.
//! **Invariants:** messages leave in the order in which the protocol made their headers; a header
//! that was made is sent, kept in the outbox, or its call is ended.
//! **Not here:** waiting until a full channel has room again (`reactor.rs`).
//!
//! **Invariant:** a caller that reads gets every reply. A server whose replies wait for room, more
//! than 1 MiB of them, reads no further request from that connection until they have left; it does
//! not spin meanwhile, and the end of the peer, deadlines, drains and switches take their course.
//! Only a server pauses, and a client receives while it waits for room, so that two ends never wait
//! for each other to read. *Checked by* `tests/it/backpressure`, `tests/faults/slow_peers.rs`,
//! `tests/faults/shares.rs`.

use bytes::BufMut;
use nearcall_channel::account::Exceeded;
use nearcall_channel::limits::CONNECTION_BYTES;
use nearcall_channel::{Claim, Endpoint, SendError, grow};
use nearcall_os::sink::{Sink, SinkBuf};
use nearcall_wire::{HEADER_BYTES, IncomingCall, Payload, ReplyError, SwitchReason};

use super::lending::Gathered;
use super::old_channel::{OldChannel, flush_channel};
use super::outbound::{NewReply, NewRequest, OutboundMessage, Outgoing, RequestKind};
use super::send_mode::{NotSent, SendMode};
use super::{Connection, Host, Inner, RoomWanted};
use crate::codec::{self, AnyMessage, Message};
use crate::deadline::{Deadline, Pauses};
use crate::limits::ERROR_TEXT_BYTES_MAX;
use crate::refusals::RefusalKind;
use crate::status::{Lack, Status};
use crate::tasks::reply_extras::{ReplyExtras, Sent};

/// Why a message did not leave.
pub(super) enum Unsent<E> {
    /// The protocol refused it.
    Protocol(E),
    /// No room for this many bytes by the deadline, or too much is waiting already.
    Full(usize),
    /// The share of the peer's user does not suffice for what would wait.
    Exceeded(Exceeded),
    /// The channel is of no further use.
    Channel(SendError),
    /// The message, of this length in bytes, is above the limit of the channel.
    TooLarge(usize),
    /// The message, of this length in bytes without its header, is longer than a header can say, or
    /// nested too deeply.
    AboveEveryLimit(usize),
    /// The message cannot be marshalled.
    Message(Status),
}

impl<E> From<Exceeded> for Unsent<E> {
    fn from(exceeded: Exceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}

impl<E> From<Status> for Unsent<E> {
    fn from(status: Status) -> Self {
        Self::Message(status)
    }
}

impl<H: Host> Connection<H> {
    /// Sends a request: a call or a one-way message, as its kind says.
    #[inline(always)]
    pub(crate) fn request<K: RequestKind>(
        &self,
        kind: K,
        outgoing: &Outgoing<'_>,
        body: &impl Message,
        mode: SendMode,
    ) -> Result<K::Prepared, NotSent> {
        if self.is_closed() {
            return Err(self.close_reason().into());
        }
        let meanwhile = self.must_receive_meanwhile(mode);
        let mode = if meanwhile.is_some() { SendMode::Try } else { mode };
        match self.send(NewRequest::new(kind, outgoing), outgoing.metadata, body, mode) {
            Ok(prepared) => {
                self.touch(kind.end(outgoing.deadline));
                if let Some(deadline) = meanwhile {
                    self.finish_sending(deadline);
                }
                Ok(prepared)
            }
            Err(unsent) => Err(self.not_started(unsent, outgoing.deadline, mode)),
        }
    }

    /// Replies to a call of the peer, with metadata as they travel. Never waits: what finds no room
    /// is kept and sent later, at the cost of the peer's user. Returns what was sent.
    #[inline]
    pub(crate) fn reply(&self, call: IncomingCall, metadata: &[u8], result: &impl Message) -> Sent {
        let reply = NewReply { call, payload: Payload::EMPTY };
        match self.send(reply, metadata, result, SendMode::Keep) {
            Ok(()) => {
                self.touch(Deadline::NEVER);
                if self.is_recorded() {
                    self.record_reply(call, metadata, AnyMessage::new(result));
                }
                Sent::AsGiven
            }
            Err(unsent) => {
                let reply_bytes = HEADER_BYTES + metadata.len() + codec::encoded_bytes(result);
                self.not_replied(call, unsent, metadata.len(), reply_bytes)
            }
        }
    }

    /// Sends a request or a reply, by reference where parts of it were lent.
    #[inline(always)]
    fn send<O: OutboundMessage>(
        &self,
        message: O,
        metadata: &[u8],
        body: &impl Message,
        mode: SendMode,
    ) -> Result<O::Prepared, Unsent<O::Refused>> {
        if self.lending.may_lend() {
            let send = |body: &Gathered| {
                let payload = Payload { references: true, ..payload_of(metadata, body)? };
                self.send_counted(&message.with_payload(payload), metadata, body, mode)
            };
            if let Some(sent) = self.lend_with(metadata, body, send) {
                return sent;
            }
        }
        self.send_counted(&message.with_payload(payload_of(metadata, body)?), metadata, body, mode)
    }

    #[inline(always)]
    fn send_counted<O: OutboundMessage>(
        &self,
        message: &O,
        metadata: &[u8],
        body: &impl Message,
        mode: SendMode,
    ) -> Result<O::Prepared, Unsent<O::Refused>> {
        let prepared = self.inner.borrow_mut().send(message, metadata, body, mode)?;
        message.count(&self.host);
        Ok(prepared)
    }

    /// Ends a call of the peer, and shows its interceptors what was sent.
    pub(crate) fn answer(
        &self,
        call: IncomingCall,
        extras: Option<Box<ReplyExtras>>,
        answer: Result<&impl Message, &Status>,
    ) {
        let mut extras = extras.map(|extras| *extras).unwrap_or_default();
        if let Some(headers) = extras.headers.take() {
            extras.metadata.prepend(self.send_headers(call, headers));
        }
        let metadata = std::mem::take(&mut extras.metadata);
        let sent = match answer {
            Ok(result) => self.reply(call, metadata.as_bytes(), result),
            Err(status) if metadata.is_empty() => self.fail(call, status),
            Err(status) => self.fail(call, &status.clone().with_entries(metadata)),
        };
        extras.end(sent, answer);
    }

    #[cold]
    fn not_replied(
        &self,
        call: IncomingCall,
        unsent: Unsent<ReplyError>,
        metadata_bytes: usize,
        reply_bytes: usize,
    ) -> Sent {
        // As `not_started`: such as for a long reply to a call that was cancelled.
        self.touch(Deadline::NEVER);
        let status = match unsent {
            Unsent::Protocol(ReplyError::Ended) => return Sent::Nothing,
            _ if codec::is_too_deep(reply_bytes) => codec::too_deep("reply"),
            Unsent::Protocol(ReplyError::TooLarge)
            | Unsent::TooLarge(_)
            | Unsent::AboveEveryLimit(_)
                if metadata_bytes > usize::from(self.metadata_bytes_max.get()) =>
            {
                self.metadata_too_large(metadata_bytes)
            }
            Unsent::Protocol(ReplyError::TooLarge)
            | Unsent::TooLarge(_)
            | Unsent::AboveEveryLimit(_) => self.too_large("reply", reply_bytes),
            Unsent::Message(status) => status,
            Unsent::Exceeded(exceeded) => self.not_kept(reply_bytes, &exceeded),
            // What the protocol sends by itself is always taken before, and replies have no bound.
            Unsent::Protocol(ReplyError::TransmitFirst) | Unsent::Full(_) => {
                Status::internal("the reply could not be kept until there is room for it")
            }
            Unsent::Channel(error) => {
                self.channel_failed(&error);
                return Sent::Nothing;
            }
        };
        match self.fail(call, &status) {
            Sent::AsGiven => Sent::Instead(Box::new(status)),
            sent => sent,
        }
    }

    /// Replies to a call of the peer with an error. Never waits. Returns what was sent.
    pub(crate) fn fail(&self, call: IncomingCall, status: &Status) -> Sent {
        let sent = self.inner.borrow_mut().send_error(call, status);
        match sent {
            Ok(()) => {
                self.touch(Deadline::NEVER);
                if self.is_recorded() {
                    self.record_failure(call, status);
                }
                self.host.count_end(call, status.code(), 0);
                if self.has_streams.get() {
                    self.forget_stream(call);
                }
                return Sent::AsGiven;
            }
            // Something of the protocol's own may have left before.
            Err(
                Unsent::Protocol(_)
                | Unsent::Message(_)
                | Unsent::TooLarge(_)
                | Unsent::AboveEveryLimit(_)
                | Unsent::Full(_),
            ) => self.touch(Deadline::NEVER),
            // Not even the reason can be kept, and a call must not be left without an end.
            Err(Unsent::Exceeded(exceeded)) => self.disconnect_slow_reader(format!(
                "{} has not read its replies, and no more of them can be kept: {exceeded}",
                self.name
            )),
            Err(Unsent::Channel(error)) => self.channel_failed(&error),
        }
        Sent::Nothing
    }

    /// Sends the control messages of the protocol: greetings, cancellations, refusals, pongs.
    pub(crate) fn send_control(&self, deadline: Deadline) {
        let sent = self.inner.borrow_mut().send_control(deadline);
        self.handle_events();
        match sent {
            Ok(true) => self.touch(Deadline::NEVER),
            Ok(false) => {}
            Err(error) => self.channel_failed(&error),
        }
    }

    /// Moves on what found no room before. False: some of it is still here.
    pub(crate) fn flush(&self, deadline: Deadline) -> bool {
        let (flushed, has_progressed) = {
            let inner = &mut *self.inner.borrow_mut();
            let before = inner.outbox.is_full().then(|| inner.unsent_bytes());
            let flushed = inner.flush(deadline);
            // The last message may have left the outbox for the channel as a whole.
            let has_progressed = before
                .is_some_and(|before| !inner.outbox.is_full() || inner.unsent_bytes() < before);
            (flushed, has_progressed)
        };
        if has_progressed {
            self.note_progress();
        }
        match flushed {
            Ok(true) => {
                if self.inner.borrow().has_blocked_streams {
                    self.pump_blocked();
                }
                true
            }
            Ok(false) => false,
            Err(error) => {
                self.channel_failed(&error);
                true
            }
        }
    }

    /// As [`flush`](Self::flush), for whoever is not in a turn: a look for room ends the sleep that
    /// the loop has announced, whether it finds any or not.
    pub(super) fn flush_out_of_turn(&self) -> bool {
        self.touch(Deadline::NEVER);
        self.flush(Deadline::NOW)
    }

    /// Returns until when a caller without a loop may wait for room if it has to receive meanwhile:
    /// the peer may have paused until replies are read that it owes, which are two at least, or
    /// those of calls that were given up. None: it waits in the channel, or not at all.
    #[inline(always)]
    pub(super) fn must_receive_meanwhile(&self, mode: SendMode) -> Option<Deadline> {
        match mode {
            SendMode::WaitUntil(deadline) if mode != SendMode::TRY_WHOLE => {
                let may_owe = self.outgoing_calls().0 > 1 || self.unread.has_given_up.get();
                may_owe.then_some(deadline)
            }
            _ => None,
        }
    }

    /// Waits until what is kept here is in the channel, and receives meanwhile: for callers without
    /// a loop. True also when the connection has ended.
    #[inline]
    pub(crate) fn finish_sending(&self, deadline: Deadline) -> bool {
        !self.has_pending_writes() || self.wait_and_receive(deadline, |_, _| Ok(()))
    }

    /// Works like [`finish_sending`](Self::finish_sending), until there is room for a message of so
    /// many bytes as well.
    pub(crate) fn wait_for_room(&self, message_bytes: usize, deadline: Deadline) -> bool {
        self.wait_and_receive(deadline, |endpoint, end| endpoint.wait_for_room(message_bytes, end))
    }

    /// Moves on what is kept here and waits by `more` then, until `deadline`; receives meanwhile.
    #[cold]
    fn wait_and_receive(
        &self,
        deadline: Deadline,
        more: impl Fn(&mut Endpoint, Deadline) -> Result<(), SendError>,
    ) -> bool {
        let mut pauses = Pauses::ROOM;
        while !self.is_closed() {
            if self.look_ahead() {
                pauses = Pauses::ROOM;
            }
            let wait_end = pauses.next().min(deadline);
            let waited = {
                let inner = &mut *self.inner.borrow_mut();
                match inner.flush(wait_end) {
                    Ok(true) => more(&mut inner.endpoint, wait_end),
                    Ok(false) => Err(SendError::Full),
                    Err(error) => Err(error),
                }
            };
            match waited {
                Ok(()) => return true,
                Err(SendError::Full) if deadline.has_passed() => return false,
                Err(SendError::Full) => {}
                Err(error) => self.channel_failed(&error),
            }
        }
        true
    }

    /// Returns whether something waits for room in the channel.
    #[inline]
    pub(crate) fn has_pending_writes(&self) -> bool {
        self.inner.borrow().has_pending_writes()
    }

    /// Returns where something waits for room.
    #[inline]
    pub(crate) fn room_wanted(&self) -> RoomWanted {
        self.inner.borrow().room_wanted()
    }

    #[cold]
    pub(super) fn channel_failed(&self, error: &SendError) {
        let reason = self.failure(matches!(error, SendError::PeerGone), error);
        match error {
            SendError::PeerBroken(_) => self.abort_for(RefusalKind::BROKEN_CHANNEL, reason),
            _ => self.close(reason),
        }
    }
}

impl Inner {
    /// Returns whether something waits for room in the channel.
    #[inline]
    pub(super) fn has_pending_writes(&self) -> bool {
        self.unflushed
            || !self.outbox.is_empty()
            || self.has_blocked_streams
            || self.has_unsent_before()
    }

    /// Sends a message, or does with it what `mode` says.
    #[inline(always)]
    pub(super) fn send<O: OutboundMessage>(
        &mut self,
        message: &O,
        metadata: &[u8],
        body: &impl Message,
        mode: SendMode,
    ) -> Result<O::Prepared, Unsent<O::Refused>> {
        let deadline = mode.channel_deadline();
        if self.protocol.has_transmit() {
            self.send_control(deadline).map_err(Unsent::Channel)?;
        }
        let message_bytes = message.message_bytes();
        let is_blocked = !self.outbox.is_empty() || self.has_unsent_before();
        let prepared = if is_blocked && mode == SendMode::Keep {
            self.keep(message, metadata, body)?
        } else if is_blocked && !self.flush(deadline).map_err(Unsent::Channel)? {
            // Nothing goes past what found no room before.
            return Err(Unsent::Full(message_bytes));
        } else if message_bytes > SMALL_BYTES {
            match message_bytes <= self.whole_bytes_max {
                true => self.send_whole(message, metadata, body, mode)?,
                false => self.send_large(message, metadata, body, mode)?,
            }
        } else {
            let prepared = message.prepare(&mut self.protocol).map_err(Unsent::Protocol)?;
            let mut bytes = [0; SMALL_BYTES];
            let bytes = &mut bytes[..message_bytes];
            marshal_into(bytes, message, prepared, metadata, body).map_err(Unsent::Message)?;
            match self.endpoint.send(bytes, deadline) {
                Ok(()) => {
                    self.note_committed(deadline, self.takes_whole).map_err(Unsent::Channel)?;
                }
                // Such a message is always taken: it has been prepared, and is short.
                Err(SendError::Full) if mode == SendMode::Keep => self.outbox.push(bytes.to_vec()),
                Err(SendError::Full) => {
                    message.undo(&mut self.protocol, prepared);
                    return Err(Unsent::Full(message_bytes));
                }
                Err(error) => return Err(Unsent::Channel(error)),
            }
            prepared
        };
        self.traffic.sent.count(message_bytes);
        Ok(prepared)
    }

    /// Marshals a message of one fragment in place.
    fn send_whole<O: OutboundMessage>(
        &mut self,
        message: &O,
        metadata: &[u8],
        body: &impl Message,
        mode: SendMode,
    ) -> Result<O::Prepared, Unsent<O::Refused>> {
        let Self { endpoint, protocol, .. } = self;
        let (message_bytes, deadline) = (message.message_bytes(), mode.channel_deadline());
        let mut prepared = None;
        let sent = endpoint.send_with(message_bytes, deadline, |room| {
            let prepared = *prepared.insert(message.prepare(protocol).map_err(Unsent::Protocol)?);
            marshal_into(room, message, prepared, metadata, body).map_err(Unsent::Message)
        });
        let unsent = match (sent, prepared) {
            (Ok(Ok(())), Some(prepared)) => {
                self.note_committed(deadline, self.takes_whole).map_err(Unsent::Channel)?;
                return Ok(prepared);
            }
            (Ok(Ok(())), None) => Unsent::Message(changed()),
            (Ok(Err(unsent)), _) => unsent,
            (Err(SendError::Full), None) if mode == SendMode::Keep => {
                return self.keep(message, metadata, body);
            }
            (Err(SendError::Full), _) => Unsent::Full(message_bytes),
            (Err(error), _) => Unsent::Channel(error),
        };
        if let Some(prepared) = prepared {
            message.undo(&mut self.protocol, prepared);
        }
        Err(unsent)
    }

    /// Notes whether the mechanism has taken what was committed by `deadline`: asks it, unless it
    /// takes such a message as a whole or not at all.
    #[inline(always)]
    fn note_committed(&mut self, deadline: Deadline, takes_whole: bool) -> Result<(), SendError> {
        if deadline != Deadline::NEVER
            && !takes_whole
            && !flush_channel(&mut self.endpoint, Deadline::NOW)?
        {
            self.unflushed = true;
        } else if self.unflushed {
            self.unflushed = false;
            self.outbox.give_back();
        }
        Ok(())
    }

    /// Claims room, marshals in place.
    fn send_large<O: OutboundMessage>(
        &mut self,
        message: &O,
        metadata: &[u8],
        body: &impl Message,
        mode: SendMode,
    ) -> Result<O::Prepared, Unsent<O::Refused>> {
        let deadline = mode.channel_deadline();
        let message_bytes = message.message_bytes();
        if O::IS_REPLY && message_bytes > CONNECTION_BYTES {
            // The channel may keep most of it. Given back when that has left.
            let unsent_bytes = self.endpoint.unsent_bytes();
            self.outbox.pay_for(message_bytes, unsent_bytes)?;
            self.unflushed = true;
        }
        match self.send_claimed(message, metadata, body, deadline)? {
            Some(prepared) => {
                self.note_committed(deadline, false).map_err(Unsent::Channel)?;
                Ok(prepared)
            }
            None if mode == SendMode::Keep => self.keep(message, metadata, body),
            None => Err(Unsent::Full(message_bytes)),
        }
    }

    /// `None`: no room in time, and the protocol knows of nothing.
    fn send_claimed<O: OutboundMessage>(
        &mut self,
        message: &O,
        metadata: &[u8],
        body: &impl Message,
        deadline: Deadline,
    ) -> Result<Option<O::Prepared>, Unsent<O::Refused>> {
        let Self { endpoint, protocol, unflushed, .. } = self;
        let message_bytes = message.message_bytes();
        let claim = match endpoint.claim(message_bytes, deadline) {
            Ok(claim) => claim,
            Err(SendError::Full) => return Ok(None),
            // The limit of the protocol is not above that of the channel.
            Err(SendError::TooLarge { .. }) => {
                let prepared = message.prepare(protocol).map_err(Unsent::Protocol)?;
                message.undo(protocol, prepared);
                return Err(Unsent::TooLarge(message_bytes));
            }
            Err(error) => return Err(Unsent::Channel(error)),
        };
        let prepared = message.prepare(protocol).map_err(Unsent::Protocol)?;
        match fill(claim, message, prepared, metadata, body) {
            Ok(()) => Ok(Some(prepared)),
            Err(unsent) => {
                message.undo(protocol, prepared);
                // The part of it that the peer has to forget may have found no room.
                *unflushed = matches!(flush_channel(endpoint, Deadline::NOW), Ok(false));
                match unsent {
                    // Its time was up in the middle; the channel has had the peer forget it.
                    Unsent::Channel(SendError::Full) => Ok(None),
                    unsent => Err(unsent),
                }
            }
        }
    }

    /// Keeps a message until there is room.
    #[cold]
    fn keep<O: OutboundMessage>(
        &mut self,
        message: &O,
        metadata: &[u8],
        body: &impl Message,
    ) -> Result<O::Prepared, Unsent<O::Refused>> {
        if !O::IS_REPLY && !self.outbox.has_room_for(message.message_bytes()) {
            return Err(Unsent::Full(message.message_bytes()));
        }
        let unsent_bytes = self.endpoint.unsent_bytes();
        self.outbox.pay_for(message.message_bytes(), unsent_bytes)?;
        // Before a reply is prepared, which cannot be undone.
        let mut bytes = Vec::new();
        grow(&mut bytes, message.message_bytes()).map_err(Status::no_memory)?;
        let prepared = message.prepare(&mut self.protocol).map_err(Unsent::Protocol)?;
        marshal_into(&mut bytes, message, prepared, metadata, body).map_err(Unsent::Message)?;
        self.outbox.push(bytes);
        Ok(prepared)
    }

    /// Sends an error, or keeps it.
    fn send_error(
        &mut self,
        call: IncomingCall,
        status: &Status,
    ) -> Result<(), Unsent<ReplyError>> {
        self.send_control(Deadline::NOW).map_err(Unsent::Channel)?;
        let text = status.message().as_bytes();
        let text = &text[..text.len().min(ERROR_TEXT_BYTES_MAX)];
        let lack = status.lack().map_or(&[][..], Lack::metadata);
        let all = [lack, status.metadata().as_bytes()].concat();
        // A connection for tiny messages gets less, in the end the code alone.
        for (metadata, text) in [(&all[..], text), (lack, text), (&[], text), (&[], &[])] {
            let payload = Payload::new(metadata.len(), text.len()).unwrap_or(Payload::EMPTY);
            match self.protocol.fail(call, status.code(), payload) {
                Err(ReplyError::TooLarge) => {}
                head => {
                    let head = head.map_err(Unsent::Protocol)?;
                    return self.send_bytes(&[&head, metadata, text].concat());
                }
            }
        }
        Err(Unsent::Protocol(ReplyError::TooLarge))
    }

    /// Sends a whole message, or keeps it.
    pub(super) fn send_bytes<E>(&mut self, message: &[u8]) -> Result<(), Unsent<E>> {
        if self.outbox.is_empty() {
            match self.endpoint.send(message, Deadline::NOW) {
                Ok(()) => {
                    return self.note_committed(Deadline::NOW, false).map_err(Unsent::Channel);
                }
                Err(SendError::Full) => {}
                Err(error) => return Err(Unsent::Channel(error)),
            }
        }
        let unsent_bytes = self.endpoint.unsent_bytes();
        self.outbox.pay_for(message.len(), unsent_bytes)?;
        self.outbox.push(message.to_vec());
        Ok(())
    }

    /// Sends the protocol's own messages, or keeps them. Whether there were any.
    pub(super) fn send_control(&mut self, deadline: Deadline) -> Result<bool, SendError> {
        let mut sent = false;
        while self.protocol.has_transmit() {
            sent = true;
            // The peer may read this channel only after the last message of the one before.
            let may_send = self.outbox.is_empty() && !self.has_unsent_before();
            if may_send && self.send_one_control(deadline)? {
                self.note_committed(Deadline::NOW, false)?;
                continue;
            }
            let Some(head) = self.protocol.poll_transmit() else { return Ok(sent) };
            // Bounded by the pause: a peer that has many of them here is read no more.
            self.outbox.push(head.to_vec());
        }
        Ok(sent)
    }

    /// Sends one message of the protocol's own. False: no room.
    fn send_one_control(&mut self, deadline: Deadline) -> Result<bool, SendError> {
        let Self { endpoint, protocol, .. } = self;
        let mut claim = match endpoint.claim(HEADER_BYTES, deadline) {
            Ok(claim) => claim,
            Err(SendError::Full) => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(head) = protocol.poll_transmit() else { return Ok(false) };
        claim.write(&head)?;
        claim.commit()?;
        Ok(true)
    }

    /// Sends the last message on this channel, or puts it behind what waits for room there. False:
    /// the switch is given up.
    pub(super) fn send_last(&mut self) -> Result<bool, SendError> {
        self.send_control(Deadline::NOW)?;
        // A connection that drains since stays where it is, as its peer is told.
        if self.protocol.end_channel().is_err() {
            let _ = self.protocol.refuse_switch(SwitchReason::Draining);
            return Ok(false);
        }
        self.send_control(Deadline::NOW)?;
        Ok(true)
    }

    /// Takes everything that was to be sent on this channel for sent, its last message as well: the
    /// peer is gone from it.
    pub(super) fn forget_unsent(&mut self) {
        let _ = self.protocol.end_channel();
        while self.protocol.poll_transmit().is_some() {}
        while !self.outbox.is_empty() {
            self.outbox.pop();
        }
        self.unflushed = false;
        self.outbox.give_back();
    }

    /// How many bytes wait for room, in all places.
    fn unsent_bytes(&mut self) -> usize {
        let old = self.old.as_mut().map_or(0, |old| old.endpoint.unsent_bytes());
        self.outbox.bytes() + self.endpoint.unsent_bytes() + old
    }

    fn flush(&mut self, deadline: Deadline) -> Result<bool, SendError> {
        let Self { endpoint, old, outbox, unflushed, .. } = self;
        if !OldChannel::flush(old, outbox, deadline)? {
            return Ok(false);
        }
        *unflushed = !flush_channel(endpoint, deadline)?;
        while !*unflushed {
            let Some(message) = outbox.front() else {
                outbox.give_back();
                return Ok(true);
            };
            match endpoint.send(message, deadline) {
                Ok(()) => outbox.pop(),
                Err(SendError::Full) => return Ok(false),
                Err(error) => return Err(error),
            }
            *unflushed = !flush_channel(endpoint, deadline)?;
        }
        Ok(false)
    }
}

/// Writes a whole message into the room for it, and sends it.
#[inline]
fn fill<O: OutboundMessage>(
    mut claim: Claim<'_>,
    message: &O,
    prepared: O::Prepared,
    metadata: &[u8],
    body: &impl Message,
) -> Result<(), Unsent<O::Refused>> {
    let message_bytes = message.message_bytes();
    let space = claim.space().map_err(Unsent::Channel)?;
    if let Some(space) = space.get_mut(..message_bytes) {
        marshal_into(space, message, prepared, metadata, body).map_err(Unsent::Message)?;
        claim.written(message_bytes).map_err(Unsent::Channel)?;
    } else {
        let mut into = SinkBuf::new(Pieces { claim: &mut claim, failed: None });
        into.put_slice(&message.head(prepared));
        into.put_slice(metadata);
        codec::encode_all(body, &mut into);
        match into.finish().failed {
            // The message is longer than it announced.
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

/// Returns the lengths of what follows the header of a message.
#[inline(always)]
fn payload_of<E>(metadata: &[u8], body: &impl Message) -> Result<Payload, Unsent<E>> {
    let body_bytes = codec::encoded_bytes(body);
    let payload = Payload::new(metadata.len(), body_bytes);
    payload.ok_or_else(|| Unsent::AboveEveryLimit(metadata.len().saturating_add(body_bytes)))
}

#[inline]
fn write_payload(into: &mut [u8], metadata: &[u8], body: &impl Message) -> Result<(), Status> {
    let (place, rest) = into.split_at_mut(metadata.len());
    place.copy_from_slice(metadata);
    codec::encode_into(body, rest)
}

#[inline]
fn marshal_into<O: OutboundMessage>(
    bytes: &mut [u8],
    message: &O,
    prepared: O::Prepared,
    metadata: &[u8],
    body: &impl Message,
) -> Result<(), Status> {
    bytes[..HEADER_BYTES].copy_from_slice(&message.head(prepared));
    write_payload(&mut bytes[HEADER_BYTES..], metadata, body)
}

#[cold]
fn changed() -> Status {
    Status::internal("the message has another length than it announced")
}

/// Up to this length, in bytes, a message is put together on the stack and handed over in one step:
/// two cache lines, header included. Copying them again costs less than the steps of a claim.
pub(crate) const SMALL_BYTES: usize = 128;
