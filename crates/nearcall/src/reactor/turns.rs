//! The turn of a connection: a few messages, after what found no room before.
//!
//! **Invariants:** there is one turn, however the loop learned that the connection may have
//! something; a turn serves a bounded number of messages; while clients of several users share the
//! loop a turn is charged to its user, and ends with the first message after a bounded time.
//! **Not here:** which connection has its turn (`reactor.rs`, `busy.rs`), serving one message
//! (`services/dispatch.rs`).

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use nearcall_os::clock;

use super::Reactor;
use super::sharing::Party;
use crate::connection::Connection;
use crate::connection::buffer_pool::InlineBuf;
use crate::deadline::{self, Deadline};
use crate::limits::{
    LOOK_INTERVAL_NS, MESSAGES_PER_TURN_MAX, SPIN_LOOKS_PER_ROUND, SPIN_TURNS_PER_LOOK,
    TURN_TIME_MAX, TURNS_PER_FULL_TURN,
};
use crate::services::dispatch::Received;

/// The way in which a turn looks for a message.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// Receives; afterwards the connection is armed again, or stays in the queue.
    Ready,
    /// Polls so many times first, then once before each further message.
    Poll(u32),
    /// Sleeps in the connection until this moment, for one message.
    Sleep(Deadline),
}

/// The time that turns have taken while clients of several users share the loop.
#[derive(Debug, Default)]
pub(super) struct TurnClock {
    is_shared: Cell<bool>,
    /// All turns.
    charged_ns: Cell<u64>,
    /// Turns since the last look at the kernel.
    unlooked_ns: Cell<u64>,
    /// When the first turn since that look had as many messages as a turn may; zero: none had.
    flooded_ns: Cell<u64>,
}

impl TurnClock {
    /// Returns whether turns have taken so long that it is time to look who else is ready.
    #[inline]
    pub(super) fn is_look_due(&self) -> bool {
        u128::from(self.unlooked_ns.get()) >= TURN_TIME_MAX.as_nanos()
    }

    /// Notes a look at the kernel.
    #[inline]
    pub(super) fn note_look(&self) {
        self.unlooked_ns.set(0);
        self.flooded_ns.set(0);
    }
}

impl Reactor {
    /// Gives a connection its turn. Returns whether there was anything.
    #[inline]
    pub(super) fn run_turn(&self, connection: &Rc<Connection>, turn: Turn) -> bool {
        match self.clock.is_shared.get() {
            false => self.take_turn(connection, turn, Deadline::NEVER),
            true => self.take_timed_turn(connection, turn),
        }
    }

    /// Gives a connection a turn that is charged to its user.
    #[cold]
    fn take_timed_turn(&self, connection: &Rc<Connection>, turn: Turn) -> bool {
        match turn {
            // Sleeping is no use of the loop.
            Turn::Sleep(_) => return self.take_turn(connection, turn, Deadline::NEVER),
            Turn::Poll(spins)
                if connection.readiness.state.get().is_busy()
                    && !connection.has_pending_writes()
                    && !connection.poll_ready(spins) =>
            {
                return false;
            }
            Turn::Poll(_) | Turn::Ready => {}
        }
        let (begun, charged) = (deadline::now(), self.clock.charged_ns.get());
        let end = deadline::later(begun, TURN_TIME_MAX);
        let served = self.take_turn(connection, turn, end);
        // Without the turns of others, in rounds of a service that has waited.
        let nested = self.clock.charged_ns.get() - charged;
        let taken = (deadline::now().as_ns() - begun.as_ns()).saturating_sub(nested);
        self.clock.charged_ns.update(|charged| charged + taken);
        self.clock.unlooked_ns.update(|unlooked| unlooked + taken);
        self.ready.borrow_mut().charge(Party::of(connection), taken);
        served
    }

    /// Returns whether clients of several users share the loop.
    pub(super) fn is_shared(&self) -> bool {
        self.clock.is_shared.get()
    }

    /// Returns when something should end that clients of other users may wait for.
    pub(super) fn end_of_turn(&self) -> Deadline {
        match self.clock.is_shared.get() {
            false => Deadline::NEVER,
            true => Deadline::after(TURN_TIME_MAX),
        }
    }

    /// Notes whether clients of several users share the loop.
    pub(super) fn note_parties(&self) {
        self.clock.is_shared.set(self.ready.borrow().is_shared());
    }

