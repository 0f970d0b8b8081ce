//! The event loop of one thread: waits for everything that concerns it, and gives each connection
//! its turn.
//!
//! One round: arm what was used, poll or sleep until something happens, then serve what is ready,
//! each connection a few messages.
//! **Invariants:** nothing of the loop is borrowed while a service runs, since a service may wait
//! for calls of its own and so run rounds inside this one; a round is bounded. Connections over
//! mechanisms without a descriptor: those that spin are polled in each round, and the loop does not
//! sleep; one that blocks is slept in, and is called out of its sleep when anything else is ready.
//! **Not here:** turns (`reactor/turns.rs`), what users see of it (`event_loop.rs`), what
//! connections report (`connection/activity.rs`).
//!
//! **Invariant:** an idle loop sleeps. A loop hosted by another loop wakes its host for every
//! reason and never without one. *Checked by* `tests/it/loop_events.rs`, and in tokio, whose
//! notifications are edge-triggered, `crates/nearcall-examples/tests/it/hosted.rs`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};

use nearcall_channel::account::Accounts;
use nearcall_os::epoll::{Epoll, Events};
use nearcall_os::library::HostLink;
use nearcall_os::poll::{self, Ready};
use nearcall_os::signal::SignalInfo;
use nearcall_os::{capacity, clock};

use crate::codec::Body;
use crate::connection::{Activity, Connection, Rounds, ServerId};
use crate::deadline::{self, Deadline};
use crate::limits::{
    EVENTS_PER_ROUND_MAX, LOCAL_ONEWAYS_MAX, LOOK_FAILURE_PAUSE, LOOK_FAILURES_MAX, TRIM_BYTES,
    TRIM_DELAY,
};
use crate::metadata::Metadata;
use crate::nesting::Handler;
use crate::reactor::acceptor::Acceptor;
use crate::services::context::Context;
use crate::services::dispatch::{self, Services};
use crate::services::dispatcher::{Incoming, Registered};
use crate::services::local_reply::LocalAnswer;
use crate::services::reply_sink::ReplySink;
use crate::status::Status;
use crate::tasks::mailbox::Mailbox;

pub(crate) mod acceptor;
mod busy;
pub(crate) mod census;
mod handshakes;
mod hosting;
mod placing;
mod posts;
mod sharing;
mod socket_files;
mod sources;
mod timers;
mod turns;
mod user_events;
mod wakes;
mod watching;

pub(crate) use self::handshakes::{Connected, NOT_LISTENING};
pub use self::sources::DescriptorId;
pub(crate) use self::sources::{ListenerEntry, ListenerId, UserFd};
use self::sources::{Source, Sources};
pub use self::timers::TimerId;
use self::timers::Timers;

/// Something that concerns the user of a loop.
///
/// Returned by [`EventLoop::next`](crate::EventLoop::next).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event {
    /// A timer is due.
    Timer(TimerId),
    /// A descriptor of the user is ready. It is watched again from the next
    /// [`next`](crate::EventLoop::next) on.
    Descriptor(DescriptorId, Ready),
    /// A signal has come.
    Signal(SignalInfo),
    /// [`stop`](crate::event_loop::Stopper::stop) was called.
    Stopped,
}

