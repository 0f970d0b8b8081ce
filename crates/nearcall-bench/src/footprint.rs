//! What connections and services take of memory: proportional and private memory of processes.
//!
//! A server in an event loop and a client, two processes, with 1 to 1,000 idle connections between
//! them; and two services in two processes beside both in one, also by the method of the thesis
//! (study 000): how much can still be allocated in steps of 1 KiB. Always true: when a function
//! here returns, every process that it started is gone; memory is allocated only within a budget
//! of our own, so that the machine is never starved. Not here: the processes (`footprint/child.rs`,
//! whom a program must start for its hidden verb [`PROCESS_VERB`]), the table
//! (`report/table/footprint.rs`).

mod allocator;
mod budget;
mod child;
mod connections;
mod findings;
mod helper;
mod services;

use nearcall_channel::Mechanism;
use nearcall_os::clock;

use crate::runner::Hooks;
use crate::{machine, runner};

pub use child::run;
pub use findings::{
    ConnectionMemory, Level, MemoryFindings, PerConnection, ProcessMemory, SCHEMA, ServiceMemory,
    SetUp, SkippedMemory,
};

/// The verb by which the program must run [`run`]: what the processes measured here are.
pub const PROCESS_VERB: &str = "memory-process";

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPlan {
    /// Over what connections go.
    pub mechanisms: Vec<Mechanism>,
    /// Give up accuracy for speed: a hundred connections instead of a thousand, fewer rounds.
    pub quick: bool,
}

/// Measures connections over each mechanism, then services. Blocks for about half a minute.
///
/// `hooks` must start a program that calls [`run`]. Call it from a thread that lives as long as
/// the measurement: its children die with it. What was measured before an interruption is in the
/// findings, which are marked as partial; what failed stands there with the reason.
#[must_use]
pub fn measure(plan: &MemoryPlan, hooks: &Hooks<'_>) -> MemoryFindings {
    let mut found = MemoryFindings {
        schema: SCHEMA.to_owned(),
        tool: runner::tool(),
        machine: machine::read(),
        started_unix_s: clock::realtime_ns() / NS_PER_S,
        quick: plan.quick,
        ..MemoryFindings::default()
    };
    let steps = plan.mechanisms.len() + 1;
    for (done, &mechanism) in plan.mechanisms.iter().enumerate() {
        (hooks.progress)(done, steps, mechanism.name());
        match connections::measure(mechanism, plan.quick, hooks) {
            Ok(connections) => found.connections.push(connections),
            Err(Stop::Failed(reason)) => {
                let what = mechanism.name().to_owned();
                found.skipped.push(SkippedMemory { what, reason });
            }
            Err(Stop::Interrupted) => {}
        }
        if (hooks.interrupted)() {
            found.partial = Some(INTERRUPTED.to_owned());
            return found;
        }
    }
    (hooks.progress)(steps - 1, steps, "two services");
    match services(plan.quick, hooks) {
        Ok(services) => {
            found.partial = services.partial.clone();
            found.services = Some(services);
        }
        Err(reason) => found.skipped.push(SkippedMemory { what: SERVICES.to_owned(), reason }),
    }
    if (hooks.interrupted)() {
        found.partial = Some(INTERRUPTED.to_owned());
    }
    (hooks.progress)(steps, steps, "");
    found
}

/// Measures two services as two processes and as one, some rounds of each in turn. Blocks for some
/// seconds. `hooks` as for [`measure`].
///
/// # Errors
///
/// One sentence on why there is no round of both.
pub fn services(quick: bool, hooks: &Hooks<'_>) -> Result<ServiceMemory, String> {
    services::measure(quick, hooks).map_err(|stop| match stop {
        Stop::Interrupted => INTERRUPTED.to_owned(),
        Stop::Failed(reason) => reason,
    })
}

/// Why something was not measured to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stop {
    /// By the user.
    Interrupted,
    /// In words.
    Failed(String),
}

impl From<String> for Stop {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

const INTERRUPTED: &str = "interrupted";

/// What is skipped if services cannot be measured.
const SERVICES: &str = "two services";

const NS_PER_S: u64 = 1_000_000_000;
