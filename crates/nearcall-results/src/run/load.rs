//! What a run stores of the load that ran beside a cell on purpose.

use serde::{Deserialize, Serialize};

/// What the workers really did, from when they were up until they were ended, over all launches of
/// the cell's processes: their start and end are in it, not only the measured region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadAchieved {
    /// How long the workers were watched.
    pub observed_ns: u64,
    /// Worker processes of one launch.
    pub workers: u32,
    /// Of each worker that computes: its CPU time in percent of one CPU.
    pub cpu_percent: Vec<f64>,
    /// Where those workers were pinned; empty if they were not.
    pub cpus: Vec<u32>,
    /// With a duty cycle, before anything was measured: how busy each of those CPUs was with the
    /// workers and whatever else runs here, in percent.
    pub calibrated_percent: Vec<f64>,
    /// Memory that was newly mapped and written; `null` without such a worker.
    pub memory_bytes_per_s: Option<f64>,
    /// What was written to the file; `null` without such a worker.
    pub io_bytes_per_s: Option<f64>,
    /// How often the worker waited until it was on the disk.
    pub syncs_per_s: Option<f64>,
    /// Why this is less than was asked for; empty if it is not.
    pub not_reached: Vec<String>,
}
