//! One connection: a channel and the call protocol on it.
//!
//! It returns what has happened as an [`Event`] and runs no service. Either end may call the other.
//! **Invariants:** nothing of it is borrowed when a function returns, so a service may use the
//! connection that its call came over; a call of this end ends exactly once; what the peer does
//! wrong ends this connection and nothing else.
//! **Not here:** sending (`connection/sending.rs`), receiving (`connection/receiving.rs`), what the
//! loop knows of it (`connection/activity.rs`, `connection/readiness.rs`), services
//! (`services/dispatch.rs`), waiting for several connections (`reactor.rs`).

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use nearcall_channel::account::{Accounts, Charge, Resource};
use nearcall_channel::limits::CONNECTION_BYTES;
use nearcall_channel::{
    Borrower, DataPath, Endpoint, HangUp, Mechanism, Options, Refusal, WaitPolicy,
};
use nearcall_os::clock;
use nearcall_wire::{
    CallProtocol, CancelReason, CloseReason, End, Event as ProtocolEvent, IncomingCall, InstanceId,
    OutgoingCall, PingError,
};

use crate::auto::Chooser;
use crate::connection::buffer_pool::BufferPool;
use crate::connection::connection_info::ConnectionInfo;
use crate::deadline::{self, Deadline};
use crate::limits::{ASKS_PER_MINUTE_MAX, CONTROL_PACKETS_PER_TURN_MAX, Limits};
use crate::metadata::Entries;
use crate::nesting::{Handler, Origin};
use crate::peer::Peer;
use crate::refusals::{ConnectionRefusals, RefusalKind, Refusals};
use crate::reservation::CallMemory;
use crate::status::{Code, Fate, Status};
use crate::trust::Trust;

mod activity;
mod borrowing;
pub(crate) mod buffer_pool;
pub(crate) mod call_counts;
mod calls;
pub(crate) mod connection_info;
mod headers;
mod host;
mod lending;
mod old_channel;
mod outbound;
mod outbox;
mod pumping;
mod readiness;
mod receiving;
mod recording;
mod send_mode;
mod send_status;
mod sending;
mod streaming;
mod switch_asks;
pub(crate) mod switch_history;
mod switching;
pub(crate) mod traffic;
mod unread;
mod upgrading;
mod watched_calls;

pub(crate) use self::activity::{Activity, Rounds};
use self::borrowing::Borrowing;
use self::call_counts::ServedCalls;
use self::calls::CallState;
pub(crate) use self::calls::{Outcome, Reply};
pub(crate) use self::host::{Host, LoopHost};
use self::lending::Lending;
use self::old_channel::OldChannel;
pub(crate) use self::outbound::{Oneway, Outgoing, UNARY};
use self::outbox::Outbox;
pub(crate) use self::readiness::{
    EmptyWakes, Readiness, ReadinessState, RoomWanted, Tokens, kernel_interest,
};
pub(crate) use self::receiving::{Event, InboundCall, RequestHead, split_payload};
use self::recording::Recorder;
pub(crate) use self::send_mode::{Need, NotSent, SendMode};
pub(crate) use self::sending::SMALL_BYTES;
use self::streaming::CallStreams;
pub(crate) use self::streaming::ItemUnsent;
use self::switching::Switching;
use self::traffic::Traffic;
use self::unread::Unread;
pub(crate) use self::upgrading::UpgradePlan;
use self::upgrading::Upgrading;
use self::watched_calls::WatchedCalls;

/// Names the objects that a peer may call: those of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerId(pub(crate) u32);

/// Shows what a connection has become.
pub(crate) type ShowMove = Box<dyn Fn(ConnectionInfo, HangUp) + Send + Sync>;

/// The parts that a connection is made with.
pub(crate) struct Setup<'a> {
    /// The address of the peer, for messages to people.
    pub(crate) name: String,
    pub(crate) instance: InstanceId,
    pub(crate) limits: &'a Limits,
    pub(crate) trust: Trust,
    /// Whose objects the peer may call; none on a connection that a client opened.
    pub(crate) serves: Option<ServerId>,
    /// Where a server counts what it refuses.
    pub(crate) refusals: Option<Arc<Refusals>>,
    /// How this end opens another channel in place of the first; none: it does not.
    pub(crate) switches: Option<Options>,
    /// It does so as a client when its server asks for it.
    pub(crate) follows_asks: bool,
    /// What chooses its mechanism; none: nothing does.
    pub(crate) chooser: Option<Box<Chooser>>,
}