/// The per-thread event loop state.
pub(crate) struct Reactor {
    pub(crate) services: Services,
    pub(crate) activity: Rc<Activity>,
    pub(crate) mailbox: Arc<Mailbox>,
    epoll: Epoll,
    events: RefCell<Events>,
    sources: RefCell<Sources>,
    /// Connections that may have something, each once.
    ready: RefCell<sharing::FairQueue<Rc<Connection>>>,
    /// How users share its time.
    clock: turns::TurnClock,
    /// Connections whose peers wake the loop for nothing.
    pauses: wakes::Pauses,
    /// The time for which polling the busy connections pays.
    busy: busy::Busy,
    /// Connections that are polled in each round.
    spinning: RefCell<Vec<Rc<Connection>>>,
    /// The connection that the loop sleeps in.
    fdless: RefCell<Option<watching::FdlessConnection>>,
    /// Turns of polled connections since the last look at everything else.
    polled_turns: Cell<u32>,
    /// Connections whose doorbell is a signal to this thread.
    signalled: RefCell<Vec<Rc<Connection>>>,
    /// The signals that were taken when those were looked at last.
    signals_seen: Cell<u64>,
    timers: RefCell<Timers>,
    /// Answers that services of this thread owe callers of this thread, and until when.
    awaited: RefCell<Vec<(Deadline, sync::Weak<LocalAnswer>)>>,
    /// What other threads have posted, until its turn.
    posted: RefCell<posts::Posted>,
    /// Another loop waits for this one's descriptor, so that posts always write it.
    is_hosted: Cell<bool>,
    /// The host of this library, in whose loop this one waits.
    host: Cell<Option<HostLink>>,
    /// The token of loops of libraries that wait in this one.
    guests: Cell<Option<u64>>,
    /// One-way messages to servers of this thread, for the next round.
    local_oneways: RefCell<VecDeque<LocalOneway>>,
    handshakes: handshakes::PendingHandshakes,
    /// The files of the sockets that clients find its servers by.
    socket_files: socket_files::SocketFiles,
    /// When the memory that ended connections have given back goes back to the kernel.
    trim_at: Cell<Deadline>,
    /// The servers whose clients connect to this loop.
    acceptors: RefCell<Vec<(ServerId, Weak<Acceptor>)>>,
    user_events: RefCell<VecDeque<Event>>,
    /// Descriptors of the user that were reported and are watched again when the user asks for the
    /// next event.
    reported: RefCell<Vec<u64>>,
    signals: RefCell<Option<OwnedFd>>,
    /// Looks at the kernel that have failed since one succeeded.
    look_failures: Cell<u32>,
}

/// A one-way message to a server of this thread.
pub(crate) struct LocalOneway {
    pub(crate) dispatcher: Rc<Registered>,
    pub(crate) method: u32,
    pub(crate) deadline: Deadline,
    pub(crate) metadata: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

thread_local! {
    /// The loops of this thread.
    static LOOPS: RefCell<Vec<Weak<Reactor>>> = const { RefCell::new(Vec::new()) };
}

impl Reactor {
    /// Creates the state of a loop of this thread that others reach by `mailbox`.
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> io::Result<Rc<Self>> {
        let reactor = Self {
            services: Services::default(),
            activity: Activity::new(&mailbox),
            mailbox,
            epoll: Epoll::create()?,
            events: RefCell::new(Events::with_capacity(EVENTS_PER_ROUND_MAX)),
            sources: RefCell::default(),
            ready: RefCell::default(),
            clock: turns::TurnClock::default(),
            pauses: wakes::Pauses::default(),
            busy: busy::Busy::default(),
            spinning: RefCell::default(),
            fdless: RefCell::default(),
            polled_turns: Cell::new(0),
            signalled: RefCell::default(),
            signals_seen: Cell::new(0),
            timers: RefCell::default(),
            awaited: RefCell::default(),
            posted: RefCell::default(),
            is_hosted: Cell::new(false),
            host: Cell::new(None),
            guests: Cell::new(None),
            local_oneways: RefCell::default(),
            handshakes: handshakes::PendingHandshakes::default(),
            socket_files: socket_files::SocketFiles::default(),
            trim_at: Cell::new(Deadline::NEVER),
            acceptors: RefCell::default(),
            user_events: RefCell::default(),
            reported: RefCell::default(),
            signals: RefCell::default(),
            look_failures: Cell::new(0),
        };
        let token = reactor.sources.borrow_mut().add(Source::Mailbox);
        reactor.epoll.add(&*reactor.mailbox, poll::Interest::Readable, token)?;
        let reactor = Rc::new(reactor);
        let rounds: Weak<dyn Rounds> = Rc::downgrade(&(Rc::clone(&reactor) as Rc<dyn Rounds>));
        reactor.activity.set_rounds(rounds);
        LOOPS.with_borrow_mut(|loops| {
            loops.retain(|other| other.strong_count() > 0);
            loops.push(Rc::downgrade(&reactor));
        });
        Ok(reactor)
    }

