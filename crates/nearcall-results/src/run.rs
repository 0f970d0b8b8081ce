//! The stored result of a measurement, as other programs read it (`nearcall.run/1`).
//!
//! Units stand in the field names. A figure that was not measured or that says nothing is `null`.
//! Programs that read a run must ignore fields they do not know. The file is written whole or not
//! at all (`run/file.rs`); what a cell holds is in `run/cell.rs`, the machine in `run/machine.rs`.

mod beside;
mod cell;
pub mod fact;
mod facts;
mod file;
mod key;
mod library;
mod machine;
mod study;
mod times;

use serde::{Deserialize, Serialize};

pub use beside::{AtRest, Breakdown, Budget, Matrix, Part, Verdict, WaitComparison, WaitRatio};
pub use cell::{
    Cell, CpuNsPerMessage, Definition, EffectiveSize, EndCounts, Kind, PerEnd, Placement,
    ROOM_BYTES, Skipped,
};
pub use facts::{
    BurstFacts, CallFacts, ClientsFacts, GapFacts, LoadAchieved, PaceFacts, StartFacts, SwitchFacts,
};
pub use file::{LoadError, ParseError, RUN_BYTES_MAX, check_writable, read_text, save_text};
pub(crate) use file::{create_beside, save_with};
pub use key::{CellKey, Headline, List, Rhythm, StudyKey};
pub use library::{IdleServer, Library};
pub(crate) use machine::fnv1a;
pub use machine::{Machine, MachineState, UNKNOWN};
pub use study::{ClaimVerdict, Judged, StudyFacts, StudyFigure, StudyResult, StudyRow, StudyTable};
pub use times::RttNs;

pub use crate::visible::printable;

/// The version that this program writes. It reads this one only.
pub const SCHEMA: &str = "nearcall.run/1";

/// One measurement of one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// What measured.
    #[serde(default)]
    pub tool: Tool,
    /// When it began, in seconds since 1970 (UTC).
    #[serde(default)]
    pub started_unix_s: u64,
    /// When it ended; `null` if it did not come to that.
    pub finished_unix_s: Option<u64>,
    /// Whether cells of the plan are missing because the run was cut short.
    #[serde(default)]
    pub partial: bool,
    /// Why it was cut short.
    pub partial_reason: Option<String>,
    /// Where it ran.
    pub machine: Machine,
    /// What was asked for.
    pub settings: Settings,
    /// The clocks, measured before anything else.
    pub timers: Vec<Timer>,
    /// The same exchanges without nearcall.
    pub floors: Vec<Cell>,
    /// What was measured.
    pub cells: Vec<Cell>,
    /// In a run of calls: what each call moves, on the bare channel, measured beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bare: Vec<Cell>,
    /// In a run of calls with a breakdown: parts of an empty call, each measured by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Cell>,
    /// In a run of calls with a breakdown: where the time of one empty call goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breakdowns: Vec<Breakdown>,
    /// In a run of budgets or waits: servers without calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_rest: Vec<AtRest>,
    /// In a run of budgets: each figure, its floor and what it may be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
    /// In a run of waits: `adaptive` beside the better of the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitComparison>,
    /// In a run from CPU to CPU: which pairs there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// In a run of studies: what was measured as a published study measured it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub study_cells: Vec<Cell>,
    /// In a run of studies: their tables and what became of their claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub studies: Vec<StudyResult>,
    /// In a run of libraries: the ways of using them, nearcall's among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Library>,
    /// In a run of libraries: what was measured of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub library_cells: Vec<Cell>,
    /// What could not be measured, and why.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// What the reader should know about the run as a whole.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// What measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tool {
    /// The version of nearcall.
    pub version: String,
    /// "release" or "debug".
    pub profile: String,
    /// The compiler and its flags, or "unknown".
    pub compiler: String,
}

/// What was asked for. Which of it came true stands in the cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The arguments of the program, without its name.
    pub arguments: Vec<String>,
    /// The kinds of cells: "latency", "throughput".
    pub kinds: Vec<Kind>,
    /// The mechanisms, by name.
    pub mechanisms: Vec<String>,
    /// The sizes in bytes.
    pub sizes_bytes: Vec<u64>,
    /// The shapes: "echo", "sink"; of calls "call", "one-way".
    pub shapes: Vec<String>,
    /// How the ends wait: "spin", "block", "poll", or "default" for each mechanism's own way.
    pub wait: String,
    /// Where the ends run: "auto", "same", "cross", "none", or "pin".
    pub placement: String,
    /// How much of the payload is written and read: "full", "header", "none".
    pub touch: String,
    /// Whether CPUs were kept out of sleep states, and if not, why; empty if it was not asked for.
    pub sleep_states: String,
    /// Whether the memory of both ends was locked, and if not, why; empty if it was not tried.
    pub memory: String,
    /// Launches per cell.
    pub launches: u32,
    /// The time that was allowed, in seconds.
    pub budget_s: f64,
    /// Whether accuracy was given up for speed.
    pub quick: bool,
    /// Decides the order of launches, the payloads and the resampling.
    pub seed: u64,
}

/// One clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timer {
    /// "monotonic", "monotonic_raw", "monotonic_coarse", "tsc".
    pub source: String,
    /// What a reading costs.
    pub overhead_ns: Option<f64>,
    /// The smallest step that it shows.
    pub granularity_ns: Option<f64>,
    /// Whether the figures of this run come from it.
    pub used: bool,
    /// Why it cannot be used.
    pub unusable: Option<String>,
}

impl Run {
    /// An empty run that begins now and has nothing in it yet.
    #[must_use]
    pub fn new(machine: Machine, settings: Settings, started_unix_s: u64) -> Self {
        let schema = SCHEMA.to_owned();
        Self { schema, machine, settings, started_unix_s, ..Self::default() }
    }

    /// The run as one line of JSON. Numbers that are not finite become `null`.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a run has no map with keys that are not text")
    }

    /// Marks the run as cut short.
    pub fn mark_partial(&mut self, reason: &str) {
        self.partial = true;
        self.partial_reason = Some(reason.to_owned());
    }
}
