//! Handshakes with clients and servers: each goes on when the other end has sent something, so that
//! a slow peer delays no other one.
//!
//! **Invariants:** of a bounded number of handshakes with clients, no user has more than half of
//! what the others leave; a user's next client takes the place of the one that has been silent for
//! longest, so that silent clients keep others out only briefly; their steps are taken in turn, of
//! one user and of another; a failed handshake concerns its client only.
//! **Not here:** the steps of a handshake (`nearcall-channel`), what a server agrees to
//! (`acceptor.rs`), clients of a finished handshake (`placing.rs`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};

use nearcall_channel::account::Accounts;
use nearcall_channel::{
    Address as Place, Endpoint, Handshake, HandshakeError, Listener, Mechanism, Options, Refusal,
    Rendezvous,
};
use nearcall_os::{eventfd, poll, socket, thread};

use super::{ListenerEntry, ListenerId, Reactor, Source};
use crate::connection::{Connection, ServerId};
use crate::deadline::{self, Deadline};
use crate::limits::{
    ACCEPTS_AT_CLOSE_MAX, ACCEPTS_PER_ROUND_MAX, GREETINGS_BEFORE_SWEEP, HANDSHAKE_GRACE,
    HANDSHAKE_STEPS_PER_ROUND_MAX, HANDSHAKES_MAX, LISTENER_PAUSE,
};
use crate::reactor::acceptor::Acceptor;
use crate::refusals::RefusalKind;
use crate::status::Status;

/// Handshakes of one loop.
pub(super) struct PendingHandshakes {
    /// By the token of its socket.
    running: RefCell<BTreeMap<u64, Running>>,
    /// Those whose other end has sent something.
    ready: RefCell<VecDeque<u64>>,
    /// The user whose handshake has gone on last.
    last_user: Cell<Option<User>>,
    /// When the first of them has had its time, or may have to give way.
    due: Cell<Deadline>,
    /// Clients whose channel is open and that have not greeted yet, and how long they may take.
    greeting: RefCell<VecDeque<(Deadline, Weak<Connection>)>>,
    /// The length of that queue at which those that have gone are taken out.
    greeting_sweep_at: Cell<usize>,
    /// Listeners that wait until a handshake ends or a moment comes.
    paused: RefCell<Vec<ListenerId>>,
    resume_at: Cell<Deadline>,
    /// A descriptor that is closed to accept and refuse a client when no other is free.
    spare: Cell<Option<OwnedFd>>,
}

/// A user of this machine; those of all others together count as one.
type User = Option<u32>;

struct Running {
    handshake: Handshake,
    purpose: Purpose,
}

/// The outcome of connecting, once it is there.
pub(crate) type Connected = Rc<Cell<Option<Result<Endpoint, HandshakeError>>>>;

enum Purpose {
    Serve(Serving),
    /// With a client of this loop.
    ServeOwn(Weak<Acceptor>),
    Connect(Connected),
}

/// A handshake with a client.
struct Serving {
    listener: ListenerId,
    user: User,
    pid: Option<i32>,
    /// Since when the client has been silent.
    since: Deadline,
}

impl Serving {
    fn note(&self, entry: &ListenerEntry, kind: RefusalKind, why: &str) {
        entry.acceptor.census.refusals.note(kind, self.user, self.pid, why);
    }

    fn note_failure(&self, entry: &ListenerEntry, error: &HandshakeError) {
        self.note(entry, RefusalKind::of_handshake(error), &error.to_string());
    }
}

impl Default for PendingHandshakes {
    fn default() -> Self {
        Self {
            running: RefCell::default(),
            ready: RefCell::default(),
            last_user: Cell::default(),
            due: Cell::new(Deadline::NEVER),
            greeting: RefCell::default(),
            greeting_sweep_at: Cell::default(),
            paused: RefCell::default(),
            resume_at: Cell::new(Deadline::NEVER),
            spare: Cell::default(),
        }
    }
}

/// The reason for a client whose server stops during its handshake.
pub(crate) const NOT_LISTENING: &str = "the server takes no more clients";

const NO_DESCRIPTOR: &str =
    "no descriptor is free in the server; try again later, or raise its limit (`ulimit -n`)";

