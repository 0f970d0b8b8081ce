//! What open and draining connections have in common: both tables of calls and the queue of
//! transmits.
//!
//! **Invariants:** while something is queued, no call is started and none answered, so that
//! messages leave in the order in which the tables changed. The peer's judgement of our ids depends
//! on it. The front of the queue is never an error or a credit for which the caller does not wait
//! any more.
//! **Not here:** which calls are welcome (`open.rs`, `draining.rs`), items (`streaming.rs`), the
//! move to another channel (`switching.rs`).

use alloc::boxed::Box;

use super::event::{CancelReason, Counts, End, Event, Peer, Request};
use super::transmits::{Transmit, Transmits};
use crate::call_id::{CallId, IncomingCall, OutgoingCall};
use crate::call_table::{Answer, Incoming, Outgoing, Standing};
use crate::error::{Ended, PingError, ProtocolError, ReplyError, StartError};
use crate::frame::{self, Frame, HEADER_BYTES, Head, Kind, Payload, Shape};
use crate::hello::is_greeting;
use crate::limits::{Limits, Switching};
use crate::status::Code;
use crate::switch::Switch;
use crate::time::Time;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session<T> {
    pub(super) outgoing: Outgoing<T>,
    pub(super) incoming: Incoming,
    pub(super) transmits: Transmits,
    pub(super) peer: Peer,
    /// Whether messages may have references.
    pub(super) references: bool,
    /// Bytes of items that the peer may have sent here on each stream beyond what was consumed.
    pub(super) stream_window_bytes: u32,
    /// Longest timeout that a call of the peer gets.
    timeout_ns_max: u64,
    /// Deadlines up to here have passed.
    passed: Time,
    /// Our greeting, if it is queued.
    greeting: Option<Head>,
    ping: Ping,
    /// Of the last ping.
    ping_number: u64,
    /// The answer to the peer's ping is queued.
    owes_pong: bool,
    /// None if one of the ends cannot switch.
    pub(super) switch: Option<Box<Switch>>,
    /// The switch has its place in the queue.
    pub(super) is_switch_queued: bool,
    answers_late: u64,
    calls_refused: u64,
    pub(super) items_late: u64,
}

/// Our ping, and when it was asked for. An answer to one that is still queued is a guess, and
/// taking it would let a second one into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ping {
    Answered,
    Queued(Time),
    Sent(Time),
}

impl<T: Default> Session<T> {
    /// `greeting` is ours if it has not been sent yet.
    pub(super) fn new(peer: Peer, limits: Limits, greeting: Option<Head>) -> Self {
        let Limits { calls_in_max, references, stream_window_bytes, timeout_ns_max, .. } = limits;
        let switch = match limits.switching {
            Switching::Client | Switching::Server if peer.version >= SWITCHING_VERSION => {
                let is_client = limits.switching == Switching::Client;
                Some(Box::new(Switch::new(is_client, limits.switches_per_minute_max)))
            }
            _ => None,
        };
        let mut transmits = Transmits::new(peer.calls_out_max, calls_in_max);
        if greeting.is_some() {
            transmits.push(Transmit::Hello);
        }
        Self {
            outgoing: Outgoing::new(peer.calls_out_max),
            incoming: Incoming::new(calls_in_max),
            transmits,
            peer,
            references,
            stream_window_bytes,
            timeout_ns_max,
            passed: Time::from_ns(0),
            greeting,
            ping: Ping::Answered,
            ping_number: 0,
            owes_pong: false,
            switch,
            is_switch_queued: false,
            answers_late: 0,
            calls_refused: 0,
            items_late: 0,
        }
    }

    /// Judges a message as a frame and against the limits.
    #[inline(always)]
    pub(super) fn decode(&self, head: &[u8], message_bytes: usize) -> Result<Frame, ProtocolError> {
        // A greeting is no frame, so it is looked for only among what is none.
        let frame =
            Frame::decode(head, message_bytes).map_err(|error| match is_greeting(head) {
                true => ProtocolError::SecondGreeting,
                false => self.in_its_version(error),
            })?;
        let payload = frame.payload();
        // What carries nothing is within every limit, or a tiny limit would forbid even a GOAWAY.
        if message_bytes > self.peer.message_bytes_max as usize && payload != Payload::EMPTY {
            return Err(ProtocolError::MessageTooLarge { message_bytes });
        }
        if payload.metadata_bytes > self.peer.metadata_bytes_max {
            let metadata_bytes = payload.metadata_bytes;
            return Err(ProtocolError::MetadataTooLarge { metadata_bytes });
        }
        if payload.references && !self.references {
            return Err(ProtocolError::ReservedBits { flags: 1 });
        }
        Ok(frame)
    }

