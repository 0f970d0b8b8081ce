//! What the connections of one thread report to its event loop: that they were used, and when the
//! next deadline passes.
//!
//! A mechanism forgets by any use that its end sleeps, so the loop arms those connections again
//! before it sleeps.
//! **Invariants:** a connection that was used is in the busy set or in the list, unless it spins.
//! **Not here:** the loop (`reactor.rs`); a client without a loop has no such list.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use nearcall_channel::WaitPolicy;
use nearcall_os::timerfd;

use super::Connection;
use super::readiness::ReadinessState;
use crate::deadline::Deadline;
use crate::limits::BUSY_MAX;
use crate::tasks::executor::Executor;
use crate::tasks::mailbox::{ConnectionKey, Mailbox};

/// Shared by a loop and its connections.
pub(crate) struct Activity {
    /// Where other threads post to the loop.
    pub(crate) mailbox: Arc<Mailbox>,
    /// The tasks of the loop's async services.
    pub(crate) executor: Executor,
    /// The loop itself, for services that wait inside of it.
    rounds: RefCell<Option<Weak<dyn Rounds>>>,
    /// Connections by their keys, in ascending order.
    keyed: RefCell<Vec<(ConnectionKey, Weak<Connection>)>>,
    last_key: Cell<u64>,
    /// Connections that were used since they were armed.
    used: RefCell<Vec<Rc<Connection>>>,
    /// Connections that were used lately and may be polled for a while.
    busy: RefCell<Vec<Rc<Connection>>>,
    /// Connections that have ended and that the loop has not forgotten yet.
    closed: RefCell<Vec<Rc<Connection>>>,
    /// Connections that have moved to another channel, which the loop does not watch yet.
    switched: RefCell<Vec<Rc<Connection>>>,
    /// One of these two lists has something.
    has_changed: Cell<bool>,
    /// No call's deadline passes before this.
    deadline: Cell<Deadline>,
    /// For a hosting loop: becomes readable when a moment has come.
    host_timer: RefCell<Option<OwnedFd>>,
    /// A host waits for the loop's descriptor, which reports everything that was so by then.
    host_waits: Cell<bool>,
    /// The timer rang for the host, and a wait of the loop's own has silenced it.
    owes_host: Cell<bool>,
}

/// A loop, of which code inside one of its rounds runs more.
pub(crate) trait Rounds {
    /// Runs rounds until `done`, or until `deadline` has passed. Returns whether it is done.
    fn run_until(&self, deadline: Deadline, done: &mut dyn FnMut() -> bool) -> io::Result<bool>;
}

thread_local! {
    /// The loops of this thread.
    static LOOPS: RefCell<Vec<Weak<Activity>>> = const { RefCell::new(Vec::new()) };
}

impl Activity {
    /// Creates the state of a loop of this thread.
    pub(crate) fn new(mailbox: &Arc<Mailbox>) -> Rc<Self> {
        let activity = Rc::new(Self {
            mailbox: Arc::clone(mailbox),
            executor: Executor::new(mailbox),
            rounds: RefCell::default(),
            keyed: RefCell::default(),
            last_key: Cell::new(0),
            used: RefCell::default(),
            busy: RefCell::default(),
            closed: RefCell::default(),
            switched: RefCell::default(),
            has_changed: Cell::new(false),
            deadline: Cell::new(Deadline::NEVER),
            host_timer: RefCell::default(),
            host_waits: Cell::new(false),
            owes_host: Cell::new(false),
        });
        LOOPS.with_borrow_mut(|loops| {
            loops.retain(|other| other.strong_count() > 0);
            loops.push(Rc::downgrade(&activity));
        });
        activity
    }

    /// Sets the loop that runs more rounds for those who wait inside of one.
    pub(crate) fn set_rounds(&self, rounds: Weak<dyn Rounds>) {
        *self.rounds.borrow_mut() = Some(rounds);
    }

    /// Runs rounds of the loop until `done`, or until `deadline` has passed. Returns whether it is
    /// done.
    pub(crate) fn run_until(
        &self,
        deadline: Deadline,
        mut done: impl FnMut() -> bool,
    ) -> io::Result<bool> {
        let rounds = self.rounds.borrow().as_ref().and_then(Weak::upgrade);
        let Some(rounds) = rounds else { return Err(io::Error::other("the loop was closed")) };
        rounds.run_until(deadline, &mut done)
    }

