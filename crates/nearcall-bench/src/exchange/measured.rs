//! What one launch says about one cell, as the client reports it.
//!
//! **Not here:** the loops that measure it (beside this file, and `calls/`), what is made of it
//! (`runner/assemble.rs`).

use serde::{Deserialize, Serialize};

use crate::exchange::count::EndReport;
use crate::histogram::{Histogram, StoredHistogram};
use crate::usage::ProcessUsage;

/// What one launch says about one cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    pub(crate) client: EndReport,
    /// `None` where everything stays within one process.
    pub(crate) server: Option<EndReport>,
    /// Exchanges, or messages one way.
    pub(crate) messages: u64,
    /// The whole measured region, until the server confirmed its end.
    pub(crate) elapsed_ns: u64,
    pub(crate) times: Option<StoredHistogram>,
    /// The same exchanges by the kernel's clock, if that was asked for.
    #[serde(default)]
    pub(crate) clock_times: Option<StoredHistogram>,
    pub(crate) median_ns: Option<f64>,
    /// Medians of successive parts.
    pub(crate) blocks_ns: Vec<f64>,
    pub(crate) messages_per_sample: u64,
    pub(crate) first_message_ns: Option<u64>,
    pub(crate) warmup_samples: u64,
    pub(crate) warmup_capped: bool,
    /// Only where calls begin at set times.
    pub(crate) paced: Option<Paced>,
    /// Only under traffic of a kind that has figures of its own.
    #[serde(default)]
    pub(crate) traffic: Option<OfTraffic>,
    /// Only of a server at rest.
    pub(crate) rest: Option<Rest>,
}

impl Measured {
    /// What times of single exchanges say.
    pub(crate) fn of(times: &Histogram) -> Self {
        Self {
            median_ns: times.median_ns(),
            times: Some(times.to_stored()),
            messages_per_sample: 1,
            ..Self::default()
        }
    }
}

/// What one launch says beside its times, by the kind of traffic.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum OfTraffic {
    Gap {
        /// The median gap as it was.
        achieved_ns: Option<f64>,
    },
    Clients {
        /// Calls of the slowest client, to those of the mean one.
        slowest_share: f64,
        /// Descriptors that the clients' process may have open.
        descriptors_max: Option<u64>,
    },
    Start(Box<Starts>),
    Switches(Box<Switches>),
}

/// What only exchanges at set times have.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Paced {
    /// Exchanges that should have begun in the measured region.
    pub(crate) planned: u64,
    /// Exchanges that began.
    pub(crate) sent: u64,
    /// How long that took.
    pub(crate) elapsed_ns: u64,
    /// Times from when exchanges did begin.
    pub(crate) service: StoredHistogram,
    pub(crate) service_median_ns: Option<f64>,
}

/// What one launch says of its connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Starts {
    /// Connections that were made.
    pub(crate) connects: u32,
    /// Setting up the first, that of new processes.
    pub(crate) fresh_set_up_ns: u64,
    /// Its first round trip.
    pub(crate) fresh_first_ns: u64,
    /// The first round trips on the others.
    pub(crate) firsts: StoredHistogram,
    pub(crate) closes: StoredHistogram,
    pub(crate) tear_downs: StoredHistogram,
    /// What a word beside the channel takes one way.
    pub(crate) word_ns: Option<f64>,
}

/// What one launch says of its switches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Switches {
    pub(crate) switches: u64,
    /// Of each switch the longest time between the ends of two calls.
    pub(crate) pauses: StoredHistogram,
    /// Calls during a switch.
    pub(crate) during: StoredHistogram,
    /// Calls over a connection that did not move.
    pub(crate) undisturbed: StoredHistogram,
}

/// What one launch reports of a server without calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rest {
    /// How long the server was watched.
    pub(crate) observed_ns: u64,
    /// What it used meanwhile; `None` where the kernel does not say.
    pub(crate) usage: Option<ProcessUsage>,
    /// Its own memory with one client that had called.
    pub(crate) private_bytes: Option<u64>,
    /// What one more connection touched in both processes.
    pub(crate) touched_bytes_per_connection: Option<u64>,
    /// The part of that in rings and other memory that both map.
    pub(crate) shared_bytes_per_connection: Option<u64>,
}