    /// The error in a version that has no switch, or no headers.
    #[cold]
    fn in_its_version(&self, error: ProtocolError) -> ProtocolError {
        const SWITCH: u8 = Kind::Switch as u8;
        const HEADERS: u8 = Kind::Headers as u8;
        match error {
            ProtocolError::UnusedField { kind: HEADERS } if !self.has_headers() => {
                ProtocolError::UnknownKind { kind: HEADERS }
            }
            ProtocolError::BadSwitch { .. } | ProtocolError::UnusedField { kind: SWITCH }
                if self.switch.is_none() =>
            {
                ProtocolError::UnknownKind { kind: SWITCH }
            }
            error => error,
        }
    }

    /// Returns the deadline of a call of the peer that came at `now` and asks for this timeout.
    #[inline]
    pub(super) fn deadline(&self, now: Time, timeout_ns: u64) -> Time {
        frame::deadline(now, timeout_ns.min(self.timeout_ns_max))
    }

    #[inline(always)]
    pub(super) fn is_within_limits(&self, payload: Payload, message_bytes: usize) -> bool {
        let Peer { message_bytes_max, metadata_bytes_max, .. } = self.peer;
        message_bytes <= message_bytes_max as usize && payload.metadata_bytes <= metadata_bytes_max
    }

    /// Takes a call that is welcome.
    pub(super) fn handle_call(
        &mut self,
        id: CallId,
        deadline: Time,
        shape: Shape,
    ) -> Result<IncomingCall, ProtocolError> {
        let call = self.incoming.handle_call(id, deadline)?;
        if shape != Shape::Unary {
            self.open_incoming_stream(id, shape)?;
        }
        Ok(call)
    }

    /// Takes a call only to answer that it is not begun: the only failure of the protocol's own
    /// with `UNAVAILABLE`.
    pub(super) fn refuse(&mut self, id: CallId, shape: Shape) -> Result<(), ProtocolError> {
        let call = self.handle_call(id, Time::NEVER, shape)?;
        self.calls_refused += 1;
        self.end_with(call, Code::Unavailable);
        Ok(())
    }

    /// Takes a frame that has the same meaning in all states.
    pub(super) fn handle_other(
        &mut self,
        now: Time,
        frame: Frame,
    ) -> Result<Option<Event>, ProtocolError> {
        match frame {
            Frame::Reply { id, payload } => self.handle_answer(id, End::Reply(payload)),
            Frame::Error { id, status, payload } => {
                self.handle_answer(id, End::Error { status, payload })
            }
            Frame::Refused { id } => self.handle_answer(id, End::Refused),
            Frame::Cancel { id } => {
                let call = self.incoming.handle_cancel(id)?;
                self.drop_unwanted();
                Ok(call.map(|call| Event::Cancelled { call, reason: CancelReason::Cancelled }))
            }
            Frame::Ping { .. } if self.owes_pong => Err(ProtocolError::PingTooSoon),
            Frame::Ping { number } => {
                self.owes_pong = true;
                self.transmits.push(Transmit::Pong(number));
                Ok(None)
            }
            Frame::Pong { number } => {
                let Ping::Sent(since) = self.ping else {
                    return Err(ProtocolError::PongWithoutPing);
                };
                if number != self.ping_number {
                    return Err(ProtocolError::PongWithoutPing);
                }
                self.ping = Ping::Answered;
                let round_trip_ns = now.as_ns().saturating_sub(since.as_ns());
                Ok(Some(Event::Pong { round_trip_ns }))
            }
            Frame::Item { id, to_caller, payload } => self.handle_item(id, to_caller, payload),
            Frame::End { id } => self.handle_end(id),
            Frame::Credit { id, to_caller, bytes } => self.handle_credit(id, to_caller, bytes),
            Frame::Switch { number, step } => self.handle_switch(now, number, step),
            Frame::Headers { id, .. } => self.handle_headers(id, frame.payload()),
            // The states take these themselves.
            Frame::Call { .. } | Frame::Oneway { .. } => Ok(None),
            Frame::GoAway | Frame::LastGoAway => Ok(None),
        }
    }

