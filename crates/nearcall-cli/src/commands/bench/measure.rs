//! Connects the program with the runner of measurements.

use std::process::ExitCode;

use clap::Args;
use nearcall_bench::bench_plan::BenchPlan;
use nearcall_bench::experiment::{Experiment, measure};
use nearcall_bench::peer;
use nearcall_bench::runner::{BenchError, Program, RunContext};
use nearcall_os::signal::Interrupt;
use nearcall_results::run::Run;
use nearcall_studies::reproduce::{StudiesPlan, reproduce};

use crate::commands::{End, Usage};
use crate::output;
use crate::progress::Progress;

/// Measures; shows progress; ends early when interrupted.
pub(super) fn experiment(
    experiment: &Experiment,
    plan: &BenchPlan,
    interrupt: Interrupt,
) -> anyhow::Result<Run> {
    with_hooks(interrupt, |context| measure(experiment, plan, context))
}

/// Repeats studies, in the same way.
pub(in crate::commands) fn studies(
    plan: &StudiesPlan,
    interrupt: Interrupt,
) -> anyhow::Result<Run> {
    with_hooks(interrupt, |context| reproduce(plan, context))
}

fn with_hooks(
    interrupt: Interrupt,
    bench: impl FnOnce(&RunContext<'_>) -> Result<Run, BenchError>,
) -> anyhow::Result<Run> {
    hooked(interrupt, bench).map_err(|error| match error {
        BenchError::OneCpu | BenchError::NotAllowed { .. } => Usage(error.to_string()).into(),
        _ => error.into(),
    })
}

/// Runs what starts processes: with progress, this program as the second process, and Ctrl-C.
pub(in crate::commands) fn hooked<T>(
    interrupt: Interrupt,
    run: impl FnOnce(&RunContext<'_>) -> T,
) -> T {
    let progress = Progress::new();
    let show = |done, total, text: &str| progress.show(done, total, text);
    let interrupted = || interrupt.interrupted();
    run(&RunContext { progress: &show, interrupted: &interrupted, ..RunContext::new(program()) })
}

/// What measurements start: this program, as a process that they tell what to do.
pub(in crate::commands) fn program() -> Program {
    Program::current(&[PEER_VERB])
}

/// A process that a measurement starts; started by `bench` itself
#[derive(Debug, Args)]
#[command(hide = true)]
pub(in crate::commands) struct PeerArgs {}

/// Runs the second process. The runner writes requests to its standard input and reads results
/// from its standard output.
pub(in crate::commands) fn peer(_: &PeerArgs) -> anyhow::Result<End> {
    match peer::run_with(&nearcall_studies::methods::Methods) {
        Ok(()) => Ok(End::Done),
        // The runner gets the reason too; a user who typed the verb sees it only here.
        Err(reason) => {
            output::diagnostic(&format!("error: {PEER_VERB}: {reason}"));
            Ok(End::Code(ExitCode::FAILURE))
        }
    }
}

/// The hidden verb, as the table in `commands.rs` has it.
const PEER_VERB: &str = "peer-process";
