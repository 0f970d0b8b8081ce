//! Turns for nothing: what a peer costs that wakes the loop and sends no message.
//!
//! A peer can make the descriptor of its connection ready as often as it likes. Each time costs the
//! loop a look at the kernel and a turn, which its user pays for in the queue, so that a user which
//! only wakes comes last. A connection that has had many turns for nothing in a row is watched only
//! now and then, until it has a message.
//! **Invariants:** a connection that is not watched is armed or in the queue, and is watched again
//! after a short time, so that its messages are late by that at most; no other connection is.
//! **Not here:** turns (`turns.rs`), the queue (`sharing.rs`), watching (`watching.rs`).

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use nearcall_channel::{Interest, Mechanism};
use nearcall_os::poll;

use super::Reactor;
use super::sharing::Party;
use crate::connection::{Connection, EmptyWakes, kernel_interest};
use crate::deadline::{self, Deadline};
use crate::limits::{EMPTY_WAKE_COST_NS, EMPTY_WAKE_INTERVAL, EMPTY_WAKES_MAX, EMPTY_WAKES_REST};
use crate::refusals::RefusalKind;
use crate::status::Status;

/// Connections that are not watched, because their peers wake the loop for nothing.
pub(super) struct Pauses {
    paused: RefCell<Vec<Paused>>,
    /// When the first of them is watched again.
    due: Cell<Deadline>,
}

struct Paused {
    connection: Weak<Connection>,
    /// Of its descriptor.
    token: u64,
    until: Deadline,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { paused: RefCell::default(), due: Cell::new(Deadline::NEVER) }
    }
}

impl Pauses {
    /// Returns when a connection is watched again.
    #[inline]
    pub(super) fn next_due(&self) -> Deadline {
        self.due.get()
    }
}

impl Reactor {
    /// Notes that a connection was ready and had nothing.
    #[cold]
    pub(super) fn note_empty_wake(&self, connection: &Rc<Connection>) {
        // Its descriptor may be full, and would report no further ring.
        connection.with_watched_endpoint(|endpoint| endpoint.note_report(false));
        // A server that this loop calls could as well not answer, and a signal is for the thread.
        let is_exempt =
            connection.serves.is_none() || connection.mechanism() == Mechanism::ShmSignal;
        if is_exempt || connection.is_closed() {
            return;
        }
        if self.is_shared() {
            self.ready.borrow_mut().charge(Party::of(connection), EMPTY_WAKE_COST_NS);
        }
        // Parts of a long message are no message yet, and room for one is none either.
        let collected = connection.with_endpoint(|endpoint| endpoint.collected_bytes());
        let before = connection.readiness.empty_wakes.collected.replace(collected);
        if collected != before || connection.has_pending_writes() {
            return;
        }
        let now = deadline::now();
        if spend(&connection.readiness.empty_wakes, now) {
            return;
        }
        let wakes = &connection.readiness.empty_wakes;
        if !wakes.is_noted.replace(true) {
            let why = format!("{EMPTY_WAKES_MAX} wake-ups without a message; it is watched less");
            connection.note_refusal(RefusalKind::EmptyWakes, &why);
        }
        self.pause(connection, deadline::later(now, EMPTY_WAKE_INTERVAL));
    }

    /// Watches a connection no more for a while. It stays armed, so that its peer rings for a
    /// message.
    fn pause(&self, connection: &Rc<Connection>, until: Deadline) {
        let Some(token) = connection.readiness.tokens.get().receive else { return };
        if connection.readiness.empty_wakes.is_paused.replace(true) {
            return;
        }
        if connection.readiness.state.get().is_busy() {
            self.activity.remove_busy(connection);
            self.arm_or_queue(connection);
        }
        self.watch_for(connection, token, Some(poll::Interest::HangUp));
        let connection = Rc::downgrade(connection);
        self.pauses.paused.borrow_mut().push(Paused { connection, token, until });
        self.pauses.due.set(self.pauses.due.get().min(until));
    }

    /// Watches those connections again whose time has come.
    pub(super) fn end_pauses(&self, now: Deadline) {
        if self.pauses.due.get() > now {
            return;
        }
        let paused = self.pauses.paused.take();
        let (ended, left): (Vec<_>, Vec<_>) = paused.into_iter().partition(|it| it.until <= now);
        let next = left.iter().map(|paused| paused.until).min();
        self.pauses.due.set(next.unwrap_or(Deadline::NEVER));
        *self.pauses.paused.borrow_mut() = left;
        for Paused { connection, token, .. } in ended {
            let Some(connection) = connection.upgrade() else { continue };
            connection.readiness.empty_wakes.is_paused.set(false);
            // One that has moved to another channel is watched by another token.
            let tokens = connection.readiness.tokens.get();
            if tokens.receive == Some(token) && !connection.is_closed() {
                self.watch_for(&connection, token, tokens.both.then_some(poll::Interest::Both));
            }
        }
    }

    /// Changes what the descriptor of a connection is watched for. `None`: for messages.
    fn watch_for(&self, connection: &Connection, token: u64, interest: Option<poll::Interest>) {
        let watched = connection.with_watched_endpoint(|endpoint| {
            let Some(readiness) = endpoint.readiness(Interest::Receive) else { return Ok(()) };
            let interest = interest.unwrap_or(kernel_interest(&readiness));
            self.epoll.modify(readiness.fd, interest, token)
        });
        // It would not be seen any more.
        if let Err(error) = watched {
            let text = format!("{}: cannot wait for its messages: {error}", connection.name);
            connection.abort(Status::unavailable(text));
        }
    }
}

/// Takes one of the turns for nothing that a connection may have. False: it has none left now.
fn spend(wakes: &EmptyWakes, now: Deadline) -> bool {
    let since = now.as_ns().saturating_sub(wakes.at.get().as_ns());
    let more = since / u64::try_from(EMPTY_WAKE_INTERVAL.as_nanos()).unwrap_or(u64::MAX).max(1);
    let mut spent = wakes.spent.get();
    if more > 0 {
        wakes.at.set(now);
        // A peer that wakes the loop whenever it is watched does not rest between two pauses, and
        // must not wake it after each: the kernel would move the loop to the CPU of that peer.
        if spent < EMPTY_WAKES_MAX || more >= EMPTY_WAKES_REST {
            spent = spent.saturating_sub(u32::try_from(more).unwrap_or(u32::MAX));
        }
    }
    wakes.spent.set((spent + 1).min(EMPTY_WAKES_MAX));
    spent < EMPTY_WAKES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_for_nothing_are_few_after_many_in_a_row() {
        let (wakes, start) = (EmptyWakes::default(), Deadline::from_ns(1_000_000_000));
        let taken = |now| (0..1000).filter(|_| spend(&wakes, now)).count();
        assert_eq!(taken(start), EMPTY_WAKES_MAX as usize);
        let mut now = start;
        for _ in 0..10 {
            now = deadline::later(now, EMPTY_WAKE_INTERVAL);
            assert_eq!(taken(now), 0, "it has not rested");
        }
        now = deadline::later(now, EMPTY_WAKE_INTERVAL * 20);
        assert_eq!(taken(now), 20);
        wakes.forget();
        assert_eq!(taken(now), EMPTY_WAKES_MAX as usize, "after a message it may have all again");
    }
}
