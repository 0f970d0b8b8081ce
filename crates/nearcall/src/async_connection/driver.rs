//! The thread that waits for all connections that tasks share, for their deadlines, and for the
//! sockets of servers that clients hunt for.
//!
//! ```text
//! a task: sends, looks for the reply, arms the connection, returns `Pending`
//! the other end: replies, and rings since the connection is armed
//! this thread: wakes up by the descriptor, receives, arms again, wakes the tasks
//! ```
//!
//! A task does not wake this thread, unless its deadline is earlier than all others.
//! **Invariants:** there is one such thread in a process, while something uses it; it runs no code
//! of users but their wakers, with no lock held; it sleeps while nothing happens.
//! **Not here:** what it does with a connection (`async_connection.rs`), which directories it
//! watches (`driver/appearances.rs`).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use nearcall_channel::DueTime;
use nearcall_os::epoll::{Epoll, Events};
use nearcall_os::{eventfd, poll};

use super::AsyncConnection;
use crate::deadline::{self, Deadline};
use crate::limits::EVENTS_PER_ROUND_MAX;
use crate::status::Status;
use crate::waking;

mod appearances;

pub(crate) use self::appearances::Appearance;
use self::appearances::Appearances;

/// The driver, while it is used.
static CURRENT: Mutex<Option<Arc<Driver>>> = Mutex::new(None);

fn current() -> MutexGuard<'static, Option<Arc<Driver>>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shared by the thread and those that use it.
struct Driver {
    epoll: Epoll,
    /// Wakes the thread.
    bell: OwnedFd,
    /// When the thread looks at the clock at the latest.
    due: DueTime,
    /// Changed only while [`CURRENT`] is locked.
    users: AtomicUsize,
    state: Mutex<State>,
    appearances: Mutex<Appearances>,
}

#[derive(Default)]
struct State {
    last: u64,
    connections: HashMap<u64, Weak<AsyncConnection>>,
    /// Connections to look at, whatever their descriptors report.
    again: Vec<u64>,
    timers: BTreeMap<(Deadline, u64), Waker>,
    /// The thread has ended: nothing is waited for any more.
    has_failed: bool,
}

/// Connections to look at in one round, each once, and whether there may be room.
#[derive(Debug, Default)]
struct Turns(Vec<(u64, bool)>);

impl Turns {
    /// Adds a connection, unless it is there: one that is always ready has one turn in each round.
    fn note(&mut self, id: u64, may_have_room: bool) {
        match self.0.iter_mut().find(|(other, _)| *other == id) {
            Some((_, known)) => *known |= may_have_room,
            None => self.0.push((id, may_have_room)),
        }
    }
}

/// Keeps the driver running.
pub(crate) struct DriverHandle {
    driver: Arc<Driver>,
}

/// The descriptor of a connection that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    /// The one that reports messages, and room if it is the only one.
    Receive,
    /// Another one that reports room.
    Send,
}

/// The token of the bell. Those of connections are their numbers, doubled.
const BELL: u64 = 0;

/// The token of the directories that are watched.
const APPEARANCES: u64 = 1;

fn token(id: u64, watched: Watched) -> u64 {
    2 * id + u64::from(watched == Watched::Send)
}

impl DriverHandle {
    /// Starts the driver, unless it runs.
    ///
    /// # Errors
    ///
    /// The process has no room for a descriptor or a thread.
    pub(crate) fn new() -> io::Result<Self> {
        let mut current = current();
        let mut of_parent = None;
        let driver = match &*current {
            Some(driver) if driver.epoll.check_process().is_ok() => Arc::clone(driver),
            _ => {
                let driver = Driver::start()?;
                // The thread of one that was copied by a fork runs in the parent.
                of_parent = current.replace(Arc::clone(&driver));
                driver
            }
        };
        driver.users.fetch_add(1, Ordering::Relaxed);
        drop(current);
        drop(of_parent);
        Ok(Self { driver })
    }

    /// Returns the number of a new connection.
    pub(super) fn next_id(&self) -> u64 {
        let mut state = self.driver.state();
        state.last += 1;
        state.last
    }

    /// Has the thread wait for a connection. It waits for its descriptors once they are watched.
    ///
    /// # Errors
    ///
    /// The thread has failed since it was found.
    pub(super) fn add(&self, id: u64, connection: &Arc<AsyncConnection>) -> io::Result<()> {
        let mut state = self.driver.state();
        if state.has_failed {
            return Err(io::Error::other("the thread that waits for connections has failed"));
        }
        state.connections.insert(id, Arc::downgrade(connection));
        Ok(())
    }

    /// Has the thread forget a connection.
    pub(super) fn remove(&self, id: u64) {
        self.driver.state().connections.remove(&id);
    }