    #[inline]
    pub(super) fn handle_answer(
        &mut self,
        id: CallId,
        end: End,
    ) -> Result<Option<Event>, ProtocolError> {
        match self.outgoing.handle_answer(id)? {
            Answer::InTime => Ok(Some(Event::Ended { call: OutgoingCall(id), end })),
            Answer::Late => {
                self.answers_late += 1;
                Ok(None)
            }
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.passed = self.passed.max(now);
    }

    /// Ends one call whose deadline has passed.
    pub(super) fn poll_passed(&mut self) -> Option<Event> {
        if let Some(call) = self.outgoing.end_passed(self.passed) {
            self.transmits.push(Transmit::Cancel(call.id()));
            return Some(Event::Ended { call, end: End::DeadlineExceeded });
        }
        let call = self.incoming.passed(self.passed)?;
        self.end_with(call, Code::DeadlineExceeded);
        Some(Event::Cancelled { call, reason: CancelReason::DeadlineExceeded })
    }

    #[inline]
    pub(super) fn open_call(
        &mut self,
        now: Time,
        request: &Request,
    ) -> Result<OutgoingCall, StartError> {
        self.validate(now, request)?;
        if request.shape != Shape::Unary {
            return self.open_outgoing_stream(request);
        }
        self.outgoing.start(request.deadline).ok_or(StartError::Busy)
    }

    pub(super) fn abandon(&mut self, call: OutgoingCall) -> Result<T, Ended> {
        self.outgoing.end(call)?;
        self.outgoing.release(call).ok_or(Ended)
    }

    pub(super) fn cancel(&mut self, call: OutgoingCall) -> Result<T, Ended> {
        let value = self.abandon(call)?;
        self.transmits.push(Transmit::Cancel(call.id()));
        Ok(value)
    }

    #[inline]
    pub(super) fn is_open_incoming(&self, call: IncomingCall) -> bool {
        self.incoming.is_open(call)
    }

    #[inline]
    pub(super) fn end_call(
        &mut self,
        call: IncomingCall,
        payload: Payload,
    ) -> Result<(), ReplyError> {
        self.end_incoming(call, payload)
    }

    #[inline]
    pub(super) fn fail(
        &mut self,
        call: IncomingCall,
        status: Code,
        payload: Payload,
    ) -> Result<Head, ReplyError> {
        let status = if status == Code::Ok { Code::Unknown } else { status };
        self.end_incoming(call, payload)?;
        Ok(Frame::Error { id: call.id(), status, payload }.encode())
    }

    /// Whether the version of the connection has headers.
    pub(super) fn has_headers(&self) -> bool {
        self.peer.version >= HEADERS_VERSION
    }

    pub(super) fn send_headers(
        &mut self,
        call: IncomingCall,
        metadata_bytes: u16,
    ) -> Result<Head, ReplyError> {
        let frame = Frame::Headers { id: call.id(), metadata_bytes };
        if !self.incoming.is_open(call) {
            return Err(ReplyError::Ended);
        }
        if !self.has_headers() || !self.fits(frame.payload()) {
            return Err(ReplyError::TooLarge);
        }
        if self.has_transmit() {
            return Err(ReplyError::TransmitFirst);
        }
        Ok(frame.encode())
    }

    /// Takes the headers of a call of this end.
    fn handle_headers(
        &mut self,
        id: CallId,
        payload: Payload,
    ) -> Result<Option<Event>, ProtocolError> {
        if !self.has_headers() {
            return Err(ProtocolError::UnknownKind { kind: Kind::Headers as u8 });
        }
        let standing = self.outgoing.standing(id);
        if standing == Standing::Unknown {
            return Err(ProtocolError::HeadersOfUnknownCall);
        }
        let has_items = self.outgoing.streams.get_mut(id).is_some_and(|it| it.has_items());
        if has_items || !self.outgoing.note_headers(id) {
            return Err(ProtocolError::HeadersTooLate);
        }
        let event = Event::Headers { call: OutgoingCall(id), payload };
        Ok((standing == Standing::Open).then_some(event))
    }

    pub(super) fn ping(&mut self, now: Time) -> Result<(), PingError> {
        if self.ping != Ping::Answered {
            return Err(PingError::Unanswered);
        }
        self.ping = Ping::Queued(now);
        self.ping_number = self.ping_number.wrapping_add(1);
        self.transmits.push(Transmit::Ping(self.ping_number));
        Ok(())
    }

    pub(super) fn queue_goaway(&mut self) {
        self.transmits.push(Transmit::GoAway);
    }

    pub(super) fn queue_last_goaway(&mut self) {
        self.transmits.push(Transmit::LastGoAway);
    }

    #[inline]
    pub(super) fn has_transmit(&self) -> bool {
        !self.transmits.is_empty()
    }

    pub(super) fn poll_transmit(&mut self) -> Option<Head> {
        self.let_last_wait();
        let head = match self.transmits.pop()? {
            Transmit::Hello => self.greeting.take()?,
            Transmit::Cancel(id) => Frame::Cancel { id }.encode(),
            Transmit::Error(slot) => {
                let (id, status) = self.incoming.take_failure(slot)?;
                match status {
                    Code::Unavailable => Frame::Refused { id }.encode(),
                    _ => Frame::Error { id, status, payload: Payload::EMPTY }.encode(),
                }
            }
            Transmit::Ping(number) => {
                if let Ping::Queued(since) = self.ping {
                    self.ping = Ping::Sent(since);
                }
                Frame::Ping { number }.encode()
            }
            Transmit::Pong(number) => {
                self.owes_pong = false;
                Frame::Pong { number }.encode()
            }
            Transmit::GoAway => Frame::GoAway.encode(),
            Transmit::LastGoAway => Frame::LastGoAway.encode(),
            Transmit::Switch => self.take_switch_frame()?,
            Transmit::OutgoingCredit(slot) => {
                let (id, bytes) = self.outgoing.streams.take_credit(slot)?;
                Frame::Credit { id, to_caller: false, bytes }.encode()
            }
            Transmit::IncomingCredit(slot) => {
                let (id, bytes) = self.incoming.streams.take_credit(slot)?;
                Frame::Credit { id, to_caller: true, bytes }.encode()
            }
        };
        self.drop_unwanted();
        Some(head)
    }

    #[inline]
    pub(super) fn next_deadline(&self) -> Time {
        self.outgoing.next_deadline().min(self.incoming.next_deadline())
    }

    /// Whether no call is open, nothing waits to be sent, and no end is between two channels.
    pub(super) fn is_idle(&self) -> bool {
        let is_moving = self.switch.as_ref().is_some_and(|switch| switch.is_moving());
        let is_idle = self.outgoing.open() == 0 && self.incoming.open() == 0;
        is_idle && !is_moving && !self.has_transmit()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            outgoing_open: self.outgoing.open(),
            incoming_open: self.incoming.open(),
            answers_late: self.answers_late,
            calls_refused: self.calls_refused,
            items_late: self.items_late,
        }
    }