    /// Returns the loop of this thread that has this mailbox, for what was posted there.
    pub(crate) fn of_thread(mailbox: &Arc<Mailbox>) -> Option<Rc<Self>> {
        let is_it = |reactor: &Rc<Self>| Arc::ptr_eq(&reactor.mailbox, mailbox);
        LOOPS.with_borrow(|loops| loops.iter().filter_map(Weak::upgrade).find(is_it))
    }

    /// Runs rounds until `done`, or until `deadline` has passed. Returns whether it is done.
    #[inline]
    pub(crate) fn run_until(
        &self,
        deadline: Deadline,
        mut done: impl FnMut() -> bool,
    ) -> io::Result<bool> {
        let outcome = loop {
            if done() {
                break Ok(true);
            }
            if deadline.has_passed() {
                break Ok(false);
            }
            if let Err(error) = self.round(deadline) {
                break Err(error);
            }
        };
        self.activity.notify_host();
        outcome
    }

    /// Sleeps until something happens or `deadline`, then serves what is ready.
    #[inline]
    pub(crate) fn round(&self, deadline: Deadline) -> io::Result<()> {
        // The connections of a forked process are those of its parent.
        self.epoll.check_process()?;
        self.activity.wake_host();
        self.forget_closed();
        let must_look =
            self.arm_used() || !self.local_oneways.borrow().is_empty() || self.has_posts();
        let must_look = must_look || self.activity.has_changed();
        let has_busy = self.activity.busy_count() > 0;
        if !self.spinning.borrow().is_empty() {
            self.poll_spinning(must_look)?;
            if has_busy {
                self.poll_busy();
            }
        } else if has_busy && (must_look || deadline == Deadline::NOW) {
            self.poll_busy();
            self.wait(Deadline::NOW)?;
        } else if !has_busy || !self.spin_busy(deadline)? {
            self.sleep(must_look, deadline)?;
        }
        self.run_due();
        self.serve_ready();
        self.serve_posts();
        self.serve_local_oneways();
        self.forget_closed();
        Ok(())
    }

    /// Sleeps until something is ready or `deadline`.
    fn sleep(&self, must_look: bool, deadline: Deadline) -> io::Result<()> {
        self.demote_all();
        // What concerns the user is no reason to stay awake: whoever waits for that has seen it, or
        // a look while spinning has found it, after which no sleep follows.
        let must_look = must_look || !self.ready.borrow().is_empty();
        self.wait(if must_look { Deadline::NOW } else { deadline.min(self.next_due()) })?;
        self.record_sleep();
        Ok(())
    }

    /// Waits in the kernel, or in the connection that the loop sleeps in, until `deadline` at most.
    fn wait(&self, deadline: Deadline) -> io::Result<()> {
        if deadline == Deadline::NOW {
            return self.wait_until(deadline);
        }
        let may_sleep = self.mailbox.begin_sleep();
        let waited = self.wait_until(if may_sleep { deadline } else { Deadline::NOW });
        if !self.is_hosted.get() {
            self.mailbox.end_sleep();
        }
        waited
    }

    fn wait_until(&self, deadline: Deadline) -> io::Result<()> {
        match self.has_fdless() {
            true => self.sleep_on_fdless(self.look_in_host(deadline)),
            false => self.poll_epoll(self.wait_in_host(deadline)).map(drop),
        }
    }

    /// Polls the kernel for what is ready without running any service. Returns whether there was
    /// anything.
    ///
    /// # Errors
    ///
    /// The kernel has failed so often that it will not recover.
    fn poll_epoll(&self, deadline: Deadline) -> io::Result<bool> {
        match self.poll_epoll_once(deadline) {
            Ok(any) => {
                self.look_failures.set(0);
                Ok(any)
            }
            Err(error) => self.survive_failure(error),
        }
    }

    /// Pauses after a look that has failed. The next one may succeed, and ending the loop would end
    /// the connections of all clients.
    #[cold]
    fn survive_failure(&self, error: io::Error) -> io::Result<bool> {
        let failures = self.look_failures.get() + 1;
        if failures >= LOOK_FAILURES_MAX {
            return Err(error);
        }
        self.look_failures.set(failures);
        clock::pause(LOOK_FAILURE_PAUSE);
        Ok(true)
    }

