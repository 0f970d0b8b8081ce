//! What a run stores of traffic that is not one exchange right after the other.

use serde::{Deserialize, Serialize};

use crate::run::RttNs;

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