impl Reactor {
    /// Waits for clients at a listener.
    pub(crate) fn add_listener(&self, entry: ListenerEntry) -> io::Result<ListenerId> {
        Accounts::of_process().read_limits();
        self.handshakes.keep_spare();
        let entry = Rc::new(entry);
        let token = self.sources.borrow_mut().add(Source::Listener(Rc::clone(&entry)));
        match self.epoll.add(&entry.listener, poll::Interest::Readable, token) {
            Ok(()) => {
                self.watch_socket_file(&entry.listener);
                Ok(ListenerId(token))
            }
            Err(error) => {
                self.sources.borrow_mut().remove(token);
                Err(error)
            }
        }
    }

    /// Closes a listener. Its clients that wait or whose handshake is under way are refused.
    pub(crate) fn remove_listener(&self, id: ListenerId) {
        if let Some(entry) = self.listener(id) {
            let _ = self.epoll.delete(&entry.listener);
            self.sources.borrow_mut().remove(id.0);
            // In a forked process they are the clients of the parent.
            if entry.listener.is_of_this_process() {
                self.handshakes.refuse_all(self, id, &entry.listener);
            }
        }
    }

    fn listener(&self, id: ListenerId) -> Option<Rc<ListenerEntry>> {
        match self.sources.borrow().get(id.0) {
            Some(Source::Listener(entry)) => Some(Rc::clone(entry)),
            _ => None,
        }
    }

    /// Stops or goes on listening.
    fn set_listener_paused(&self, id: ListenerId, paused: bool) {
        if let Some(entry) = self.listener(id) {
            let interest = if paused { poll::Interest::HangUp } else { poll::Interest::Readable };
            let _ = self.epoll.modify(&*entry.listener, interest, id.0);
        }
    }

    /// Connects to a server, and begins the handshake. What waits before it (for the network, or
    /// for room in the server's queue) is left to a thread of its own, while the loop goes on.
    pub(crate) fn start_connect(
        &self,
        place: Place,
        mechanism: Mechanism,
        options: Options,
    ) -> io::Result<Connected> {
        let handshake = match Handshake::try_connect(&place, mechanism, &options) {
            Ok(Some(handshake)) => Ok(handshake),
            Ok(None) => self.connect_elsewhere(place, mechanism, options)?,
            Err(error) => Err(error),
        };
        self.start_client(handshake)
    }

    /// Connects to a server in a thread of its own, while the loop goes on.
    fn connect_elsewhere(
        &self,
        place: Place,
        mechanism: Mechanism,
        options: Options,
    ) -> io::Result<Result<Handshake, HandshakeError>> {
        let outcome = Arc::new(Mutex::new(None));
        let (begun, mailbox) = (Arc::clone(&outcome), Arc::clone(&self.mailbox));
        thread::start("nearcall-connect", move || {
            let handshake = Handshake::connect(&place, mechanism, &options);
            *begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(handshake);
            mailbox.wake();
        })?;
        let mut handshake = None;
        // Connecting has a deadline of its own.
        self.run_until(Deadline::NEVER, || {
            handshake = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
            handshake.is_some()
        })?;
        Ok(handshake.unwrap_or(Err(HandshakeError::TimedOut)))
    }

    fn start_client(&self, handshake: Result<Handshake, HandshakeError>) -> io::Result<Connected> {
        let connected = Connected::default();
        match handshake {
            Ok(handshake) => {
                let purpose = Purpose::Connect(Rc::clone(&connected));
                self.handshakes.start(self, handshake, purpose)?;
            }
            Err(error) => connected.set(Some(Err(error))),
        }
        Ok(connected)
    }

    /// Begins to connect to a server of this loop over a pair of sockets, which no other client can
    /// reach.
    pub(crate) fn start_connect_own(
        &self,
        server: ServerId,
        mechanism: Mechanism,
        options: Options,
    ) -> io::Result<Connected> {
        let (ours, theirs) = socket::unix_pair(socket::Kind::Seqpacket)?;
        // Without an acceptor its socket closes, and the client sees that.
        if let Some(acceptor) = self.acceptor(server) {
            let pollable_only = acceptor.census.is_full_of_fdless(self.own_loop(&acceptor));
            let options = acceptor.policy_of_own_loop().options(pollable_only);
            if let Ok(handshake) = Handshake::serve(Rendezvous::Local, theirs, &options) {
                let purpose = Purpose::ServeOwn(Rc::downgrade(&acceptor));
                self.handshakes.start(self, handshake, purpose)?;
            }
        }
        self.start_client(Handshake::connect_over(ours, mechanism, &options))
    }

