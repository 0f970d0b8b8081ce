//! What only some cells of a run have: calls, set times, gaps, bursts, clients, beginnings,
//! switches, load.
//!
//! A ratio of calls here is that of the medians of one launch, call to bare exchange, taken over
//! launches: both were measured in the same two processes.

use serde::{Deserialize, Serialize};

use crate::run::RttNs;

/// The facts of a cell of calls beyond its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFacts {
    /// The kind of caller: "blocking" (no loop), "loop", "async" (futures in tokio), "same-loop"
    /// (the server too), "typed" or "bytes" (the short circuits).
    pub caller: String,
    /// How the client waits; empty where no end waits.
    pub client_wait: String,
    /// How the server waits.
    pub server_wait: String,
    /// Whether both ends trust each other, and arguments pass by reference.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_reference: bool,
    /// Bytes of the request in the channel, header included; 0 where there is none.
    pub frame_bytes: u64,
    /// Bytes of the reply in the channel, header included; 0 where there is none.
    pub reply_bytes: u64,
    /// What the bare exchange of the same run takes.
    pub bare_ns: Option<f64>,
    /// How many times the bare exchange's time it takes: 1 would be a runtime that costs nothing.
    pub ratio_to_bare: Option<f64>,
    /// The 95 % confidence interval beside it.
    pub ratio_to_bare_ci95: Option<[f64; 2]>,
}

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
    /// "behind", and `rtt_ns` shows how far the client fell behind and nothing about the mechanism.
    pub kept: bool,
    /// Service times, from when a call did begin.
    pub service_ns: RttNs,
    /// The median of those of each launch.
    pub launch_service_medians_ns: Vec<f64>,
}

/// What only cells with gaps between exchanges have. Their `rtt_ns` counts from when an exchange
/// began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GapFacts {
    /// The gap that was asked for.
    pub gap_ns: u64,
    /// The gap as it was, the median over launches of their medians; `null` without one.
    pub achieved_gap_ns: Option<f64>,
    /// What the client does in it: "nothing", "spins" or "sleeps".
    pub idle: String,
}

/// What only cells of bursts have. Their `rtt_ns` is that of whole bursts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BurstFacts {
    /// Messages of one burst.
    pub messages: u32,
    /// The median time of a burst, divided by its messages.
    pub per_message_ns: Option<f64>,
    /// The 95 % confidence interval beside it.
    pub per_message_ns_ci95: Option<[f64; 2]>,
}

/// What only cells of many clients, or of threads of one caller, have. Their `rtt_ns` is that of
/// the calls of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientsFacts {
    /// Clients that were connected to the server, each calling without a pause.
    pub clients: u32,
    /// Event loops of the server, where the clients are threads that share one caller; `null` where
    /// each has a client of its own and the server has one loop.
    pub loops: Option<u32>,
    /// Calls that the server counted, over all launches; as many as were made and replied to.
    pub served: Option<u64>,
    /// Calls per second of all clients, the harmonic mean over launches.
    pub calls_per_s: Option<f64>,
    /// The 95 % confidence interval beside it.
    pub calls_per_s_ci95: Option<[f64; 2]>,
    /// The same of each launch.
    pub launch_calls_per_s: Vec<f64>,
    /// Calls of the slowest client, to those of the mean client: 1 is fair. The median over
    /// launches.
    pub slowest_share: Option<f64>,
    /// The same of each launch.
    pub launch_slowest_shares: Vec<f64>,
    /// Descriptors that the clients' process may have open; the limit was raised where it could.
    pub descriptors_max: Option<u64>,
}

/// What only cells of beginnings and ends have. Their `rtt_ns` is the time of setting up, of all
/// connections but the first of each launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartFacts {
    /// Connections that a launch made, one after the other.
    pub connects: u32,
    /// Setting up, of the first connection of new processes: one time per launch.
    pub fresh_set_up_ns: RttNs,
    /// The first round trip on the first connection of new processes: one time per launch.
    pub fresh_first_message_ns: RttNs,
    /// The first round trip on each of the other connections.
    pub first_message_ns: RttNs,
    /// Closing, for the client that does it.
    pub close_ns: RttNs,
    /// From before the client closes until the server's word that it has noticed is there.
    pub tear_down_ns: RttNs,
    /// What that word alone takes: half a round trip of such words between the same processes.
    pub word_ns: Option<f64>,
}

/// What only cells of switches have. Their `rtt_ns` is the time from when a switch was asked for
/// until both ends had moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SwitchFacts {
    /// The mechanism that the connection moved to; the cell has the one that it came from.
    pub to: String,
    /// Switches, over all launches.
    pub switches: u64,
    /// Of each switch the longest time between the ends of two calls, of which the later one ended
    /// after the switch was asked for.
    pub pause_ns: RttNs,
    /// Calls that were under way during a switch.
    pub call_ns: RttNs,
    /// The same calls over another connection of the same processes, which did not move.
    pub undisturbed_ns: RttNs,
}

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