/// A connection, of one thread unless its host says otherwise.
///
/// There are four kinds of methods:
///
/// - **Getters** change nothing that the peer or a caller could see: `is_closed`, `is_idle`,
///   `is_cancelled`, `outgoing_calls`, `has_inbound`, `has_pending_writes`, `next_due`, `traffic`,
///   `info`.
/// - **Handlers** take what has happened outside: `receive`, `receive_item` and `look_ahead` a
///   message, `flush` new room in the channel, `handle_timeout` a moment, `close` and `abort` the
///   end.
/// - **Mutators** take what a caller or a service wants: `request`, `cancel` and `half_close` of
///   calls of this end; `reply`, `answer` and `fail` of calls of the peer; `send_item` and
///   `consume_items` of both; `drain`, `ping` and `begin_switch` of the connection itself.
/// - **Polls** give out what follows: the [`Event`] of `receive`, `take_inbound` after
///   [`Event::Queued`], `take_outcome` of a call of this end, `take_switch_outcome`.
///
/// Whoever drives it goes round: `flush` if there are pending writes; `receive`; serve the call
/// that this has returned or queued; `finish_message`; `handle_timeout` once `next_due` has passed;
/// `arm` before a sleep, and no sleep if that returns false. Mutators may be called at any time,
/// also by a service that is being served; each sends at once what it can, and what the protocol
/// itself has to send is sent by `send_control` or with the next message.
pub(crate) struct Connection<H: Host = LoopHost> {
    inner: RefCell<Inner>,
    buffers: H::Buffers,
    host: H,
    /// Calls that came in and wait for their turn: found while a service asked whether it was
    /// cancelled, or too long for the stack.
    inbound: RefCell<VecDeque<InboundCall>>,
    has_inbound: Cell<bool>,
    /// The protocol has sent something by itself, after which it may have an event.
    owes_events: Cell<bool>,
    pub(crate) serves: Option<ServerId>,
    pub(crate) peer: Peer,
    pub(crate) name: String,
    mechanism: Cell<Mechanism>,
    wait: Cell<WaitPolicy>,
    /// Why it ended, once it has.
    close_reason: RefCell<Option<Status>>,
    is_closed: Cell<bool>,
    /// What calls of the peer take after their turn; none on a connection that charges nothing.
    pub(crate) memory: Option<Arc<CallMemory>>,
    /// What the server refused to this peer; none on a connection that a client opened.
    refusals: Option<ConnectionRefusals>,
    /// The peer was sent the reason.
    has_notified: Cell<bool>,
    /// The peer has said that it takes no more calls.
    peer_drains: Cell<bool>,
    /// The peer's process, once it has greeted.
    peer_instance: Cell<Option<InstanceId>>,
    /// The longest message that this end takes, in bytes.
    own_message_bytes_max: u32,
    /// The longest message that both ends agreed on, once the peer has greeted.
    message_bytes_max: Cell<u32>,
    /// The longest metadata that both ends agreed on, once the peer has greeted.
    metadata_bytes_max: Cell<u16>,
    lending: Lending,
    switching: RefCell<Switching>,
    upgrading: RefCell<Upgrading>,
    show_move: OnceCell<ShowMove>,
    chooser: Option<Box<Chooser>>,
    streams: RefCell<CallStreams>,
    /// There was a call that streams.
    has_streams: Cell<bool>,
    /// Those of open calls that do not stream, by their slots.
    headers: RefCell<BTreeMap<u16, (OutgoingCall, Entries)>>,
    has_headers: Cell<bool>,
    /// Bytes of items that the peer may have sent on each stream beyond what was read.
    stream_window_bytes: u32,
    watched_calls: WatchedCalls,
    recorder: Recorder,
    /// Loans of the peer are read where they lie.
    pub(crate) is_trusted: bool,
    /// Whose calls those of the peer count as.
    origin: Cell<Origin>,
    /// Memory that decoding a message of the peer may take, beyond its own bytes.
    pub(crate) decoded_bytes_max: u32,
    /// Packets of the control line that were taken by the last look at them.
    packets_seen: Cell<usize>,
    /// The longest deadline that calls of the peer get.
    deadline_max: Duration,
    unread: Unread,
    /// Its number at a server; 0: it has none.
    number: Cell<u64>,
    /// A call has asked for more than that. Counted once, since such calls are served.
    has_capped: Cell<bool>,
    /// The readiness of the connection in its loop.
    pub(crate) readiness: Readiness,
}