    /// Goes on with the handshakes whose other ends have sent something.
    pub(super) fn advance_handshakes(&self) {
        let end = self.end_of_turn();
        for _ in 0..HANDSHAKE_STEPS_PER_ROUND_MAX {
            let Some(token) = self.handshakes.next_ready() else { return };
            self.handshakes.advance(self, token);
            if end.has_passed() {
                break;
            }
        }
        // The others are reported again.
        self.handshakes.ready.borrow_mut().clear();
    }
}

impl PendingHandshakes {
    /// Accepts clients that wait at a listener.
    pub(super) fn accept(&self, reactor: &Reactor, id: ListenerId) {
        let Some(entry) = reactor.listener(id) else { return };
        let end = reactor.end_of_turn();
        for _ in 0..ACCEPTS_PER_ROUND_MAX {
            if end.has_passed() {
                return;
            }
            match entry.listener.accept_socket() {
                Ok(Some(socket)) => {
                    let Some(user) = self.serve(reactor, id, &entry, socket) else { continue };
                    if let Some(patience) = self.make_room(reactor, user) {
                        return self.pause_until(reactor, id, patience);
                    }
                }
                Ok(None) => return,
                // Most likely no descriptor is free; asking again at once would only spin.
                Err(_) => {
                    self.refuse_with_spare(&entry.listener);
                    return self.pause_until(reactor, id, Deadline::after(LISTENER_PAUSE));
                }
            }
        }
    }

    /// Refuses clients for which no descriptor is free, by means of the one that is kept for that.
    fn refuse_with_spare(&self, listener: &Listener) {
        for _ in 0..ACCEPTS_PER_ROUND_MAX {
            if self.spare.take().is_none() {
                break;
            }
            let client = listener.accept_socket();
            let is_last = !matches!(client, Ok(Some(_)));
            if let Ok(Some(socket)) = client {
                listener.rendezvous().reject(socket, Refusal::Other, NO_DESCRIPTOR);
            }
            self.keep_spare();
            if is_last {
                break;
            }
        }
    }

    /// Keeps a descriptor, to be closed when no other is free. Of nothing else: a duplicate of a
    /// listener would go on to listen.
    fn keep_spare(&self) {
        let create = || eventfd::create(eventfd::Kind::Counter).ok();
        let spare = self.spare.take().or_else(create);
        self.spare.set(spare);
    }

    /// Begins the handshake with a client. Returns its user, if it goes on.
    fn serve(
        &self,
        reactor: &Reactor,
        listener: ListenerId,
        entry: &ListenerEntry,
        socket: OwnedFd,
    ) -> Option<User> {
        let (rendezvous, acceptor) = (entry.listener.rendezvous(), &entry.acceptor);
        let peer = match rendezvous {
            Rendezvous::Local => socket::peer_credentials(&socket).ok(),
            Rendezvous::Remote => None,
        };
        let (user, pid) = (peer.map(|peer| peer.uid), peer.and_then(|peer| peer.pid));
        let serving = Serving { listener, user, pid, since: deadline::now() };
        if let Err(text) = entry.policy.admit(socket.as_fd()) {
            serving.note(entry, RefusalKind::UserNotAllowed, &text);
            rendezvous.refuse_user(socket, &text);
            return None;
        }
        if let Err(text) = acceptor.census.check(user) {
            serving.note(entry, RefusalKind::ConnectionLimit, &text);
            rendezvous.reject(socket, Refusal::Other, &text);
            return None;
        }
        let account = Accounts::of_process().user(user);
        let pollable_only = acceptor.census.is_full_of_fdless(reactor.own_loop(acceptor));
        let options = Options { account: Some(account), ..entry.policy.options(pollable_only) };
        let handshake = Handshake::serve(rendezvous, socket, &options);
        let handshake = handshake.map_err(|error| serving.note_failure(entry, &error)).ok()?;
        self.start(reactor, handshake, Purpose::Serve(serving)).ok()?;
        Some(user)
    }

