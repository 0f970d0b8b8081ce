//! Points in time and spans of time: numbers, not clocks.
//!
//! Always true: arithmetic ends at [`Time::NEVER`] and never wraps; what is added to it or
//! measured up to it is `NEVER` again.
//! Not here: reading a clock, which the driver of a connection does.

/// A point in time, in nanoseconds since an origin that the driver chooses, such as boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Later than everything: no deadline.
    pub const NEVER: Self = Self(u64::MAX);

    /// The point `ns` nanoseconds after the origin.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The point `timeout` later; [`Time::NEVER`] if there is no such point.
    #[must_use]
    pub const fn after(self, timeout: Timeout) -> Self {
        Self(self.0.saturating_add(timeout.0))
    }

    /// The span from here to `later`: what is left of a deadline. Zero if it has passed.
    #[must_use]
    pub const fn until(self, later: Self) -> Timeout {
        if later.0 == u64::MAX {
            return Timeout::NEVER;
        }
        Timeout(later.0.saturating_sub(self.0))
    }
}

/// A span of time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeout(u64);

impl Timeout {
    /// Longer than everything: no deadline.
    pub const NEVER: Self = Self(u64::MAX);
    /// Nothing is left.
    pub const ZERO: Self = Self(0);

    /// A span of `ns` nanoseconds; `u64::MAX` is [`Timeout::NEVER`].
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// The span in nanoseconds.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Time, Timeout};

    #[test]
    fn never_stays_never() {
        assert_eq!(Time::from_ns(5).after(Timeout::NEVER), Time::NEVER);
        assert_eq!(Time::from_ns(5).until(Time::NEVER), Timeout::NEVER);
        assert_eq!(Time::from_ns(u64::MAX - 1).after(Timeout::from_ns(9)), Time::NEVER);
    }

    #[test]
    fn what_has_passed_leaves_nothing() {
        assert_eq!(Time::from_ns(5).until(Time::from_ns(5)), Timeout::ZERO);
        assert_eq!(Time::from_ns(9).until(Time::from_ns(5)), Timeout::ZERO);
        assert_eq!(Time::from_ns(5).until(Time::from_ns(9)), Timeout::from_ns(4));
    }
}
