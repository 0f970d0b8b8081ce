//! Handshakes with clients and servers, each on a thread of its own until it is done, so that a
//! peer that is slow does not hold the loop up.
//!
//! **Invariants:** so many handshakes run at once and no more; while clients wait for their turn,
//! the handshake that has taken longest is ended, so that silent clients keep others out only
//! briefly; a failed handshake concerns its client only.
//! **Not here:** the handshake (`nearcall-channel`), what a server agrees to (`acceptor.rs`).

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use nearcall_channel::{
    Address as Place, Endpoint, HandshakeError, Interest, Listener, Mechanism, Options, Rendezvous,
    WaitPolicy, accept_over, connect, connect_over,
};
use nearcall_os::{poll, socket, thread};

use super::{ListenerEntry, ListenerId, Reactor, Source};
use crate::connection::{Connection, ServerId};
use crate::deadline::{self, Deadline};
use crate::limits::{
    ACCEPTS_AT_CLOSE_MAX, ACCEPTS_PER_ROUND_MAX, HANDSHAKE_GRACE, HANDSHAKE_THREADS_MAX,
    HANDSHAKES_MAX, HANDSHAKES_PER_UID_MAX, LISTENER_PAUSE, PENDING_CLIENTS_MAX,
    PENDING_CLIENTS_PER_UID_MAX,
};
use crate::peer::Peer;
use crate::reactor::acceptor::Acceptor;
use crate::reactor::census::{Admission, OwnLoop};
use crate::status::Status;
use crate::tasks::mailbox::{Handshaked, Mailbox, Post};
use crate::trust::Trust;

/// Handshakes of one loop.
pub(super) struct PendingHandshakes {
    last: Cell<u64>,
    running: RefCell<HashMap<u64, Purpose>>,
    /// Clients that wait for their handshake to begin.
    pending: RefCell<VecDeque<PendingClient>>,
    /// The time when a handshake may be ended in favour of those that wait.
    start_at: Cell<Deadline>,
    /// Clients whose channel is open and that have not greeted yet, and how long they may take.
    greeting: RefCell<VecDeque<(Deadline, Weak<Connection>)>>,
    /// Listeners that wait until a handshake ends or a moment comes.
    paused: RefCell<Vec<ListenerId>>,
    resume_at: Cell<Deadline>,
}

/// A user of this machine; those of all others together count as one.
type User = Option<u32>;

/// A client that was accepted and whose handshake has not begun.
struct PendingClient {
    listener: ListenerId,
    user: User,
    socket: OwnedFd,
    rendezvous: Rendezvous,
}

/// A handshake with a client.
struct Serving {
    listener: ListenerId,
    user: User,
    since: Deadline,
    /// A duplicate, to end the handshake with. None: it was ended, and its thread will post soon.
    line: Option<(OwnedFd, Rendezvous)>,
}

/// The outcome of connecting, once it is there.
pub(crate) type Connected = Rc<Cell<Option<Result<Endpoint, HandshakeError>>>>;

enum Purpose {
    Serve(Serving),
    /// With a client of this loop.
    ServeOwn(Weak<Acceptor>),
    Connect(Connected),
}

impl Purpose {
    /// Returns the handshake with a client, if it goes on.
    fn serving(&self) -> Option<&Serving> {
        match self {
            Self::Serve(serving) if serving.line.is_some() => Some(serving),
            _ => None,
        }
    }
}

impl Serving {
    /// Ends the handshake, and sends the client the reason.
    fn end(&mut self, why: &str) {
        if let Some((line, rendezvous)) = self.line.take() {
            // Its thread, which waits at the same socket, wakes up by that.
            let end = line.try_clone();
            rendezvous.reject(line, why);
            let _ = end.and_then(|end| socket::shutdown(end, socket::Half::Both));
        }
    }
}

impl Default for PendingHandshakes {
    fn default() -> Self {
        Self {
            last: Cell::new(0),
            running: RefCell::default(),
            pending: RefCell::default(),
            start_at: Cell::new(Deadline::NEVER),
            greeting: RefCell::default(),
            paused: RefCell::default(),
            resume_at: Cell::new(Deadline::NEVER),
        }
    }
}

/// The reason for a client whose server stops during its handshake.
pub(crate) const NOT_LISTENING: &str = "the server takes no more clients";

