//! Meeting clients and servers without holding the loop: each handshake waits for its peer on a
//! thread of its own, which ends with the handshake.
//!
//! Always true: so many handshakes at once and no more; while clients wait for their turn, the
//! handshake that has taken longest is ended, so that silent strangers keep nobody out for long; a
//! failed handshake concerns its client only.
//! Not here: the handshake (`nearcall-channel`), what becomes of an open channel (`server.rs`,
//! `client.rs`).

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use nearcall_channel::{
    Address as Place, Endpoint, HandshakeError, Mechanism, Options, Rendezvous, connect,
};
use nearcall_os::socket;
use nearcall_wire::{Time, Timeout};

use crate::limits::{
    HANDSHAKE_THREADS_MAX, HANDSHAKES_MAX, HANDSHAKES_PER_UID_MAX, STRANGERS_MAX,
    STRANGERS_PER_UID_MAX,
};
use crate::link::Link;
use crate::options::now;
use crate::reactor::{Met, Reactor};
use crate::server::ServerCore;
use crate::status::Status;

/// Handshakes of one loop.
#[derive(Default)]
pub(crate) struct Meetings {
    last: Cell<u64>,
    running: RefCell<HashMap<u64, Purpose>>,
    /// Clients that wait for their handshake to begin.
    strangers: RefCell<VecDeque<Stranger>>,
    /// When a handshake may be ended for the sake of those that wait.
    attend_at: Cell<Option<Time>>,
    /// Clients whose channel is open and who have not greeted yet, and how long they may take.
    greeting: RefCell<VecDeque<(Time, Weak<Link>)>>,
    /// Listeners that wait until a handshake ends or a moment comes.
    paused: RefCell<Vec<(Weak<ServerCore>, usize)>>,
    resume_at: Cell<Option<Time>>,
}

/// A user of this machine; those of all others together count as one.
type User = Option<u32>;

/// A client that was accepted.
struct Stranger {
    server: Weak<ServerCore>,
    which: usize,
    user: User,
    socket: OwnedFd,
    meeting: Rendezvous,
}

/// A handshake with a client.
struct Serving {
    server: Weak<ServerCore>,
    which: usize,
    user: User,
    since: Time,
    /// A duplicate, to end the handshake with. None: it was ended, and its thread will tell soon.
    line: Option<(OwnedFd, Rendezvous)>,
}

/// The outcome of connecting, once it is there.
pub(crate) type Connected = Rc<Cell<Option<Result<Endpoint, HandshakeError>>>>;

enum Purpose {
    Serve(Serving),
    Connect(Connected),
}

impl Purpose {
    /// A handshake with a client that goes on.
    fn serving(&self) -> Option<&Serving> {
        match self {
            Self::Serve(serving) if serving.line.is_some() => Some(serving),
            _ => None,
        }
    }
}

impl Meetings {
    /// Takes clients that wait at a listener.
    pub(crate) fn accept(&self, reactor: &Reactor, server: &Rc<ServerCore>, which: usize) {
        for _ in 0..ACCEPTS_PER_ROUND_MAX {
            if self.strangers.borrow().len() >= STRANGERS_MAX {
                return self.pause(reactor, server, which);
            }
            match server.accept_socket(which) {
                Ok(Some((socket, meeting))) => self.arrive(reactor, server, which, socket, meeting),
                Ok(None) => return,
                Err(_) => {
                    // Most likely no descriptor is free; asking again at once would only spin.
                    self.resume_at.set(Some(now().after(PAUSE)));
                    return self.pause(reactor, server, which);
                }
            }
        }
    }

    fn arrive(
        &self,
        reactor: &Reactor,
        server: &Rc<ServerCore>,
        which: usize,
        socket: OwnedFd,
        meeting: Rendezvous,
    ) {
        let user = match meeting {
            Rendezvous::Local => socket::peer_credentials(&socket).ok().map(|peer| peer.uid),
            Rendezvous::Remote => None,
        };
        if let Err(text) = server.may_join(user) {
            return meeting.reject(socket, &text);
        }
        let of_user = |stranger: &&Stranger| stranger.user == user;
        if self.strangers.borrow().iter().filter(of_user).count() >= STRANGERS_PER_UID_MAX {
            let text = "too many clients of this user wait for a handshake; try again";
            return meeting.reject(socket, text);
        }
        let server = Rc::downgrade(server);
        self.strangers.borrow_mut().push_back(Stranger { server, which, user, socket, meeting });
        self.attend(reactor);
    }

    /// Begins the handshakes of those that wait, as far as there is room for them.
    fn attend(&self, reactor: &Reactor) {
        self.attend_at.set(None);
        if self.strangers.borrow().is_empty() {
            return;
        }
        let now = now();
        let mut index = 0;
        loop {
            let Some(user) = self.strangers.borrow().get(index).map(|it| it.user) else { return };
            if !self.make_room(user, now) {
                index += 1;
                continue;
            }
            let stranger = self.strangers.borrow_mut().remove(index);
            if let Some(stranger) = stranger {
                self.serve(reactor, stranger, now);
            }
        }
    }

