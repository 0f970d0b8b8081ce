//! What a run from every CPU to every other stores beside its cells.

use serde::{Deserialize, Serialize};

/// Which pairs of CPUs there are and how many were measured. The figures are in the cells, whose
/// placement names both CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Matrix {
    /// The CPUs that the program may use, ascending.
    pub cpus: Vec<u32>,
    /// Ordered pairs of them, those of a CPU with itself included.
    pub pairs: u64,
    /// Pairs that were not tried because the time would not do; each class of pairs was.
    pub left_out: u64,
}
