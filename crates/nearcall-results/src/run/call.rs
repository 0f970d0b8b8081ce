//! What a run of calls stores beside what every run stores.
//!
//! A ratio here is that of the medians of one launch, call to bare exchange, taken over launches:
//! both were measured in the same two processes.

use serde::{Deserialize, Serialize};

/// What a cell of calls says beyond its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFacts {
    /// Who calls: "blocking" (no loop), "loop", "async" (futures in tokio), "same-loop" (the server
    /// too), "typed" or "bytes" (the short circuits).
    pub caller: String,
    /// How the client waits; empty where nobody waits.
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

/// Where the time of one empty call goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breakdown {
    /// The mechanism's name.
    pub mechanism: String,
    /// Who calls, as in [`CallFacts::caller`].
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
