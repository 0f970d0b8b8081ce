//! `nearcall bench memory`: has memory measured and prints what was found.
//!
//! Always true: what was measured before Ctrl-C is printed and stored, marked as partial.

use std::process::ExitCode;

use anyhow::{Context, bail};
use nearcall_bench::footprint::{self, MemoryFindings, MemoryPlan, PROCESS_VERB};
use nearcall_bench::report::table;
use nearcall_bench::run::{check_writable, save_text};
use nearcall_bench::runner::{Hooks, Program};
use nearcall_channel::Mechanism;
use nearcall_os::signal::Interrupt;

use super::distinct;
use crate::args::MemoryArgs;
use crate::commands::End;
use crate::output;
use crate::progress::Progress;

pub(super) fn run(args: &MemoryArgs) -> anyhow::Result<End> {
    if let Some(file) = &args.out {
        check_writable(file).with_context(|| format!("cannot store in {}", file.display()))?;
    }
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let mechanisms = args.mechanism.clone().map_or_else(|| USUAL.to_vec(), distinct);
    let mut found = measure(&MemoryPlan { mechanisms, quick: args.quick }, interrupt);
    found.tool = super::tool();
    if cfg!(debug_assertions) {
        found.warnings.push("a debug build: its code takes more memory".to_owned());
    }
    let text = found.to_json() + "\n";
    // First, since a closed pipe must not cost what was measured.
    let stored = args.out.as_ref().map_or(Ok(()), |file| {
        save_text(file, &text).with_context(|| format!("cannot store in {}", file.display()))
    });
    if args.json {
        output::result(&text)?;
    } else {
        output::result(&table::footprint::table(&found))?;
    }
    stored?;
    if interrupt.interrupted() {
        return Ok(End::Interrupted);
    }
    if found.connections.is_empty() {
        bail!("nothing that was asked for could be measured; the table says why");
    }
    Ok(End::Done)
}

fn measure(plan: &MemoryPlan, interrupt: Interrupt) -> MemoryFindings {
    let progress = Progress::new();
    let show = |done, total, text: &str| progress.show(done, total, text);
    let interrupted = || interrupt.interrupted();
    let program = Program::current(&[PROCESS_VERB]);
    let hooks = Hooks { progress: &show, interrupted: &interrupted, ..Hooks::new(program) };
    footprint::measure(plan, &hooks)
}

/// What the processes run whose memory is measured.
pub(in crate::commands) fn process() -> ExitCode {
    match footprint::run() {
        Ok(()) => ExitCode::SUCCESS,
        // Who started it knows; a person who typed the verb does not.
        Err(reason) => {
            output::aside(&format!("error: {PROCESS_VERB}: {reason}"));
            ExitCode::FAILURE
        }
    }
}

/// Ours, the usual one, and one whose buffers the kernel has.
const USUAL: [Mechanism; 3] = [Mechanism::Shm, Mechanism::UnixStream, Mechanism::Pipe];
