//! What a user asked to have measured, as plain data: the words of a command line, judged.
//!
//! `None` means that the default tour decides. Always true of what [`BenchPlan::default`] and the
//! command line give: no list is empty. Which cells follow from a plan is in `tour.rs`, the order
//! of launches in `plan.rs`; what all plans have in common in `bench_plan/how.rs`.

mod how;

use nearcall_channel::{Mechanism, WaitPolicy};

use crate::run::Kind;
use crate::touch::Touch;

pub use how::How;
pub(crate) use how::Usual;
pub use nearcall_results::shape::{Shape, UnknownShape};

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchPlan {
    /// The kinds of cells.
    pub kinds: Vec<Kind>,
    /// The mechanisms; `None` means all that this machine supports.
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
    /// Where and how.
    pub how: How,
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
            how: How::default(),
        }
    }
}

/// Where both ends run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
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

impl Place {
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
        assert_eq!((plan.mechanisms, plan.how.placement), (None, Place::Auto));
    }
}