impl Reactor {
    /// Waits for clients at a listener.
    pub(crate) fn add_listener(&self, entry: ListenerEntry) -> io::Result<ListenerId> {
        let entry = Rc::new(entry);
        let token = self.sources.borrow_mut().add(Source::Listener(Rc::clone(&entry)));
        match self.epoll.add(&entry.listener, poll::Interest::Readable, token) {
            Ok(()) => Ok(ListenerId(token)),
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
            self.handshakes.refuse_all(id, &entry.listener);
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
            let _ = self.epoll.modify(entry.listener.as_fd(), interest, id.0);
        }
    }

    /// Begins to connect to a server on a thread of its own.
    pub(crate) fn start_connect(
        &self,
        place: Place,
        mechanism: Mechanism,
        options: Options,
    ) -> io::Result<Connected> {
        let connected = Connected::default();
        let purpose = Purpose::Connect(Rc::clone(&connected));
        self.handshakes.start(self, purpose, move || connect(&place, mechanism, &options))?;
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
        let connected = Connected::default();
        let (ours, theirs) = socket::unix_pair(socket::Kind::Seqpacket)?;
        // Without an acceptor its socket closes, and the client sees that.
        if let Some(acceptor) = self.acceptor(server) {
            let pollable_only = acceptor.census.is_full_of_fdless(self.own_loop(&acceptor));
            let options = acceptor.options(None, pollable_only);
            let purpose = Purpose::ServeOwn(Rc::downgrade(&acceptor));
            self.handshakes.start(self, purpose, move || accept_over(theirs, &options))?;
        }
        let purpose = Purpose::Connect(Rc::clone(&connected));
        let connect = move || connect_over(ours, mechanism, &options);
        self.handshakes.start(self, purpose, connect)?;
        Ok(connected)
    }

    /// Finds the loop for a client whose handshake is done, and hands the client to it.
    fn place_client(
        &self,
        acceptor: &Acceptor,
        trust: Trust,
        mailboxes: &[Arc<Mailbox>],
        mut endpoint: Endpoint,
    ) {
        let is_fdless = endpoint.wait_policy() != WaitPolicy::Spin
            && endpoint.readiness(Interest::Receive).is_none();
        // Others may have come in during its handshake.
        let uid = Peer::of(&endpoint).uid();
        let admission = match acceptor.census.admit(self.own_loop(acceptor), uid, is_fdless) {
            Ok(admission) => admission,
            Err(text) => return endpoint.refuse(&text),
        };
        match mailboxes.get(admission.loop_index()) {
            Some(mailbox) if admission.loop_index() != acceptor.loop_index => {
                hand_over(mailbox, HandedOver { endpoint, trust, admission });
            }
            _ => self.accept_client(acceptor, trust, endpoint, admission),
        }
    }

    /// Accepts a client whose handshake another loop of its server has made.
    fn accept_handed_over(&self, client: HandedOver) {
        let HandedOver { mut endpoint, trust, admission } = client;
        let acceptor = {
            let acceptors = self.acceptors.borrow();
            let mut acceptors = acceptors.iter().filter_map(|(_, acceptor)| acceptor.upgrade());
            acceptors.find(|acceptor| admission.is_of(&acceptor.census))
        };
        match acceptor {
            Some(acceptor) => self.accept_client(&acceptor, trust, endpoint, admission),
            None => endpoint.refuse(NOT_LISTENING),
        }
    }

    /// Accepts a client that was admitted to this loop.
    fn accept_client(
        &self,
        acceptor: &Acceptor,
        trust: Trust,
        mut endpoint: Endpoint,
        admission: Admission,
    ) {
        if acceptor.is_draining() {
            return endpoint.refuse(NOT_LISTENING);
        }
        let (buffers, activity) = (&self.services.buffers, &self.activity);
        let (connection, by) = acceptor.connection(endpoint, trust, buffers, activity);
        if let Err(error) = self.add_connection(&connection) {
            return connection.refuse(Status::unavailable(error.to_string()));
        }
        let greeting = (by, Rc::downgrade(&connection));
        self.handshakes.greeting.borrow_mut().push_back(greeting);
        acceptor.add(&connection, admission);
        connection.send_control(Deadline::NOW);
    }

    /// Returns what the placement of a client must know of this loop.
    fn own_loop(&self, acceptor: &Acceptor) -> OwnLoop {
        OwnLoop { index: acceptor.loop_index, has_fdless: self.has_fdless() }
    }
}

/// A client of a server with several loops, whose handshake another loop made.
struct HandedOver {
    endpoint: Endpoint,
    trust: Trust,
    /// Its place in the loop that it is handed to.
    admission: Admission,
}

