//! What the processes of a launch are asked for, and what they report.
//!
//! **Not here:** starting the processes and reading their lines (`launch.rs`), measuring
//! (`measure.rs`).

use std::path::PathBuf;

use nearcall_bench::worker;
use serde::{Deserialize, Serialize};

/// What one cell measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Round trips with an empty reply.
    Sink,
    /// Round trips that give the payload back.
    Echo,
    /// Messages one way, until the server has confirmed the last.
    Rate,
}

impl Kind {
    /// The shape of its cells in a run.
    pub(crate) const fn shape(self) -> &'static str {
        match self {
            Self::Sink => "sink",
            Self::Echo => "echo",
            Self::Rate => "one-way",
        }
    }
}

/// What is measured, and with how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    pub(crate) bytes: usize,
}

/// What one launch says about one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) messages: u64,
    pub(crate) elapsed_ns: u64,
    /// Of round trips.
    pub(crate) median_ns: Option<f64>,
    pub(crate) p99_ns: Option<f64>,
    pub(crate) client_cpu_ns: u64,
    pub(crate) server_cpu_ns: u64,
    /// Whether the median was still moving when the measured region began.
    pub(crate) still_warming: bool,
}

/// What one of the two processes has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LaunchRequest {
    pub(crate) rival: String,
    pub(crate) role: Role,
    /// A directory of this launch alone, for sockets and whatever else the rival needs.
    pub(crate) folder: PathBuf,
    /// Its name, for rivals whose names are global. No longer than 24 letters.
    pub(crate) name: String,
    /// Where it runs; `None` wherever the scheduler wants.
    pub(crate) cpu: Option<usize>,
    /// The server's process, of which the client counts the processor time.
    pub(crate) server_pid: u32,
    /// In the order in which they are measured.
    pub(crate) cells: Vec<Cell>,
    /// No message of the launch is larger; what the rival allocates beforehand has this size.
    pub(crate) message_bytes_max: usize,
    pub(crate) seed: u64,
    /// For warm-up and measured region of each cell.
    pub(crate) cell_ns: u64,
    /// The calibrated counter of the processor.
    pub(crate) tsc: Option<[u64; 2]>,
    /// After the cells, the client stays connected until its input is closed.
    pub(crate) stay: bool,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    Client,
    Server,
}

/// A line of a process's output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// The server can be connected to.
    Listening,
    /// A cell is done.
    Cell { cell: Cell, measured: Box<Measured> },
    /// The client is connected and quiet.
    Quiet,
    /// The process ends because of this.
    Failed(String),
    /// The client ends, and all is well.
    Done,
}

impl Line {
    /// Writes it to standard output.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        Ok(worker::write_message(self)?)
    }
}
