//! What was found out about the clocks, as it is stored and printed (`nearcall.timers/1`).
//!
//! Plain data; every field with a unit has it in its name.

pub mod printed;

use serde::{Deserialize, Serialize};

use crate::run::{Machine, Tool};
use crate::words::words;

/// The name of the form in which findings are stored.
pub const SCHEMA: &str = "nearcall.timers/1";

/// A clock that programs time with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockName {
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    ClockGettime,
    /// `gettimeofday`, wall time.
    Gettimeofday,
    /// The processor's counter, `lfence; rdtsc; lfence`.
    Tsc,
}

words! { ClockName:
    ClockGettime => "clock_gettime",
    Gettimeofday => "gettimeofday",
    Tsc => "tsc",
}

/// All that one run of `nearcall timers` finds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockFindings {
    /// The name of the format: [`SCHEMA`].
    pub schema: String,
    /// What measured.
    pub tool: Tool,
    /// The machine that was measured.
    pub machine: Machine,
    /// When, in seconds since 1970.
    pub started_unix_s: u64,
    /// With fewer readings than usual.
    pub quick: bool,
    /// Why something is missing; `None`: all was measured.
    pub partial: Option<String>,
    /// The CPU that read the clocks; `None`: wherever the scheduler wanted.
    pub cpu: Option<u32>,
    /// Each clock by itself, in the order of [`ClockName::ALL`].
    pub clocks: Vec<ClockFinding>,
    /// Errors over sleeps, one entry per length.
    pub sleeps: Vec<SleepFinding>,
    /// How far the clocks agree, one entry per length of span.
    pub agreement: Vec<SpanFinding>,
    /// What makes figures worse than they could be.
    pub warnings: Vec<String>,
}

impl ClockFindings {
    /// What was found of one clock.
    #[must_use]
    pub fn clock(&self, name: ClockName) -> Option<&ClockFinding> {
        self.clocks.iter().find(|finding| finding.name == name)
    }

    /// The error of one clock over all sleeps of one length.
    #[must_use]
    pub fn sleep_error(&self, name: ClockName, asked_us: f64) -> Option<&SleepError> {
        let sleep = self.sleeps.iter().find(|sleep| sleep.asked_us == asked_us)?;
        sleep.clocks.iter().find(|error| error.clock == name)
    }

    /// How far two clocks disagree in one span of each length: length in nanoseconds, figures.
    pub fn disagreements(
        &self,
        one: ClockName,
        other: ClockName,
    ) -> impl Iterator<Item = (f64, &Disagreement)> {
        let wanted = move |pair: &&Disagreement| {
            (pair.one, pair.other) == (one, other) || (pair.one, pair.other) == (other, one)
        };
        let of_span = move |span: &'_ SpanFinding| {
            let at = span.pairs.iter().position(|pair| wanted(&pair))?;
            Some((span.span_ns, at))
        };
        let spans = self.agreement.iter();
        spans.filter_map(move |span| of_span(span).map(|(ns, at)| (ns, &span.pairs[at])))
    }

    /// As one JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("findings have no map")
    }
}

/// One clock by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockFinding {
    /// The clock.
    pub name: ClockName,
    /// Why it is not to be used here, and was not measured.
    pub unusable: Option<String>,
    /// What a reading costs.
    pub overhead: Option<Overhead>,
    /// What it states to tell apart: `clock_getres`, its unit, or one tick.
    pub stated_resolution_ns: Option<f64>,
    /// The step in which the times of short work come.
    pub granularity_ns: Option<f64>,
    /// The smallest run of `i++` that shows (study 002).
    pub smallest_run: Option<Interval>,
    /// The smallest interval that is not zero while the code between two readings shrinks
    /// (study 003).
    pub shrunk: Option<Interval>,
}

impl ClockFinding {
    /// One that nothing was measured of, with the reason.
    #[must_use]
    pub fn unusable(name: ClockName, reason: String) -> Self {
        Self {
            name,
            unusable: Some(reason),
            overhead: None,
            stated_resolution_ns: None,
            granularity_ns: None,
            smallest_run: None,
            shrunk: None,
        }
    }
}

/// What a reading costs: the times between readings back to back, by the clock itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// How many readings were taken.
    pub readings: u64,
    /// The shortest time between two.
    pub min_ns: f64,
    /// The mean without outliers.
    pub mean_ns: f64,
    /// The standard deviation without outliers.
    pub sd_ns: f64,
    /// The median of all.
    pub median_ns: f64,
    /// Outliers: times above [`outlier_above_ns`](Self::outlier_above_ns).
    pub outliers: u64,
    /// Median plus the largest of: three medians, ten median deviations, two steps of the clock.
    pub outlier_above_ns: f64,
    /// Per reading in the fastest batch of 500, by `CLOCK_MONOTONIC`. True also of a clock whose
    /// step is longer than a reading.
    pub batch_ns: Option<f64>,
}

/// A run of increments and the time that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Increments between the two readings.
    pub increments: u64,
    /// The time in nanoseconds.
    pub ns: f64,
}

/// Errors over sleeps of one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SleepFinding {
    /// The length that was asked for.
    pub asked_us: f64,
    /// How many sleeps.
    pub sleeps: u32,
    /// What all clocks saw alike, so the sleep's wake-up: per sleep the median over the clocks of
    /// measured minus asked; of that the mean.
    pub wake_up_mean_us: f64,
    /// Its standard deviation.
    pub wake_up_sd_us: f64,
    /// Each clock that was read.
    pub clocks: Vec<SleepError>,
}

/// One clock over the same sleeps as the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SleepError {
    /// The clock.
    pub clock: ClockName,
    /// Mean of measured minus asked, as study 003 gives it.
    pub mean_error_us: f64,
    /// Its standard deviation.
    pub error_sd_us: f64,
    /// The clock's own part: the mean difference from what all clocks saw alike.
    pub own_mean_us: f64,
    /// Its standard deviation.
    pub own_sd_us: f64,
}

/// How far the clocks agree over spans of one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanFinding {
    /// Length in nanoseconds as intended; what was measured is a little longer.
    pub span_ns: f64,
    /// Spans that count.
    pub spans: u32,
    /// Spans that do not: something came between the readings at one end.
    pub disturbed: u32,
    /// What the readings at one end take, as a part of the span.
    pub readings_relative: f64,
    /// Each pair of clocks.
    pub pairs: Vec<Disagreement>,
}

/// Two clocks over the same spans: distances between their times, as parts of the mean of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    /// A clock.
    pub one: ClockName,
    /// The other.
    pub other: ClockName,
    /// The median over the spans.
    pub median_relative: f64,
    /// The largest.
    pub largest_relative: f64,
    /// The coarser clock's step as a part of the span: what no two clocks can do better than.
    pub step_relative: f64,
}
