//! `nearcall advise`: turns arguments into requirements, measures unless a stored run is given,
//! and prints which mechanism to use and why.
//!
//! **Invariants:** what can be refused is refused before anything is measured.
//!
//! **Not here:** the judgement of candidates, which is `nearcall_results::advise`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use nearcall_bench::advise::{self, Effort, MeasureError};
use nearcall_bench::runner::BenchError;
use nearcall_os::clock;
use nearcall_os::signal::Interrupt;
use nearcall_results::advise::trace::{self, Recording};
use nearcall_results::advise::{Advice, Refusal, Requirements, advise as advise_by, command, text};
use nearcall_results::run::{Run, check_writable};
use serde::Serialize;

use super::{End, Usage, bench};
use crate::args::AdviseArgs;
use crate::terminal::style;
use crate::{output, places};

mod profile;

pub(super) fn run(args: &AdviseArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let base = requirements(args)?;
    let runs = args.run.iter().map(|file| load(file)).collect::<anyhow::Result<Vec<Run>>>()?;
    let json = args.output.format.json;
    if args.modes.profile {
        return profile::run(args.time.time, json);
    }
    let recording = args.modes.trace.as_deref().map(read).transpose()?;
    let requirements = match &recording {
        Some(recording) => trace::requirements(recording, &base),
        None => base,
    };
    let wanted = Wanted { requirements, recording };
    if !runs.is_empty() {
        let files = args.run.iter().map(|file| file.display().to_string()).collect();
        return deliver(&wanted, &runs, files, json);
    }
    let requirements = &wanted.requirements;
    let file = args.output.out.clone().unwrap_or_else(|| places::new_run_file(now_unix_s()));
    check_writable(&file).with_context(|| format!("cannot store a run in {}", file.display()))?;
    let busy = busy(requirements, args.anyway)?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let effort = Effort {
        time_budget: args.time.time.unwrap_or(TIME),
        seed: args.seed.seed.unwrap_or_else(bench::new_seed),
        arguments: bench::arguments(arguments),
    };
    let measured = bench::hooked(interrupt, |hooks| advise::measure(requirements, &effort, hooks));
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
    deliver(&wanted, &[run], files, json).map_err(|error| {
        match error.is::<Refusal>() {
            // The run may explain more than the refusal does.
            true => error.context(format!("no advice; the run is stored in {}", file.display())),
            false => error,
        }
    })
}

/// Looks at what else runs before anything is measured. Returns it if it is measured beside.
fn busy(requirements: &Requirements, anyway: bool) -> anyhow::Result<Option<String>> {
    // What nothing can meet is refused for that.
    let is_possible = !advise::candidates(requirements).0.is_empty();
    let busy = is_possible.then(advise::busy::look).flatten();
    if let Some(what) = &busy {
        if !anyway {
            let command = command(requirements);
            return Err(Refusal::Busy { what: what.clone(), command }.into());
        }
        output::diagnostic(&format!("{what}: figures will be worse and intervals wider"));
    }
    Ok(busy)
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

fn load(file: &Path) -> anyhow::Result<Run> {
    Run::load(file).with_context(|| file.display().to_string())
}

/// Reads a recording of traffic; `-` is standard input.
fn read(file: &Path) -> anyhow::Result<Recording> {
    if file == Path::new("-") {
        return Ok(trace::read(&mut io::stdin().lock())?);
    }
    let name = || format!("{}", file.display());
    let opened = File::open(file).with_context(name)?;
    trace::read(&mut BufReader::new(opened)).with_context(name)
}

/// What is asked for, and the recorded traffic that it follows from.
struct Wanted {
    requirements: Requirements,
    recording: Option<Recording>,
}

/// An advice as a document, with the recording that it is for.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    advice: &'a Advice,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: &'a Option<Recording>,
}

/// Advises and prints. A refusal is an error.
fn deliver(wanted: &Wanted, runs: &[Run], files: Vec<String>, json: bool) -> anyhow::Result<End> {
    let Wanted { requirements, recording } = wanted;
    let runs: Vec<&Run> = runs.iter().collect();
    let advice = match recording {
        // The refusal alone does not name the traffic.
        Some(recording) => trace::advise_for(recording, requirements, &runs)
            .with_context(|| format!("for {}", trace::describe(requirements)))?,
        None => advise_by(requirements, &runs)?,
    };
    let advice = Advice { runs: files, ..advice };
    if json {
        output::json(&Document { advice: &advice, recording })?;
        return Ok(End::Done);
    }
    let recorded = recording.as_ref().map(|one| trace::summary(one, style()) + "\n");
    output::result(&format!("{}{}", recorded.unwrap_or_default(), text(&advice, style())))?;
    Ok(End::Done)
}

fn now_unix_s() -> u64 {
    clock::realtime_ns() / NS_PER_S
}

/// The usual time of a measurement.
const TIME: Duration = Duration::from_secs(45);

const NS_PER_S: u64 = 1_000_000_000;
