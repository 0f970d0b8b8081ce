//! What a worker is asked for and what it reports; one protocol for every process of a measurement.
//!
//! The two ends of a launch, what runs beside them, and the processes whose memory is measured.
//! **Not here:** how requests and messages travel (`worker.rs`), what a worker does (`peer.rs`).

use nearcall_channel::WaitPolicy;
use serde::{Deserialize, Serialize};

use crate::cell::{CellSpec, Conditions, Subject};
use crate::exchange::Failure;
use crate::exchange::measured::Measured;
use crate::footprint::allocator::{Allocated, Limit};
use crate::run::EffectiveSize;
use crate::words;

/// What a worker does. Written as the first line of its standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum WorkerRequest {
    /// One end of a launch.
    End(Box<LaunchRequest>),
    /// A load beside a launch, until it is killed.
    Load(Work),
    /// An event loop with a server at each of these addresses.
    Serve { addresses: Vec<String>, connections_max: u32 },
    /// Clients of the server at this address; the first calls, the others are idle.
    Connect { address: String, connections_max: u32 },
    /// Calls the servers at these addresses and reports when it is done.
    Call { addresses: Vec<String> },
    /// Allocates until a limit is reached.
    Allocate(Limit),
}

/// What a worker is asked later, by further lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Have so many idle connections.
    Idle(u32),
    /// How many connections are there?
    Count,
}

/// What one worker has to do beside a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Compute without a pause.
    Cpu,
    /// Map so many bytes, write each page, check them, give them back; again and again.
    Memory { bytes: u64 },
    /// Write a file and wait until it is on the disk.
    Io,
    /// Compute on this CPU for `busy_ns` of every `period_ns`.
    Duty { cpu: usize, period_ns: u64, busy_ns: u64, phase_ns: u64 },
}

/// What one of the two processes of a launch has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaunchRequest {
    pub(crate) role: Role,
    pub(crate) subject: Subject,
    #[serde(with = "words")]
    pub(crate) wait: WaitPolicy,
    /// Where and beside what.
    pub(crate) conditions: Conditions,
    /// Where they meet, a name in the abstract namespace.
    pub(crate) meet_at: String,
    /// Where it runs; `None` wherever the scheduler wants.
    pub(crate) cpu: Option<usize>,
    /// In the order in which they are measured.
    pub(crate) cells: Vec<CellSpec>,
    /// The cells are of several subjects, all of which are open at once, and are measured a slice
    /// at a time: `slices.rs`.
    pub(crate) slices: bool,
    pub(crate) seed: u64,
    /// For warm-up and measured region of each cell, in the order of `cells`.
    pub(crate) cell_budget_ns: u64,
    /// The calibrated counter of the processor.
    pub(crate) tsc: Option<[u64; 2]>,
    pub(crate) fault: Fault,
}

impl LaunchRequest {
    /// Returns the seed of the payload, the same at both ends.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Asks, and holds the clock.
    Client,
    /// Answers the client.
    Server,
}

/// A fault that is made on purpose, to test that it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Nothing is damaged.
    #[default]
    None,
    /// One byte of the payload is damaged.
    Corrupt,
    /// The first 500 exchanges take much longer.
    SlowStart,
    /// The server goes away when the first cell begins.
    Die,
    /// The server says nothing more when the first cell begins.
    Hang,
    /// While a cell is measured the server sleeps this long, again and again: for a tenth of the
    /// time, the first time after as much time as it will sleep.
    Stall {
        /// How long it sleeps.
        ns: u64,
    },
}

/// What a worker reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum WorkerMessage {
    /// It is as requested; a server can be connected to.
    Ready,
    /// The client has connected.
    Connected {
        set_up_ns: Option<u64>,
        sizes: Vec<EffectiveSize>,
        /// "tsc" or "monotonic".
        timer: String,
        /// Whether memory was locked, in words; empty if that was not tried.
        #[serde(default)]
        memory: String,
    },
    /// A cell is done.
    Cell { cell: CellSpec, outcome: Result<Box<Measured>, Failure> },
    /// So many connections; and why not more, if more were asked for.
    Connections(u32, Option<String>),
    /// What came of an allocation.
    Allocated(Allocated),
    /// The process ends because of this.
    Failed(Failure),
    /// The process ends, and all is well.
    Done,
}
