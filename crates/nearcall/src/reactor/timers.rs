//! The user's timers.
//!
//! **Invariants:** a timer that was late is due once, not once for each time that it missed.
//! **Not here:** waiting for the next one (`reactor.rs`), deadlines of calls (`connection.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::deadline::{self, Deadline};

/// A timer of an event loop.
///
/// Returned by [`EventLoop::add_timer`](crate::EventLoop::add_timer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerId(pub(crate) u64);

/// All timers of a loop, by when they are due.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeMap<(Deadline, TimerId), Option<Duration>>,
    last: u64,
}

impl Timers {
    /// Adds a timer that is due at `first`, and then every `every`.
    pub(crate) fn add(&mut self, first: Deadline, every: Option<Duration>) -> TimerId {
        self.last += 1;
        let id = TimerId(self.last);
        self.due.insert((first, id), every);
        id
    }

    /// Removes a timer. Returns whether there was one.
    pub(crate) fn remove(&mut self, id: TimerId) -> bool {
        let key = self.due.keys().find(|(_, timer)| *timer == id).copied();
        key.is_some_and(|key| self.due.remove(&key).is_some())
    }

    /// Returns when the next one is due.
    pub(crate) fn next(&self) -> Deadline {
        self.due.first_key_value().map_or(Deadline::NEVER, |((time, _), _)| *time)
    }

    /// Takes a timer that is due, once for each time that it is.
    pub(crate) fn take_due(&mut self, now: Deadline) -> Option<TimerId> {
        let ((time, id), every) = self.due.first_key_value().map(|(key, every)| (*key, *every))?;
        if time > now {
            return None;
        }
        self.due.pop_first();
        if let Some(every) = every {
            let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1);
            let late_ns = now.as_ns() - time.as_ns();
            let missed_ns = late_ns / every_ns * every_ns;
            let missed = Duration::from_nanos(missed_ns);
            let next = deadline::later(deadline::later(time, missed), every);
            self.due.insert((next, id), Some(every));
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ns: u64) -> Deadline {
        Deadline::from_ns(ns)
    }

    #[test]
    fn timers_come_in_their_order() {
        let mut timers = Timers::default();
        let late = timers.add(at(20), None);
        let early = timers.add(at(10), None);
        assert_eq!(timers.next(), at(10));
        assert_eq!(timers.take_due(at(9)), None);
        assert_eq!(timers.take_due(at(30)), Some(early));
        assert_eq!(timers.take_due(at(30)), Some(late));
        assert_eq!(timers.next(), Deadline::NEVER);
    }

    #[test]
    fn a_late_timer_keeps_its_beat() {
        let mut timers = Timers::default();
        let id = timers.add(at(10), Some(Duration::from_nanos(10)));
        assert_eq!(timers.take_due(at(47)), Some(id));
        assert_eq!(timers.take_due(at(47)), None);
        assert_eq!(timers.next(), at(50));
        assert!(timers.remove(id));
        assert!(!timers.remove(id));
    }
}
