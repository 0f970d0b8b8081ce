//! What a user asked to have measured, as plain data: the words of a command line, judged.
//!
//! One plan for all experiments; each takes of it what it knows, and `None` means that the
//! experiment decides.
//! **Invariants:** no list is empty in what [`BenchPlan::default`] and the command line give. Which
//! cells follow from a plan is in `experiment/`, the order of launches in `plan.rs`; where and how
//! long is measured in `bench_plan/how.rs`.

mod run_options;

use nearcall_channel::{Mechanism, WaitPolicy};

use nearcall_results::route::Caller;

use crate::run::Kind;
use crate::touch::Touch;

pub use nearcall_results::shape::{Shape, UnknownShape};
pub use run_options::{Effort, ExperimentDefaults, RunOptions};

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchPlan {
    /// The kinds of cells.
    pub kinds: Vec<Kind>,
    /// The mechanisms.
    pub mechanisms: Option<Vec<Mechanism>>,
    /// The payload sizes in bytes, at least 1 each.
    pub sizes_bytes: Option<Vec<u64>>,
    /// The shapes of latency cells. Throughput is one way whatever stands here.
    pub shapes: Option<Vec<Shape>>,
    /// How both ends wait; `None` means each mechanism's usual way. A combination that a mechanism
    /// does not have is left out with the reason.
    pub waits: Option<Vec<WaitPolicy>>,
    /// How much of the payload is written and read.
    pub touch: Touch,
    /// Room in each direction in bytes; `None` takes the default.
    pub buffer_bytes: Option<u32>,
    /// Measure also where the room turns out different from `buffer_bytes`.
    pub allow_different_sizes: bool,
    /// Who calls.
    pub callers: Option<Vec<Caller>>,
    /// Tell where the time of one empty call goes.
    pub breakdown: bool,
    /// Measure items of streams beside one-way calls.
    pub streams: bool,
    /// Exchanges per second that are due, at least 1.
    pub rates_per_s: Option<Vec<u32>>,
    /// Sleep for so long in the server again and again, to test that it shows.
    pub stall_ns: Option<u64>,
    /// Gaps after an exchange; 0 is none.
    pub gaps_ns: Option<Vec<u64>>,
    /// Messages of a burst, at least 1.
    pub burst_messages: Option<Vec<u32>>,
    /// Clients at once, at least 1.
    pub clients: Option<Vec<u32>>,
    /// Threads of one caller at once, at least 1.
    pub threads: Option<Vec<u32>>,
    /// Event loops of the server, at least 1.
    pub loops: Option<Vec<u32>>,
    /// Where and how.
    pub options: RunOptions,
}

impl Default for BenchPlan {
    /// The tour: everything, each thing as it is usual, with a fixed seed.
    fn default() -> Self {
        Self {
            kinds: vec![Kind::Latency, Kind::Throughput],
            mechanisms: None,
            sizes_bytes: None,
            shapes: None,
            waits: None,
            touch: Touch::default(),
            buffer_bytes: None,
            allow_different_sizes: false,
            callers: None,
            breakdown: false,
            streams: false,
            rates_per_s: None,
            stall_ns: None,
            gaps_ns: None,
            burst_messages: None,
            clients: None,
            threads: None,
            loops: None,
            options: RunOptions::default(),
        }
    }
}

impl BenchPlan {
    /// Whether the plan leaves the choice of cells to the tour.
    #[must_use]
    pub fn is_tour(&self) -> bool {
        self.mechanisms.is_none() && self.sizes_bytes.is_none()
    }

    /// The only payload size of experiments that measure one.
    pub(crate) fn message_bytes(&self) -> u64 {
        self.sizes_bytes.as_ref().and_then(|sizes| sizes.first().copied()).unwrap_or(MESSAGE_BYTES)
    }

    /// Refuses several payload sizes.
    ///
    /// # Errors
    ///
    /// A text that names the option.
    pub(crate) fn one_size(&self) -> Result<(), String> {
        match self.sizes_bytes.as_deref() {
            None | Some([_]) => Ok(()),
            Some(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
                let list = sizes.join(",");
                Err(format!("--size: \"{list}\" is a list; give one size such as 8 or 1KiB"))
            }
        }
    }
}

/// The default size of a message: a word.
const MESSAGE_BYTES: u64 = 8;

/// Where both ends run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Two different CPUs if there are two, otherwise both on the only one.
    #[default]
    Auto,
    /// Both on one CPU.
    Same,
    /// On two different CPUs.
    Cross,
    /// Wherever the scheduler puts them.
    None,
    /// On these CPUs, which exist and are allowed.
    Pin {
        /// The client's.
        client: u32,
        /// The server's.
        server: u32,
    },
}

impl Placement {
    /// The word for it in stored runs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Same => "same",
            Self::Cross => "cross",
            Self::None => "none",
            Self::Pin { .. } => "pin",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_whole_tour() {
        let plan = BenchPlan::default();
        assert_eq!(plan.kinds, [Kind::Latency, Kind::Throughput]);
        assert_eq!((plan.mechanisms, plan.options.placement), (None, Placement::Auto));
    }
}
