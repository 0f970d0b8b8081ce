//! The three clocks as things that are read, each in its own unit.
//!
//! **Invariants:** a reading is one call, and its unit is exact; nothing is converted while time
//! runs.

use nearcall_os::clock;
use nearcall_os::tsc::Tsc;

/// A clock.
pub(super) trait Read {
    /// The time, in units.
    fn read(&self) -> u64;

    /// Nanoseconds per unit.
    fn unit_ns(&self) -> f64;

    /// The time in whole nanoseconds.
    fn read_ns(&self) -> u64;
}

/// `clock_gettime(CLOCK_MONOTONIC)`.
#[derive(Clone, Copy)]
pub(super) struct Monotonic;

impl Read for Monotonic {
    #[inline(always)]
    fn read(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn unit_ns(&self) -> f64 {
        1.0
    }

    fn read_ns(&self) -> u64 {
        self.read()
    }
}

/// `gettimeofday`.
#[derive(Clone, Copy)]
pub(super) struct Gettimeofday;

impl Read for Gettimeofday {
    #[inline(always)]
    fn read(&self) -> u64 {
        clock::time_of_day_us()
    }

    fn unit_ns(&self) -> f64 {
        1_000.0
    }

    fn read_ns(&self) -> u64 {
        self.read() * 1_000
    }
}

/// The processor's counter, read after everything before it and before everything after it.
#[derive(Clone, Copy)]
pub(super) struct Counter(pub(super) Tsc);

impl Read for Counter {
    #[inline(always)]
    fn read(&self) -> u64 {
        self.0.start()
    }

    fn unit_ns(&self) -> f64 {
        tick_ns(&self.0)
    }

    fn read_ns(&self) -> u64 {
        self.0.to_ns(self.read())
    }
}

/// Nanoseconds per tick.
fn tick_ns(tsc: &Tsc) -> f64 {
    // A thousand million ticks make the rounding to whole nanoseconds invisible.
    tsc.to_ns(TICKS) as f64 / TICKS as f64
}

const TICKS: u64 = 1_000_000_000;

/// All clocks at one moment, always read in the same order: so an interval between two moments has
/// the same readings in it for each clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) clock_gettime_ns: u64,
    gettimeofday_us: u64,
    /// `None` without a counter.
    ticks: Option<u64>,
    /// How long the readings took.
    pub(super) width_ns: u64,
}

impl Moment {
    #[inline(always)]
    pub(super) fn read(tsc: Option<&Tsc>) -> Self {
        let clock_gettime_ns = clock::monotonic_ns();
        let gettimeofday_us = clock::time_of_day_us();
        let ticks = tsc.map(Tsc::start);
        let width_ns = clock::monotonic_ns().saturating_sub(clock_gettime_ns);
        Self { clock_gettime_ns, gettimeofday_us, ticks, width_ns }
    }

    /// Nanoseconds since `earlier` by each clock, in the order of `ClockName::ALL`. Wall time that
    /// was set back gives a negative time.
    pub(super) fn since_ns(&self, earlier: &Self, tsc: Option<&Tsc>) -> [Option<f64>; 3] {
        let ns = self.clock_gettime_ns.saturating_sub(earlier.clock_gettime_ns) as f64;
        let (now_us, then_us) = (self.gettimeofday_us, earlier.gettimeofday_us);
        let sign = if now_us < then_us { -1.0 } else { 1.0 };
        let wall_ns = now_us.abs_diff(then_us) as f64 * 1_000.0 * sign;
        let ticks = self.ticks.zip(earlier.ticks).map(|(now, then)| now.saturating_sub(then));
        let counter_ns = ticks.zip(tsc).map(|(ticks, tsc)| ticks as f64 * tick_ns(tsc));
        [Some(ns), Some(wall_ns), counter_ns]
    }
}
