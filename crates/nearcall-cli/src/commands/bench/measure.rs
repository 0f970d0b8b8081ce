//! Connects the program with the runner of measurements.

use std::process::ExitCode;

use nearcall_bench::bench_plan::{BenchPlan, How};
use nearcall_bench::budgets;
use nearcall_bench::calls::{self, CallsPlan};
use nearcall_bench::launch::Fault;
use nearcall_bench::matrix::{self, MatrixPlan};
use nearcall_bench::peer;
use nearcall_bench::runner::{self, BenchError, Hooks, Program};
use nearcall_bench::studies::reproduce::{StudiesPlan, reproduce};
use nearcall_bench::traffic::{self, TrafficPlan};
use nearcall_bench::waits::{self, WaitsPlan};
use nearcall_os::signal::Interrupt;
use nearcall_results::run::Run;

use crate::commands::Usage;
use crate::output;
use crate::progress::Progress;

/// Runs the plan; shows progress; ends early when interrupted.
pub(super) fn measure(plan: &BenchPlan, interrupt: Interrupt) -> anyhow::Result<Run> {
    with_hooks(interrupt, |hooks| runner::bench(plan, hooks))
}

/// Measures calls, in the same way.
pub(super) fn measure_calls(plan: &CallsPlan, interrupt: Interrupt) -> anyhow::Result<Run> {
    with_hooks(interrupt, |hooks| calls::bench(plan, hooks))
}

/// Measures the budgets, in the same way.
pub(super) fn measure_budgets(how: &How, interrupt: Interrupt) -> anyhow::Result<Run> {
    with_hooks(interrupt, |hooks| budgets::bench(how, hooks))
}

/// Repeats studies, in the same way.
pub(super) fn measure_studies(plan: &StudiesPlan, interrupt: Interrupt) -> anyhow::Result<Run> {
    with_hooks(interrupt, |hooks| reproduce(plan, hooks))
}

/// Measures waiting, in the same way.
pub(super) fn measure_waits(plan: &WaitsPlan, interrupt: Interrupt) -> anyhow::Result<Run> {
    with_hooks(interrupt, |hooks| waits::bench(plan, hooks))
}

/// Measures from CPU to CPU, in the same way.
pub(super) fn measure_matrix(plan: &MatrixPlan, interrupt: Interrupt) -> anyhow::Result<Run> {
    with_hooks(interrupt, |hooks| matrix::bench(plan, hooks))
}

/// Measures traffic, in the same way; with a fault made on purpose to test the method.
pub(super) fn measure_traffic(
    plan: &TrafficPlan,
    fault: Fault,
    interrupt: Interrupt,
) -> anyhow::Result<Run> {
    with_hooks(interrupt, |hooks| {
        let hooks = Hooks { program: hooks.program.clone(), fault, ..*hooks };
        traffic::bench(plan, &hooks)
    })
}

fn with_hooks(
    interrupt: Interrupt,
    bench: impl FnOnce(&Hooks<'_>) -> Result<Run, BenchError>,
) -> anyhow::Result<Run> {
    hooked(interrupt, bench).map_err(|error| match error {
        BenchError::OneCpu | BenchError::NotAllowed { .. } => Usage(error.to_string()).into(),
        _ => error.into(),
    })
}

/// Runs what starts processes: with progress, this program as the second process, and Ctrl-C.
pub(in crate::commands) fn hooked<T>(interrupt: Interrupt, run: impl FnOnce(&Hooks<'_>) -> T) -> T {
    let progress = Progress::new();
    let show = |done, total, text: &str| progress.show(done, total, text);
    let interrupted = || interrupt.interrupted();
    let program = Program::current(&[PEER_VERB]);
    run(&Hooks { progress: &show, interrupted: &interrupted, ..Hooks::new(program) })
}

/// Runs the second process. The runner writes requests to its standard input and reads results
/// from its standard output.
pub(super) fn peer() -> ExitCode {
    match peer::run() {
        Ok(()) => ExitCode::SUCCESS,
        // The runner gets the reason too; a user who typed the verb sees it only here.
        Err(reason) => {
            output::diagnostic(&format!("error: {PEER_VERB}: {reason}"));
            ExitCode::FAILURE
        }
    }
}

/// The hidden verb, as `args.rs` has it.
const PEER_VERB: &str = "peer-process";
