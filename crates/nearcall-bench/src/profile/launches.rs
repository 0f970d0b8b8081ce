//! Launches of both ends for a profile: exactly so many exchanges, watched by somebody.
//!
//! Not here: what they run (`peer.rs`), starting and ending them (`runner/processes.rs`).

use std::time::Duration;

use nearcall_os::{clock, process};

use crate::cell::{CellSpec, Subject};
use crate::conditions::Conditions;
use crate::exchange::Failure;
use crate::exchange::measured::Measured;
use crate::launch::{Fault, LaunchRequest, Role, WorkerMessage};
use crate::profile::ProfilePlan;
use crate::runner::placement::PinnedTo;
use crate::runner::processes::{self, Patience};
use crate::runner::{RunContext, ns};

/// What is launched again and again.
pub(crate) struct Launches<'a> {
    pub(crate) plan: &'a ProfilePlan,
    pub(crate) context: &'a RunContext<'a>,
    pub(crate) placed: PinnedTo,
}

impl Launches<'_> {
    /// Runs both ends once and gives what the client measured. `started` gets each process
    /// before it does anything.
    ///
    /// With `exchanges` exactly so many, without a warm-up; otherwise for `time`.
    pub(crate) fn run(
        &self,
        exchanges: u32,
        time: Duration,
        started: &dyn Fn(Role, u32) -> Result<(), Failure>,
    ) -> Result<Measured, Failure> {
        let &ProfilePlan { mechanism, shape, message_bytes, wait, .. } = self.plan;
        let cell = CellSpec {
            conditions: Conditions { exchanges, ..Conditions::default() },
            ..CellSpec::latency(Subject::Mechanism(mechanism), shape, message_bytes, wait)
        };
        let client = LaunchRequest {
            role: Role::Client,
            subject: cell.subject,
            wait: cell.wait,
            conditions: cell.conditions,
            meet_at: format!("nearcall-profile-{}-{:x}", process::pid(), clock::monotonic_ns()),
            cpu: self.placed.client,
            cells: vec![cell],
            seed: self.plan.seed,
            slices: false,
            cell_budget_ns: ns(time),
            tsc: None,
            fault: Fault::None,
        };
        let server =
            LaunchRequest { role: Role::Server, cpu: self.placed.server, ..client.clone() };
        let patience = Patience {
            limit: time.saturating_add(self.context.patience),
            interrupted: self.context.interrupted,
            started,
        };
        let padding = [0; 2];
        let launched =
            processes::launch(&self.context.program, [&client, &server], padding, &patience);
        let measured = launched.messages.into_iter().find_map(|line| match line {
            WorkerMessage::Cell { outcome, .. } => Some(outcome),
            _ => None,
        });
        match (launched.failure, measured) {
            (Some(failure), _) => Err(failure),
            (None, Some(outcome)) => outcome.map(|measured| *measured),
            (None, None) => Err(Failure::other("a process gave no result")),
        }
    }
}
