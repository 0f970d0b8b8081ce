//! The one place where the program meets the runner.

use std::process::ExitCode;

use nearcall_bench::bench_plan::BenchPlan;
use nearcall_bench::peer;
use nearcall_bench::run::Run;
use nearcall_bench::runner::{self, BenchError, Hooks, Program};
use nearcall_os::signal::Interrupt;

use crate::commands::Usage;
use crate::output;
use crate::progress::Progress;

/// Measures what the plan says; shows progress; ends early when interrupted.
pub(super) fn measure(plan: &BenchPlan, interrupt: Interrupt) -> anyhow::Result<Run> {
    let progress = Progress::new();
    let show = |done, total, text: &str| progress.show(done, total, text);
    let interrupted = || interrupt.interrupted();
    let program = Program::current(&[PEER_VERB]);
    let hooks = Hooks { progress: &show, interrupted: &interrupted, ..Hooks::new(program) };
    runner::bench(plan, &hooks).map_err(|error| match error {
        BenchError::OneCpu | BenchError::NotAllowed { .. } => Usage(error.to_string()).into(),
        _ => error.into(),
    })
}

/// What the second process runs. Its orders come on standard input, its results go to standard
/// output, as the runner wants them.
pub(super) fn peer() -> ExitCode {
    match peer::run() {
        Ok(()) => ExitCode::SUCCESS,
        // The runner knows; a person who typed the verb does not.
        Err(reason) => {
            output::aside(&format!("error: {PEER_VERB}: {reason}"));
            ExitCode::FAILURE
        }
    }
}

/// The hidden verb, as `args.rs` has it.
const PEER_VERB: &str = "peer-process";
