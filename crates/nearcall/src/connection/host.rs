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
use nearcall_wire::{IncomingCall, StreamCall};

use super::call_counts::{CallCounts, ServedCalls};
use super::{Activity, Connection};
use crate::connection::buffer_pool::BufferPool;
use crate::deadline::Deadline;
use crate::status::Code;
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

    /// Counts the end of a call of the peer by a message of so many bytes.
    fn count_end(&self, _call: IncomingCall, _code: Code, _message_bytes: usize) {}

    /// Counts bytes of items of a call.
    fn count_items(&self, _call: StreamCall, _received_bytes: usize, _sent_bytes: usize) {}

    /// Returns what was counted of the calls of the peer.
    fn call_counts(&self) -> CallCounts {
        CallCounts::default()
    }

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
    served: ServedCalls,
}

impl LoopHost {
    pub(super) fn new(activity: Option<Rc<Activity>>, this: Weak<Connection>) -> Self {
        Self { activity, this, served: ServedCalls::default() }
    }

    /// Returns what the connection reports to its loop, if it is in one.
    pub(super) fn activity(&self) -> Option<&Rc<Activity>> {
        self.activity.as_ref()
    }

    /// Returns what is counted of the calls of the peer.
    #[inline(always)]
    pub(super) fn served(&self) -> &ServedCalls {
        &self.served
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

    #[inline(always)]
    fn count_end(&self, call: IncomingCall, code: Code, message_bytes: usize) {
        self.served.end(call, code, message_bytes);
    }

    #[inline]
    fn count_items(&self, call: StreamCall, received_bytes: usize, sent_bytes: usize) {
        if let StreamCall::Incoming(call) = call {
            self.served.add_items(call, received_bytes, sent_bytes);
        }
    }

    fn call_counts(&self) -> CallCounts {
        self.served.read()
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
