//! Waits for everything that concerns one thread, and gives each connection its turn.
//!
//! One round: arm what was used, spin or sleep until something happens, then serve what is ready,
//! each connection a few messages. Always true: nothing of ours is borrowed while a service runs,
//! since a service may wait for calls of its own and so run rounds inside this one; a round is
//! bounded. Connections over mechanisms without a descriptor: those that spin are looked at in each
//! round, and the loop does not sleep; one that blocks is slept in, and is called out of its sleep
//! when anything else is ready.
//! Not here: what users see of it (`event_loop.rs`), meeting clients (`meet.rs`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use nearcall_channel::Deadline;
use nearcall_os::epoll::{Epoll, Events};
use nearcall_os::poll::{self, Ready};
use nearcall_os::signal::SignalInfo;
use nearcall_os::{signal, timerfd};
use nearcall_wire::Time;

use crate::core::Core;
use crate::limits::{MESSAGES_PER_TURN_MAX, SPIN_LOOKS_PER_ROUND, SPIN_TURNS_PER_LOOK};
use crate::link::{Link, Took};
use crate::local_reply::{LocalAnswer, LocalReply};
use crate::options;
use crate::status::Status;

mod hot;
mod links;
mod mailbox;
mod sources;
mod timers;

pub(crate) use self::links::Watch;
pub(crate) use self::mailbox::{Mailbox, Met};
pub use self::sources::DescriptorId;
pub(crate) use self::sources::{Source, Sources, UserFd};
pub use self::timers::TimerId;
use self::timers::Timers;

/// Something that concerns the user of a loop.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A timer is due.
    Timer(TimerId),
    /// A descriptor of the user is ready. It is watched again from the next
    /// [`next`](crate::EventLoop::next) on.
    Descriptor(DescriptorId, Ready),
    /// A signal has come.
    Signal(SignalInfo),
    /// Somebody has called [`stop`](crate::Stopper::stop).
    Stopped,
}

/// The waiting part of one thread.
pub(crate) struct Reactor {
    epoll: Epoll,
    events: RefCell<Events>,
    pub(crate) sources: RefCell<Sources>,
    /// Connections that may have something, each once.
    ready: RefCell<VecDeque<Rc<Link>>>,
    /// Connections that were used since they were armed.
    used: RefCell<Vec<Rc<Link>>>,
    /// Connections that were busy lately and may be spun for.
    hot: hot::Hot,
    /// Connections that are looked at in each round.
    spinning: RefCell<Vec<Rc<Link>>>,
    /// The connection that the loop sleeps in.
    native: RefCell<Option<links::Native>>,
    spins: Cell<u32>,
    /// Connections whose bell is a signal to this thread.
    signalled: RefCell<Vec<Rc<Link>>>,
    pub(crate) timers: RefCell<Timers>,
    /// Answers of services of this thread that somebody awaits, and until when.
    awaited: RefCell<Vec<(Time, Weak<LocalAnswer>)>>,
    /// No call's deadline passes before this.
    deadline: Cell<Time>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) meetings: crate::meet::Meetings,
    user_events: RefCell<VecDeque<Event>>,
    /// Descriptors of the user that were reported and are watched again when he asks for more.
    reported: RefCell<Vec<u64>>,
    signals: RefCell<Option<OwnedFd>>,
    /// For a hosting loop: becomes readable when a moment has come.
    clock: RefCell<Option<OwnedFd>>,
    /// A host waits for our descriptor, which tells it of everything that was so by then.
    host_waits: Cell<bool>,
    /// The clock rang for the host, and a wait of our own has silenced it.
    owes_host: Cell<bool>,
}

/// Ready descriptors taken from the kernel at once. More come with the next round.
const EVENTS_PER_ROUND_MAX: usize = 256;

impl Reactor {
    pub(crate) fn new() -> io::Result<Self> {
        let reactor = Self {
            epoll: Epoll::create()?,
            events: RefCell::new(Events::with_capacity(EVENTS_PER_ROUND_MAX)),
            sources: RefCell::default(),
            ready: RefCell::default(),
            used: RefCell::default(),
            hot: hot::Hot::default(),
            spinning: RefCell::default(),
            native: RefCell::default(),
            spins: Cell::new(0),
            signalled: RefCell::default(),
            timers: RefCell::default(),
            awaited: RefCell::default(),
            deadline: Cell::new(Time::NEVER),
            mailbox: Arc::new(Mailbox::new()?),
            meetings: crate::meet::Meetings::default(),
            user_events: RefCell::default(),
            reported: RefCell::default(),
            signals: RefCell::default(),
            clock: RefCell::default(),
            host_waits: Cell::new(false),
            owes_host: Cell::new(false),
        };
        let token = reactor.sources.borrow_mut().add(Source::Mailbox);
        reactor.epoll.add(&*reactor.mailbox, poll::Interest::Readable, token)?;
        Ok(reactor)
    }

