//! The moment until which an operation may wait, on one clock for all crates.
//!
//! **Invariants:** a deadline counts `CLOCK_MONOTONIC`, so a changed wall clock moves nothing;
//! [`Deadline::NOW`] and [`Deadline::NEVER`] never read a clock.
//! **Not here:** reading clocks (`clock.rs`), timers with a descriptor (`timerfd.rs`).

use std::fmt;
use std::time::{Duration, Instant};

use rustix::time::Timespec;

use crate::clock::{self, monotonic_ns};

/// The moment until which an operation may wait: nanoseconds of `CLOCK_MONOTONIC`.
///
/// Deadlines compare as moments: the smaller one is the earlier one. Compute a deadline once, with
/// [`after`](Self::after), and pass it on: nothing below reads the clock to pass it to the kernel.
///
/// ```
/// use std::time::Duration;
/// use nearcall_os::Deadline; // nearcall::Deadline is the same type
///
/// let soon = Deadline::after(Duration::from_millis(250));
/// assert!(Deadline::NOW < soon && soon < Deadline::NEVER && !soon.has_passed());
/// assert!(soon.remaining() <= Some(Duration::from_millis(250)));
/// assert_eq!(Deadline::NEVER.remaining(), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(u64);

impl Deadline {
    /// Does not wait at all.
    pub const NOW: Self = Self(0);

    /// Waits until the operation can be done, or the other end has gone.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the deadline that lies `timeout` from now.
    ///
    /// Reads the clock once; not at all for zero, which is [`NOW`](Self::NOW), and for
    /// [`Duration::MAX`], which is [`NEVER`](Self::NEVER).
    #[must_use]
    #[inline]
    pub fn after(timeout: Duration) -> Self {
        match timeout {
            Duration::ZERO => Self::NOW,
            Duration::MAX => Self::NEVER,
            _ => Self(monotonic_ns().saturating_add(whole_ns(timeout))),
        }
    }

    /// Returns the deadline at `moment`; [`NOW`](Self::NOW) if that has passed.
    ///
    /// Reads the clock twice, because an [`Instant`] hides its number: prefer
    /// [`after`](Self::after).
    #[must_use]
    pub fn at(moment: Instant) -> Self {
        match moment.checked_duration_since(clock::now()) {
            Some(left) => Self::after(left),
            None => Self::NOW,
        }
    }

    /// Returns the deadline at `ns` nanoseconds of `CLOCK_MONOTONIC`.
    #[must_use]
    #[inline]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds of `CLOCK_MONOTONIC` at which the deadline passes.
    #[must_use]
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns the same moment as the standard library has it; `None` for [`NEVER`](Self::NEVER).
    ///
    /// Reads the clock twice.
    #[must_use]
    pub fn to_instant(self) -> Option<Instant> {
        let left = self.remaining()?;
        clock::now().checked_add(left)
    }

    /// Returns whether nothing more may be waited for. Reads the clock only if there is a moment.
    #[must_use]
    #[inline]
    pub fn has_passed(self) -> bool {
        match self {
            Self::NOW => true,
            Self::NEVER => false,
            Self(moment) => monotonic_ns() >= moment,
        }
    }

    /// Returns whether this is a moment: neither [`NOW`](Self::NOW) nor [`NEVER`](Self::NEVER).
    #[must_use]
    #[inline]
    pub fn is_moment(self) -> bool {
        self != Self::NOW && self != Self::NEVER
    }

    /// Returns the time that is left: zero once the deadline has passed, `None` if it never does.
    /// Reads the clock only if there is a moment.
    #[must_use]
    #[inline]
    pub fn remaining(self) -> Option<Duration> {
        match self {
            Self::NOW => Some(Duration::ZERO),
            Self::NEVER => None,
            Self(moment) => Some(Duration::from_nanos(moment.saturating_sub(monotonic_ns()))),
        }
    }

    /// [`remaining`](Self::remaining), as the kernel's relative timeouts want it.
    #[inline]
    pub(crate) fn remaining_timespec(self) -> Option<Timespec> {
        self.remaining().map(timespec)
    }

    /// The moment itself, as the kernel's absolute timeouts want it. Reads no clock.
    #[inline]
    pub(crate) fn absolute_timespec(self) -> Timespec {
        timespec(Duration::from_nanos(self.0.min(ABSOLUTE_NS_MAX)))
    }
}

/// Deadline of a timeout; `None` is [`Deadline::NEVER`].
impl From<Option<Duration>> for Deadline {
    #[inline]
    fn from(timeout: Option<Duration>) -> Self {
        timeout.map_or(Self::NEVER, Self::after)
    }
}

/// As [`Deadline::after`].
impl From<Duration> for Deadline {
    #[inline]
    fn from(timeout: Duration) -> Self {
        Self::after(timeout)
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NOW => f.write_str("Deadline::NOW"),
            Self::NEVER => f.write_str("Deadline::NEVER"),
            Self(ns) => write!(f, "Deadline({ns} ns)"),
        }
    }
}

/// Converts a duration to the kernel's form. One too long for it becomes the longest there is.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 999_999_999 })
}

fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The last moment that is handed to the kernel, in nanoseconds since the start of the clock (36
/// years): far from where the kernel's own arithmetic ends.
const ABSOLUTE_NS_MAX: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_time_need_no_clock() {
        assert_eq!(Deadline::after(Duration::ZERO), Deadline::NOW);
        assert_eq!(Deadline::after(Duration::MAX), Deadline::NEVER);
        assert_eq!(Deadline::from(None), Deadline::NEVER);
        assert!(Deadline::NOW.has_passed() && !Deadline::NEVER.has_passed());
        assert_eq!(Deadline::NOW.remaining(), Some(Duration::ZERO));
        assert_eq!(Deadline::NEVER.to_instant(), None);
    }

    #[test]
    fn an_instant_keeps_its_moment() {
        let moment = clock::now() + Duration::from_secs(5);
        let back = Deadline::at(moment).to_instant().unwrap();
        // The conversions read the clock in between: never earlier, and later by little.
        assert!(back >= moment && back < moment + Duration::from_secs(1));
        assert_eq!(Deadline::at(clock::now()), Deadline::NOW);
    }

    #[test]
    fn a_deadline_beyond_the_kernels_arithmetic_is_a_valid_time() {
        for deadline in [Deadline::NEVER, Deadline::after(Duration::from_secs(u64::MAX))] {
            let time = deadline.absolute_timespec();
            assert!(time.tv_sec > 1 << 29 && (0..1_000_000_000).contains(&time.tv_nsec));
        }
    }
}