    /// Whether a request may be sent now.
    #[inline]
    pub(super) fn validate(&self, now: Time, request: &Request) -> Result<(), StartError> {
        let is_in_time = request.deadline == Time::NEVER || request.deadline > now;
        if self.fits(request.payload) && is_in_time && !self.has_transmit() {
            return Ok(());
        }
        Err(self.start_error(is_in_time, request))
    }

    /// Why a request may not be sent now.
    #[cold]
    fn start_error(&self, is_in_time: bool, request: &Request) -> StartError {
        let Payload { metadata_bytes, .. } = request.payload;
        let message_bytes = request.payload.message_bytes();
        let message_bytes_max = self.peer.message_bytes_max as usize;
        if metadata_bytes > self.peer.metadata_bytes_max {
            return StartError::MetadataTooLarge {
                metadata_bytes: metadata_bytes.into(),
                metadata_bytes_max: self.peer.metadata_bytes_max.into(),
            };
        }
        if !self.fits(request.payload) {
            return StartError::TooLarge { message_bytes, message_bytes_max };
        }
        match is_in_time {
            false => StartError::DeadlineExceeded,
            true => StartError::TransmitFirst,
        }
    }

    #[inline]
    fn end_incoming(&mut self, call: IncomingCall, payload: Payload) -> Result<(), ReplyError> {
        if !self.incoming.is_open(call) {
            return Err(ReplyError::Ended);
        }
        if !self.fits(payload) {
            return Err(ReplyError::TooLarge);
        }
        if self.has_transmit() {
            return Err(ReplyError::TransmitFirst);
        }
        self.incoming.end(call).map_err(|Ended| ReplyError::Ended)
    }

    #[inline]
    pub(super) fn fits(&self, payload: Payload) -> bool {
        let is_empty = payload.message_bytes() == HEADER_BYTES;
        payload.metadata_bytes <= self.peer.metadata_bytes_max
            && (is_empty || payload.message_bytes() <= self.peer.message_bytes_max as usize)
    }

    fn end_with(&mut self, call: IncomingCall, status: Code) {
        if let Some(slot) = self.incoming.end_with(call, status) {
            self.transmits.push(Transmit::Error(slot));
        }
        // The error may have the place of an earlier one, before the credit.
        self.incoming.streams.forget_credit(call.id());
        self.drop_unwanted();
    }

    /// Takes errors and credits of calls that have ended, for which the peer does not wait any
    /// more, from the front of the queue. Each was pushed once, so all rounds together are no more
    /// work than pushing.
    pub(super) fn drop_unwanted(&mut self) {
        loop {
            match self.transmits.front() {
                Some(Transmit::Error(slot)) if !self.incoming.is_failing(slot) => {
                    self.incoming.take_failure(slot);
                }
                Some(Transmit::IncomingCredit(slot))
                    if !self.incoming.streams.is_granting(slot) =>
                {
                    self.incoming.streams.take_credit(slot);
                }
                Some(Transmit::Switch) if self.is_switch_silent() => self.is_switch_queued = false,
                _ => return,
            }
            self.transmits.pop();
        }
    }
}

/// The oldest version in which a connection can move to another channel.
const SWITCHING_VERSION: u8 = 2;

/// The oldest version in which headers precede the first item and the answer.
const HEADERS_VERSION: u8 = 3;