    /// Runs rounds until `done`, or until `until` has passed. True: done.
    #[inline]
    pub(crate) fn run_until(
        &self,
        core: &Rc<Core>,
        until: Time,
        mut done: impl FnMut() -> bool,
    ) -> io::Result<bool> {
        let outcome = loop {
            if done() {
                break Ok(true);
            }
            if until != Time::NEVER && options::now() >= until {
                break Ok(false);
            }
            if let Err(error) = self.round(core, until) {
                break Err(error);
            }
        };
        self.settle_host();
        outcome
    }

    /// Sleeps until something happens or `until`, then serves what is ready.
    #[inline]
    pub(crate) fn round(&self, core: &Rc<Core>, until: Time) -> io::Result<()> {
        self.wake_host();
        let must_look = self.arm_used() || !core.local_oneways.borrow().is_empty();
        if !self.spinning.borrow().is_empty() {
            self.spin_round(must_look)?;
            if !self.hot.is_empty() {
                self.sweep();
            }
        } else if !self.hot.is_empty() && (must_look || until == Time::from_ns(0)) {
            self.sweep();
            self.doze(Time::from_ns(0))?;
        } else if self.hot.is_empty() || !self.spin_hot(until)? {
            self.sleep(must_look, until)?;
        }
        self.run_due(core);
        self.serve_ready();
        core.serve_local_oneways();
        Ok(())
    }

    /// Sleeps until something is ready or `until`.
    fn sleep(&self, must_look: bool, until: Time) -> io::Result<()> {
        self.cool_all();
        // What concerns the user is no reason to stay awake: whoever waits for that has seen it, or
        // a look while spinning has found it, after which nobody comes here.
        let must_look = must_look || !self.ready.borrow().is_empty();
        self.doze(if must_look { Time::from_ns(0) } else { until.min(self.next_due()) })?;
        self.learn_from_sleep();
        Ok(())
    }

    /// Asks the kernel, or the connection that the loop sleeps in, until `until` at most.
    fn doze(&self, until: Time) -> io::Result<()> {
        let sleeps_in_one = self.sleeps_in_one();
        match sleeps_in_one {
            true => self.sleep_in_native(until),
            false => self.look(timeout_until(until)).map(drop),
        }
    }

    /// Asks the kernel who is ready, and notes it. Runs no service. Whether anything was.
    fn look(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let mut any = false;
        let mut events = self.events.borrow_mut();
        for event in self.epoll.wait(&mut events, timeout)? {
            any = true;
            let source = self.sources.borrow().get(event.token).cloned();
            match source {
                Some(Source::Link(link)) => self.make_ready(&link),
                Some(Source::Listener(server, which)) => {
                    if let Some(server) = server.upgrade() {
                        self.meetings.accept(self, &server, which);
                    }
                }
                Some(Source::Mailbox) => self.read_mailbox(),
                Some(Source::Clock) => self.silence_clock()?,
                None => {}
                Some(Source::Signal) => self.read_signal()?,
                Some(Source::User(_)) => self.report(event.token, event.ready),
            }
        }
        Ok(any)
    }

    fn read_mailbox(&self) {
        for met in self.mailbox.take() {
            self.meetings.met(self, met);
        }
        if self.mailbox.take_stop() {
            self.user_events.borrow_mut().push_back(Event::Stopped);
        }
    }

    fn spin_round(&self, must_look: bool) -> io::Result<()> {
        let spins = self.spins.get().wrapping_add(1);
        self.spins.set(spins);
        if must_look || spins.is_multiple_of(SPIN_TURNS_PER_LOOK) {
            self.look(Some(Duration::ZERO))?;
        }
        let count = self.spinning.borrow().len();
        // A longer look at one would keep the others waiting.
        let alone = count == 1 && !self.sleeps_in_one() && !must_look;
        let looks = if alone { SPIN_LOOKS_PER_ROUND } else { 1 };
        for index in 0..count {
            let link = self.spinning.borrow().get(index).cloned();
            if let Some(link) = link {
                self.serve_spinning(&link, looks);
            }
        }
        self.serve_native();
        Ok(())
    }

