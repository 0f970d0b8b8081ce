//! What a launch's two processes are told and what they answer: JSON on their standard streams.
//!
//! A process reads one `Orders` from its input and writes lines that begin with `LINE_MARK`.
//! Reports are written when a cell is done, outside of measured regions, so that what was measured
//! before a hang is kept. The processes' end of this is `peer.rs`, the other `runner/processes.rs`.

use nearcall_channel::WaitPolicy;
use serde::{Deserialize, Serialize};

use crate::cell::{CellSpec, Scene, Subject};
use crate::exchange::Failure;
use crate::exchange::client::Measured;
use crate::run::EffectiveSize;
use crate::words;

/// What one of the two processes has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) role: Role,
    pub(crate) subject: Subject,
    #[serde(with = "words")]
    pub(crate) wait: WaitPolicy,
    /// Where and beside what.
    pub(crate) scene: Scene,
    /// Where they meet, a name in the abstract namespace.
    pub(crate) meet_at: String,
    /// Where it runs; `None` wherever the scheduler wants.
    pub(crate) cpu: Option<usize>,
    /// In the order in which they are measured; only the client needs them.
    pub(crate) cells: Vec<CellSpec>,
    pub(crate) seed: u64,
    /// For warm-up and measured region of each cell, in the order of `cells`.
    pub(crate) cell_budget_ns: u64,
    /// The calibrated counter of the processor.
    pub(crate) tsc: Option<[u64; 2]>,
    pub(crate) fault: Fault,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Asks, and holds the clock.
    Client,
    /// Answers.
    Server,
}

/// A fault that is made on purpose, to test that it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// None.
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

/// A line of a process's output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// The server can be connected to.
    Listening,
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
    /// The process ends because of this.
    Failed(Failure),
    /// The process ends, and all is well.
    Done,
}

impl Line {
    /// As it is written.
    pub(crate) fn to_text(&self) -> String {
        let json = serde_json::to_string(self).expect("a line has no map");
        // The line break in front separates it from what a test harness prints.
        format!("\n{LINE_MARK}{json}\n")
    }

    /// Reads a line of output; `None` if it is not one of ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (_, json) = text.split_once(LINE_MARK)?;
        serde_json::from_str(json).ok()
    }
}

/// What our lines begin with.
const LINE_MARK: &str = "nearcall-peer ";
