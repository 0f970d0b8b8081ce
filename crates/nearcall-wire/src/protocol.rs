//! One connection: the state machine of calls in both directions.
//!
//! `handle_*` takes something from outside, `poll_*` gives something out. What a message brings is
//! returned at once, because the message is at hand only then; what time or the end brings waits in
//! [`CallProtocol::poll_event`].
//! **Invariants:** a call ends exactly once, by an event or by the method that ended it; nothing is
//! queued without a bound, and the tables grow only with the calls that are open at once.
//! **Not here:** the states (`protocol/greeting.rs`, `open.rs`, `draining.rs`, `closed.rs`), what
//! open and draining connections share (`session.rs`), what comes out (`event.rs`).
//!
//! **Invariant:** a message that no correct peer sends closes the connection with the error that
//! names the violation. *Checked by* `tests/it/hostile.rs`, one test for each attack, and
//! `tests/it/violations.rs`.

mod closed;
mod draining;
mod event;
mod greeting;
mod open;
mod session;
mod streaming;
mod switching;
mod transmits;

pub use event::{CancelReason, CloseReason, Counts, End, Event, Peer, PlainMessage, Request};

use self::closed::Closed;
use self::draining::Draining;
use self::greeting::Greeting;
use self::open::Open;
use self::session::Session;
use crate::call_id::{IncomingCall, OutgoingCall};
use crate::call_table::Outgoing;
use crate::error::{Ended, PingError, ProtocolError, ReplyError, StartError};
use crate::frame::{Head, Kind, Payload, Plain};
use crate::hello::InstanceId;
use crate::limits::Limits;
use crate::status::Code;
use crate::time::Time;

/// One end of a connection. Both ends are alike.
///
/// No method blocks or copies more than a header. It allocates only when more calls are open at
/// once than ever before.
///
/// There are four kinds of methods:
///
/// - **Getters** change nothing and may be called at any time: [`is_open`](Self::is_open),
///   [`is_cancelled`](Self::is_cancelled), [`outgoing_calls`](Self::outgoing_calls),
///   [`value`](Self::value), [`switch_state`](Self::switch_state), [`counts`](Self::counts) and
///   their like.
/// - **Handlers** take what has happened outside: [`handle_plain`](Self::handle_plain) and
///   [`handle_message`](Self::handle_message) a message, [`handle_timeout`](Self::handle_timeout) a
///   moment, [`handle_closed`](Self::handle_closed) the end of the channel.
/// - **Mutators** take what the driver wants: to begin a call ([`start_call`](Self::start_call)),
///   to end one ([`reply`](Self::reply), [`fail`](Self::fail), [`cancel`](Self::cancel)), to stream
///   ([`send_item`](Self::send_item), [`consume`](Self::consume)), to end or move the connection
///   ([`drain`](Self::drain), [`begin_switch`](Self::begin_switch)). A header that one of them
///   returns is the next that is sent.
/// - **Polls** give out what follows: [`poll_event`](Self::poll_event),
///   [`poll_transmit`](Self::poll_transmit), [`poll_timeout`](Self::poll_timeout).
///
/// After a handler or a mutator, first take all events, then send what there is to transmit, then
/// ask for the next timeout. Handle the event that `handle_message` returns before all of these,
/// while the message is at hand. A mutator that returns a header wants nothing left to transmit
/// before it; one that sends nothing itself leaves it in the next transmit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallProtocol<T = ()> {
    state: State<T>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State<T> {
    Greeting(Greeting),
    Open(Open<T>),
    Draining(Draining<T>),
    Closed(Closed<T>),
}

impl CallProtocol {
    /// Creates a connection without values for calls. It has nothing to do but greet.
    ///
    /// How long to wait for the peer's greeting is for the driver to decide.
    #[must_use]
    pub fn new(instance: InstanceId, limits: Limits) -> Self {
        Self::with_values(instance, limits)
    }
}