/// Hands a client to another loop. If that has closed, or closes before it takes the client, the
/// client sees its connection close.
fn hand_over(to: &Arc<Mailbox>, client: HandedOver) {
    let mailbox = Arc::downgrade(to);
    let accept = move || {
        let reactor = mailbox.upgrade().and_then(|mailbox| Reactor::of_thread(&mailbox));
        if let Some(reactor) = reactor {
            reactor.accept_handed_over(client);
        }
    };
    let _ = to.post(Post::Run(Box::new(accept)));
}

impl PendingHandshakes {
    /// Accepts clients that wait at a listener.
    pub(super) fn accept(&self, reactor: &Reactor, id: ListenerId) {
        let Some(entry) = reactor.listener(id) else { return };
        for _ in 0..ACCEPTS_PER_ROUND_MAX {
            if self.pending.borrow().len() >= PENDING_CLIENTS_MAX {
                return self.pause(reactor, id);
            }
            match entry.listener.accept_socket() {
                Ok(Some(socket)) => self.add_pending(reactor, id, &entry, socket),
                Ok(None) => return,
                Err(_) => {
                    // Most likely no descriptor is free; asking again at once would only spin.
                    self.resume_at.set(Deadline::after(LISTENER_PAUSE));
                    return self.pause(reactor, id);
                }
            }
        }
    }

    fn add_pending(
        &self,
        reactor: &Reactor,
        listener: ListenerId,
        entry: &ListenerEntry,
        socket: OwnedFd,
    ) {
        let rendezvous = Listener::rendezvous(&entry.listener);
        let user = match rendezvous {
            Rendezvous::Local => socket::peer_credentials(&socket).ok().map(|peer| peer.uid),
            Rendezvous::Remote => None,
        };
        if let Err(text) = entry.acceptor.census.check(user) {
            return rendezvous.reject(socket, &text);
        }
        let of_user = |client: &&PendingClient| client.user == user;
        if self.pending.borrow().iter().filter(of_user).count() >= PENDING_CLIENTS_PER_UID_MAX {
            let text = "too many clients of this user wait for a handshake; try again";
            return rendezvous.reject(socket, text);
        }
        let client = PendingClient { listener, user, socket, rendezvous };
        self.pending.borrow_mut().push_back(client);
        self.start_pending(reactor);
    }

    /// Begins the handshakes of those that wait, as far as there is room for them.
    fn start_pending(&self, reactor: &Reactor) {
        self.start_at.set(Deadline::NEVER);
        if self.pending.borrow().is_empty() {
            return;
        }
        let now = deadline::now();
        let mut index = 0;
        loop {
            let Some(user) = self.pending.borrow().get(index).map(|it| it.user) else { return };
            if !self.make_room(user, now) {
                index += 1;
                continue;
            }
            let client = self.pending.borrow_mut().remove(index);
            if let Some(client) = client {
                self.start_handshake(reactor, client, now);
            }
        }
    }

    fn start_handshake(&self, reactor: &Reactor, client: PendingClient, since: Deadline) {
        let PendingClient { listener, user, socket, rendezvous } = client;
        let Some(entry) = reactor.listener(listener) else {
            return rendezvous.reject(socket, NOT_LISTENING);
        };
        // Without a duplicate it could not be ended. It sees its socket close.
        let Ok(line) = socket.try_clone() else { return };
        let acceptor = &entry.acceptor;
        let pollable_only = acceptor.census.is_full_of_fdless(reactor.own_loop(acceptor));
        let options = acceptor.options(entry.wait, pollable_only);
        let line = Some((line, rendezvous));
        let purpose = Purpose::Serve(Serving { listener, user, since, line });
        let _ = self.start(reactor, purpose, move || rendezvous.open(socket, &options));
    }

    /// Returns whether a handshake with a client of this user may begin, perhaps in the place of
    /// one that has taken long.
    fn make_room(&self, user: User, now: Deadline) -> bool {
        let mut running = self.running.borrow_mut();
        let threads = running.values().filter(|it| matches!(it, Purpose::Serve(_))).count();
        let mut counts: HashMap<User, usize> = HashMap::new();
        for serving in running.values().filter_map(Purpose::serving) {
            *counts.entry(serving.user).or_default() += 1;
        }
        let crowd = if counts.get(&user).copied().unwrap_or(0) >= HANDSHAKES_PER_UID_MAX {
            user
        } else if counts.values().sum::<usize>() >= HANDSHAKES_MAX {
            counts.iter().max_by_key(|(_, count)| **count).map_or(user, |(user, _)| *user)
        } else {
            return threads < HANDSHAKE_THREADS_MAX;
        };
        let oldest = running.values_mut().filter_map(|purpose| match purpose {
            Purpose::Serve(serving) if serving.line.is_some() && serving.user == crowd => {
                Some(serving)
            }
            _ => None,
        });
        let Some(oldest) = oldest.min_by_key(|serving| serving.since) else { return false };
        let patience = deadline::later(oldest.since, HANDSHAKE_GRACE);
        if patience > now {
            self.start_at.set(self.start_at.get().min(patience));
            return false;
        }
        if threads >= HANDSHAKE_THREADS_MAX {
            return false;
        }
        oldest.end("the handshake took long, and others wait; try again");
        true
    }

