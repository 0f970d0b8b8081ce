//! One connection: a channel, the call protocol on it, and the calls under way in both directions.
//!
//! Either end may call the other. Always true: no part of it is borrowed while a service runs, so a
//! service may use the same connection; a call of ours ends exactly once; what the peer does wrong
//! ends this connection and nothing else.
//! Not here: sending (`link/sending.rs`), receiving (`link/receiving.rs`), waiting for several
//! connections (`reactor.rs`), what a service is (`dispatch.rs`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::Waker;

use nearcall_channel::{DataPath, Deadline, Endpoint, Mechanism, WaitPolicy};
use nearcall_wire::{Connection, End, Event, Gone, IncomingCall, InstanceId, Time};

use crate::connection_info::ConnectionInfo;
use crate::core::Core;
use crate::lent::LentParts;
use crate::limits::Limits;
use crate::options;
use crate::peer::Peer;
use crate::server::ServerCore;
use crate::status::{Code, Status};
use crate::trust::Trust;

mod borrowing;
mod calls;
mod lending;
mod opening;
mod outbox;
mod receiving;
mod sending;

use self::borrowing::Borrowing;
pub(crate) use self::calls::{Calls, Outcome, Reply, Ticket};
use self::lending::Lending;
use self::outbox::Outbox;
pub(crate) use self::receiving::{Arrival, NEAR, Took};
pub(crate) use self::sending::Outgoing;
use self::sending::SMALL_BYTES;

/// A connection.
pub(crate) struct Link {
    pub(crate) core: Rc<Core>,
    inner: RefCell<Inner>,
    calls: RefCell<Calls>,
    /// Calls that came in while a service asked whether it was cancelled.
    postponed: RefCell<VecDeque<Arrival>>,
    has_postponed: Cell<bool>,
    /// The protocol has sent something by itself, after which it may have something to tell.
    owes_look: Cell<bool>,
    /// Whose objects the peer may call; none on a connection that a client opened.
    pub(crate) server: Option<Weak<ServerCore>>,
    pub(crate) peer: Peer,
    /// Where the peer is, for messages to people.
    pub(crate) name: String,
    pub(crate) mechanism: Mechanism,
    pub(crate) wait: WaitPolicy,
    /// Why it ended, once it has.
    ended: RefCell<Option<Status>>,
    is_gone: Cell<bool>,
    /// The peer's process, once it has greeted.
    peer_instance: Cell<Option<InstanceId>>,
    /// The longest message that both ends agreed on, once the peer has greeted.
    message_bytes_max: Cell<u32>,
    lending: Lending,
    /// Lent parts of the message that is at hand.
    lent: Cell<Option<Box<LentParts>>>,
    /// Loans of the peer are read where they lie.
    pub(crate) is_trusted: bool,
    /// How the loop watches it.
    pub(crate) watch: crate::reactor::Watch,
}

/// What moves messages: borrowed for one step at a time.
struct Inner {
    endpoint: Endpoint,
    wire: Connection,
    /// None over mechanisms that lend nothing.
    borrowing: Option<Borrowing>,
    outbox: Outbox,
    /// A message is in the channel's hands that the mechanism has not taken whole.
    unflushed: bool,
    /// The mechanism takes a small message whole, or not at all.
    takes_whole: bool,
}

impl Link {
    /// A connection over a channel that was just opened. Nothing is sent yet.
    pub(crate) fn new(
        core: &Rc<Core>,
        endpoint: Endpoint,
        name: String,
        instance: InstanceId,
        limits: &Limits,
        trust: Trust,
        server: Option<Weak<ServerCore>>,
    ) -> Rc<Self> {
        let peer = Peer::of(&endpoint);
        let is_trusted = trust.covers(&peer);
        let (lender, borrower) = endpoint.arena().unzip();
        let borrowing = borrower.map(|borrower| Borrowing::new(borrower, is_trusted));
        let mut wire_limits = limits.wire();
        wire_limits.references = borrowing.is_some();
        let takes_whole = endpoint.mechanism().data_path() == DataPath::SharedMemory
            && endpoint.fragment_bytes_max() >= SMALL_BYTES;
        let channel_max = u32::try_from(endpoint.message_bytes_max()).unwrap_or(u32::MAX);
        wire_limits.message_bytes_max = wire_limits.message_bytes_max.min(channel_max);
        Rc::new(Self {
            core: Rc::clone(core),
            peer,
            mechanism: endpoint.mechanism(),
            wait: endpoint.wait_policy(),
            inner: RefCell::new(Inner {
                endpoint,
                wire: Connection::new(instance, wire_limits),
                borrowing,
                outbox: Outbox::default(),
                unflushed: false,
                takes_whole,
            }),
            calls: RefCell::default(),
            postponed: RefCell::default(),
            has_postponed: Cell::new(false),
            owes_look: Cell::new(false),
            server,
            name,
            ended: RefCell::default(),
            is_gone: Cell::new(false),
            peer_instance: Cell::new(None),
            message_bytes_max: Cell::new(wire_limits.message_bytes_max),
            lending: Lending::new(lender),
            lent: Cell::default(),
            is_trusted,
            watch: crate::reactor::Watch::default(),
        })
    }