impl<T: Default> CallProtocol<T> {
    /// Creates a connection that keeps a value of the driver for each call that this end makes,
    /// the default at first. It has nothing to do but greet.
    #[must_use]
    pub fn with_values(instance: InstanceId, limits: Limits) -> Self {
        Self { state: State::Greeting(Greeting::new(instance, limits)) }
    }

    /// Takes a message: a copy of its first bytes, [`HEADER_BYTES`](crate::HEADER_BYTES) or more if
    /// it has as many, and its length. Treat the event before the message is released. `now` counts
    /// only for a message of which [`needs_time`](crate::needs_time) returns so.
    ///
    /// # Errors
    ///
    /// What the peer did. The connection is closed then: close the channel, take the events.
    pub fn handle_message(
        &mut self,
        now: Time,
        head: &[u8],
        message_bytes: usize,
    ) -> Result<Option<Event>, ProtocolError> {
        let result = match &mut self.state {
            State::Open(open) => open.handle_message(now, head, message_bytes),
            _ => self.handle_message_slow(now, head, message_bytes),
        };
        if let Ok(Some(Event::PeerDrains | Event::PeerDrained)) | Err(_) = result {
            self.follow(result);
        }
        result
    }

    /// Takes a message as [`handle_message`](Self::handle_message) does, if it is a call or one-way
    /// message without a deadline or the reply to an open call, and nothing is wrong with it.
    /// `None`: nothing has changed, and `handle_message` has to take it.
    ///
    /// Most messages are one of the three. They are judged once, in registers.
    #[inline(always)]
    pub fn handle_plain(&mut self, head: &[u8], message_bytes: usize) -> Option<PlainMessage> {
        let State::Open(Open { session }) = &mut self.state else { return None };
        let head = head.first_chunk()?;
        // Each is read with a kind that the compiler knows.
        let (kind, plain) = match Plain::kind(head)? {
            Kind::Call => (Kind::Call, Plain::read(head, Kind::Call, message_bytes)?),
            Kind::Oneway => (Kind::Oneway, Plain::read(head, Kind::Oneway, message_bytes)?),
            _ => (Kind::Reply, Plain::read(head, Kind::Reply, message_bytes)?),
        };
        let Plain { id, object, method, payload } = plain;
        if !session.is_within_limits(payload, message_bytes) {
            return None;
        }
        match kind {
            Kind::Call => {
                session.incoming.take_call(id)?;
            }
            Kind::Oneway => {}
            _ => {
                session.outgoing.take_answer(id)?;
            }
        }
        Some(PlainMessage { kind, id, object, method, payload })
    }

    #[cold]
    fn handle_message_slow(
        &mut self,
        now: Time,
        head: &[u8],
        message_bytes: usize,
    ) -> Result<Option<Event>, ProtocolError> {
        match &mut self.state {
            State::Greeting(greeting) => {
                let (state, peer) = greeting.handle_message(head, message_bytes)?;
                self.state = state;
                Ok(Some(Event::Opened(peer)))
            }
            State::Open(open) => open.handle_message(now, head, message_bytes),
            State::Draining(draining) => draining.handle_message(now, head, message_bytes),
            State::Closed(_) => Ok(None), // Whatever was still under way.
        }
    }

    /// Goes to the state that follows from what a message was.
    #[cold]
    fn follow(&mut self, result: Result<Option<Event>, ProtocolError>) {
        match result {
            Ok(Some(Event::PeerDrains)) => self.change(|state| match state {
                State::Open(open) => State::Draining(open.drain(true)),
                other => other,
            }),
            Ok(Some(Event::PeerDrained)) => self.close(CloseReason::Drained),
            Err(error) => self.close(CloseReason::ProtocolViolation(error)),
            Ok(_) => {}
        }
    }