/// The call protocol, with the state of each call of this end.
type Protocol = CallProtocol<CallState>;

/// The part that moves messages: borrowed for one step at a time.
struct Inner {
    /// What messages are sent over; they are received over it, too, but for a moment of a switch.
    endpoint: Endpoint,
    /// The channel before the last switch, until both ends are done with it.
    old: Option<Box<OldChannel>>,
    /// What is lent by the new channel, until messages are received by that.
    next_borrower: Option<Borrower>,
    protocol: Protocol,
    /// None over mechanisms that lend nothing.
    borrowing: Option<Borrowing>,
    outbox: Outbox,
    /// The charge for a long message that is under way.
    receiving: Option<Charge>,
    /// Outcomes that were not taken yet of calls that lost their places to newer ones.
    results: HashMap<OutgoingCall, Outcome>,
    /// A message is in the channel's hands that the mechanism has not taken whole.
    unflushed: bool,
    traffic: Traffic,
    /// The mechanism takes a message of one fragment whole, or not at all.
    takes_whole: bool,
    /// The longest message that is sent as one fragment, in bytes.
    whole_bytes_max: usize,
    /// Items of services wait until everything else is in the channel.
    has_blocked_streams: bool,
}

impl Connection {
    /// Creates a connection over a channel that was just opened. Sends nothing yet. `activity` is
    /// the loop's; none for a client without a loop.
    pub(crate) fn new(
        endpoint: Endpoint,
        setup: Setup<'_>,
        buffers: &Rc<BufferPool>,
        activity: Option<&Rc<Activity>>,
    ) -> Rc<Self> {
        Rc::new_cyclic(|this| {
            let host = LoopHost::new(activity.map(Rc::clone), Weak::clone(this));
            Self::with_host(endpoint, setup, Rc::clone(buffers), host)
        })
    }
}

impl Connection {
    /// Returns what it reports to its loop; none without a loop.
    pub(crate) fn activity(&self) -> Option<&Rc<Activity>> {
        self.host.activity()
    }

    /// Returns what is counted of the calls of the peer.
    #[inline(always)]
    pub(crate) fn served(&self) -> &ServedCalls {
        self.host.served()
    }
}

impl<H: Host> Connection<H> {
    /// Creates a connection over a channel that was just opened. Sends nothing yet.
    pub(crate) fn with_host(
        endpoint: Endpoint,
        setup: Setup<'_>,
        buffers: H::Buffers,
        host: H,
    ) -> Self {
        let Setup { name, instance, limits, trust, serves, refusals, .. } = setup;
        let Setup { switches, follows_asks, chooser, .. } = setup;
        let (peer, memory) = (Peer::of(&endpoint), CallMemory::of(&endpoint));
        let trust = trust.covers(&peer).then(|| endpoint.trust()).flatten();
        let (is_trusted, origin) = (trust.is_some(), Origin::of_connection(peer.uid()));
        let (lender, borrower) = endpoint.arena().unzip();
        let borrowing = borrower.map(|borrower| Borrowing::new(borrower, trust));
        let mut wire_limits = limits.wire();
        wire_limits.references = borrowing.is_some();
        restrict(&mut wire_limits, &endpoint, switches.is_some(), serves);
        let (takes_whole, whole_bytes_max) = (takes_whole(&endpoint), whole_bytes_max(&endpoint));
        let outbox = Outbox::charged_to(serves.map(|_| charge_for_replies(&endpoint, &peer)));
        Self {
            peer,
            memory,
            mechanism: Cell::new(endpoint.mechanism()),
            wait: Cell::new(endpoint.wait_policy()),
            inner: RefCell::new(Inner {
                receiving: endpoint.account().map(|it| it.empty_charge(Resource::Bytes)),
                takes_whole,
                whole_bytes_max,
                endpoint,
                old: None,
                next_borrower: None,
                protocol: Protocol::with_values(instance, wire_limits),
                borrowing,
                outbox,
                results: HashMap::new(),
                unflushed: false,
                traffic: Traffic::default(),
                has_blocked_streams: false,
            }),
            buffers,
            host,
            inbound: RefCell::default(),
            has_inbound: Cell::new(false),
            owes_events: Cell::new(false),
            serves,
            name,
            close_reason: RefCell::default(),
            is_closed: Cell::new(false),
            refusals: refusals.map(ConnectionRefusals::new),
            has_notified: Cell::new(false),
            peer_drains: Cell::new(false),
            peer_instance: Cell::new(None),
            own_message_bytes_max: limits.message_bytes_max,
            message_bytes_max: Cell::new(wire_limits.message_bytes_max),
            metadata_bytes_max: Cell::new(wire_limits.metadata_bytes_max),
            lending: Lending::new(lender),
            switching: RefCell::new(Switching::new(switches, limits.switch_timeout, follows_asks)),
            upgrading: RefCell::default(),
            show_move: OnceCell::new(),
            chooser,
            streams: RefCell::default(),
            has_streams: Cell::new(false),
            headers: RefCell::default(),
            has_headers: Cell::new(false),
            stream_window_bytes: limits.stream_window_bytes,
            watched_calls: WatchedCalls::default(),
            recorder: Recorder::default(),
            is_trusted,
            origin: Cell::new(origin),
            decoded_bytes_max: limits.decoded_bytes_max,
            packets_seen: Cell::new(0),
            deadline_max: limits.deadline_max,
            unread: Unread::new(limits.unread_timeout),
            number: Cell::new(0),
            has_capped: Cell::new(false),
            readiness: Readiness::default(),
        }
    }