    fn serve(&self, reactor: &Reactor, stranger: Stranger, since: Time) {
        let Stranger { server, which, user, socket, meeting } = stranger;
        // Without a duplicate it could not be ended. It sees its socket close.
        let (Some(alive), Ok(line)) = (server.upgrade(), socket.try_clone()) else { return };
        let options = alive.options_for(which);
        let purpose =
            Purpose::Serve(Serving { server, which, user, since, line: Some((line, meeting)) });
        let _ = self.begin(reactor, purpose, move || meeting.open(socket, &options));
    }

    /// Whether a handshake with a client of this user may begin, perhaps in the place of one that
    /// has taken long.
    fn make_room(&self, user: User, now: Time) -> bool {
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
        let patience = oldest.since.after(HANDSHAKE_GRACE);
        if patience > now {
            let at = self.attend_at.get().map_or(patience, |at| at.min(patience));
            self.attend_at.set(Some(at));
            return false;
        }
        if threads >= HANDSHAKE_THREADS_MAX {
            return false;
        }
        if let Some((line, meeting)) = oldest.line.take() {
            // Its thread, which waits at the same socket, wakes up by that.
            let end = line.try_clone();
            meeting.reject(line, "the handshake took long, and others wait; try again");
            let _ = end.and_then(|end| socket::shutdown(end, socket::Half::Both));
        }
        true
    }

    /// A client has to greet by then.
    pub(crate) fn expect_greeting(&self, link: &Rc<Link>, by: Time) {
        self.greeting.borrow_mut().push_back((by, Rc::downgrade(link)));
    }

    /// Begins to connect.
    pub(crate) fn connect(
        &self,
        reactor: &Reactor,
        place: Place,
        mechanism: Mechanism,
        options: Options,
    ) -> io::Result<Connected> {
        let connected = Connected::default();
        let purpose = Purpose::Connect(Rc::clone(&connected));
        self.begin(reactor, purpose, move || connect(&place, mechanism, &options))?;
        Ok(connected)
    }

    fn begin(
        &self,
        reactor: &Reactor,
        purpose: Purpose,
        meet: impl FnOnce() -> Result<Endpoint, HandshakeError> + Send + 'static,
    ) -> io::Result<()> {
        let number = self.last.get() + 1;
        self.last.set(number);
        let mailbox = Arc::clone(&reactor.mailbox);
        let thread = std::thread::Builder::new().name("nearcall-meet".into());
        thread.spawn(move || mailbox.post(Met { number, outcome: meet() }))?;
        self.running.borrow_mut().insert(number, purpose);
        Ok(())
    }

    /// A handshake has come out in some way.
    pub(crate) fn met(&self, reactor: &Reactor, met: Met) {
        let purpose = self.running.borrow_mut().remove(&met.number);
        match purpose {
            Some(Purpose::Connect(connected)) => connected.set(Some(met.outcome)),
            Some(Purpose::Serve(Serving { server, which, .. })) => {
                if let (Some(server), Ok(endpoint)) = (server.upgrade(), met.outcome) {
                    server.welcome(endpoint, which);
                }
                self.attend(reactor);
                self.resume(reactor);
            }
            None => {}
        }
    }

    fn pause(&self, reactor: &Reactor, server: &Rc<ServerCore>, which: usize) {
        server.pause_listener(reactor, which, true);
        self.paused.borrow_mut().push((Rc::downgrade(server), which));
    }

    fn resume(&self, reactor: &Reactor) {
        let paused = std::mem::take(&mut *self.paused.borrow_mut());
        for (server, which) in paused {
            if let Some(server) = server.upgrade() {
                server.pause_listener(reactor, which, false);
            }
        }
    }

    /// When `resume_due` has something to do.
    #[inline]
    pub(crate) fn next_due(&self) -> Time {
        let due = self.resume_at.get().unwrap_or(Time::NEVER);
        due.min(self.attend_at.get().unwrap_or(Time::NEVER)).min(self.greeting_due())
    }

    /// When the first client that has not greeted has had its time.
    #[inline]
    fn greeting_due(&self) -> Time {
        let mut greeting = self.greeting.borrow_mut();
        while let Some((by, link)) = greeting.front() {
            if link.upgrade().is_some_and(|link| link.is_greeting()) {
                return *by;
            }
            greeting.pop_front();
        }
        Time::NEVER
    }

    pub(crate) fn resume_due(&self, reactor: &Reactor, now: Time) {
        if self.resume_at.get().is_some_and(|at| at <= now) {
            self.resume_at.set(None);
            self.resume(reactor);
        }
        if self.attend_at.get().is_some_and(|at| at <= now) {
            self.attend(reactor);
            self.resume(reactor);
        }
        while self.greeting_due() <= now {
            let first = self.greeting.borrow_mut().pop_front();
            if let Some(link) = first.and_then(|(_, link)| link.upgrade()) {
                let why = format!("{} did not greet in time", link.name);
                link.cut_off(Status::unavailable(why));
            }
        }
    }
}

/// Clients taken from a listener before others have their turn.
const ACCEPTS_PER_ROUND_MAX: usize = 16;

/// How long a listener rests after the kernel refused a descriptor for a client, in nanoseconds.
const PAUSE: Timeout = Timeout::from_ns(100_000_000);

/// How long a handshake may take while others wait for its place, in nanoseconds.
///
/// A local one takes a millisecond, on a machine with too much to do tens of them.
const HANDSHAKE_GRACE: Timeout = Timeout::from_ns(250_000_000);