    /// Returns whether both ends have greeted and neither has sent GOAWAY, so that calls can be
    /// started.
    #[must_use]
    #[inline]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Ends the calls whose deadline is not after `now`, one with each
    /// [`poll_event`](Self::poll_event).
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(session) = self.session() {
            session.handle_timeout(now);
        }
    }

    /// Notes that the channel is gone. All calls end, one with each
    /// [`poll_event`](Self::poll_event).
    pub fn handle_closed(&mut self) {
        self.close(CloseReason::Closed);
    }

    /// Starts a call. Send the header that comes back, then metadata and body, before anything
    /// else. `now` counts only if the request has a timeout.
    ///
    /// # Errors
    ///
    /// Why nothing was started. [`StartError::status`] is the status of the call then.
    #[inline]
    pub fn start_call(
        &mut self,
        now: Time,
        request: &Request,
    ) -> Result<(OutgoingCall, Head), StartError> {
        let call = self.open_call(now, request)?;
        Ok((call, request.call_head(now, call)))
    }

    /// As [`start_call`](Self::start_call), for a driver that writes the header where it belongs:
    /// it is [`Request::call_head`].
    ///
    /// # Errors
    ///
    /// As [`start_call`](Self::start_call).
    #[inline]
    pub fn open_call(&mut self, now: Time, request: &Request) -> Result<OutgoingCall, StartError> {
        self.open()?.open_call(now, request)
    }

    /// Makes the header of a message that is never answered. Send it before anything else.
    ///
    /// # Errors
    ///
    /// Why nothing was made.
    #[inline]
    pub fn start_oneway(&mut self, now: Time, request: &Request) -> Result<Head, StartError> {
        self.validate_oneway(now, request)?;
        Ok(request.oneway_head(now))
    }

    /// As [`start_oneway`](Self::start_oneway), for a driver that writes the header where it
    /// belongs: it is [`Request::oneway_head`].
    ///
    /// # Errors
    ///
    /// As [`start_oneway`](Self::start_oneway).
    #[inline]
    pub fn validate_oneway(&mut self, now: Time, request: &Request) -> Result<(), StartError> {
        self.open()?.validate(now, request)
    }

    /// Ends and releases a call whose header was never sent. Returns its value.
    ///
    /// # Errors
    ///
    /// It had ended before.
    pub fn abandon(&mut self, call: OutgoingCall) -> Result<T, Ended> {
        self.session().ok_or(Ended)?.abandon(call)
    }

    /// Returns the value of a call that was not released.
    #[must_use]
    #[inline]
    pub fn value(&self, call: OutgoingCall) -> Option<&T> {
        match &self.state {
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                session.outgoing.value(call)
            }
            State::Closed(Closed { session, .. }) => session.as_ref()?.outgoing.value(call),
            State::Greeting(_) => None,
        }
    }

    /// Returns the value of a call that was not released.
    #[inline]
    pub fn value_mut(&mut self, call: OutgoingCall) -> Option<&mut T> {
        self.calls()?.value_mut(call)
    }

    /// Frees the place of a call that has ended, and returns its value. `None`: the call is open,
    /// or was released before.
    #[inline]
    pub fn release(&mut self, call: OutgoingCall) -> Option<T> {
        self.calls()?.release(call)
    }

    /// Frees the places of all calls that have ended and were not released, and gives their values
    /// to `keep`, which gives back what is to stay. So results that are not taken yet hold up no
    /// new call, if the driver has room for them.
    pub fn release_ended(&mut self, keep: impl FnMut(OutgoingCall, T) -> Option<T>) {
        if let Some(calls) = self.calls() {
            calls.release_ended(keep);
        }
    }

    /// Returns whether a call that is started now finds a place.
    pub fn has_free_slot(&mut self) -> bool {
        self.calls().is_some_and(|calls| calls.has_free_slot())
    }

    /// Ends and releases a call, without an event, and informs the peer in the next transmit.
    /// Returns its value.
    ///
    /// # Errors
    ///
    /// It had ended before; the event of that has been or will be given. Release it.
    pub fn cancel(&mut self, call: OutgoingCall) -> Result<T, Ended> {
        self.session().ok_or(Ended)?.cancel(call)
    }

    /// Ends a call of the peer. Send the header that comes back, metadata and result.
    ///
    /// # Errors
    ///
    /// Why there is nothing to send; whether the call is still open.
    #[inline]
    pub fn reply(&mut self, call: IncomingCall, payload: Payload) -> Result<Head, ReplyError> {
        self.end_call(call, payload)?;
        Ok(call.reply_head(payload))
    }

    /// As [`reply`](Self::reply), for a driver that writes the header where it belongs: it is
    /// [`IncomingCall::reply_head`].
    ///
    /// # Errors
    ///
    /// As [`reply`](Self::reply).
    #[inline]
    pub fn end_call(&mut self, call: IncomingCall, payload: Payload) -> Result<(), ReplyError> {
        self.session().ok_or(ReplyError::Ended)?.end_call(call, payload)
    }

    /// Ends a call of the peer with an error. Send the header that comes back, metadata and a text.
    ///
    /// [`Code::Ok`] is no error and is sent as [`Code::Unknown`].
    ///
    /// # Errors
    ///
    /// Why there is nothing to send; whether the call is still open.
    #[inline]
    pub fn fail(
        &mut self,
        call: IncomingCall,
        status: Code,
        payload: Payload,
    ) -> Result<Head, ReplyError> {
        self.session().ok_or(ReplyError::Ended)?.fail(call, status, payload)
    }

    /// Makes the header of the headers of a call of the peer, which goes on: metadata that reach
    /// the caller before the items and the answer. Send it, then the metadata: once for each call,
    /// and before the first item.
    ///
    /// # Errors
    ///
    /// Why there is nothing to send. [`ReplyError::TooLarge`] also of a peer whose version has no
    /// headers: send them with the answer.
    pub fn send_headers(
        &mut self,
        call: IncomingCall,
        metadata_bytes: u16,
    ) -> Result<Head, ReplyError> {
        self.session().ok_or(ReplyError::Ended)?.send_headers(call, metadata_bytes)
    }

    /// Sets whether messages of the peer may have references from now on: the channel that they
    /// come by has changed.
    pub fn set_references(&mut self, references: bool) {
        if let Some(session) = self.session() {
            session.references = references;
        }
    }

    /// Returns whether a call of the peer waits for no reply any more: it was cancelled or
    /// answered, its time is up, or the connection has ended.
    #[must_use]
    #[inline]
    pub fn is_cancelled(&self, call: IncomingCall) -> bool {
        match &self.state {
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                !session.is_open_incoming(call)
            }
            State::Greeting(_) | State::Closed(_) => true,
        }
    }

    /// Asks the peer for a sign of life in the next transmit; [`Event::Pong`] is the answer.
    ///
    /// # Errors
    ///
    /// Why nothing was asked.
    pub fn ping(&mut self, now: Time) -> Result<(), PingError> {
        match &mut self.state {
            State::Greeting(_) => Err(PingError::NotOpen),
            State::Closed(_) => Err(PingError::Closed),
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                session.ping(now)
            }
        }
    }

    /// Begins the end: no new calls from here on, either way; those that are open go on.
    ///
    /// Calls of the peer that cross the news are answered with `UNAVAILABLE`, one-way messages that
    /// cross it are still delivered. [`Event::Drained`] comes when the channel may be closed.
    pub fn drain(&mut self) {
        self.change(|state| match state {
            State::Greeting(greeting) => State::Greeting(greeting.drain()),
            State::Open(open) => State::Draining(open.drain(false)),
            other => other,
        });
    }

    /// Ends a connection that drains and over which no call of the peer is open, without waiting
    /// for the peer's GOAWAY: in the next transmit the peer learns that what it has sent meanwhile
    /// has not begun. Close the channel once that is sent.
    pub fn end_drain(&mut self) {
        if let State::Draining(draining) = &mut self.state
            && draining.session.incoming.open() == 0
        {
            draining.end();
        }
    }

    /// Returns whether [`poll_transmit`](Self::poll_transmit) has something.
    #[must_use]
    #[inline]
    pub fn has_transmit(&self) -> bool {
        match &self.state {
            State::Greeting(greeting) => greeting.has_transmit(),
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                session.has_transmit()
            }
            State::Closed(_) => false,
        }
    }

    /// The next message of this crate's own: a header and nothing behind it. Claim the room before,
    /// since it has to be sent then, and before anything else.
    pub fn poll_transmit(&mut self) -> Option<Head> {
        match &mut self.state {
            State::Greeting(greeting) => greeting.poll_transmit(),
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                session.poll_transmit()
            }
            State::Closed(_) => None,
        }
    }

    /// The next thing that time or the end of the connection brought.
    pub fn poll_event(&mut self) -> Option<Event> {
        match &mut self.state {
            State::Greeting(_) => None,
            State::Open(Open { session }) => session.poll_passed(),
            State::Draining(draining) => draining.poll_event(),
            State::Closed(closed) => closed.poll_event(),
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout); none if there is no deadline.
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                Some(session.next_deadline()).filter(|&time| time != Time::NEVER)
            }
            State::Greeting(_) | State::Closed(_) => None,
        }
    }

    /// Returns how many calls of this end are open, and how many more may be at once. One that has
    /// ended counts as neither, although its place is taken until it is released.
    #[must_use]
    #[inline]
    pub fn outgoing_calls(&self) -> (usize, usize) {
        match &self.state {
            State::Open(Open { session }) => (session.outgoing.open(), session.outgoing.left()),
            State::Draining(Draining { session, .. }) => (session.outgoing.open(), 0),
            State::Greeting(_) | State::Closed(_) => (0, 0),
        }
    }

    /// Returns what is open, and what happened without an event.
    #[must_use]
    pub fn counts(&self) -> Counts {
        match &self.state {
            State::Greeting(_) => Counts::default(),
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                session.counts()
            }
            State::Closed(closed) => closed.counts(),
        }
    }

    #[inline]
    fn open(&mut self) -> Result<&mut Session<T>, StartError> {
        match &mut self.state {
            State::Open(Open { session }) => Ok(session),
            other => Err(other.start_error()),
        }
    }

    /// The calls of this end, also after the end of the connection.
    #[inline]
    fn calls(&mut self) -> Option<&mut Outgoing<T>> {
        match &mut self.state {
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                Some(&mut session.outgoing)
            }
            State::Closed(Closed { session, .. }) => Some(&mut session.as_mut()?.outgoing),
            State::Greeting(_) => None,
        }
    }

    #[inline]
    fn session(&mut self) -> Option<&mut Session<T>> {
        match &mut self.state {
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                Some(session)
            }
            State::Greeting(_) | State::Closed(_) => None,
        }
    }

    fn close(&mut self, reason: CloseReason) {
        self.change(|state| match state {
            State::Greeting(_) => State::Closed(Closed::new(None, reason)),
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                State::Closed(Closed::new(Some(session), reason))
            }
            State::Closed(closed) => State::Closed(closed), // The first reason stays.
        });
    }

    /// Replaces the state by one that is made from it.
    fn change(&mut self, to: impl FnOnce(State<T>) -> State<T>) {
        let placeholder = State::Closed(Closed::new(None, CloseReason::Closed));
        self.state = to(core::mem::replace(&mut self.state, placeholder));
    }
}

impl<T> State<T> {
    /// Why nothing can be started, if it is not open.
    #[cold]
    fn start_error(&self) -> StartError {
        match self {
            Self::Greeting(_) | Self::Open(_) => StartError::NotOpen,
            Self::Draining(_) => StartError::Draining,
            Self::Closed(_) => StartError::Closed,
        }
    }
}