    /// Returns the handler of a call of the peer with this deadline.
    #[inline]
    pub(crate) fn handler(&self, deadline: Deadline) -> Handler {
        Handler { deadline, origin: self.origin.get(), deadline_max: self.deadline_max }
    }

    /// Returns whether the peer had this end take many packets from the control line since the last
    /// time.
    pub(crate) fn has_taken_time(&self) -> bool {
        let taken = self.inner.borrow().endpoint.control_packets();
        taken - self.packets_seen.replace(taken) > CONTROL_PACKETS_PER_TURN_MAX
    }

    /// Returns the mechanism that moves its messages.
    #[inline]
    pub(crate) fn mechanism(&self) -> Mechanism {
        self.mechanism.get()
    }

    /// Returns whether a look for messages is one at memory, and no system call.
    #[inline]
    pub(crate) fn takes_whole(&self) -> bool {
        self.inner.borrow().takes_whole
    }

    /// Returns how this end waits.
    #[inline]
    pub(crate) fn wait(&self) -> WaitPolicy {
        self.wait.get()
    }

    /// Returns whether it has ended.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Returns whether calls can be started on it.
    pub(crate) fn is_open(&self) -> bool {
        self.inner.borrow().protocol.is_open()
    }

    /// Returns whether the peer has not greeted yet.
    #[inline]
    pub(crate) fn is_greeting(&self) -> bool {
        !self.is_closed() && self.peer_instance.get().is_none()
    }

