//! What a replay has found.
//!
//! **Not here:** how it is shown (`nearcall-cli`).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compare::Difference;
use crate::latency::{IntervalReport, Intervals, Latencies, Percentiles};

/// What a replay has found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ReplayReport {
    /// Calls and one-way messages that were sent.
    pub calls: u64,
    /// Calls whose end and items are equal to those of the recording.
    pub equal: u64,
    /// Calls whose end or items are not.
    pub different: u64,
    /// Calls that could not be compared: one-way messages, calls that have no end in the recording
    /// or whose replies were cut there, and all calls if no comparison was asked for.
    pub not_compared: u64,
    /// Calls that have failed now, whether they had failed then or not.
    pub failed: u64,
    /// Calls that were sent although their methods do not say that a second call changes nothing.
    pub not_idempotent: u64,
    /// Calls that were not sent, since only idempotent ones were asked for.
    pub left_out: u64,
    /// Calls that were not sent, since a message of them was cut in the recording.
    pub cut: u64,
    /// Calls that the server left out of the recording.
    pub dropped_calls: u64,
    /// Events that the server left out of calls that are in the recording.
    pub dropped_events: u64,
    /// Connections that the calls were sent over.
    pub connections: u64,
    /// Time from the first call to the end of the last one, in seconds.
    pub duration_s: f64,
    /// The longest time by which a call was sent later than it should, in milliseconds.
    pub latest_ms: f64,
    /// By the names of methods.
    pub methods: Vec<MethodReport>,
    /// By the time of the recording.
    pub intervals: Vec<IntervalReport>,
    /// The first calls that differ.
    pub differences: Vec<CallDifference>,
    /// Why the recording was not replayed to its end; absent if it was.
    pub incomplete: Option<String>,
}

/// The calls of a method.
#[derive(Debug, Clone, Serialize)]
pub struct MethodReport {
    /// Its name, such as `home.v1.Thermostat/SetTarget`.
    pub method: String,
    /// Calls that were sent.
    pub calls: u64,
    /// Equal ones.
    pub equal: u64,
    /// Different ones.
    pub different: u64,
    /// Those that have failed now.
    pub failed: u64,
    /// Times in the server that was recorded, from a request to the end of its call.
    pub recorded: Option<Percentiles>,
    /// Times of the caller now, from a request to the end of its call.
    pub now: Option<Percentiles>,
}

/// How a call differs.
#[derive(Debug, Clone, Serialize)]
pub struct CallDifference {
    /// Its number in the recording.
    pub call: u64,
    /// Its method.
    pub method: String,
    /// When it came in, in seconds of the recording.
    pub at_s: f64,
    /// What differs, the first fields of it.
    pub fields: Vec<Difference>,
}

/// What one connection has found.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) report: ReplayReport,
    pub(crate) methods: BTreeMap<String, MethodTally>,
    pub(crate) intervals: Intervals,
    pub(crate) latest_ns: u64,
    /// The replay was stopped before all of its events were played.
    pub(crate) was_stopped: bool,
}

/// The calls of a method.
#[derive(Debug, Default)]
pub(crate) struct MethodTally {
    pub(crate) calls: u64,
    pub(crate) equal: u64,
    pub(crate) different: u64,
    pub(crate) failed: u64,
    pub(crate) latencies: Latencies,
}

impl Tally {
    pub(crate) fn note_difference(&mut self, difference: CallDifference) {
        if self.report.differences.len() < DIFFERENCES_MAX {
            self.report.differences.push(difference);
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        let (own, more) = (&mut self.report, other.report);
        own.not_idempotent += more.not_idempotent;
        own.left_out += more.left_out;
        own.cut += more.cut;
        own.not_compared += more.not_compared;
        own.differences.extend(more.differences);
        self.latest_ns = self.latest_ns.max(other.latest_ns);
        self.was_stopped |= other.was_stopped;
        self.intervals.add(other.intervals);
        for (method, more) in other.methods {
            let own = self.methods.entry(method).or_default();
            own.calls += more.calls;
            own.equal += more.equal;
            own.different += more.different;
            own.failed += more.failed;
            own.latencies.add(&more.latencies);
        }
    }

    pub(crate) fn into_report(self) -> ReplayReport {
        let Self { mut report, methods, intervals, latest_ns, .. } = self;
        report.differences.sort_by_key(|difference| difference.call);
        report.differences.truncate(DIFFERENCES_MAX);
        report.latest_ms = latest_ns as f64 / 1e6;
        report.intervals = intervals.report();
        for (method, tally) in methods {
            let MethodTally { calls, equal, different, failed, latencies } = tally;
            report.calls += calls;
            report.equal += equal;
            report.different += different;
            report.failed += failed;
            let [recorded, now] = latencies.percentiles();
            report.methods.push(MethodReport {
                method,
                calls,
                equal,
                different,
                failed,
                recorded,
                now,
            });
        }
        report
    }
}

/// Calls of which the differences are kept.
pub(crate) const DIFFERENCES_MAX: usize = 20;
