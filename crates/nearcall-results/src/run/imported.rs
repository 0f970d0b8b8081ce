//! What a run stores that this program did not measure but read from another one's files.

use serde::{Deserialize, Serialize};

/// Where an imported run comes from. Its figures are as that program published them, by its own
/// definitions and with its own defects; those are told by the run's warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Imported {
    /// Whose files: "ipc-bench".
    pub form: String,
    /// The name of the file that it was read from, without its folder.
    pub file: String,
    /// Lines of results that could not be read.
    pub lines_refused: u64,
}