    fn poll_epoll_once(&self, deadline: Deadline) -> io::Result<bool> {
        let mut any = false;
        self.clock.note_look();
        let mut events = self.events.borrow_mut();
        for event in self.epoll.wait(&mut events, deadline)? {
            any = true;
            let source = self.sources.borrow().get(event.token).cloned();
            match source {
                Some(Source::Connection(connection)) => {
                    let has_hung_up = event.ready.hung_up || event.ready.error;
                    connection.note_report(event.token, has_hung_up);
                    self.make_ready(&connection);
                }
                Some(Source::Listener(_)) => {
                    self.handshakes.accept(self, ListenerId(event.token));
                }
                Some(Source::Handshake) => self.handshakes.note_ready(event.token),
                Some(Source::Mailbox) => self.mailbox.silence(),
                Some(Source::HostTimer) => self.activity.silence_timer()?,
                // The end of the round has it look.
                Some(Source::Guest) | None => {}
                Some(Source::Signal) => self.read_signal()?,
                Some(Source::SocketFiles) => self.note_socket_files(),
                Some(Source::User(_)) => self.report(event.token, event.ready),
            }
        }
        drop(events);
        self.advance_handshakes();
        Ok(any)
    }

    /// Reports timers that are due, and ends calls whose time is up.
    fn run_due(&self) {
        let due = self.next_due();
        if due == Deadline::NEVER {
            return;
        }
        let now = deadline::now();
        if now < due {
            return;
        }
        self.report_timers(now);
        if self.trim_at.get() <= now {
            self.trim_at.set(Deadline::NEVER);
            // Another loop may have done it.
            if Accounts::of_process().take_given_back() >= TRIM_BYTES {
                capacity::trim_heap();
            }
        }
        self.handshakes.run_due(self, now);
        self.restore_socket_files(now);
        self.end_pauses(now);
        if self.activity.deadline() <= now {
            self.end_calls(now);
        }
    }

    /// Ends the calls whose time is up on any connection, and finds the next deadline.
    fn end_calls(&self, now: Deadline) {
        self.activity.clear_deadline();
        for connection in self.connections() {
            if connection.next_due() <= now {
                connection.handle_timeout();
            }
            self.activity.note_deadline(connection.next_due());
            self.activity.note_deadline(connection.expire_ask(now));
        }
        self.wake_awaited(now);
    }

    /// Ends the waits for answers of this thread whose time is up.
    fn wake_awaited(&self, now: Deadline) {
        let awaited = std::mem::take(&mut *self.awaited.borrow_mut());
        for (deadline, reply) in awaited {
            let Some(reply) = reply.upgrade() else { continue };
            if deadline <= now {
                reply.expire();
            } else {
                self.wake_at(deadline, &reply);
            }
        }
    }

    /// Has the task that awaits this answer woken at its deadline, and the service that owes it
    /// notified.
    pub(crate) fn wake_at(&self, deadline: Deadline, reply: &Arc<LocalAnswer>) {
        if deadline == Deadline::NEVER {
            return;
        }
        let mut awaited = self.awaited.borrow_mut();
        if awaited.len() == awaited.capacity() {
            // Those that ended before their deadline must not pile up.
            awaited.retain(|(_, reply)| reply.strong_count() > 0);
        }
        awaited.push((deadline, Arc::downgrade(reply)));
        self.activity.note_deadline(deadline);
    }

    /// Returns when something is due by itself.
    #[inline]
    fn next_due(&self) -> Deadline {
        let timers = self.timers.borrow().next();
        let due = timers.min(self.activity.deadline()).min(self.handshakes.next_due());
        let due = due.min(self.trim_at.get()).min(self.socket_files.due());
        due.min(self.pauses.next_due())
    }

    /// Returns whether one more one-way message to a server of this thread may wait.
    pub(crate) fn takes_local_oneways(&self) -> bool {
        self.local_oneways.borrow().len() < LOCAL_ONEWAYS_MAX
    }

