//! Connections that were busy lately, which the loop polls before it sleeps.
//!
//! A connection whose wait is adaptive enters the busy set when it is used. While the set is not
//! empty the loop polls its connections, as long as its [`Spinner`] finds that it pays; then it
//! arms them all and sleeps.
//! **Invariants:** a busy connection is not armed, so its peer makes no system call for this end;
//! the loop never sleeps while one is busy; a connection that is idle while others are busy leaves
//! the set, so idle ones cost nothing. While it polls the loop looks at everything else now and
//! then.
//! **Not here:** rounds (`reactor.rs`), turns (`turns.rs`), arming (`watching.rs`), how long it
//! pays (`nearcall-channel`).

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use nearcall_channel::{SpinOptions, SpinPlan, Spinner, WaitPolicy};

use super::Reactor;
use super::sharing::Party;
use super::turns::Turn;
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::limits::{BUSY_MAX, BUSY_MISSES_MAX, CLOCKS_PER_LOOK, SPIN_TURNS_PER_LOOK};

/// The time for which polling pays.
pub(super) struct Busy {
    spinner: RefCell<Spinner>,
    /// The wait that goes on, if the loop has slept in it.
    slept: Cell<Option<SpinPlan>>,
}

impl Default for Busy {
    fn default() -> Self {
        Self { spinner: RefCell::new(Spinner::new(SpinOptions::default())), slept: Cell::new(None) }
    }
}

impl Reactor {
    /// Polls the busy connections. True: something has happened, or is due; false: sleep.
    #[inline]
    pub(super) fn spin_busy(&self, deadline: Deadline) -> io::Result<bool> {
        if self.count_polled_turns(1) && self.look_at_others()? {
            return Ok(true);
        }
        let mut plan = self.busy.spinner.borrow_mut().begin();
        let mut clocks = 0;
        loop {
            if self.poll_busy() {
                self.busy.spinner.borrow_mut().record_hit(plan);
                return Ok(true);
            }
            let is_empty = self.activity.busy_count() == 0;
            if is_empty || !plan.should_spin(&mut self.busy.spinner.borrow_mut()) {
                self.busy.slept.set(Some(plan));
                return Ok(false);
            }
            std::hint::spin_loop();
            if plan.is_at_clock() {
                clocks += 1;
                if self.is_interrupted(clocks, deadline)? {
                    self.busy.spinner.borrow_mut().record_timeout(plan);
                    return Ok(true);
                }
            }
        }
    }

    /// While nothing comes: returns whether anything else is to be done.
    #[cold]
    fn is_interrupted(&self, clocks: u32, deadline: Deadline) -> io::Result<bool> {
        // What was looked at may be what a caller waits for, and is reported once.
        if clocks.is_multiple_of(CLOCKS_PER_LOOK) && self.look_at_others()? {
            return Ok(true);
        }
        let is_due = deadline.min(self.next_due()).has_passed();
        Ok(is_due || !self.ready.borrow().is_empty() || self.has_posts())
    }

    /// Polls everything else. Returns whether anything was ready.
    #[cold]
    fn look_at_others(&self) -> io::Result<bool> {
        self.polled_turns.set(0);
        let has_served = self.poll_fdless();
        Ok(self.poll_epoll(Deadline::NOW)? || has_served)
    }

    /// Polls each busy connection once. Returns whether there was anything.
    #[inline]
    pub(super) fn poll_busy(&self) -> bool {
        let mut found = false;
        let mut index = 0;
        loop {
            let Some(connection) = self.activity.busy_at(index) else { return found };
            match self.run_turn(&connection, Turn::Poll(1)) {
                true => {
                    found = true;
                    connection.readiness.misses.set(0);
                    connection.readiness.empty_wakes.forget();
                    if self.clock.is_look_due() {
                        self.give_way(&connection, index);
                        return true;
                    }
                }
                false => self.note_miss(&connection),
            }
            index += 1;
        }
    }

    /// Polls the busy connections of users that have used less time than the user of this one, and
    /// has a look at everything else come next.
    #[cold]
    fn give_way(&self, served: &Rc<Connection>, index: usize) {
        let than = Party::of(served);
        for other in (0..BUSY_MAX).filter_map(|index| self.activity.busy_at(index)) {
            if self.ready.borrow().has_used_less(Party::of(&other), than) {
                self.run_turn(&other, Turn::Poll(1));
            }
        }
        self.activity.rotate_busy(index);
        self.count_polled_turns(SPIN_TURNS_PER_LOOK);
    }

    /// Counts a poll that found nothing: a connection that is idle beside busy ones is armed.
    #[inline]
    fn note_miss(&self, connection: &Rc<Connection>) {
        let misses = connection.readiness.misses.get().saturating_add(1);
        connection.readiness.misses.set(misses);
        if misses >= BUSY_MISSES_MAX && self.activity.busy_count() > 1 {
            self.activity.remove_busy(connection);
            self.arm_or_queue(connection);
        }
    }

    /// Arms all busy connections, for a sleep. Those that have something after all are ready then.
    pub(super) fn demote_all(&self) {
        while let Some(connection) = self.activity.pop_busy() {
            self.arm_or_queue(&connection);
        }
        self.share_signals();
    }

    pub(super) fn arm_or_queue(&self, connection: &Rc<Connection>) {
        if !connection.is_closed() && !self.arm(connection) {
            self.make_ready(connection);
        }
    }

    /// Records after a sleep whether what was polled for has ended it.
    pub(super) fn record_sleep(&self) {
        if let Some(plan) = self.busy.slept.take() {
            let ready = self.ready.borrow();
            if ready.iter().any(|connection| connection.wait() == WaitPolicy::Adaptive) {
                self.busy.spinner.borrow_mut().record_wake(plan);
            }
        }
    }
}