    /// Has handshakes of this user that have been silent for long give way, if it has more than its
    /// share. Returns the time when the next one may have to, if that is not enough.
    fn make_room(&self, reactor: &Reactor, user: User) -> Option<Deadline> {
        loop {
            let oldest = {
                let running = self.running.borrow();
                let clients = running.iter().filter_map(|(token, it)| match &it.purpose {
                    Purpose::Serve(serving) => Some((*token, serving.user, serving.since)),
                    _ => None,
                });
                let (own, others): (Vec<_>, Vec<_>) = clients.partition(|(_, of, _)| *of == user);
                if own.len() <= HANDSHAKES_MAX.saturating_sub(others.len()) / 2 {
                    return None;
                }
                own.into_iter().min_by_key(|(_, _, since)| *since)
            };
            let (token, _, since) = oldest?;
            let patience = deadline::later(since, HANDSHAKE_GRACE);
            if !patience.has_passed() {
                return Some(patience);
            }
            if let Some(Running { handshake, purpose: Purpose::Serve(serving) }) =
                self.remove(reactor, token)
            {
                let why = "the handshake took long, and others wait; try again";
                if let Some(entry) = reactor.listener(serving.listener) {
                    serving.note(&entry, RefusalKind::HandshakeTimeout, why);
                }
                handshake.refuse(Refusal::Other, why);
            }
        }
    }

    /// Refuses the clients of a listener that is closed: those in its queue, unless that is for the
    /// next process that gets the socket, and those in their handshake.
    fn refuse_all(&self, reactor: &Reactor, id: ListenerId, listener: &Listener) {
        let accepts = if listener.is_inherited() { 0 } else { ACCEPTS_AT_CLOSE_MAX };
        for _ in 0..accepts {
            let Ok(Some(socket)) = listener.accept_socket() else { break };
            listener.rendezvous().reject(socket, Refusal::Draining, NOT_LISTENING);
        }
        let is_of = |running: &Running| match &running.purpose {
            Purpose::Serve(serving) => serving.listener == id,
            _ => false,
        };
        let tokens: Vec<u64> = {
            let running = self.running.borrow();
            running.iter().filter(|(_, it)| is_of(it)).map(|(token, _)| *token).collect()
        };
        for token in tokens {
            if let Some(Running { handshake, .. }) = self.remove(reactor, token) {
                handshake.refuse(Refusal::Draining, NOT_LISTENING);
            }
        }
    }

    /// Begins a handshake: takes what the other end has sent already, then waits for more.
    fn start(&self, reactor: &Reactor, handshake: Handshake, purpose: Purpose) -> io::Result<()> {
        let token = reactor.sources.borrow_mut().add(Source::Handshake);
        if let Err(error) = reactor.epoll.add(&handshake, poll::Interest::Readable, token) {
            reactor.sources.borrow_mut().remove(token);
            return Err(error);
        }
        self.note_due(handshake.deadline());
        self.running.borrow_mut().insert(token, Running { handshake, purpose });
        Ok(())
    }

    fn remove(&self, reactor: &Reactor, token: u64) -> Option<Running> {
        let ended = {
            let mut running = self.running.borrow_mut();
            let ended = running.remove(&token)?;
            if running.is_empty() {
                // Else each sleep of the loop would be timed, until the handshake would have ended.
                self.due.set(Deadline::NEVER);
            }
            ended
        };
        let _ = reactor.epoll.delete(&ended.handshake);
        reactor.sources.borrow_mut().remove(token);
        Some(ended)
    }

    /// Takes the next steps of a handshake, if the other end has taken its own.
    fn advance(&self, reactor: &Reactor, token: u64) {
        let outcome = {
            let mut running = self.running.borrow_mut();
            let Some(Running { handshake, purpose }) = running.get_mut(&token) else { return };
            let before = handshake.deadline();
            match handshake.advance().transpose() {
                Some(outcome) => outcome,
                None => {
                    self.note_due(handshake.deadline());
                    if let Purpose::Serve(serving) = purpose
                        && handshake.deadline() != before
                    {
                        serving.since = deadline::now();
                    }
                    return;
                }
            }
        };
        if let Some(Running { purpose, .. }) = self.remove(reactor, token) {
            finish(reactor, purpose, outcome);
        }
    }

    /// Notes that the other end has sent something, or has gone.
    pub(super) fn note_ready(&self, token: u64) {
        self.ready.borrow_mut().push_back(token);
    }

    /// Takes the first handshake whose other end has sent something, of another user than the one
    /// before if there is one.
    fn next_ready(&self) -> Option<u64> {
        let (mut ready, running) = (self.ready.borrow_mut(), self.running.borrow());
        let user = |token: &u64| match &running.get(token)?.purpose {
            Purpose::Serve(serving) => Some(serving.user),
            Purpose::ServeOwn(_) | Purpose::Connect(_) => None,
        };
        let is_another =
            |token: &u64| user(token).is_none_or(|it| Some(it) != self.last_user.get());
        let next = ready.iter().position(is_another).unwrap_or(0);
        let token = ready.remove(next)?;
        self.last_user.set(user(&token));
        Some(token)
    }

