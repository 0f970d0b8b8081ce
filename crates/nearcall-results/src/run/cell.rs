//! A cell: one measured combination, and what was found.
//!
//! Floors are cells too. The first fields up to `histogram` are those that other programs rely on;
//! the rest may grow. How figures come about is not here but in `histogram.rs` and `stats.rs`.

use serde::{Deserialize, Serialize};

use crate::histogram::StoredHistogram;
use crate::noise::Grade;
use crate::run::facts::{
    BurstFacts, CallFacts, ClientsFacts, GapFacts, LoadAchieved, PaceFacts, StartFacts, SwitchFacts,
};
use crate::run::study::StudyFacts;
use crate::run::times::RttNs;
use crate::words::words;

/// One measured combination of mechanism, size, shape, wait, placement and load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What was measured.
    pub kind: Kind,
    /// The mechanism's name, or the floor's.
    pub mechanism: String,
    /// "echo": the same size back. "sink": that many bytes there, an empty reply. "call": a call
    /// without a result, or what it moves. "one-way": a call without a reply.
    pub shape: String,
    /// Payload bytes of one message; of a call, the bytes of its argument, 0 for none.
    pub message_bytes: u64,
    /// How both ends wait: "spin", "block", "poll"; "block/poll" where the client blocks and the
    /// server polls.
    pub wait: String,
    /// Where both ends ran.
    pub placement: Placement,
    /// What else ran on purpose; "idle" if nothing.
    pub load: String,
    /// What one time means. A table never mixes definitions.
    pub definition: Definition,
    /// Independent launches: new processes each time.
    pub launches: u32,
    /// Messages that were measured, over all launches.
    pub count: u64,
    /// Times; only in latency cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<RttNs>,
    /// Messages per second, the harmonic mean over launches; only in throughput cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_s: Option<f64>,
    /// The 95 % confidence interval beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_s_ci95: Option<[f64; 2]>,
    /// Payload bytes per second; only in throughput cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
    /// The 95 % confidence interval beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s_ci95: Option<[f64; 2]>,
    /// Payload bits that one second of CPU time of both ends moves; only in throughput cells whose
    /// ends are two processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_cpu_s: Option<f64>,
    /// The 95 % confidence interval beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_cpu_s_ci95: Option<[f64; 2]>,
    /// User and system time of each end per message (latency: per round trip).
    pub cpu_ns_per_message: CpuNsPerMessage,
    /// The name of the floor it is compared with.
    pub floor: Option<String>,
    /// How many times the floor's cost this is: 1 is as good as it gets.
    pub ratio_to_floor: Option<f64>,
    /// The 95 % confidence interval of it, from the ratios within rounds of launches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_floor_ci95: Option<[f64; 2]>,
    /// How undisturbed it was; `null` if the machine does not say.
    pub grade: Option<Grade>,
    /// All times; only in latency cells.
    pub histogram: Option<StoredHistogram>,
    /// Messages that share one pair of clock readings; above 1 times are means of such batches.
    #[serde(default = "one")]
    pub messages_per_sample: u64,
    /// The median of each launch, in the order of launches.
    #[serde(default)]
    pub launch_medians_ns: Vec<f64>,
    /// The 99th percentile of each launch, in the order of launches; empty where one has too few
    /// times for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launch_p99s_ns: Vec<f64>,
    /// CPU time of both ends per message in each launch, in the order of launches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launch_cpu_ns: Vec<f64>,
    /// The rate of each launch, in the order of launches.
    #[serde(default)]
    pub launch_messages_per_s: Vec<f64>,
    /// Variance of the natural logarithm between launches.
    pub between_launch_variance: Option<f64>,
    /// Variance of the natural logarithm between blocks within a launch.
    pub within_launch_variance: Option<f64>,
    /// The first message after set-up, the median over launches.
    pub first_message_ns: Option<f64>,
    /// From the start of the rendezvous to a usable channel, the median over launches.
    pub set_up_ns: Option<f64>,
    /// Samples given to warm-up and thrown away, the most over launches.
    #[serde(default)]
    pub warmup_samples: u64,
    /// Kernel counts inside the measured region, over all launches.
    #[serde(default)]
    pub counts: PerEnd<EndCounts>,
    /// Process numbers of client and server, per launch.
    #[serde(default)]
    pub pids: Vec<[u32; 2]>,
    /// Bytes that were added to the environment of client and server, per launch. They move the
    /// stack, so that no figure is that of one lucky or unlucky alignment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment_bytes: Vec<[u32; 2]>,
    /// The place of each launch in the order of all launches of the run.
    #[serde(default)]
    pub order: Vec<u32>,
    /// Buffers, queues and the like, as asked for and as read back.
    #[serde(default)]
    pub sizes: Vec<EffectiveSize>,
    /// What makes it special, such as "migrated", "page_faults", "clock_drift", "warmup_capped".
    #[serde(default)]
    pub tags: Vec<String>,
    /// Why the grade is not better.
    #[serde(default)]
    pub noise: Vec<String>,
    /// What only calls, and the bare exchanges beside them, have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallFacts>,
    /// What only calls have that begin at set times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceFacts>,
    /// What `load` really was; `null` for idle cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_achieved: Option<LoadAchieved>,
    /// What only cells with gaps between exchanges have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<GapFacts>,
    /// What only cells of bursts have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<BurstFacts>,
    /// What only cells of many clients have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientsFacts>,
    /// What only cells of beginnings and ends have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<StartFacts>,
    /// What only cells of switches have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<SwitchFacts>,
    /// What only cells of a published study have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub study: Option<StudyFacts>,
}

