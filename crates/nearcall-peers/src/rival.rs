//! What is measured: the type of one row, which is one way of using a library.
//!
//! **Not here:** the rows, and how the libraries are driven (`rivals.rs`).

use crate::request::LaunchRequest;

/// One row of the tables.
pub(crate) struct Rival {
    /// The row's name on the command line, in tables and in stored documents.
    pub(crate) name: &'static str,
    /// The library and its version.
    pub(crate) version: &'static str,
    pub(crate) waiting: Waiting,
    /// How small messages go one way in the rate column.
    pub(crate) rate: &'static str,
    /// How it was configured and why its authors would agree.
    pub(crate) about: &'static str,
    /// Why it cannot be measured here.
    pub(crate) missing: Option<&'static str>,
    /// Serves until the process is killed. Writes `Line::Listening` when it can be connected to.
    pub(crate) serve: fn(&LaunchRequest) -> anyhow::Result<()>,
    /// Connects and measures the cells of the request.
    pub(crate) ask: fn(&LaunchRequest) -> anyhow::Result<()>,
    /// Removes what both processes have left outside of their directory and `/dev/shm/NAME*`.
    pub(crate) clean: fn(),
}

/// How both ends wait. Only rows of one kind are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// They ask again and again; a CPU each.
    Polling,
    /// They sleep in the kernel until they are woken.
    Sleeping,
    /// They poll while that pays, then sleep.
    Adaptive,
}

impl Waiting {
    /// The word of runs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Polling => "spin",
            Self::Sleeping => "block",
            Self::Adaptive => "adaptive",
        }
    }
}