    /// Watches a descriptor of a connection.
    pub(super) fn watch(
        &self,
        id: u64,
        fd: impl AsFd,
        interest: poll::Interest,
        watched: Watched,
    ) -> io::Result<()> {
        self.driver.epoll.add(fd, interest, token(id, watched))
    }

    /// Watches a descriptor of a connection for something else.
    pub(super) fn watch_for(&self, id: u64, fd: impl AsFd, interest: poll::Interest) {
        let _ = self.driver.epoll.modify(fd, interest, token(id, Watched::Receive));
    }

    /// Ends the watch of a descriptor.
    pub(super) fn unwatch(&self, fd: impl AsFd) {
        let _ = self.driver.epoll.delete(fd);
    }

    /// Has the thread look at the clock at this moment. A system call if it would sleep longer.
    #[inline]
    pub(super) fn note_due(&self, due: Deadline) {
        if self.driver.due.note(due) {
            self.driver.ring();
        }
    }

    /// Has the thread look at a connection, which could not be armed.
    #[cold]
    pub(super) fn look_again(&self, id: u64) {
        let mut state = self.driver.state();
        if !state.again.contains(&id) {
            state.again.push(id);
        }
        drop(state);
        self.driver.ring();
    }

    /// Returns whether `due` has passed; if not, `waker` is woken then. `timer` is the place of one
    /// task, until [`Timer`] is dropped. `None`: the driver has failed.
    fn poll_timer(
        &self,
        timer: &mut Option<(Deadline, u64)>,
        due: Deadline,
        waker: &Waker,
    ) -> Option<bool> {
        if due.has_passed() {
            self.clear_timer(timer);
            return Some(true);
        }
        let mut state = self.driver.state();
        if state.has_failed {
            return None;
        }
        let key = match *timer {
            Some(key) if key.0 == due => key,
            before => {
                if let Some(key) = before {
                    state.timers.remove(&key);
                }
                state.last += 1;
                *timer.insert((due, state.last))
            }
        };
        let before = state.timers.insert(key, waker.clone());
        drop(state);
        waking::retire(before);
        self.note_due(due);
        Some(false)
    }

    fn clear_timer(&self, timer: &mut Option<(Deadline, u64)>) {
        if let Some(key) = timer.take() {
            let waker = self.driver.state().timers.remove(&key);
            waking::retire(waker);
        }
    }
}

impl Drop for DriverHandle {
    fn drop(&mut self) {
        let current = current();
        let users = self.driver.users.fetch_sub(1, Ordering::Relaxed) - 1;
        drop(current);
        if users == 0 {
            self.driver.ring();
        }
    }
}

/// A moment that a task waits for.
pub(crate) struct Timer {
    driver: DriverHandle,
    key: Option<(Deadline, u64)>,
}

impl Timer {
    /// Creates a timer that waits for nothing yet.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: there is no room for the driver's thread.
    pub(crate) fn new() -> Result<Self, Status> {
        let driver = DriverHandle::new().map_err(|error| no_driver(&error))?;
        Ok(Self { driver, key: None })
    }

    /// Returns whether `due` has passed; if not, `waker` is woken then.
    ///
    /// # Errors
    ///
    /// The driver has failed, and another one cannot be had.
    pub(crate) fn poll(&mut self, due: Deadline, waker: &Waker) -> Result<bool, Status> {
        if due == Deadline::NEVER {
            return Ok(false);
        }
        loop {
            if let Some(has_passed) = self.driver.poll_timer(&mut self.key, due, waker) {
                return Ok(has_passed);
            }
            // The task that was woken by the failure waits on, by another driver.
            *self = Self::new()?;
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.driver.clear_timer(&mut self.key);
    }
}

/// Returns the status of what needs a driver that cannot be had.
#[cold]
pub(crate) fn no_driver(error: &io::Error) -> Status {
    Status::resource_exhausted(format!(
        "cannot start the thread that waits for async connections: {error}"
    ))
}

impl Driver {
    fn start() -> io::Result<Arc<Self>> {
        let driver = Arc::new(Self {
            epoll: Epoll::create()?,
            bell: eventfd::create(eventfd::Kind::Counter)?,
            due: DueTime::new(),
            users: AtomicUsize::new(0),
            state: Mutex::default(),
            appearances: Mutex::default(),
        });
        driver.epoll.add(&driver.bell, poll::Interest::Readable, BELL)?;
        let thread = std::thread::Builder::new().name(THREAD_NAME.into());
        let this = Arc::clone(&driver);
        thread.spawn(move || this.run_or_fail())?;
        Ok(driver)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // A counter that is full wakes the thread anyway.
        let _ = eventfd::try_add_one(&self.bell);
    }