impl Cell {
    /// A cell with nothing measured yet: echo of `message_bytes`, idle, not placed.
    #[must_use]
    pub fn new(kind: Kind, mechanism: &str, message_bytes: u64) -> Self {
        Self {
            kind,
            mechanism: mechanism.to_owned(),
            shape: "echo".to_owned(),
            message_bytes,
            wait: "block".to_owned(),
            load: "idle".to_owned(),
            definition: match kind {
                Kind::Latency => Definition::Rtt,
                Kind::Throughput => Definition::OneWayThroughput,
            },
            messages_per_sample: 1,
            ..Self::default()
        }
    }
}

/// What a cell measures.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One exchange at a time.
    #[default]
    Latency,
    /// As many messages as the channel takes, one way.
    Throughput,
}

words! { Kind: Latency => "latency", Throughput => "throughput" }

/// What one time or rate means.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Definition {
    /// From sending until the reply is there, by the client's clock; not halved.
    #[default]
    Rtt,
    /// From when the call should have begun until the reply is there, by the client's clock.
    FromIntended,
    /// Half a round trip.
    RttHalf,
    /// Two round trips without payload, as the public ipc-bench times its shared memory.
    TwoRtt,
    /// From before the first message of a burst is sent until the reply to all of it is there.
    WholeBurst,
    /// From the beginning of the rendezvous until the channel can be used, by the client's clock.
    SetUp,
    /// From when a switch to another mechanism was asked for until both ends had moved.
    Switch,
    /// One way, until the consumer confirms the last byte.
    OneWayThroughput,
}

words! { Definition:
    Rtt => "rtt",
    FromIntended => "from_intended",
    RttHalf => "rtt_half",
    TwoRtt => "two_rtt",
    WholeBurst => "whole_burst",
    SetUp => "set_up",
    Switch => "switch",
    OneWayThroughput => "one_way_throughput",
}

impl Definition {
    /// A title for figures of this kind, and what one time or rate means, in words.
    pub(crate) const fn title_and_meaning(self) -> (&'static str, &'static str) {
        match self {
            Self::Rtt => (
                "Round trip",
                "closed loop (one exchange at a time); from sending until the reply is there, \
                 not halved",
            ),
            Self::FromIntended => (
                "Response time",
                "open loop (constant rate); from when the exchange was due until the reply is \
                 there",
            ),
            Self::RttHalf => (
                "Half a round trip",
                "closed loop (one exchange at a time); the round trip divided by two",
            ),
            Self::TwoRtt => (
                "Two round trips",
                "closed loop; two round trips of a flag without payload, not halved",
            ),
            Self::WholeBurst => (
                "Burst",
                "closed loop (one burst at a time); from sending the first message until the reply \
                 to all of them is there",
            ),
            Self::SetUp => {
                ("Set-up", "from the beginning of the rendezvous until the channel can be used")
            }
            Self::Switch => (
                "Switch",
                "from when a connection was to move to another mechanism until both ends use it, \
                 while calls go on",
            ),
            Self::OneWayThroughput => {
                ("Throughput", "one way; the clock stops when the consumer confirms the last byte")
            }
        }
    }
}

/// Where both ends ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placement {
    /// "same_cpu", "smt", "same_llc", "same_node", "cross_node", "unpinned".
    pub class: String,
    /// `null` if not pinned.
    pub client_cpu: Option<u32>,
    /// `null` if not pinned.
    pub server_cpu: Option<u32>,
}

/// User and system time per message.
pub type CpuNsPerMessage = PerEnd<Option<f64>>;

/// Something of each end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerEnd<T> {
    /// The end that asks.
    pub client: T,
    /// The end that answers.
    pub server: T,
}

/// What the kernel counted for one end inside the measured region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndCounts {
    /// Pages that had to be mapped.
    pub minor_faults: Option<u64>,
    /// Pages that had to be read.
    pub major_faults: Option<u64>,
    /// Times it gave up the CPU.
    pub voluntary_switches: Option<u64>,
    /// Times the CPU was taken from it.
    pub involuntary_switches: Option<u64>,
    /// Times it moved to another CPU.
    pub migrations: Option<u64>,
    /// CPU time in user space.
    pub user_ns: Option<u64>,
    /// CPU time in the kernel.
    pub system_ns: Option<u64>,
}

/// A size that the kernel may change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveSize {
    /// Its name with its unit, such as "buffer_bytes".
    pub name: String,
    /// What was asked for; `null` if the default was taken.
    pub requested: Option<u64>,
    /// What was read back.
    pub effective: u64,
}

/// The name of the size that a throughput is judged by.
pub const ROOM_BYTES: &str = "room_bytes";

/// A combination that could not be measured. What is `null` means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The mechanism's name, or the floor's.
    pub mechanism: String,
    /// Why, in a phrase.
    pub reason: String,
    /// Whether the machine lacks the mechanism altogether.
    #[serde(default)]
    pub unsupported: bool,
    /// The kind of cell.
    pub kind: Option<Kind>,
    /// The size.
    pub message_bytes: Option<u64>,
    /// The shape.
    pub shape: Option<String>,
    /// How the ends wait.
    pub wait: Option<String>,
}

fn one() -> u64 {
    1
}
