//! What a run stores of a server that nobody calls.

use serde::{Deserialize, Serialize};

use crate::run::Placement;

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