    /// Notes by when a client has to greet.
    pub(super) fn expect_greeting(&self, by: Deadline, connection: &Rc<Connection>) {
        let mut greeting = self.greeting.borrow_mut();
        if greeting.len() >= self.greeting_sweep_at.get() {
            // A silent one in front must not keep the memory of those behind it that have gone.
            greeting.retain(|(_, connection)| connection.strong_count() > 0);
            self.greeting_sweep_at.set((2 * greeting.len()).max(GREETINGS_BEFORE_SWEEP));
        }
        greeting.push_back((by, Rc::downgrade(connection)));
    }

    fn pause_until(&self, reactor: &Reactor, id: ListenerId, end: Deadline) {
        reactor.set_listener_paused(id, true);
        self.paused.borrow_mut().push(id);
        self.resume_at.set(self.resume_at.get().min(end));
    }

    fn resume(&self, reactor: &Reactor) {
        self.resume_at.set(Deadline::NEVER);
        for id in self.paused.take() {
            reactor.set_listener_paused(id, false);
        }
    }

    fn note_due(&self, deadline: Deadline) {
        self.due.set(self.due.get().min(deadline));
    }

    /// Returns when `run_due` has something to do.
    #[inline]
    pub(super) fn next_due(&self) -> Deadline {
        self.resume_at.get().min(self.due.get()).min(self.greeting_due())
    }

    /// Returns when the first client that has not greeted has had its time.
    #[inline]
    fn greeting_due(&self) -> Deadline {
        let mut greeting = self.greeting.borrow_mut();
        while let Some((by, connection)) = greeting.front() {
            if connection.upgrade().is_some_and(|connection| connection.is_greeting()) {
                return *by;
            }
            greeting.pop_front();
        }
        Deadline::NEVER
    }

    /// Does what is due by `now`.
    pub(super) fn run_due(&self, reactor: &Reactor, now: Deadline) {
        if self.resume_at.get() <= now {
            self.resume(reactor);
        }
        if self.due.get() <= now {
            self.due.set(Deadline::NEVER);
            let mut late = Vec::new();
            for (token, Running { handshake, .. }) in &*self.running.borrow() {
                if handshake.deadline() <= now {
                    late.push(*token);
                } else {
                    self.note_due(handshake.deadline());
                }
            }
            // They end by that, unless the other end has sent something just now.
            late.into_iter().for_each(|token| self.advance(reactor, token));
        }
        while self.greeting_due() <= now {
            let first = self.greeting.borrow_mut().pop_front();
            if let Some(connection) = first.and_then(|(_, connection)| connection.upgrade()) {
                let why = format!("{} did not greet in time", connection.name);
                connection.abort_for(RefusalKind::HandshakeTimeout, Status::unavailable(why));
            }
        }
    }
}

/// Goes on with the outcome of a handshake.
fn finish(reactor: &Reactor, purpose: Purpose, outcome: Result<Endpoint, HandshakeError>) {
    let place = |acceptor: &Acceptor, policy: &Arc<_>, mailboxes: &[_], endpoint| {
        reactor.place_client(acceptor, policy, mailboxes, endpoint);
    };
    match purpose {
        Purpose::Connect(connected) => connected.set(Some(outcome)),
        Purpose::Serve(serving) => {
            match (reactor.listener(serving.listener), outcome) {
                (Some(entry), Ok(endpoint)) => {
                    place(&entry.acceptor, &entry.policy, &entry.mailboxes, endpoint);
                }
                (None, Ok(mut endpoint)) => endpoint.refuse(Refusal::Draining, NOT_LISTENING),
                (Some(entry), Err(error)) => serving.note_failure(&entry, &error),
                (None, Err(_)) => {}
            }
            reactor.handshakes.resume(reactor);
        }
        Purpose::ServeOwn(acceptor) => match (acceptor.upgrade(), outcome) {
            (Some(acceptor), Ok(endpoint)) => {
                place(&acceptor, &acceptor.policy_of_own_loop(), &[], endpoint);
            }
            (None, Ok(mut endpoint)) => endpoint.refuse(Refusal::Draining, NOT_LISTENING),
            (_, Err(_)) => {}
        },
    }
}
