//! What a run stores beside its cells: budgets, comparisons of waits, servers at rest, pairs of
//! CPUs, and where the time of a call goes.

use serde::{Deserialize, Serialize};

use crate::noise::Grade;
use crate::run::Placement;

/// One budget and what was measured of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// A stable word for it.
    pub name: String,
    /// What is measured, for people.
    pub what: String,
    /// The heading under which it stands: what it is judged by.
    pub against: String,
    /// What `measured`, and `floor_value` too, count: "ns", "per_s", "bytes", "cpu_share",
    /// "per_s_sleeps", "threads".
    pub unit: String,
    /// The figure, the median over launches.
    pub measured: Option<f64>,
    /// The floor's name; `null` where the figure itself is judged.
    pub floor: Option<String>,
    /// The floor's figure of the same run.
    pub floor_value: Option<f64>,
    /// What is judged: the median of `launch_values`.
    pub value: Option<f64>,
    /// Its 95 % confidence interval.
    pub value_ci95: Option<[f64; 2]>,
    /// Per round of launches: the figure to its floor, or the figure itself without a floor.
    pub launch_values: Vec<f64>,
    /// What the value may be at most, or must be at least.
    pub budget: f64,
    /// What it should be.
    pub goal: Option<f64>,
    /// Whether more is better.
    pub at_least: bool,
    /// What comes of it.
    pub verdict: Verdict,
    /// How far it falls short: 0.12 is 12 % above what it may be, or below what it must be. `null`
    /// where it does not, or where the budget is zero.
    pub short_by: Option<f64>,
    /// Whether the whole interval is on the same side of the budget.
    pub certain: bool,
    /// How undisturbed the figure and its floor were: the worse of both.
    pub grade: Option<Grade>,
    /// Why there is no figure.
    pub reason: Option<String>,
}

/// How a figure stands to its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It reaches the goal.
    Goal,
    /// It is within the budget.
    Within,
    /// It is not.
    Short,
    /// It was not measured.
    #[default]
    Unmeasured,
}

/// One pace on one placement: `adaptive` beside the better of the other policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitComparison {
    /// The mechanism's name.
    pub mechanism: String,
    /// "same_cpu" and the like.
    pub class: String,
    /// Calls per second that should begin.
    pub rate_per_s: u32,
    /// The policy of the shorter median, "spin" or "block".
    pub better: String,
    /// The median with `adaptive`, to that one.
    pub latency_ratio: Option<f64>,
    /// The 95 % confidence interval of it, from launches of one round each.
    pub latency_ratio_ci95: Option<[f64; 2]>,
    /// The policy that used the CPU less, "spin" or "block".
    pub cheaper: String,
    /// CPU time of both ends with `adaptive`, to that one.
    pub cpu_ratio: Option<f64>,
    /// `adaptive` to each of the others.
    pub others: Vec<WaitRatio>,
}

/// `adaptive` to another policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitRatio {
    /// The other policy.
    pub wait: String,
    /// The median with `adaptive`, to that one; `null` if either fell behind.
    pub latency_ratio: Option<f64>,
    /// CPU time of both ends with `adaptive`, to that one.
    pub cpu_ratio: Option<f64>,
}

/// A server at rest, seen from outside. Sums and lists are over launches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AtRest {
    /// The mechanism's name.
    pub mechanism: String,
    /// How the server waits.
    pub wait: String,
    /// Where server and clients ran.
    pub placement: Placement,
    /// Clients that were connected and said nothing, beside one that had called.
    pub idle_connections: u32,
    /// Independent launches.
    pub launches: u32,
    /// How long the server was watched.
    pub observed_ns: u64,
    /// CPU time that it used meanwhile; `null` if the kernel does not say.
    pub cpu_ns: Option<u64>,
    /// Times that one of its threads woke up and slept again meanwhile.
    pub voluntary_switches: Option<u64>,
    /// Its threads, the most that a launch had.
    pub threads: Option<u32>,
    /// Memory that only the server had, with one client that had called, the median.
    pub private_bytes: Option<f64>,
    /// The same of each launch.
    pub launch_private_bytes: Vec<f64>,
    /// Memory that one more idle connection touched in both processes, shared pages counted once,
    /// the median. `null` without idle connections.
    pub touched_bytes_per_connection: Option<f64>,
    /// The same of each launch.
    pub launch_touched_bytes: Vec<f64>,
    /// The part of it in rings and other memory that both processes map, the median.
    pub shared_bytes_per_connection: Option<f64>,
}

impl AtRest {
    /// The part of one CPU that it used, 1 for all of it.
    #[must_use]
    pub fn cpu_share(&self) -> Option<f64> {
        let share = self.cpu_ns? as f64 / self.observed_ns as f64;
        share.is_finite().then_some(share)
    }
}

/// Which pairs of CPUs there are and how many were measured. The figures are in the cells, whose
/// placement names both CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Matrix {
    /// The CPUs that the program may use, ascending.
    pub cpus: Vec<u32>,
    /// Ordered pairs of them, those of a CPU with itself included.
    pub pairs: u64,
    /// Pairs that were not tried because the time would not do; each class of pairs was.
    pub left_out: u64,
}

/// Where the time of one empty call goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breakdown {
    /// The mechanism's name.
    pub mechanism: String,
    /// The kind of caller, as in [`CallFacts::caller`](super::CallFacts::caller).
    pub caller: String,
    /// How the ends wait, as in [`Cell::wait`](super::Cell::wait).
    pub wait: String,
    /// The parts, in the order in which they happen.
    pub parts: Vec<Part>,
    /// Their sum.
    pub sum_ns: Option<f64>,
    /// The whole call, measured by itself.
    pub whole_ns: Option<f64>,
    /// What the parts do not explain; below zero if they explain more than there is.
    pub rest_ns: Option<f64>,
}

/// One part of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// What happens.
    pub name: String,
    /// How it was measured.
    pub how: String,
    /// How long it takes.
    pub ns: Option<f64>,
}