    /// Queues a one-way message to a server of this thread.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: too many wait already.
    pub(crate) fn send_local(&self, oneway: LocalOneway) -> Result<(), Status> {
        if !self.takes_local_oneways() {
            return Err(Status::resource_exhausted(format!(
                "{LOCAL_ONEWAYS_MAX} one-way messages to this thread wait already; let its loop run"
            )));
        }
        self.local_oneways.borrow_mut().push_back(oneway);
        self.activity.wake_host();
        Ok(())
    }

    /// Returns whether no one-way message waits or goes on. If one does, its end wakes the loop.
    pub(crate) fn have_oneways_ended(&self) -> bool {
        self.local_oneways.borrow().is_empty() && self.mailbox.have_oneways_ended()
    }

    /// Serves one-way messages from this thread to itself that were sent before this round.
    #[inline]
    fn serve_local_oneways(&self) {
        let count = self.local_oneways.borrow().len();
        for _ in 0..count {
            let Some(oneway) = self.local_oneways.borrow_mut().pop_front() else { return };
            let LocalOneway { dispatcher, method, deadline, metadata, body } = oneway;
            let (metadata, interface) = (Metadata::new(&metadata), dispatcher.interface());
            let sink = ReplySink::local_oneway(&self.activity);
            let context = Context::new(deadline, metadata, interface, method, sink);
            let body = Body::copied(&body);
            dispatch::run(&**dispatcher, sink, Handler::own(deadline), || Incoming {
                method,
                body,
                context,
            });
        }
    }

    /// Registers the server that accepts clients in this loop.
    pub(crate) fn add_acceptor(&self, acceptor: &Rc<Acceptor>) {
        let mut acceptors = self.acceptors.borrow_mut();
        acceptors.retain(|(_, acceptor)| acceptor.strong_count() > 0);
        acceptors.push((acceptor.id, Rc::downgrade(acceptor)));
    }

    /// Returns what a server of this loop accepts clients with.
    pub(crate) fn acceptor(&self, server: ServerId) -> Option<Rc<Acceptor>> {
        let acceptors = self.acceptors.borrow();
        acceptors.iter().find(|(id, _)| *id == server)?.1.upgrade()
    }

    /// Forgets the connections that have ended since the last time, and watches the new channels of
    /// those that have moved.
    #[inline]
    pub(crate) fn forget_closed(&self) {
        if self.activity.has_changed() {
            self.forget_connections();
        }
    }

    /// Forgets connections, for as long as clients of others can wait for that; the rest is left to
    /// the next round.
    #[cold]
    fn forget_connections(&self) {
        // One may move on at once.
        while let Some(connection) = self.activity.pop_switched() {
            self.watch_anew(&connection);
        }
        let mut closed = self.activity.take_closed();
        let until = self.end_of_turn();
        while let Some(connection) = closed.pop() {
            self.remove_connection(&connection);
            if let Some(acceptor) = connection.serves.and_then(|server| self.acceptor(server)) {
                acceptor.remove(&connection);
            }
            // Unmaps its memory, some tens of microseconds for each segment.
            drop(connection);
            if until.has_passed() {
                break;
            }
        }
        self.activity.put_back_closed(closed);
        if Accounts::of_process().given_back() >= TRIM_BYTES
            && self.trim_at.get() == Deadline::NEVER
        {
            self.trim_at.set(Deadline::after(TRIM_DELAY));
        }
    }

    /// Ends all connections.
    pub(crate) fn close_all(&self) {
        self.mailbox.close();
        for connection in self.connections() {
            connection.close(Status::unavailable("the event loop was closed"));
        }
        while self.activity.has_changed() {
            self.forget_connections();
        }
        self.activity.clear_used();
        self.activity.executor.close();
        self.mailbox.close();
        // A dispatcher may hold a client of this loop.
        drop((self.local_oneways.take(), self.posted.take()));
    }
}

impl Rounds for Reactor {
    fn run_until(&self, deadline: Deadline, done: &mut dyn FnMut() -> bool) -> io::Result<bool> {
        Self::run_until(self, deadline, done)
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