    /// Whether it has ended.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.get()
    }

    /// Whether calls can be started on it.
    pub(crate) fn is_open(&self) -> bool {
        self.inner.borrow().wire.is_open()
    }

    /// Whether the peer has not greeted yet.
    #[inline]
    pub(crate) fn is_greeting(&self) -> bool {
        !self.is_gone() && self.peer_instance.get().is_none()
    }

    /// The peer's process, as it says itself.
    pub(crate) fn peer_instance(&self) -> Option<InstanceId> {
        self.peer_instance.get()
    }

    /// What tools show of it.
    pub(crate) fn info(&self) -> ConnectionInfo {
        let borrowed = self.inner.borrow().borrowing.as_ref().map_or(0, Borrowing::places_out);
        ConnectionInfo {
            name: self.name.clone(),
            peer: self.peer.clone(),
            mechanism: self.mechanism,
            wait: self.wait,
            is_trusted: self.is_trusted,
            slots_lent: self.lending.slots_out(),
            slots_borrowed: borrowed,
        }
    }

    /// Why it ended, or what a call says that can no longer be made.
    pub(crate) fn why_gone(&self) -> Status {
        let ended = self.ended.borrow().clone();
        ended.unwrap_or_else(|| Status::unavailable(format!("{} takes no more calls", self.name)))
    }

    /// Whether a call of the peer still waits for its answer.
    #[inline]
    pub(crate) fn is_wanted(&self, call: IncomingCall) -> bool {
        self.inner.borrow().wire.is_wanted(call)
    }

    /// Looks at the clock for deadlines that have passed, and ends their calls.
    pub(crate) fn handle_timeout(self: &Rc<Self>) {
        self.inner.borrow_mut().wire.handle_timeout(options::now());
        self.take_events();
        self.send_own(Deadline::NOW);
    }

    /// When `handle_timeout` has something to do.
    pub(crate) fn next_deadline(&self) -> Time {
        self.inner.borrow().wire.poll_timeout().unwrap_or(Time::NEVER)
    }

    /// Ends the connection; all calls on it end with `why`.
    pub(crate) fn close(self: &Rc<Self>, why: Status) {
        if self.is_gone.replace(true) {
            return;
        }
        *self.ended.borrow_mut() = Some(why);
        self.inner.borrow_mut().wire.handle_closed();
        self.take_events();
        self.core.forget(self);
    }

    /// Ends the connection to a peer that does what no peer should, without waiting for it to read
    /// what it was sent.
    #[cold]
    pub(crate) fn cut_off(self: &Rc<Self>, why: Status) {
        self.with_endpoint(Endpoint::discard_unsent);
        self.close(why);
    }

    /// Begins the end: calls under way go on, no new ones, either way.
    pub(crate) fn drain(self: &Rc<Self>) {
        self.inner.borrow_mut().wire.drain();
        self.take_events();
        self.send_own(Deadline::NOW);
    }

    /// Treats what time or the end of the connection brought.
    fn take_events(self: &Rc<Self>) {
        loop {
            let Some(event) = self.inner.borrow_mut().wire.poll_event() else { return };
            match event {
                Event::Ended { call, end } => {
                    let status = self.status_of(end);
                    let woken = self.calls.borrow_mut().end(call, Err(status));
                    wake(woken);
                }
                Event::Drained => return self.close(self.why_gone()),
                _ => {} // Services ask by themselves whether they are still wanted.
            }
        }
    }

    fn status_of(&self, end: End) -> Status {
        match end {
            End::DeadlineExceeded => Status::deadline_exceeded(format!(
                "no answer from {} in time; the method may have run",
                self.name
            )),
            End::Gone(Gone::Broken(error)) => {
                Status::internal(format!("{} {error}; the connection is closed", self.name))
            }
            End::Gone(Gone::Closed) => self.why_gone(),
            End::Reply(_) | End::Error { .. } => {
                Status::new(Code::Internal, "an end without bytes")
            }
        }
    }
}

fn wake(woken: Result<Option<Waker>, Outcome>) {
    if let Ok(Some(waker)) = woken {
        waker.wake();
    }
}
