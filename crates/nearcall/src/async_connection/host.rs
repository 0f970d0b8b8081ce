//! What a connection that tasks share reports, gathered until its lock is free.
//!
//! **Invariants:** no waker is woken or dropped while the connection is locked: both may run code
//! of users, which may call over this connection.
//! **Not here:** the lock (`async_connection.rs`).

use std::cell::{Cell, RefCell};
use std::task::Waker;

use nearcall_channel::{Mechanism, WaitPolicy};

use super::waiters::WakeList;
use crate::connection::buffer_pool::BufferPool;
use crate::connection::{Connection, Host};
use crate::deadline::Deadline;
use crate::limits::ASYNC_BYTES_PER_TURN_MAX;
use crate::status::Status;

/// The host of a connection that tasks of any thread share.
pub(crate) struct AsyncHost {
    wakes: RefCell<WakeList>,
    /// No call's deadline passes before this, as far as the driver was not told.
    deadline: Cell<Deadline>,
    /// Bytes of long messages that were received in this step.
    received_bytes: Cell<usize>,
    /// The connection has moved to another channel, which the driver does not watch yet.
    has_switched: Cell<bool>,
}

impl Default for AsyncHost {
    fn default() -> Self {
        let deadline = Cell::new(Deadline::NEVER);
        let (received_bytes, has_switched) = (Cell::default(), Cell::default());
        Self { wakes: RefCell::default(), deadline, received_bytes, has_switched }
    }
}

impl AsyncHost {
    /// Adds wakers to those that are to be woken.
    #[inline]
    pub(super) fn with_wakes<T>(&self, add: impl FnOnce(&mut WakeList) -> T) -> T {
        add(&mut self.wakes.borrow_mut())
    }

    /// Takes the wakers that are to be woken now that the lock is free.
    #[inline]
    pub(super) fn take_wakes(&self) -> Option<WakeList> {
        self.wakes.borrow_mut().take()
    }

    /// Begins to count what is received.
    #[inline]
    pub(super) fn begin_turn(&self) {
        self.received_bytes.set(0);
    }

    /// Returns whether more may be received while the connection is locked.
    #[inline]
    pub(super) fn may_receive_more(&self) -> bool {
        self.received_bytes.get() < ASYNC_BYTES_PER_TURN_MAX
    }

    /// Returns whether the connection has moved to another channel since that was last taken.
    #[inline]
    pub(super) fn has_switched(&self) -> bool {
        self.has_switched.get()
    }

    /// Returns whether the connection has moved to another channel since the last time.
    pub(super) fn take_switched(&self) -> bool {
        self.has_switched.take()
    }

    /// Takes the earliest deadline that was noted since the last time.
    #[inline]
    pub(super) fn take_deadline(&self) -> Deadline {
        self.deadline.replace(Deadline::NEVER)
    }
}

impl Host for AsyncHost {
    type Buffers = Box<BufferPool>;

    #[inline]
    fn touch(connection: &Connection<Self>, deadline: Deadline) {
        connection.host().note_deadline(deadline);
    }

    #[inline]
    fn note_deadline(&self, deadline: Deadline) {
        if deadline < self.deadline.get() {
            self.deadline.set(deadline);
        }
    }

    fn note_received(&self, message_bytes: usize) {
        self.received_bytes.update(|bytes| bytes.saturating_add(message_bytes));
    }

    // Whoever holds the lock finds it closed.
    fn note_closed(&self) {}

    fn is_watched(&self) -> bool {
        true
    }

    fn can_wait_for(&self, mechanism: Mechanism) -> bool {
        check_waits(mechanism).is_ok()
    }

    fn note_switched(&self) {
        self.has_switched.set(true);
    }

    fn wake(&self, waker: Waker) {
        self.with_wakes(|wakes| wakes.wake(waker));
    }

    fn retire(&self, waker: Waker) {
        self.with_wakes(|wakes| wakes.retire(waker));
    }
}

/// Checks that async callers can wait for a mechanism.
pub(crate) fn check_waits(mechanism: Mechanism) -> Result<(), Status> {
    if !mechanism.waits().contains(&WaitPolicy::Poll) {
        return Err(Status::failed_precondition(format!(
            "{mechanism} has no descriptor, and async callers wait for nothing else; use a \
             mechanism that is pollable, such as {} or {}",
            Mechanism::Shm,
            Mechanism::UnixStream
        )));
    }
    if mechanism == Mechanism::ShmSignal {
        return Err(Status::failed_precondition(format!(
            "{mechanism} signals one thread, and async callers belong to none; use a mechanism \
             without that, such as {} or {}",
            Mechanism::Shm,
            Mechanism::UnixStream
        )));
    }
    Ok(())
}
