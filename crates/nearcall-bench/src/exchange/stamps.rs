//! The clock of a measured interval: the processor's counter where it can be trusted, else
//! `CLOCK_MONOTONIC`. Both ends of an interval are read in one process.

use nearcall_os::clock;
use nearcall_os::tsc::Tsc;

/// A clock for intervals.
#[derive(Clone, Copy, Debug)]
pub enum TimestampSource {
    /// The calibrated counter.
    Tsc(Tsc),
    /// The kernel's clock.
    Clock,
    /// A clock of this thread that a test sets, so that no load moves it.
    #[cfg(test)]
    Scripted,
}

#[cfg(test)]
thread_local! {
    /// What [`TimestampSource::Scripted`] reads, in nanoseconds.
    pub(crate) static SCRIPTED_NS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl TimestampSource {
    /// The counter as the runner calibrated it, or the kernel's clock.
    #[must_use]
    pub fn new(calibration: Option<[u64; 2]>) -> Self {
        match calibration.map(Tsc::from_calibration) {
            Some(Ok(tsc)) => Self::Tsc(tsc),
            Some(Err(_)) | None => Self::Clock,
        }
    }

    /// The beginning of an interval.
    #[inline(always)]
    #[must_use]
    pub fn start(&self) -> u64 {
        match self {
            Self::Tsc(tsc) => tsc.start(),
            Self::Clock => clock::monotonic_ns(),
            #[cfg(test)]
            Self::Scripted => SCRIPTED_NS.get(),
        }
    }

    /// Nanoseconds between two beginnings.
    #[must_use]
    pub fn between_ns(&self, first: u64, second: u64) -> u64 {
        match self {
            Self::Tsc(tsc) => tsc.to_ns(second.saturating_sub(first)),
            Self::Clock => second.saturating_sub(first),
            #[cfg(test)]
            Self::Scripted => second.saturating_sub(first),
        }
    }

    /// Nanoseconds since `start`.
    #[inline(always)]
    #[must_use]
    pub fn since_ns(&self, start: u64) -> u64 {
        match self {
            Self::Tsc(tsc) => tsc.to_ns(tsc.stop().ticks.saturating_sub(start)),
            Self::Clock => clock::monotonic_ns().saturating_sub(start),
            #[cfg(test)]
            Self::Scripted => SCRIPTED_NS.get().saturating_sub(start),
        }
    }
}