    /// Returns the loop that has this mailbox, if it is one of this thread.
    pub(crate) fn of_thread(mailbox: &Arc<Mailbox>) -> Option<Rc<Self>> {
        let is_it = |activity: &Rc<Self>| Arc::ptr_eq(&activity.mailbox, mailbox);
        // While the thread ends there are no loops any more.
        let found = LOOPS.try_with(|loops| {
            loops.try_borrow().ok()?.iter().filter_map(Weak::upgrade).find(is_it)
        });
        found.ok().flatten()
    }

    /// Returns the key by which other threads name a connection of this loop.
    pub(crate) fn key(&self, connection: &Rc<Connection>) -> ConnectionKey {
        if let Some(key) = connection.readiness.key.get() {
            return key;
        }
        if connection.is_closed() {
            return ConnectionKey::NONE;
        }
        let key = ConnectionKey(self.last_key.get() + 1);
        self.last_key.set(key.0);
        self.keyed.borrow_mut().push((key, Rc::downgrade(connection)));
        connection.readiness.key.set(Some(key));
        key
    }

    /// Returns the connection with this key, if it has not ended.
    pub(crate) fn connection(&self, key: ConnectionKey) -> Option<Rc<Connection>> {
        let keyed = self.keyed.borrow();
        let index = keyed.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        keyed[index].1.upgrade()
    }

    /// Notes that a connection was used, by the loop or by a call.
    #[inline]
    pub(crate) fn touch(&self, connection: &Connection) {
        if connection.wait() != WaitPolicy::Spin || connection.readiness.is_stale.get() {
            self.note_used(connection);
        }
        self.wake_host();
    }

    /// Notes that the loop is about to use a connection.
    #[inline]
    pub(crate) fn touch_in_turn(&self, connection: &Connection) {
        if connection.wait() != WaitPolicy::Spin || connection.readiness.is_stale.get() {
            self.note_used(connection);
        }
    }

    /// Notes that a connection was used that the loop does not poll in each round.
    #[inline]
    pub(crate) fn note_used(&self, connection: &Connection) {
        let readiness = &connection.readiness;
        let state = readiness.state.get();
        if state.is_busy() {
            return;
        }
        if state == ReadinessState::Armed {
            readiness.state.set(ReadinessState::Used);
        }
        if connection.wait() == WaitPolicy::Adaptive && self.promote(connection) {
            return;
        }
        if !readiness.is_listed.get()
            && !connection.is_closed()
            && let Some(connection) = connection.host.connection()
        {
            readiness.is_listed.set(true);
            self.used.borrow_mut().push(connection);
        }
    }

    /// Puts a connection into the busy set. False: the set is full.
    #[cold]
    fn promote(&self, connection: &Connection) -> bool {
        let mut busy = self.busy.borrow_mut();
        if busy.len() >= BUSY_MAX || connection.is_closed() {
            return false;
        }
        let Some(listed) = connection.host.connection() else { return false };
        busy.push(listed);
        connection.readiness.state.update(ReadinessState::promoted);
        connection.readiness.misses.set(0);
        true
    }

    /// Takes one connection from the list of those that were used.
    #[inline]
    pub(crate) fn pop_used(&self) -> Option<Rc<Connection>> {
        let connection = self.used.borrow_mut().pop()?;
        connection.readiness.is_listed.set(false);
        Some(connection)
    }

    /// Returns how many connections are in the busy set.
    #[inline]
    pub(crate) fn busy_count(&self) -> usize {
        self.busy.borrow().len()
    }

    /// Returns a connection of the busy set. Cloned, since serving may change the set.
    #[inline]
    pub(crate) fn busy_at(&self, index: usize) -> Option<Rc<Connection>> {
        self.busy.borrow().get(index).cloned()
    }

    /// Takes the last connection out of the busy set.
    pub(crate) fn pop_busy(&self) -> Option<Rc<Connection>> {
        let connection = self.busy.borrow_mut().pop()?;
        connection.readiness.state.update(ReadinessState::demoted);
        Some(connection)
    }

    /// Takes a connection out of the busy set.
    pub(crate) fn remove_busy(&self, connection: &Connection) {
        self.busy.borrow_mut().retain(|other| !std::ptr::eq(&**other, connection));
        connection.readiness.state.update(ReadinessState::demoted);
    }

