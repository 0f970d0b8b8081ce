//! `nearcall advise`: makes requirements of the words, has them measured unless a stored run is
//! given, and prints which mechanism to use and why.
//!
//! What can be refused is refused before anything is measured. How candidates are judged is
//! `nearcall_bench::advise`'s.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context;
use nearcall_bench::advise::{self, Advice, Effort, MeasureError, Refusal, Requirements, text};
use nearcall_bench::run::{Run, check_writable};
use nearcall_bench::runner::BenchError;
use nearcall_os::clock;
use nearcall_os::signal::Interrupt;

use self::check::Check;
use super::{End, Usage, bench};
use crate::args::AdviseArgs;
use crate::terminal::style;
use crate::{output, places};

mod check;
mod profile;
mod trace;

pub(super) fn run(args: &AdviseArgs, words: &[OsString]) -> anyhow::Result<End> {
    let requirements = requirements(args)?;
    if args.beside.is_wanted() {
        return beside(&requirements, args, words);
    }
    if !args.run.is_empty() {
        let runs = args.run.iter().map(|file| load(file)).collect::<anyhow::Result<Vec<Run>>>()?;
        return deliver(&requirements, &runs, files(args), args.json);
    }
    let file = args.out.clone().unwrap_or_else(|| places::new_run_file(now_unix_s()));
    check_writable(&file).with_context(|| format!("cannot store a run in {}", file.display()))?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let effort = Effort {
        time_budget: args.time,
        seed: args.seed.unwrap_or_else(bench::new_seed),
        arguments: bench::arguments(words),
    };
    let measured = bench::hooked(interrupt, |hooks| advise::measure(&requirements, &effort, hooks));
    let interrupted = interrupt.interrupted();
    let mut run = match measured {
        Ok(run) => run,
        Err(error) if interrupted => {
            output::aside(&format!("interrupted before anything was measured ({error})"));
            return Ok(End::Interrupted);
        }
        Err(MeasureError::Bench(error @ BenchError::OneCpu)) => {
            return Err(Usage(error.to_string()).into());
        }
        Err(error) => return Err(error.into()),
    };
    run.tool = bench::tool();
    if interrupted && !run.partial {
        run.mark_partial("interrupted");
    }
    run.save(&file).with_context(|| format!("cannot store the run in {}", file.display()))?;
    if interrupted {
        output::aside(&format!("interrupted; what was measured is in {}", file.display()));
        return Ok(End::Interrupted);
    }
    let files = vec![file.display().to_string()];
    deliver(&requirements, &[run], files, args.json).map_err(|error| match error.is::<Refusal>() {
        // What was measured may tell more than the refusal does.
        true => error.context(format!("no advice; the run is stored in {}", file.display())),
        false => error,
    })
}

/// Recorded traffic, what is stored for the runtime, or the test of the advice.
fn beside(
    requirements: &Requirements,
    args: &AdviseArgs,
    words: &[OsString],
) -> anyhow::Result<End> {
    let runs = args.run.iter().map(|file| load(file)).collect::<anyhow::Result<Vec<Run>>>()?;
    if let Some(file) = &args.beside.trace {
        let effort = Effort {
            time_budget: args.time,
            seed: args.seed.unwrap_or_else(bench::new_seed),
            arguments: bench::arguments(words),
        };
        let evidence = trace::Evidence { runs: &runs, files: files(args), effort: &effort };
        return trace::run(file, requirements, evidence, args.json);
    }
    if let Some(sets) = args.beside.check {
        return check::run(&Check {
            sets,
            seed: args.beside.check_seed,
            time: args.beside.check_time,
            runs: &runs,
            json: args.json,
            arguments: bench::arguments(words),
        });
    }
    profile::run(&runs, args.json)
}

/// What the words ask for, if it means anything.
fn requirements(args: &AdviseArgs) -> Result<Requirements, Usage> {
    let requirements = Requirements {
        message_bytes: args.size,
        reply_bytes: args.reply,
        rate_per_s: args.rate,
        pattern: args.pattern.into(),
        placement: args.placement.into(),
        load: args.load.load,
        needs: args.needs.clone(),
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
    let advice = Advice { runs: files, ..advise::advise(requirements, &runs)? };
    match json {
        true => output::json(&advice)?,
        false => output::result(&text(&advice, style()))?,
    }
    Ok(End::Done)
}

fn now_unix_s() -> u64 {
    clock::realtime_ns() / NS_PER_S
}

const NS_PER_S: u64 = 1_000_000_000;
