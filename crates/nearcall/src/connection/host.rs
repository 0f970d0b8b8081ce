//! What drives a connection: the thread that it belongs to, or the tasks that share it.
//!
//! **Invariants:** a connection in a loop is listed where the loop finds it before a call returns;
//! nothing of a loop is on the way of a call of a client that has none.
//! **Not here:** what a loop does with a connection (`reactor.rs`), connections that tasks share
//! (`async_connection.rs`).

use std::ops::Deref;
use std::rc::{Rc, Weak};
use std::task::Waker;

use nearcall_channel::Mechanism;

use super::{Activity, Connection};
use crate::connection::buffer_pool::BufferPool;
use crate::deadline::Deadline;
use crate::waking;

/// What a connection reports to whatever drives it.
pub(crate) trait Host: Sized {
    /// How the connection holds the buffers that it receives into.
    type Buffers: Deref<Target = BufferPool>;

    /// Notes that the connection was used, and when a deadline of its passes.
    fn touch(connection: &Connection<Self>, deadline: Deadline);

    /// Notes when a deadline of the connection passes.
    fn note_deadline(&self, deadline: Deadline);

    /// Notes that a message was received that is not small.
    fn note_received(&self, _message_bytes: usize) {}

    /// Notes that the connection has ended.
    fn note_closed(&self);

    /// Returns whether a loop watches the channel of the connection.
    fn is_watched(&self) -> bool {
        false
    }

    /// Returns whether what drives the connection can wait for a channel of this mechanism.
    fn can_wait_for(&self, mechanism: Mechanism) -> bool;

    /// Notes that the connection has moved to another channel, which is to be watched instead.
    fn note_switched(&self) {}

    /// Wakes the task that awaits the end of a call.
    fn wake(&self, waker: Waker);

    /// Drops the waker of a task that awaits nothing any more, which may drop the task.
    fn retire(&self, waker: Waker);
}

/// The host of a connection that belongs to one thread: its loop, or a caller that blocks.
pub(crate) struct LoopHost {
    /// None: there is no loop.
    activity: Option<Rc<Activity>>,
    this: Weak<Connection>,
}

impl LoopHost {
    pub(super) fn new(activity: Option<Rc<Activity>>, this: Weak<Connection>) -> Self {
        Self { activity, this }
    }

    /// Returns what the connection reports to its loop, if it is in one.
    pub(super) fn activity(&self) -> Option<&Rc<Activity>> {
        self.activity.as_ref()
    }

    /// Returns the connection as loops list it.
    #[inline]
    pub(super) fn connection(&self) -> Option<Rc<Connection>> {
        self.this.upgrade()
    }
}

impl Host for LoopHost {
    type Buffers = Rc<BufferPool>;

    #[inline(always)]
    fn touch(connection: &Connection, deadline: Deadline) {
        if let Some(activity) = &connection.host.activity {
            activity.touch(connection);
            activity.note_deadline(deadline);
        }
    }

    #[inline(always)]
    fn note_deadline(&self, deadline: Deadline) {
        if let Some(activity) = &self.activity {
            activity.note_deadline(deadline);
        }
    }

    fn note_closed(&self) {
        if let (Some(activity), Some(connection)) = (&self.activity, self.connection()) {
            activity.note_closed(connection);
        }
    }

    fn is_watched(&self) -> bool {
        self.activity.is_some()
    }

    fn can_wait_for(&self, mechanism: Mechanism) -> bool {
        let can = mechanism.capabilities();
        !self.is_watched() || can.pollable || can.needs_spinning
    }

    fn note_switched(&self) {
        if let (Some(activity), Some(connection)) = (&self.activity, self.connection()) {
            activity.note_switched(connection);
        }
    }

    #[inline]
    fn wake(&self, waker: Waker) {
        waking::wake(waker);
    }

    fn retire(&self, waker: Waker) {
        waking::retire(Some(waker));
    }
}
