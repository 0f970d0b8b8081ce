//! `nearcall advise`: turns arguments into requirements, measures unless a stored run is given,
//! and prints which mechanism to use and why.
//!
//! **Invariants:** what can be refused is refused before anything is measured.
//!
//! **Not here:** the judgement of candidates, which is `nearcall_bench::advise`.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use nearcall_bench::advise::{self, Effort, MeasureError};
use nearcall_bench::runner::BenchError;
use nearcall_os::clock;
use nearcall_os::signal::Interrupt;
use nearcall_results::advise::{Advice, Refusal, Requirements, advise as advise_by, command, text};
use nearcall_results::run::{Run, check_writable};

use super::{End, Usage, bench};
use crate::args::AdviseArgs;
use crate::terminal::style;
use crate::{output, places};

mod profile;
mod trace;

pub(super) fn run(args: &AdviseArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let requirements = requirements(args)?;
    if args.modes.is_selected() {
        return run_mode(&requirements, args, arguments);
    }
    if !args.run.is_empty() {
        let runs = args.run.iter().map(|file| load(file)).collect::<anyhow::Result<Vec<Run>>>()?;
        return deliver(&requirements, &runs, files(args), args.output.format.json);
    }
    let file = args.output.out.clone().unwrap_or_else(|| places::new_run_file(now_unix_s()));
    check_writable(&file).with_context(|| format!("cannot store a run in {}", file.display()))?;
    // What nothing can meet is refused for that.
    let is_possible = !advise::candidates(&requirements).0.is_empty();
    let busy = is_possible.then(advise::busy::look).flatten();
    if let Some(what) = &busy {
        if !args.anyway {
            let command = command(&requirements);
            return Err(Refusal::Busy { what: what.clone(), command }.into());
        }
        output::diagnostic(&format!("{what}: figures will be worse and intervals wider"));
    }
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let effort = Effort {
        time_budget: args.time.time.unwrap_or(TIME),
        seed: args.seed.seed.unwrap_or_else(bench::new_seed),
        arguments: bench::arguments(arguments),
    };
    let measured = bench::hooked(interrupt, |hooks| advise::measure(&requirements, &effort, hooks));
    let interrupted = interrupt.interrupted();
    let mut run = match measured {
        Ok(run) => run,
        Err(error) if interrupted => {
            output::diagnostic(&format!("interrupted before anything was measured ({error})"));
            return Ok(End::Interrupted);
        }
        Err(MeasureError::Bench(error @ BenchError::OneCpu)) => {
            return Err(Usage(error.to_string()).into());
        }
        Err(error) => return Err(error.into()),
    };
    run.tool = bench::tool();
    run.warnings.extend(busy);
    if interrupted && !run.partial {
        run.mark_partial("interrupted");
    }
    run.save(&file).with_context(|| format!("cannot store the run in {}", file.display()))?;
    if interrupted {
        output::diagnostic(&format!("interrupted; what was measured is in {}", file.display()));
        return Ok(End::Interrupted);
    }
    let files = vec![file.display().to_string()];
    deliver(&requirements, &[run], files, args.output.format.json).map_err(|error| {
        match error.is::<Refusal>() {
            // The run may explain more than the refusal does.
            true => error.context(format!("no advice; the run is stored in {}", file.display())),
            false => error,
        }
    })
}

/// Runs a mode: recorded traffic, or the tuning file of the runtime.
fn run_mode(
    requirements: &Requirements,
    args: &AdviseArgs,
    arguments: &[OsString],
) -> anyhow::Result<End> {
    let runs = args.run.iter().map(|file| load(file)).collect::<anyhow::Result<Vec<Run>>>()?;
    if let Some(file) = &args.modes.trace {
        let effort = Effort {
            time_budget: args.time.time.unwrap_or(TIME),
            seed: args.seed.seed.unwrap_or_else(bench::new_seed),
            arguments: bench::arguments(arguments),
        };
        let evidence = trace::Evidence { runs: &runs, files: files(args), effort: &effort };
        return trace::run(file, requirements, evidence, args.output.format.json);
    }
    profile::run(&runs, args.output.format.json)
}

/// Turns the arguments into requirements, unless they contradict each other.
fn requirements(args: &AdviseArgs) -> Result<Requirements, Usage> {
    let requirements = Requirements {
        message_bytes: args.size,
        reply_bytes: args.reply,
        rate_per_s: args.rate,
        pattern: args.pattern.into(),
        placement: args.placement.into(),
        load: args.load.load,
        needs: args.needs.clone(),
        clients: args.clients,
        optimise: args.optimise,
    };
    match requirements.check() {
        Ok(()) => Ok(requirements),
        Err(error) => Err(Usage(error.to_string())),
    }
}

/// The names of the stored runs.
fn files(args: &AdviseArgs) -> Vec<String> {
    args.run.iter().map(|file| file.display().to_string()).collect()
}

fn load(file: &Path) -> anyhow::Result<Run> {
    Run::load(file).with_context(|| file.display().to_string())
}

/// Advises and prints. A refusal is an error.
fn deliver(
    requirements: &Requirements,
    runs: &[Run],
    files: Vec<String>,
    json: bool,
) -> anyhow::Result<End> {
    let runs: Vec<&Run> = runs.iter().collect();
    let advice = Advice { runs: files, ..advise_by(requirements, &runs)? };
    match json {
        true => output::json(&advice)?,
        false => output::result(&text(&advice, style()))?,
    }
    Ok(End::Done)
}

fn now_unix_s() -> u64 {
    clock::realtime_ns() / NS_PER_S
}

/// The usual time of a measurement.
const TIME: Duration = Duration::from_secs(45);

const NS_PER_S: u64 = 1_000_000_000;
