//! What the event loops of one server and its handle share.
//!
//! **Invariants:** a server ends as a whole: when one of its loops fails, the others are stopped;
//! the first failure is the one that is reported.
//! **Not here:** the connections of the loops (`reactor/census.rs`), what a loop does
//! (`loop_thread.rs`).
//!
//! **Invariant:** the limits of a server hold over all of its loops together, and it ends as a
//! whole: a loop that fails ends the others. A drain ends when no call is under way and no one-way
//! message is, wherever its method runs; it does not wait for the loop that it was called in.
//! *Checked by* `limits_hold_for_all_loops_together`, `src/servers/running.rs`,
//! `tests/it/server_threads/drains.rs`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use nearcall_os::eventfd;

use super::errors::{ListenError, ServerError};
use super::listening::Listening;
use super::state::ServerState;
use crate::connection::connection_info::ConnectionInfo;
use crate::deadline::Deadline;
use crate::limits::Limits;
use crate::tasks::mailbox::Mailbox;

/// Shared by the loops of one server and its handle.
pub(super) struct Group {
    pub(super) limits: Limits,
    pub(super) server: Arc<ServerState>,
    /// By the number of the loop.
    pub(super) mailboxes: Vec<Arc<Mailbox>>,
    state: Mutex<State>,
    changed: Condvar,
    /// Readable once the server was stopped or is asked to stop.
    stopped: OwnedFd,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    is_asked_to_stop: bool,
    /// Woken when either of these is set: of the one future that serves.
    waker: Option<Waker>,
    /// Loops whose thread has not ended.
    running: Vec<usize>,
    failure: Option<ServerError>,
}

/// Something that a loop of a server does for the handle, between two rounds.
pub(super) enum Order {
    /// Accepts the clients of these listeners.
    Listen(Vec<Listening>, Sender<Result<(), ListenError>>),
    /// Reports the connections of the loop.
    Connections(Sender<Vec<ConnectionInfo>>),
    /// Drains the loop until then, and reports whether all calls have ended.
    Drain(Deadline, Sender<bool>),
    /// Fails, as nothing that a program does can have it fail.
    #[cfg(test)]
    Fail(fn() -> io::Result<()>),
}

/// The handle's end of a loop.
pub(super) type Orders = Sender<Order>;

/// The loop's end.
pub(super) type OrderBook = Receiver<Order>;

impl Group {
    pub(super) fn new(threads: usize, limits: Limits) -> io::Result<Self> {
        let mailboxes: io::Result<_> = (0..threads).map(|_| Mailbox::new().map(Arc::new)).collect();
        Ok(Self {
            limits,
            server: ServerState::new(threads, &limits),
            mailboxes: mailboxes?,
            state: Mutex::default(),
            changed: Condvar::new(),
            stopped: eventfd::create(eventfd::Kind::Counter)?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the thread of a loop is about to start.
    pub(super) fn note_start(&self, loop_index: usize) {
        self.lock().running.push(loop_index);
    }

    /// Notes that the thread of a loop has ended, and why if it was not stopped.
    pub(super) fn note_end(&self, loop_index: usize, failure: Option<String>) {
        let mut state = self.lock();
        state.running.retain(|other| *other != loop_index);
        if let Some(why) = failure
            && state.failure.is_none()
        {
            state.failure = Some(ServerError::LoopFailed(thread_name(loop_index), why));
        }
        drop(state);
        // A server without one of its loops would leave the clients of that loop without service.
        self.stop();
        self.changed.notify_all();
    }

    /// Wakes the task that waits for the server to stop.
    fn wake_task(&self) {
        let waker = self.lock().waker.take();
        // Outside the lock: a waker may do anything.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns whether the server was stopped, has failed, or is asked to stop. If not, `waker` is
    /// woken when it is.
    pub(super) fn poll_stop(&self, waker: &Waker) -> bool {
        let mut waker = Some(waker.clone());
        let mut state = self.lock();
        let is_stopping = state.is_stopped || state.is_asked_to_stop;
        if !is_stopping {
            // The one before is dropped outside the lock.
            std::mem::swap(&mut state.waker, &mut waker);
        }
        drop(state);
        is_stopping
    }

    /// Has all loops end.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        let _ = eventfd::try_add_one(&self.stopped);
        self.wake_task();
        for mailbox in &self.mailboxes {
            mailbox.stop();
        }
    }

    /// Has the program that waits for the end of the server drain it and stop it.
    pub(super) fn request_stop(&self) {
        self.lock().is_asked_to_stop = true;
        let _ = eventfd::try_add_one(&self.stopped);
        self.wake_task();
    }

    /// Returns whether the loops have to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Waits until the threads of all loops have ended.
    ///
    /// # Errors
    ///
    /// A loop has failed. By the deadline some threads have not ended.
    pub(super) fn wait_for_end(&self, deadline: Deadline) -> Result<(), ServerError> {
        let mut state = self.lock();
        while !state.running.is_empty() {
            let Some(left) = deadline.remaining().filter(|left| !left.is_zero()) else { break };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        match state.running.as_slice() {
            [] => Ok(()),
            running => {
                Err(ServerError::StillRunning(running.iter().copied().map(thread_name).collect()))
            }
        }
    }
}

/// Readable once the server was stopped or is asked to stop.
impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stopped.as_fd()
    }
}

/// Returns the name of the thread of a loop.
pub(super) fn thread_name(loop_index: usize) -> String {
    format!("nearcall-loop-{loop_index}")
}
