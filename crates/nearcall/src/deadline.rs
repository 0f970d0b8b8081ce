//! The moments until which calls wait: one type from the generated caller down to the futex.
//!
//! **Invariants:** a [`Deadline`] is nanoseconds of `CLOCK_MONOTONIC` everywhere; the call protocol
//! gets the same number as a [`Time`], and only here does one become the other.
//! **Not here:** what is left of a deadline, which is what travels (`nearcall-wire`).

use std::time::Duration;

pub use nearcall_os::Deadline;
use nearcall_os::clock;
use nearcall_wire::Time;

use crate::limits::{
    CLIENT_ROOM_INTERVAL, HUNT_PAUSE_MAX, HUNT_PAUSE_MIN, LOAN_PAUSE_MAX, LOAN_PAUSE_MIN,
    REOPENING_PAUSE_MAX, ROOM_PAUSE_MIN,
};

/// Reads the clock of all deadlines. About 30 ns.
#[inline]
pub(crate) fn now() -> Deadline {
    Deadline::from_ns(clock::monotonic_ns())
}

/// Returns the moment that lies `span` after `moment`.
#[inline]
pub(crate) fn later(moment: Deadline, span: Duration) -> Deadline {
    let ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Deadline::from_ns(moment.as_ns().saturating_add(ns))
}

/// Returns the same moment for the call protocol.
#[inline(always)]
pub(crate) fn to_wire(deadline: Deadline) -> Time {
    Time::from_ns(deadline.as_ns())
}

/// Returns the same moment from the call protocol.
#[inline(always)]
pub(crate) fn from_wire(time: Time) -> Deadline {
    Deadline::from_ns(time.as_ns())
}

/// Pauses between attempts, each twice as long as the one before.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// Those of a caller that looks for a server.
    pub(crate) const HUNT: Self = Self { next: HUNT_PAUSE_MIN, longest: HUNT_PAUSE_MAX };

    /// Those between connections that are opened again and end as soon as they are open.
    pub(crate) const REOPENING: Self = Self { next: HUNT_PAUSE_MIN, longest: REOPENING_PAUSE_MAX };

    /// Those of a caller that looks for a slot that has come back: it rings no doorbell.
    pub(crate) const LOAN: Self = Self { next: LOAN_PAUSE_MIN, longest: LOAN_PAUSE_MAX };

    /// Those of a caller that waits for room, and receives between them.
    pub(crate) const ROOM: Self = Self { next: ROOM_PAUSE_MIN, longest: CLIENT_ROOM_INTERVAL };

    /// Returns the end of the next pause. Reads the clock.
    pub(crate) fn next(&mut self) -> Deadline {
        self.next_from(now())
    }

    /// Returns the end of the next pause, which begins at `moment`.
    pub(crate) fn next_from(&mut self, moment: Deadline) -> Deadline {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        later(moment, pause)
    }
}