    #[inline]
    fn take_turn(&self, connection: &Rc<Connection>, turn: Turn, end: Deadline) -> bool {
        if connection.is_closed() && !connection.has_inbound() {
            return true;
        }
        let mut served = connection.has_pending_writes() && connection.flush(Deadline::NOW);
        let (mut spins, deadline, messages) = match turn {
            Turn::Ready => (0, Deadline::NOW, MESSAGES_PER_TURN_MAX),
            Turn::Poll(spins) => (spins, Deadline::NOW, MESSAGES_PER_TURN_MAX),
            Turn::Sleep(deadline) => (0, deadline, 1),
        };
        let (mut buf, mut left) = (None, messages);
        while left > 0 {
            // At once: a service may wait for calls of its own, in rounds that must arm this one.
            self.activity.touch_in_turn(connection);
            if connection.is_paused() {
                self.activity.note_deadline(connection.unread_due());
                return served;
            }
            if spins > 0 {
                if !connection.poll_ready(spins) {
                    return served;
                }
                // Behind the second message a receive is the poll: there are many.
                spins = u32::from(left == messages);
            }
            left -= 1;
            let buf = buf.get_or_insert_with(InlineBuf::take);
            match self.services.receive_message(connection, deadline, buf) {
                Received::Message if !connection.is_closed() => served = true,
                Received::TurnOver if !connection.is_closed() => {
                    served = true;
                    break;
                }
                Received::Message | Received::TurnOver | Received::Closed => return true,
                Received::Empty => return served,
            }
            if end.has_passed() {
                break;
            }
            if matches!(turn, Turn::Ready)
                && !connection.readiness.state.get().is_busy()
                && self.arm(connection)
            {
                return true;
            }
            if left == 0 && matches!(turn, Turn::Poll(_)) && self.may_go_on() {
                left = MESSAGES_PER_TURN_MAX;
            }
        }
        if matches!(turn, Turn::Poll(_)) {
            // It may have more messages, which must not hold up what only the kernel knows of.
            self.count_polled_turns(TURNS_PER_FULL_TURN);
        }
        // A busy one is armed before the loop sleeps.
        if matches!(turn, Turn::Ready) && !connection.readiness.state.get().is_busy() {
            self.make_ready(connection);
        }
        served
    }

    /// Returns whether a polled connection that has had its messages may have more at once: no
    /// other is polled, and the last look at the kernel is not long ago.
    fn may_go_on(&self) -> bool {
        let polled = self.activity.busy_count() + self.spinning.borrow().len();
        if polled > 1 || self.is_shared() || self.has_fdless() || !self.ready.borrow().is_empty() {
            return false;
        }
        let (now_ns, flooded_ns) = (clock::monotonic_ns(), self.clock.flooded_ns.get());
        if flooded_ns == 0 {
            self.clock.flooded_ns.set(now_ns);
            return true;
        }
        let may = now_ns.saturating_sub(flooded_ns) < LOOK_INTERVAL_NS;
        if !may {
            self.count_polled_turns(SPIN_TURNS_PER_LOOK);
        }
        may
    }

    /// Returns whether no call is under way over a connection, and none waits in its channel.
    pub(crate) fn is_idle(&self, connection: &Rc<Connection>) -> bool {
        if !connection.is_idle() {
            return false;
        }
        if self.run_turn(connection, Turn::Poll(1)) {
            // That may have been the last: the loop must not sleep before this is asked again.
            self.make_ready(connection);
            return false;
        }
        connection.is_idle()
    }

    /// Counts turns of polled connections. Returns whether a look at everything else is due.
    #[inline]
    pub(super) fn count_polled_turns(&self, turns: u32) -> bool {
        self.polled_turns.update(|counted| counted.saturating_add(turns));
        self.polled_turns.get() >= SPIN_TURNS_PER_LOOK
    }

    /// Gives each connection in the queue its turn.
    pub(super) fn serve_ready(&self) {
        let count = self.ready.borrow().len();
        for _ in 0..count {
            let Some(connection) = self.ready.borrow_mut().pop() else { return };
            connection.readiness.state.update(|state| state.dequeued());
            match self.run_turn(&connection, Turn::Ready) {
                true => connection.readiness.empty_wakes.forget(),
                false => self.note_empty_wake(&connection),
            }
            if self.clock.is_look_due() {
                // The rest keeps its place; one that is ready by now may come first.
                return;
            }
        }
    }

    /// Polls the connections that spin, and now and then everything else.
    pub(super) fn poll_spinning(&self, must_look: bool) -> io::Result<()> {
        let is_look_due = self.count_polled_turns(1);
        if must_look || is_look_due {
            self.polled_turns.set(0);
            self.poll_epoll(Deadline::NOW)?;
            self.look_in_host(Deadline::NOW);
        }
        let count = self.spinning.borrow().len();
        // A longer poll of one would keep the others waiting.
        let alone = count == 1 && !self.has_fdless() && !must_look;
        let looks = if alone { SPIN_LOOKS_PER_ROUND } else { 1 };
        for index in 0..count {
            let connection = self.spinning.borrow().get(index).cloned();
            if let Some(connection) = connection {
                self.run_turn(&connection, Turn::Poll(looks));
            }
        }
        self.poll_fdless();
        Ok(())
    }
}
