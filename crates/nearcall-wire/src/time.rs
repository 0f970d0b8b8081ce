//! Points in time: numbers, not clocks.
//!
//! **Invariants:** arithmetic ends at [`Time::NEVER`] and never wraps; a span that is added to
//! `NEVER` gives `NEVER`.
//! **Not here:** reading a clock, which the driver of a connection does; spans of time, which
//! travel in frames as nanoseconds (`frame.rs`).

/// A point in time, in nanoseconds since an origin that the driver chooses, such as boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Later than everything: no deadline.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the point `ns` nanoseconds after the origin; `u64::MAX` is [`Time::NEVER`].
    #[must_use]
    #[inline(always)]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds since the origin.
    #[must_use]
    #[inline(always)]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns the point `ns` nanoseconds later; [`Time::NEVER`] if there is no such point.
    #[must_use]
    pub const fn after_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn never_stays_never() {
        assert_eq!(Time::from_ns(5).after_ns(u64::MAX), Time::NEVER);
        assert_eq!(Time::NEVER.after_ns(9), Time::NEVER);
        assert_eq!(Time::from_ns(u64::MAX - 1).after_ns(9), Time::NEVER);
        assert_eq!(Time::from_ns(5).after_ns(4), Time::from_ns(9));
    }
}
