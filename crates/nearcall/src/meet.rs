//! Meeting clients and servers without holding the loop: each handshake waits for its peer on a
//! thread of its own, which ends with the handshake.
//!
//! Always true: so many handshakes at once and no more; clients beyond that wait in the listening
//! socket's queue; a failed handshake concerns its client only.
//! Not here: the handshake (`nearcall-channel`), what becomes of an open channel (`server.rs`,
//! `client.rs`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use nearcall_channel::{
    Address as Place, Endpoint, Mechanism, MeetError, Meeting, Options, connect,
};
use nearcall_os::socket;
use nearcall_wire::{Time, Timeout};

use crate::limits::{HANDSHAKES_MAX, HANDSHAKES_PER_UID_MAX};
use crate::options::now;
use crate::reactor::{Met, Reactor};
use crate::server::ServerCore;

/// Handshakes of one loop.
#[derive(Default)]
pub(crate) struct Meetings {
    last: Cell<u64>,
    running: RefCell<HashMap<u64, Purpose>>,
    /// Listeners that wait until a handshake ends or a moment comes.
    paused: RefCell<Vec<(Weak<ServerCore>, usize)>>,
    resume_at: Cell<Option<Time>>,
}

/// The outcome of connecting, once it is there.
pub(crate) type Connected = Rc<Cell<Option<Result<Endpoint, MeetError>>>>;

enum Purpose {
    Serve { server: Weak<ServerCore>, uid: Option<u32> },
    Connect(Connected),
}

impl Meetings {
    /// Begins handshakes with clients that wait at a listener.
    pub(crate) fn accept(&self, reactor: &Reactor, server: &Rc<ServerCore>, which: usize) {
        for _ in 0..ACCEPTS_PER_ROUND_MAX {
            if self.serving(None) >= HANDSHAKES_MAX {
                return self.pause(reactor, server, which);
            }
            match server.accept_socket(which) {
                Ok(Some((socket, meeting))) => self.serve(reactor, server, which, socket, meeting),
                Ok(None) => return,
                Err(_) => {
                    // Most likely no descriptor is free; asking again at once would only spin.
                    self.resume_at.set(Some(now().after(PAUSE)));
                    return self.pause(reactor, server, which);
                }
            }
        }
    }

    fn serve(
        &self,
        reactor: &Reactor,
        server: &Rc<ServerCore>,
        which: usize,
        socket: OwnedFd,
        meeting: Meeting,
    ) {
        let uid = socket::peer_credentials(&socket).ok().map(|peer| peer.uid);
        if let Err(text) = server.may_join(uid) {
            return meeting.turn_away(socket, &text);
        }
        if uid.is_some() && self.serving(uid) >= HANDSHAKES_PER_UID_MAX {
            let text = "too many handshakes of this user at once; try again";
            return meeting.turn_away(socket, text);
        }
        let purpose = Purpose::Serve { server: Rc::downgrade(server), uid };
        let options = server.options_for(which);
        let _ = self.begin(reactor, purpose, move || meeting.open(socket, &options));
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
        meet: impl FnOnce() -> Result<Endpoint, MeetError> + Send + 'static,
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
            Some(Purpose::Serve { server, .. }) => {
                if let (Some(server), Ok(endpoint)) = (server.upgrade(), met.outcome) {
                    server.welcome(endpoint);
                }
                self.resume(reactor);
            }
            None => {}
        }
    }

    /// Handshakes with clients under way, of all users or of one.
    fn serving(&self, of: Option<u32>) -> usize {
        let running = self.running.borrow();
        let counts = |purpose: &&Purpose| match purpose {
            Purpose::Serve { uid, .. } => of.is_none() || *uid == of,
            Purpose::Connect(_) => false,
        };
        running.values().filter(counts).count()
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
        self.resume_at.get().unwrap_or(Time::NEVER)
    }

    pub(crate) fn resume_due(&self, reactor: &Reactor, now: Time) {
        if self.resume_at.get().is_some_and(|at| at <= now) {
            self.resume_at.set(None);
            self.resume(reactor);
        }
    }
}

/// Clients taken from a listener before others have their turn.
const ACCEPTS_PER_ROUND_MAX: usize = 16;

/// How long a listener rests after the kernel refused a descriptor for a client, in nanoseconds.
const PAUSE: Timeout = Timeout::from_ns(100_000_000);