    /// Returns whether no call is under way, in either direction, and nothing waits to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        let counts = self.inner.borrow().protocol.counts();
        counts.incoming_open == 0
            && counts.outgoing_open == 0
            && !self.has_inbound()
            && !self.has_pending_writes()
    }

    /// Returns whether the peer has said that it takes no more calls.
    pub(crate) fn peer_drains(&self) -> bool {
        self.peer_drains.get()
    }

    /// Pings the peer. Returns false if it has not answered the last ping yet.
    pub(crate) fn ping(&self) -> bool {
        let now = deadline::to_wire(deadline::now());
        let is_unanswered =
            self.inner.borrow_mut().protocol.ping(now) == Err(PingError::Unanswered);
        self.send_control(Deadline::NOW);
        !is_unanswered
    }

    /// Returns the peer's process, as the peer claims.
    pub(crate) fn peer_instance(&self) -> Option<InstanceId> {
        self.peer_instance.get()
    }

    /// Returns its number at a server.
    pub(crate) fn number(&self) -> Option<u64> {
        Some(self.number.get()).filter(|number| *number != 0)
    }

    /// Sets its number at a server, above 0.
    pub(crate) fn set_number(&self, number: u64) {
        self.number.set(number);
    }

    /// Returns what tools show of it.
    pub(crate) fn info(&self) -> ConnectionInfo {
        let inner = self.inner.borrow();
        let borrowed = inner.borrowing.as_ref().map_or(0, Borrowing::places_out);
        ConnectionInfo {
            number: self.number(),
            name: self.name.clone(),
            peer: self.peer.clone(),
            mechanism: self.mechanism(),
            wait: self.wait(),
            is_trusted: self.is_trusted,
            thread: None,
            descriptors: inner.endpoint.descriptors(),
            room_bytes: 2 * inner.endpoint.buffer_bytes(),
            slots_lent: Some(self.lending.slots_out()),
            slots_borrowed: Some(borrowed),
            traffic: Some(inner.traffic),
            calls: self.serves.map(|_| self.host.call_counts().with_traffic(&inner.traffic)),
            wakes: Some(self.readiness.all_wakes(inner.endpoint.wakes())),
            automatic: self.chooser.as_ref().map(|chooser| chooser.explanation()),
            refusals: self.refusals.as_ref().map_or_else(Vec::new, ConnectionRefusals::counts),
            switches: self.switching.borrow().history.records(),
        }
    }

    /// Has `show` called each time that a client's connection has moved to another channel, with
    /// what others see of it, and what ends it.
    pub(crate) fn show_moves_by(&self, show: ShowMove) {
        // It has one owner.
        let _ = self.show_move.set(show);
    }

    /// Shows the channel that this end sends by from now on, or receives by, too.
    fn show_moved(&self) {
        if let Some(show) = self.show_move.get() {
            show(self.info(), self.with_endpoint(|endpoint| endpoint.hang_up_handle()));
        }
    }

    /// Returns what it has carried.
    pub(crate) fn traffic(&self) -> Traffic {
        self.inner.borrow().traffic
    }

    /// Returns what chooses its mechanism; none: nothing does.
    #[inline(always)]
    pub(crate) fn chooser(&self) -> Option<&Chooser> {
        self.chooser.as_deref()
    }

    /// Begins a call on a connection that may be automatic. Returns when it began, if it is timed.
    #[inline(always)]
    pub(crate) fn begin_sample(&self) -> Option<u64> {
        match self.chooser() {
            Some(chooser) if chooser.is_due() => chooser.begin(clock::monotonic_ns()),
            _ => None,
        }
    }

    /// Returns why it ended, or the status of a call that can no longer be made.
    #[cold]
    pub(crate) fn close_reason(&self) -> Status {
        let reason = self.close_reason.borrow().clone();
        reason.unwrap_or_else(|| Status::unavailable(format!("{} takes no more calls", self.name)))
    }

    /// Counts and logs that the server refused something to this peer.
    #[cold]
    pub(crate) fn note_refusal(&self, kind: RefusalKind, why: &str) {
        if let Some(refusals) = &self.refusals {
            refusals.note(kind, &self.peer, why);
        }
    }

    /// Returns whether a call of the peer waits for no reply any more.
    #[inline]
    pub(crate) fn is_cancelled(&self, call: IncomingCall) -> bool {
        self.inner.borrow().protocol.is_cancelled(call)
    }

    /// Reads the clock, and ends the calls, and the switch, whose deadlines have passed.
    pub(crate) fn handle_timeout(&self) {
        let now = deadline::now();
        self.inner.borrow_mut().protocol.handle_timeout(deadline::to_wire(now));
        self.handle_events();
        self.send_control(Deadline::NOW);
        self.handle_switch_timeout(now);
        self.handle_unread_timeout(now);
    }

    /// Returns when `handle_timeout` has something to do for a loop.
    pub(crate) fn next_due(&self) -> Deadline {
        self.next_deadline().min(self.switch_due()).min(self.unread_due())
    }

    /// Returns when `handle_timeout` has a call to end.
    pub(crate) fn next_deadline(&self) -> Deadline {
        let next = self.inner.borrow().protocol.poll_timeout();
        next.map_or(Deadline::NEVER, deadline::from_wire)
    }

    /// Ends the connection; all calls on it end with `reason`.
    pub(crate) fn close(&self, reason: Status) {
        if self.is_closed.replace(true) {
            return;
        }
        *self.close_reason.borrow_mut() = Some(reason);
        self.inner.borrow_mut().protocol.handle_closed();
        self.handle_events();
        self.end_ask();
        self.host.note_closed();
    }

    /// Ends the connection to a peer that does what no peer should, without waiting for it to read
    /// what it was sent.
    #[cold]
    pub(crate) fn abort(&self, reason: Status) {
        {
            let inner = &mut *self.inner.borrow_mut();
            inner.endpoint.discard_unsent();
            if let Some(old) = &mut inner.old {
                old.endpoint.discard_unsent();
            }
        }
        self.close(reason);
    }

    /// As [`abort`](Self::abort), and counts and logs the reason at a server.
    #[cold]
    pub(crate) fn abort_for(&self, kind: RefusalKind, reason: Status) {
        if !self.is_closed() {
            self.note_refusal(kind, reason.message());
        }
        self.abort(reason);
    }

    /// Ends a connection that the peer may not have, and sends it the reason.
    #[cold]
    pub(crate) fn refuse(&self, reason: Status) {
        let code = match reason.fate() {
            Fate::NotBegun => Refusal::Draining,
            _ => Refusal::Other,
        };
        self.with_endpoint(|endpoint| endpoint.refuse(code, reason.message()));
        self.close(reason);
    }

    /// Returns why the channel failed: the server's own reason, if it refused this client after the
    /// handshake.
    #[cold]
    fn failure(&self, is_peer_gone: bool, error: &dyn std::error::Error) -> Status {
        let refusal = || {
            let inner = &mut *self.inner.borrow_mut();
            // A server that has moved says it there.
            inner.receiver().take_refusal().or_else(|| inner.endpoint.take_refusal())
        };
        if self.serves.is_none()
            && let Some((code, why)) = refusal()
        {
            let did = if self.is_greeting() { "refused" } else { "ended" };
            let text = format!("{} {did} the connection: {why}", self.name);
            let fate = if code == Refusal::Draining { Fate::NotBegun } else { Fate::Answered };
            return Status::unavailable(text).with_fate(fate);
        }
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        if cause.is_some_and(|cause| cause.kind() == io::ErrorKind::OutOfMemory) {
            return Status::no_memory(format_args!(
                "the connection to {} failed: {error}",
                self.name
            ));
        }
        Status::unavailable(match is_peer_gone {
            true => format!("{} went away", self.name),
            false => format!("the connection to {} failed: {error}", self.name),
        })
    }

    /// Begins the end: calls under way go on, no new ones, either way.
    pub(crate) fn drain(&self) {
        self.inner.borrow_mut().protocol.drain();
        self.handle_events();
        self.send_control(Deadline::NOW);
    }

    /// Ends a drain for a peer that reads only when it calls, and so does not answer: it learns
    /// that what it has sent since has not begun. Close the connection then. False: there is no
    /// room for that yet, or a call of the peer is open.
    pub(crate) fn end_drain(&self) -> bool {
        self.inner.borrow_mut().protocol.end_drain();
        self.send_control(Deadline::NOW);
        self.is_idle() || self.is_closed()
    }

    /// Reports to the host that the connection was used, and when its next deadline passes.
    #[inline]
    fn touch(&self, deadline: Deadline) {
        H::touch(self, deadline);
    }

    /// Has the host look at the clock at the deadline of a call that is not answered yet.
    #[inline]
    pub(crate) fn note_deadline(&self, deadline: Deadline) {
        self.host.note_deadline(deadline);
    }

    /// Handles expired deadlines and the end of the connection.
    fn handle_events(&self) {
        loop {
            let Some(event) = self.inner.borrow_mut().protocol.poll_event() else { return };
            match event {
                ProtocolEvent::Ended { call, end } => {
                    let status = self.status_of(end);
                    self.complete(call, Err(status));
                }
                ProtocolEvent::Cancelled {
                    call,
                    reason: CancelReason::Closed(CloseReason::ProtocolViolation(error)),
                } => {
                    self.notify_violation(call.id(), &error);
                    let reason = CancelReason::Closed(CloseReason::ProtocolViolation(error));
                    self.end_incoming(call, reason);
                }
                ProtocolEvent::Cancelled { call, reason } => self.end_incoming(call, reason),
                ProtocolEvent::Drained => return self.close(self.close_reason()),
                _ => {}
            }
        }
    }

    fn status_of(&self, end: End) -> Status {
        match end {
            End::DeadlineExceeded => {
                self.unread.has_given_up.set(true);
                self.late()
            }
            End::Closed(CloseReason::ProtocolViolation(error)) => {
                Status::internal(format!("{} {error}; the connection is closed", self.name))
            }
            End::Closed(CloseReason::Closed) => match self.close_reason() {
                // The server had not even taken the greeting.
                refused if refused.has_not_begun() => refused,
                reason => reason.with_fate(Fate::Lost),
            },
            End::Refused | End::Closed(CloseReason::Drained) => self.not_begun(),
            End::Reply(_) | End::Error { .. } => {
                Status::new(Code::Internal, "an end without bytes")
            }
        }
    }

    /// Returns the status of a call that a draining peer did not begin.
    #[cold]
    fn not_begun(&self) -> Status {
        let text = format!("{} takes no more calls; the method has not run", self.name);
        Status::unavailable(text).with_fate(Fate::NotBegun)
    }

    /// Returns the status of a call whose deadline has passed.
    fn late(&self) -> Status {
        Status::deadline_exceeded(format!(
            "no answer from {} in time; the method may have run",
            self.name
        ))
    }

    /// Notes that the peer does not wait for the end of a call any more.
    fn end_incoming(&self, call: IncomingCall, reason: CancelReason) {
        if self.has_streams.get() {
            self.cancel_incoming_stream(call, reason);
        }
        if self.is_recorded() {
            self.record_cancel(call, reason);
        }
        let code = match reason {
            CancelReason::Cancelled => Code::Cancelled,
            CancelReason::DeadlineExceeded => Code::DeadlineExceeded,
            CancelReason::Closed(_) => Code::Unavailable,
        };
        self.host.count_end(call, code, 0);
        self.note_cancelled(call);
    }

    /// Returns what drives the connection.
    pub(crate) fn host(&self) -> &H {
        &self.host
    }

    /// Returns the buffers that messages are received into.
    pub(crate) fn buffers(&self) -> &BufferPool {
        &self.buffers
    }

    /// Returns how many calls of this end are open, and how many more may be.
    #[inline]
    pub(crate) fn outgoing_calls(&self) -> (usize, usize) {
        self.inner.borrow().protocol.outgoing_calls()
    }

    /// Uses the channel itself, for what only the loop needs of it.
    pub(crate) fn with_endpoint<T>(&self, use_it: impl FnOnce(&mut Endpoint) -> T) -> T {
        use_it(&mut self.inner.borrow_mut().endpoint)
    }
}