    /// While the loop spins it does not sleep in the connection without a descriptor. Whether that
    /// had anything.
    fn serve_native(&self) -> bool {
        let native = self.native.borrow().as_ref().map(|native| native.link());
        native.is_some_and(|link| self.serve_spinning(&link, 1))
    }

    /// Whether there was anything.
    fn serve_spinning(&self, link: &Rc<Link>, looks: u32) -> bool {
        let had_room = link.wants_room() && link.flush(Deadline::NOW);
        let mut looks = looks;
        for count in 0..MESSAGES_PER_TURN_MAX {
            if !link.has_come(looks) {
                return had_room || count > 0;
            }
            match link.take_message(Deadline::NOW) {
                Took::Nothing => return had_room || count > 0,
                Took::Message if !link.is_gone() => looks = 1,
                Took::Message | Took::Gone => return true,
            }
        }
        true
    }

    /// Gives each connection that is ready its turn.
    fn serve_ready(&self) {
        let count = self.ready.borrow().len();
        for _ in 0..count {
            let Some(link) = self.ready.borrow_mut().pop_front() else { return };
            links::taken_from_ready(&link);
            self.serve(&link);
        }
    }

    /// One turn of a connection: a few messages, then what found no room before.
    #[inline]
    fn serve(&self, link: &Rc<Link>) {
        if link.wants_room() {
            link.flush(Deadline::NOW);
        }
        for _ in 0..MESSAGES_PER_TURN_MAX {
            // At once: a service may wait for calls of its own, in rounds that must arm this one.
            self.used(link);
            match link.take_message(Deadline::NOW) {
                Took::Message if link.is_gone() => return,
                // A hot one is armed before the loop sleeps.
                Took::Message if link.watch.is_hot.get() => {}
                Took::Message => {
                    if self.arm(link) {
                        return;
                    }
                }
                Took::Nothing | Took::Gone => return,
            }
        }
        if !link.watch.is_hot.get() {
            self.make_ready(link);
        }
    }

    /// Reports timers that are due, and ends calls whose time is up.
    fn run_due(&self, core: &Rc<Core>) {
        let due = self.next_due();
        if due == Time::NEVER {
            return;
        }
        let now = options::now();
        if now < due {
            return;
        }
        while let Some(timer) = self.timers.borrow_mut().take_due(now) {
            self.report_timer(timer);
        }
        self.meetings.resume_due(self, now);
        if self.deadline.get() <= now {
            self.end_calls(core, now);
        }
    }

    /// Reports a timer, unless the user has not seen its last report: while a call waits he sees
    /// none, and they must not pile up.
    fn report_timer(&self, timer: TimerId) {
        let mut events = self.user_events.borrow_mut();
        if !events.iter().any(|event| matches!(event, Event::Timer(other) if *other == timer)) {
            events.push_back(Event::Timer(timer));
        }
    }

    /// Ends the calls whose time is up on any connection, and finds the next deadline.
    fn end_calls(&self, _core: &Rc<Core>, now: Time) {
        self.deadline.set(Time::NEVER);
        for link in self.links() {
            if link.next_deadline() <= now {
                link.handle_timeout();
            }
            self.note_deadline(link.next_deadline());
        }
        self.wake_awaited(now);
    }

    /// Wakes who awaits an answer of this thread whose time is up.
    fn wake_awaited(&self, now: Time) {
        let awaited = std::mem::take(&mut *self.awaited.borrow_mut());
        for (deadline, reply) in awaited {
            let Some(reply) = reply.upgrade() else { continue };
            if deadline <= now {
                reply.wake();
            } else {
                self.wake_at(deadline, &reply);
            }
        }
    }

    /// Has who awaits this answer woken at its deadline.
    pub(crate) fn wake_at(&self, deadline: Time, reply: &LocalReply) {
        let mut awaited = self.awaited.borrow_mut();
        if awaited.len() == awaited.capacity() {
            // Those that ended before their deadline must not pile up.
            awaited.retain(|(_, reply)| reply.strong_count() > 0);
        }
        awaited.push((deadline, Rc::downgrade(reply)));
        self.note_deadline(deadline);
    }

