//! What is measured: one row for each way of using a library.
//!
//! Always true: a row's name is unique, and its text says how it was configured. Not here: how the
//! libraries are driven (`rivals/`).

use crate::launch::LaunchRequest;
use crate::rivals;

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
    /// Removes what both processes have left outside of their folder and `/dev/shm/NAME*`.
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

/// All rows, in the order of the tables: ours, the bare floor, then the rivals.
pub(crate) fn all() -> Vec<Rival> {
    let mut all = rivals::nearcall::rows();
    all.push(rivals::bare::ROW);
    all.extend([rivals::iceoryx2::POLLING, rivals::iceoryx2::EVENTS]);
    all.extend([rivals::boost::ROW, rivals::ttrpc::ROW, rivals::tarpc::ROW, rivals::capnp::ROW]);
    all.extend([rivals::zbus::ROW, rivals::tonic::ROW, rivals::zeromq::ROW, rivals::zenoh::ROW]);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_row_says_how_it_is_configured() {
        let all = all();
        let names: BTreeSet<&str> = all.iter().map(|rival| rival.name).collect();
        assert_eq!(names.len(), all.len());
        for rival in &all {
            assert!(rival.about.len() > 80, "{}: {}", rival.name, rival.about);
            assert!(!rival.version.contains("unknown"), "{}: {}", rival.name, rival.version);
        }
    }
}
