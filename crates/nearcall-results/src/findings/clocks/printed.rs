//! What the two studies printed of their clocks, to stand beside what is found here.
//!
//! Study 002 (`wisconsin-latency`) had an i5-4570 at 3.19 GHz, study 003 (`wisconsin-evaluation`) a
//! processor of the same speed.

use super::ClockName;

/// Figures of one clock; `None`: not given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Printed {
    /// Study 002: what a reading costs, give or take 2 ns.
    pub overhead_ns: Option<f64>,
    /// Study 002: the smallest run of `i++` that registers.
    pub smallest_run_ns: Option<f64>,
    /// Study 003: by shrinking the code between two readings.
    pub shrunk_ns: Option<f64>,
    /// Study 003: mean of measured minus asked, the sleep's length not being given.
    pub mean_error_us: Option<f64>,
    /// Study 003: its standard deviation.
    pub error_sd_us: Option<f64>,
}

/// What was printed of a clock.
#[must_use]
pub const fn printed(clock: ClockName) -> Printed {
    match clock {
        ClockName::ClockGettime => Printed {
            overhead_ns: Some(65.0),
            smallest_run_ns: Some(3.0),
            shrunk_ns: Some(30.0),
            mean_error_us: Some(81.0),
            error_sd_us: Some(11.74),
        },
        ClockName::Gettimeofday => Printed {
            overhead_ns: None,
            smallest_run_ns: None,
            shrunk_ns: Some(1_000.0),
            mean_error_us: Some(74.0),
            error_sd_us: Some(9.59),
        },
        ClockName::Tsc => Printed {
            overhead_ns: Some(7.0),
            smallest_run_ns: Some(1.0),
            shrunk_ns: Some(62.0),
            mean_error_us: Some(328.0),
            error_sd_us: Some(9.41),
        },
    }
}

/// Study 002: clock_gettime and the counter never differ by more, as a part of the time.
pub const DISAGREEMENT_MAX: f64 = 0.005;
