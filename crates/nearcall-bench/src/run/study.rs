//! What a run stores of published studies.

use serde::{Deserialize, Serialize};

/// What only cells of a study have. Lists have one value per launch, in the order of launches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StudyFacts {
    /// The study: "motorola" and so on.
    pub study: String,
    /// What the study calls the mechanism.
    pub mechanism: String,
    /// Exchanges per launch that the study asks for; 0 where it says nothing.
    pub exchanges: u32,
    /// The arithmetic means.
    pub launch_means_ns: Vec<f64>,
    /// The shortest times.
    pub launch_mins_ns: Vec<f64>,
    /// The longest times.
    pub launch_maxs_ns: Vec<f64>,
    /// The first exchanges.
    pub launch_firsts_ns: Vec<f64>,
    /// The 99th percentiles; none where a launch has too few exchanges.
    pub launch_p99s_ns: Vec<f64>,
    /// The shortest times by the kernel's clock, where both clocks were read.
    pub launch_clock_mins_ns: Vec<f64>,
    /// The medians by the kernel's clock, where both clocks were read.
    pub launch_clock_medians_ns: Vec<f64>,
    /// How long setting up took.
    pub launch_set_ups_ns: Vec<f64>,
    /// CPU time of both ends per message.
    pub launch_cpu_ns: Vec<f64>,
}
