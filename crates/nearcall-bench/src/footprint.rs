//! What connections and services take of memory: proportional and private memory of processes.
//!
//! A server in an event loop and a client, two processes, with 1 to 1,000 idle connections between
//! them. Or several services in each of the ways in which nearcall runs them: as processes, as
//! libraries, linked; also by the method of the thesis (study 000): how much can still be allocated
//! in steps of 1 KiB.
//! **Invariants:** when a function here returns, every process that it started is gone; memory is
//! allocated only within a budget of our own, so that the machine is never starved.
//! **Not here:** the processes (`footprint/child.rs`, which `peer.rs` runs), the table
//! (`report/table/footprint.rs`).

pub(crate) mod allocator;
mod budget;
pub(crate) mod child;
mod connections;
mod elf;
mod files;
mod helper;
mod map;
mod room;
mod setups;

use std::fmt;

use nearcall_channel::Mechanism;
use nearcall_os::clock;

use crate::machine;
use crate::runner::RunContext;

pub use files::{SERVICE_VARIABLE, ServiceFiles};
pub use nearcall_results::findings::memory::{
    ConnectionMemory, Level, MemoryFindings, MemoryMap, PerConnection, ProcessMemory, SCHEMA,
    Setup, SetupMemory, SetupsMemory, SkippedMemory,
};

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPlan {
    /// Over what connections go.
    pub mechanisms: Vec<Mechanism>,
    /// Give up accuracy for speed: a hundred connections instead of a thousand, fewer rounds.
    pub quick: bool,
}

/// Measures connections over each mechanism. Blocks for about a quarter of a minute.
///
/// Call it from a thread that lives as long as the measurement: its children die with it. What was
/// measured before an interruption is in the findings, which are marked as partial; what failed
/// stands there with the reason.
#[must_use]
pub fn measure(plan: &MemoryPlan, context: &RunContext<'_>) -> MemoryFindings {
    let mut found = begin(plan.quick);
    let steps = plan.mechanisms.len();
    for (done, &mechanism) in plan.mechanisms.iter().enumerate() {
        (context.progress)(done, steps, mechanism.name());
        match connections::measure(mechanism, plan.quick, context) {
            Ok(connections) => found.connections.push(connections),
            Err(Stop::Failed(reason)) => {
                let what = mechanism.name().to_owned();
                found.skipped.push(SkippedMemory { what, reason });
            }
            Err(Stop::Interrupted) => {}
        }
        if (context.interrupted)() {
            found.partial = Some(INTERRUPTED.to_owned());
            return found;
        }
    }
    (context.progress)(steps, steps, "");
    found
}

/// Measures services in each set-up: processes, libraries, linked. Blocks for about a minute, some
/// seconds with `quick`. What was measured before an interruption is in
/// the findings, marked as partial.
///
/// # Errors
///
/// One sentence on why there is no round of the first set-ups.
pub fn setups(
    quick: bool,
    files: &ServiceFiles,
    context: &RunContext<'_>,
) -> Result<MemoryFindings, String> {
    let mut found = begin(quick);
    let (counts, rounds) = if quick { (COUNTS_QUICK, 1) } else { (COUNTS, ROUNDS) };
    let setups =
        setups::measure(counts, rounds, files, context).map_err(|stop| stop.to_string())?;
    found.partial = setups.partial.clone();
    found.setups = Some(setups);
    Ok(found)
}

/// Measures two services in each set-up, as the thesis had them: some rounds of each.
///
/// # Errors
///
/// As [`setups`].
pub fn two_services(
    quick: bool,
    files: &ServiceFiles,
    context: &RunContext<'_>,
) -> Result<SetupsMemory, String> {
    let rounds = if quick { 2 } else { ROUNDS };
    setups::measure(&[2], rounds, files, context).map_err(|stop| stop.to_string())
}

/// Looks at where the memory of a service lies as a process and as a library, and that of the host
/// of libraries: by mapping and by cause. Blocks for some seconds.
///
/// # Errors
///
/// One sentence on what did not start, or cannot be read.
pub fn map(files: &ServiceFiles, context: &RunContext<'_>) -> Result<MemoryFindings, String> {
    let mut found = begin(false);
    match setups::maps(files, context) {
        Ok(maps) => found.maps = maps,
        Err(Stop::Interrupted) => found.partial = Some(INTERRUPTED.to_owned()),
        Err(Stop::Failed(reason)) => return Err(reason),
    }
    Ok(found)
}

fn begin(quick: bool) -> MemoryFindings {
    MemoryFindings {
        schema: SCHEMA.to_owned(),
        tool: machine::tool(),
        machine: machine::read(),
        started_unix_s: clock::realtime_ns() / NS_PER_S,
        quick,
        ..MemoryFindings::default()
    }
}

/// Why something was not measured to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stop {
    /// By the user.
    Interrupted,
    /// In words.
    Failed(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupted => INTERRUPTED,
            Self::Failed(reason) => reason,
        })
    }
}

impl From<String> for Stop {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

const INTERRUPTED: &str = "interrupted";

/// Numbers of services in each set-up.
const COUNTS: &[u32] = &[1, 5, 10, 20];

/// With `quick`.
const COUNTS_QUICK: &[u32] = &[1, 3];

/// Rounds of every set-up: each comes first as often as last.
const ROUNDS: usize = 4;

const NS_PER_S: u64 = 1_000_000_000;