    /// Notes that a connection has ended: the loop has to forget it.
    #[cold]
    pub(super) fn note_closed(&self, connection: Rc<Connection>) {
        self.closed.borrow_mut().push(connection);
        self.has_changed.set(true);
        self.wake_host();
    }

    /// Notes that a connection has moved to another channel: the loop has to watch that one.
    #[cold]
    pub(super) fn note_switched(&self, connection: Rc<Connection>) {
        self.switched.borrow_mut().push(connection);
        self.has_changed.set(true);
        self.wake_host();
    }

    /// Returns whether connections have ended or moved, and the loop has not looked at them yet.
    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed.get()
    }

    /// Takes the connections that have ended.
    pub(crate) fn take_closed(&self) -> Vec<Rc<Connection>> {
        self.has_changed.set(false);
        self.closed.take()
    }

    /// Takes a connection that has moved to another channel.
    pub(crate) fn pop_switched(&self) -> Option<Rc<Connection>> {
        self.switched.borrow_mut().pop()
    }

    /// Gives back those that were taken and not forgotten.
    pub(crate) fn put_back_closed(&self, mut left: Vec<Rc<Connection>>) {
        if !left.is_empty() {
            self.closed.borrow_mut().append(&mut left);
            self.has_changed.set(true);
        }
    }

    /// Has the connections behind this one polled before it.
    pub(crate) fn rotate_busy(&self, index: usize) {
        let mut busy = self.busy.borrow_mut();
        let next = (index + 1).min(busy.len());
        busy.rotate_left(next);
    }

    /// Takes a connection out of the lists, before it is watched anew.
    pub(crate) fn unlist(&self, connection: &Connection) {
        self.remove_busy(connection);
        self.used.borrow_mut().retain(|other| !std::ptr::eq(&**other, connection));
        connection.readiness.is_listed.set(false);
    }

    /// Forgets a connection that has ended, or its descriptors would stay open until the next
    /// round.
    pub(crate) fn forget(&self, connection: &Connection) {
        self.unlist(connection);
        if let Some(key) = connection.readiness.key.take() {
            self.keyed.borrow_mut().retain(|(other, _)| *other != key);
        }
    }

    /// Forgets all connections that were used.
    pub(crate) fn clear_used(&self) {
        self.used.borrow_mut().clear();
    }

    /// Notes that the loop has to look at the clock at this moment.
    #[inline]
    pub(crate) fn note_deadline(&self, deadline: Deadline) {
        if deadline < self.deadline.get() {
            self.deadline.set(deadline);
            self.wake_host();
        }
    }

    /// Returns the earliest moment that was noted.
    #[inline]
    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline.get()
    }

    /// Forgets the moments that were noted: they are looked at now.
    pub(crate) fn clear_deadline(&self) {
        self.deadline.set(Deadline::NEVER);
    }

    /// Has the host of the loop turn it, if it waits: something has changed that no descriptor
    /// reports.
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

    /// Notes whether the host waits, so that it must be woken.
    pub(crate) fn set_host_waits(&self, waits: bool) {
        self.host_waits.set(waits);
    }

    /// Rings again for the host after a wait of the loop's own, if that has silenced the timer.
    #[inline]
    pub(crate) fn notify_host(&self) {
        if self.owes_host.replace(false) {
            self.ring_for_host();
        }
    }

    #[cold]
    fn ring_for_host(&self) {
        if let Some(timer) = &*self.host_timer.borrow() {
            let _ = timerfd::arm(timer, Duration::ZERO, None);
        }
    }

    /// The host's timer, absent while the loop has no host.
    pub(crate) fn host_timer(&self) -> &RefCell<Option<OwnedFd>> {
        &self.host_timer
    }

    /// Silences the timer for a wait of the loop's own, which must sleep though the timer has rung
    /// for the host; it rings again afterwards.
    #[cold]
    pub(crate) fn silence_timer(&self) -> io::Result<()> {
        self.owes_host.set(true);
        match &*self.host_timer.borrow() {
            Some(timer) => timerfd::disarm(timer),
            None => Ok(()),
        }
    }

    /// Forgets that the timer was silenced.
    pub(crate) fn clear_owed(&self) {
        self.owes_host.set(false);
    }
}