    /// Refuses the clients of a listener that is closed: those in its queue, those that wait for
    /// their handshake, and those in it.
    fn refuse_all(&self, id: ListenerId, listener: &Listener) {
        for _ in 0..ACCEPTS_AT_CLOSE_MAX {
            let Ok(Some(socket)) = listener.accept_socket() else { break };
            listener.rendezvous().reject(socket, NOT_LISTENING);
        }
        let clients = self.pending.take().into_iter();
        let (refused, others) = clients.partition(|client: &PendingClient| client.listener == id);
        self.pending.replace(others);
        let refused: VecDeque<PendingClient> = refused;
        for PendingClient { socket, rendezvous, .. } in refused {
            rendezvous.reject(socket, NOT_LISTENING);
        }
        for purpose in self.running.borrow_mut().values_mut() {
            if let Purpose::Serve(serving) = purpose
                && serving.listener == id
            {
                serving.end(NOT_LISTENING);
            }
        }
    }

    fn start(
        &self,
        reactor: &Reactor,
        purpose: Purpose,
        handshake: impl FnOnce() -> Result<Endpoint, HandshakeError> + Send + 'static,
    ) -> io::Result<()> {
        let number = self.last.get() + 1;
        self.last.set(number);
        let mailbox = Arc::clone(&reactor.mailbox);
        let is_with_client = !matches!(purpose, Purpose::Connect(_));
        thread::start("nearcall-meet", move || {
            let handshaked = Handshaked { number, is_with_client, outcome: handshake() };
            let _ = mailbox.post(Post::Handshaked(Box::new(handshaked)));
        })?;
        self.running.borrow_mut().insert(number, purpose);
        Ok(())
    }

    /// Handles the outcome of a handshake.
    pub(super) fn finish(&self, reactor: &Reactor, handshaked: Handshaked) {
        let purpose = self.running.borrow_mut().remove(&handshaked.number);
        match purpose {
            Some(Purpose::Connect(connected)) => connected.set(Some(handshaked.outcome)),
            Some(Purpose::Serve(Serving { listener, .. })) => {
                match (reactor.listener(listener), handshaked.outcome) {
                    (Some(entry), Ok(endpoint)) => {
                        let ListenerEntry { acceptor, trust, mailboxes, .. } = &*entry;
                        reactor.place_client(acceptor, *trust, mailboxes, endpoint);
                    }
                    (None, Ok(mut endpoint)) => endpoint.refuse(NOT_LISTENING),
                    (_, Err(_)) => {}
                }
                self.start_pending(reactor);
                self.resume(reactor);
            }
            Some(Purpose::ServeOwn(acceptor)) => match (acceptor.upgrade(), handshaked.outcome) {
                (Some(acceptor), Ok(endpoint)) => {
                    reactor.place_client(&acceptor, Trust::No, &[], endpoint);
                }
                (None, Ok(mut endpoint)) => endpoint.refuse(NOT_LISTENING),
                (_, Err(_)) => {}
            },
            None => {}
        }
    }

    fn pause(&self, reactor: &Reactor, id: ListenerId) {
        reactor.set_listener_paused(id, true);
        self.paused.borrow_mut().push(id);
    }

    fn resume(&self, reactor: &Reactor) {
        for id in self.paused.take() {
            reactor.set_listener_paused(id, false);
        }
    }

    /// Returns when `run_due` has something to do.
    #[inline]
    pub(super) fn next_due(&self) -> Deadline {
        self.resume_at.get().min(self.start_at.get()).min(self.greeting_due())
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
            self.resume_at.set(Deadline::NEVER);
            self.resume(reactor);
        }
        if self.start_at.get() <= now {
            self.start_pending(reactor);
            self.resume(reactor);
        }
        while self.greeting_due() <= now {
            let first = self.greeting.borrow_mut().pop_front();
            if let Some(connection) = first.and_then(|(_, connection)| connection.upgrade()) {
                let why = format!("{} did not greet in time", connection.name);
                connection.abort(Status::unavailable(why));
            }
        }
    }
}