    /// Runs until nothing uses it any more. What it cannot go on after ends all connections, which
    /// nothing would end otherwise.
    fn run_or_fail(&self) {
        let why = match catch_unwind(AssertUnwindSafe(|| self.run())) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the thread that waits has panicked".to_owned(),
        };
        self.fail(&why);
    }

    fn run(&self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_ROUND_MAX);
        let mut turns = Turns::default();
        loop {
            let due = match turns.0.is_empty() {
                true => self.due.get(),
                false => Deadline::NOW,
            };
            let ready = self.epoll.wait(&mut events, due)?;
            for event in ready.iter().filter(|event| event.token > APPEARANCES) {
                let has_room = event.ready.writable || event.token % 2 == 1;
                turns.note(event.token / 2, has_room);
            }
            if ready.iter().any(|event| event.token == BELL) {
                let _ = eventfd::try_read(&self.bell);
            }
            if ready.iter().any(|event| event.token == APPEARANCES) {
                self.report_appearances();
            }
            self.state().again.drain(..).for_each(|id| turns.note(id, true));
            self.give_turns(&mut turns);
            self.run_due();
            if self.users.load(Ordering::Relaxed) == 0 && self.end() {
                return Ok(());
            }
        }
    }

    /// Gives connections their turns. Those that may have more are left in the list.
    fn give_turns(&self, turns: &mut Turns) {
        turns.0.retain(|(id, has_room)| {
            let connection = self.state().connections.get(id).and_then(Weak::upgrade);
            connection.is_some_and(|connection| !connection.turn(*has_room))
        });
    }

    /// Ends the calls whose time is up, wakes tasks whose moment has come, and finds the next one.
    fn run_due(&self) {
        let due = self.due.get();
        if due == Deadline::NEVER {
            return;
        }
        let now = deadline::now();
        if now < due {
            return;
        }
        self.due.begin_look();
        // Noted without a ring: this is the thread that it would wake.
        let connections: Vec<_> = self.state().connections.values().cloned().collect();
        for connection in connections.iter().filter_map(Weak::upgrade) {
            let _ = self.due.note(connection.handle_timeout(now));
        }
        let mut state = self.state();
        let later = state.timers.split_off(&(now, u64::MAX));
        let passed = std::mem::replace(&mut state.timers, later);
        if let Some(((next, _), _)) = state.timers.first_key_value() {
            let _ = self.due.note(*next);
        }
        drop(state);
        passed.into_values().for_each(waking::wake);
    }

    /// Ends the thread, unless something uses it again.
    fn end(&self) -> bool {
        let mut current = current();
        if self.users.load(Ordering::Relaxed) != 0 {
            return false;
        }
        let this = current.take_if(|driver| std::ptr::eq(&**driver, self));
        drop(current);
        drop(this);
        true
    }

    /// Ends all connections, and wakes all tasks; others start another driver.
    #[cold]
    fn fail(&self, why: &str) {
        let this = current().take_if(|driver| std::ptr::eq(&**driver, self));
        drop(this);
        let failed = State { has_failed: true, ..State::default() };
        let state = std::mem::replace(&mut *self.state(), failed);
        for connection in state.connections.into_values().filter_map(|it| it.upgrade()) {
            connection.close(Status::internal(format!("waiting for connections failed: {why}")));
        }
        state.timers.into_values().for_each(waking::wake);
        self.fail_appearances();
    }
}

/// What tools show of the thread.
const THREAD_NAME: &str = "nearcall-driver";

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use crate::waking::tests::counted;

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn a_timer_outlives_a_driver_that_has_failed() {
        let failing = Driver::start().unwrap();
        failing.users.store(1, Ordering::Relaxed);
        let mut timer = Timer { driver: DriverHandle { driver: failing.clone() }, key: None };
        let (due, (count, waker)) = (Deadline::after(Duration::from_secs(3600)), counted());
        assert!(!timer.poll(due, &waker).unwrap());
        failing.fail("asked for it");
        assert_eq!(count.get(), 1);
        assert!(!timer.poll(due, &waker).unwrap());
        assert!(!Arc::ptr_eq(&timer.driver.driver, &failing));
        assert!(timer.driver.driver.state().timers.contains_key(&timer.key.unwrap()));
    }

    /// As epoll reports it in every round in which it was not read to its end.
    #[test]
    fn a_connection_that_is_always_ready_has_one_turn_in_each_round() {
        let mut turns = Turns::default();
        for round in 0..100 {
            turns.note(1, round == 50);
        }
        turns.note(2, false);
        assert_eq!(turns.0, [(1, true), (2, false)]);
    }
}