/// Returns what pays for the replies that wait: they have no bound but the share of their caller's
/// user, so each server charges them.
fn charge_for_replies(endpoint: &Endpoint, peer: &Peer) -> Charge {
    let of_process = || Accounts::of_process().user(peer.uid());
    let account = endpoint.account().cloned().unwrap_or_else(of_process);
    account.empty_charge(Resource::Bytes)
}

/// Has limits be no wider than the channel and say what this end does in switches, and a client be
/// asked no more often than is sane.
fn restrict(
    limits: &mut nearcall_wire::Limits,
    endpoint: &Endpoint,
    switches: bool,
    serves: Option<ServerId>,
) {
    limits.switching = switching_part(switches, serves);
    if serves.is_none() {
        limits.switches_per_minute_max = ASKS_PER_MINUTE_MAX;
    }
    let channel_max = u32::try_from(endpoint.message_bytes_max()).unwrap_or(u32::MAX);
    limits.message_bytes_max = limits.message_bytes_max.min(channel_max);
}

/// Returns the part of this end in switches.
fn switching_part(switches: bool, serves: Option<ServerId>) -> nearcall_wire::Switching {
    match (switches, serves) {
        (false, _) => nearcall_wire::Switching::Never,
        (true, None) => nearcall_wire::Switching::Client,
        (true, Some(_)) => nearcall_wire::Switching::Server,
    }
}

/// Returns the length of the longest message that is sent as one fragment, in bytes: longer ones
/// are charged while they wait.
fn whole_bytes_max(endpoint: &Endpoint) -> usize {
    endpoint.fragment_bytes_max().min(endpoint.message_bytes_max()).min(CONNECTION_BYTES)
}

/// Returns whether the mechanism takes a message of one fragment whole, or not at all.
fn takes_whole(endpoint: &Endpoint) -> bool {
    endpoint.mechanism().data_path() == DataPath::SharedMemory
        && endpoint.fragment_bytes_max() >= SMALL_BYTES
}