    /// The loop has to look at the clock at this time.
    #[inline]
    pub(crate) fn note_deadline(&self, deadline: Time) {
        if deadline < self.deadline.get() {
            self.deadline.set(deadline);
            self.wake_host();
        }
    }

    /// When something is due by itself.
    #[inline]
    fn next_due(&self) -> Time {
        let timers = self.timers.borrow().next();
        timers.min(self.deadline.get()).min(self.meetings.next_due())
    }

    /// Whether there is something that concerns the user.
    pub(crate) fn has_event(&self) -> bool {
        !self.user_events.borrow().is_empty()
    }

    /// Whether there was such a timer, or a report of it that nobody has seen.
    pub(crate) fn remove_timer(&self, timer: TimerId) -> bool {
        let removed = self.timers.borrow_mut().remove(timer);
        let mut events = self.user_events.borrow_mut();
        let before = events.len();
        events.retain(|event| !matches!(event, Event::Timer(other) if *other == timer));
        removed || events.len() < before
    }

    /// The next thing that concerns the user.
    pub(crate) fn take_event(&self) -> Option<Event> {
        self.user_events.borrow_mut().pop_front()
    }

    /// Waits for a descriptor of the user.
    pub(crate) fn add_user(&self, user: UserFd) -> io::Result<DescriptorId> {
        let user = Rc::new(user);
        let token = self.sources.borrow_mut().add(Source::User(Rc::clone(&user)));
        match self.epoll.add_once(&user.fd, user.interest, token) {
            Ok(()) => Ok(DescriptorId(token)),
            // A file: it is always ready.
            Err(error) if error.raw_os_error() == Some(EPERM) => {
                self.sources.borrow_mut().remove(token);
                let user = UserFd {
                    fd: user.fd.try_clone()?,
                    interest: user.interest,
                    always_ready: true,
                };
                let token = self.sources.borrow_mut().add(Source::User(Rc::new(user)));
                self.reported.borrow_mut().push(token);
                Ok(DescriptorId(token))
            }
            Err(error) => {
                self.sources.borrow_mut().remove(token);
                Err(error)
            }
        }
    }

    /// Whether there was such a descriptor.
    pub(crate) fn remove_user(&self, id: DescriptorId) -> bool {
        let Some(Source::User(user)) = self.sources.borrow().get(id.0).cloned() else {
            return false;
        };
        self.sources.borrow_mut().remove(id.0);
        if !user.always_ready {
            let _ = self.epoll.delete(&user.fd);
        }
        self.user_events
            .borrow_mut()
            .retain(|event| !matches!(event, Event::Descriptor(other, _) if *other == id));
        true
    }

    fn report(&self, token: u64, ready: Ready) {
        self.reported.borrow_mut().push(token);
        self.user_events.borrow_mut().push_back(Event::Descriptor(DescriptorId(token), ready));
    }

    /// Watches the user's descriptors again that were reported, since he asks for more.
    pub(crate) fn watch_reported(&self) {
        self.watch_again(true);
    }

    /// As `watch_reported`; files are reported only when he asks.
    fn watch_again(&self, he_asks: bool) {
        let reported = std::mem::take(&mut *self.reported.borrow_mut());
        for token in reported {
            let Some(Source::User(user)) = self.sources.borrow().get(token).cloned() else {
                continue;
            };
            if user.always_ready && !he_asks {
                self.reported.borrow_mut().push(token);
            } else if user.always_ready {
                let ready = Ready { readable: true, writable: true, ..Ready::default() };
                self.report(token, ready);
            } else {
                let _ = self.epoll.modify_once(&user.fd, user.interest, token);
            }
        }
    }

