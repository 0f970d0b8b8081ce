//! What a run stores of exchanges that begin at set times.

use serde::{Deserialize, Serialize};

use crate::run::RttNs;

/// What only cells with a pace have. Their `rtt_ns`, the response time, counts
/// from when a call should have begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PaceFacts {
    /// Calls per second that should begin.
    pub rate_per_s: u32,
    /// Calls that should have begun, over all launches.
    pub planned: u64,
    /// Calls that did begin in time.
    pub sent: u64,
    /// Calls per second that did, over all launches.
    pub achieved_per_s: Option<f64>,
    /// Whether at least 99.9 % of the calls began in time. If not, the cell has failed: its tag is
    /// "behind", and `rtt_ns` tells how far the client fell behind and nothing about the mechanism.
    pub kept: bool,
    /// Service times, from when a call did begin.
    pub service_ns: RttNs,
    /// The median of those of each launch.
    pub launch_service_medians_ns: Vec<f64>,
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
