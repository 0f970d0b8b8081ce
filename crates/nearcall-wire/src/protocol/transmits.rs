//! Messages of this crate's own that wait to be sent, in their order.
//!
//! **Invariants:** at most one cancel for each slot of ours, one error for each slot of the peer's,
//! one credit for each slot of either, and one of everything else; so the queue never grows beyond
//! the room that it was given.
//! **Not here:** whether an error is still wanted (`call_table/incoming.rs`), and a credit
//! (`call_table/streams.rs`).

use alloc::collections::VecDeque;

use crate::call_id::CallId;

/// One waiting message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transmit {
    /// Our greeting.
    Hello,
    Cancel(CallId),
    /// The error of the peer's call in this slot, if it is still wanted.
    Error(u16),
    Ping(u64),
    Pong(u64),
    GoAway,
    LastGoAway,
    /// The credit for items of the callee of our call in this slot.
    OutgoingCredit(u16),
    /// The credit for items of the caller of the peer's call in this slot, if it is still wanted.
    IncomingCredit(u16),
    /// The next frame of the switch, if it has one.
    Switch,
}

/// The queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transmits {
    queue: VecDeque<Transmit>,
    room: usize,
}

impl Transmits {
    pub(super) fn new(calls_out_max: u16, calls_in_max: u16) -> Self {
        let room = 2 * (usize::from(calls_out_max) + usize::from(calls_in_max)) + OTHERS_MAX;
        Self { queue: VecDeque::new(), room }
    }

    pub(super) fn push(&mut self, transmit: Transmit) {
        assert!(self.queue.len() < self.room, "each slot stands in the queue once");
        self.queue.push_back(transmit);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn front(&self) -> Option<Transmit> {
        self.queue.front().copied()
    }

    pub(super) fn pop(&mut self) -> Option<Transmit> {
        self.queue.pop_front()
    }
}

/// One greeting, one ping, one pong, one GOAWAY, one last GOAWAY, one place for the switch.
const OTHERS_MAX: usize = 6;