    /// Waits for signals, which must be blocked in all threads.
    pub(crate) fn add_signals(&self, set: &signal::SignalSet) -> io::Result<()> {
        if self.signals.borrow().is_some() {
            let text = "this loop waits for signals already; name all of them in one call";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let fd = signal::signalfd(set)?;
        let token = self.sources.borrow_mut().add(Source::Signal);
        self.epoll.add(&fd, poll::Interest::Readable, token)?;
        *self.signals.borrow_mut() = Some(fd);
        Ok(())
    }

    fn read_signal(&self) -> io::Result<()> {
        if let Some(fd) = &*self.signals.borrow()
            && poll::poll_one(fd, poll::Interest::Readable, Some(Duration::ZERO))?.is_some()
        {
            let info = signal::signalfd_read(fd)?;
            self.user_events.borrow_mut().push_back(Event::Signal(info));
        }
        Ok(())
    }

    /// The host turns; until it waits again it need not be woken.
    pub(crate) fn begin_turn(&self) {
        self.host_waits.set(false);
    }

    /// Something has changed since `prepare_for_host`: has the host turn, if there is one.
    #[inline]
    pub(crate) fn wake_host(&self) {
        if self.host_waits.get() {
            self.wake_waiting_host();
        }
    }

    #[cold]
    fn wake_waiting_host(&self) {
        self.host_waits.set(false);
        self.ring_for_host();
    }

    /// A wait of our own is over: the clock that it has silenced rings again.
    #[inline]
    pub(crate) fn settle_host(&self) {
        if self.owes_host.replace(false) {
            self.ring_for_host();
        }
    }

    #[cold]
    fn ring_for_host(&self) {
        if let Some(clock) = &*self.clock.borrow() {
            let _ = timerfd::arm(clock, Duration::ZERO, None);
        }
    }

    /// A wait of our own must sleep, though the clock has rung for the host. It rings again
    /// afterwards.
    #[cold]
    fn silence_clock(&self) -> io::Result<()> {
        self.owes_host.set(true);
        match &*self.clock.borrow() {
            Some(clock) => timerfd::disarm(clock),
            None => Ok(()),
        }
    }

    /// For a hosting loop: leaves everything so that our descriptor becomes readable when there is
    /// something to do.
    pub(crate) fn prepare_for_host(&self, core: &Rc<Core>) -> io::Result<()> {
        self.watch_again(false);
        self.cool_all();
        let must_look = self.arm_used()
            || !core.local_oneways.borrow().is_empty()
            || !self.user_events.borrow().is_empty()
            || !self.reported.borrow().is_empty()
            || !self.spinning.borrow().is_empty()
            // It has no descriptor that could be part of ours.
            || self.native.borrow().is_some();
        let mut clock = self.clock.borrow_mut();
        let clock = &*match &mut *clock {
            Some(clock) => clock,
            empty => {
                let fd = timerfd::create()?;
                let token = self.sources.borrow_mut().add(Source::Clock);
                self.epoll.add(&fd, poll::Interest::Readable, token)?;
                empty.insert(fd)
            }
        };
        self.host_waits.set(true);
        self.owes_host.set(false);
        if !must_look {
            // What has expired would count as something to do.
            timerfd::disarm(clock)?;
        }
        // A host may hear of changes only, as tokio does: what this turn has left makes no change.
        let must_look = must_look || self.has_something()?;
        match if must_look { Time::from_ns(0) } else { self.next_due() } {
            Time::NEVER => Ok(()),
            due => timerfd::arm(clock, timeout_until(due).unwrap_or_default(), None),
        }
    }

    /// Whether anything that we wait for is ready.
    fn has_something(&self) -> io::Result<bool> {
        let ready = poll::poll_one(&self.epoll, poll::Interest::Readable, Some(Duration::ZERO))?;
        Ok(ready.is_some())
    }

    /// Listens at a descriptor of a server.
    pub(crate) fn add_listener(
        &self,
        fd: impl AsFd,
        server: Weak<crate::server::ServerCore>,
        which: usize,
    ) -> io::Result<u64> {
        let token = self.sources.borrow_mut().add(Source::Listener(server, which));
        self.epoll.add(fd, poll::Interest::Readable, token)?;
        Ok(token)
    }

    /// Stops or goes on listening.
    pub(crate) fn pause_listener(&self, fd: impl AsFd, token: u64, paused: bool) {
        let interest = if paused { poll::Interest::HangUp } else { poll::Interest::Readable };
        let _ = self.epoll.modify(fd, interest, token);
    }

    pub(crate) fn remove_listener(&self, fd: impl AsFd, token: u64) {
        self.sources.borrow_mut().remove(token);
        let _ = self.epoll.delete(fd);
    }

    /// Ends all connections.
    pub(crate) fn close_all(&self) {
        for link in self.links() {
            link.close(Status::unavailable("the event loop was closed"));
        }
        self.used.borrow_mut().clear();
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// What is left until `until`, as the kernel wants it.
fn timeout_until(until: Time) -> Option<Duration> {
    match until {
        Time::NEVER => None,
        until if until == Time::from_ns(0) => Some(Duration::ZERO),
        until => Some(Duration::from_nanos(options::now().until(until).as_ns())),
    }
}

/// EPERM of asm-generic.
const EPERM: i32 = 1;
