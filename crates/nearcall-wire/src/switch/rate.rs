//! How many switches the peer has begun or asked for within a minute.
//!
//! **Invariants:** time that stands still or goes back allows nothing more; constant size.
//! **Not here:** what happens to one too many (`switch.rs`).

use crate::time::Time;

/// A sliding minute, estimated from two fixed ones: the last one counts for the part of it that the
/// sliding one still covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Rate {
    per_minute_max: u32,
    minute: u64,
    now: u32,
    before: u32,
}

impl Rate {
    pub(super) const fn new(per_minute_max: u32) -> Self {
        Self { per_minute_max, minute: 0, now: 0, before: 0 }
    }

    /// Counts one at `now`, if it is within the limit.
    pub(super) fn count(&mut self, now: Time) -> bool {
        let minute = now.as_ns() / MINUTE_NS;
        if minute > self.minute {
            self.before = if minute == self.minute + 1 { self.now } else { 0 };
            (self.minute, self.now) = (minute, 0);
        }
        let left_ns = MINUTE_NS - now.as_ns() % MINUTE_NS;
        // Rounded up: the border of a minute brings nothing new.
        let weighed = u128::from(self.before) * u128::from(left_ns);
        let weighed = weighed.div_ceil(u128::from(MINUTE_NS));
        let is_within = weighed + u128::from(self.now) < u128::from(self.per_minute_max);
        self.now += u32::from(is_within);
        is_within
    }
}

const MINUTE_NS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at_seconds(seconds: u64) -> Time {
        Time::from_ns(seconds * 1_000_000_000)
    }

    #[test]
    fn a_minute_allows_as_many_as_the_limit() {
        let mut rate = Rate::new(10);
        for _ in 0..10 {
            assert!(rate.count(at_seconds(59)));
        }
        assert!(!rate.count(at_seconds(59)));
        assert!(!rate.count(at_seconds(60)), "the border of a minute brings nothing new");
        let halfway = (0..20).filter(|_| rate.count(at_seconds(90))).count();
        assert_eq!(halfway, 5);
        assert!(!rate.count(at_seconds(30)), "time that goes back brings nothing");
        assert!((0..10).all(|_| rate.count(at_seconds(1_000))));
        assert!(!rate.count(at_seconds(1_000)));
    }

    #[test]
    fn a_limit_of_one_allows_no_second_right_behind_a_border() {
        let mut rate = Rate::new(1);
        assert!(rate.count(at_seconds(59)));
        assert!(!rate.count(at_seconds(61)) && !rate.count(at_seconds(119)));
        assert!(rate.count(at_seconds(120)));
    }

    #[test]
    fn a_limit_of_nothing_allows_nothing() {
        assert!(!Rate::new(0).count(Time::from_ns(5)));
        assert!(!Rate::new(0).count(Time::NEVER));
    }
}
