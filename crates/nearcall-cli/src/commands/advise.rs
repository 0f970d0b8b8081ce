//! `nearcall advise`: turns arguments into requirements, measures unless a stored run is given,
//! and prints which mechanism to use and why.
//!
//! **Invariants:** what can be refused is refused before anything is measured.
//!
//! **Not here:** the judgement of candidates, which is `nearcall_results::advise`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use nearcall::control::recorded_event::What;
use nearcall::control::{RecordedBody, RecordedEvent};
use nearcall_bench::advise::{self, Effort, MeasureError};
use nearcall_bench::runner::BenchError;
use nearcall_os::clock;
use nearcall_os::signal::Interrupt;
use nearcall_recording::{FileEnd, Reader};
use nearcall_results::advise::trace::{self, Recording, Traffic};
use nearcall_results::advise::{
    Advice, Need, Pattern, Placement, Refusal, Requirements, Weights, advise as advise_by, command,
    text,
};
use nearcall_results::run::{Run, check_writable};
use serde::Serialize;

use super::{End, Usage, bench, command_line};
use crate::args::{BackgroundLoadArgs, OutputArgs, SeedArgs, TimeArgs, value};
use crate::terminal::style;
use crate::{output, places};

mod profile;

/// Recommend a mechanism for given requirements, by measurement
///
/// Excludes every mechanism that lacks a need, measures the others by calls of the given size,
/// rate, placement and load for at most 45 seconds, or --time, and ranks them. Prints the
/// address to put into the program, the expected figures with their intervals, and when the
/// runner-up would be better.
///
/// Exit code: 0 advised; 1 refused, because needs contradict each other, evidence is missing,
/// or the machine was too noisy; 2 usage error; 130 interrupted.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct AdviseArgs {
    /// Payload of one message, such as 8, 4KiB, 1MiB
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = value::size)]
    pub(crate) size: u64,

    /// Payload of the reply [default: an empty reply]
    #[arg(long, value_name = "SIZE", value_parser = size_or_none)]
    pub(crate) reply: Option<u64>,

    /// Messages per second to sustain [default: one after the other]
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    pub(crate) rate: Option<f64>,

    /// Call pattern: call (waits for a reply) or one-way
    #[arg(long, value_name = "PATTERN", default_value = "call")]
    pub(crate) pattern: PatternArg,

    /// Required capabilities, such as pollable,isolation; --help lists all
    ///
    /// pollable, crash-detection, isolation, descriptor-passing, multi-machine, no-spin (not even
    /// for a bounded time, as the adaptive policy does), same-cpu-safe, survives-oversized,
    /// delivers-after-death, kill-safe, nothing-left, shared-memory. `nearcall mechanisms` explains
    /// them.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) needs: Vec<Need>,

    /// Clients that one server has at once: 1 also considers what serves one only [default: any]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) clients: Option<u32>,

    /// Objective: latency, p99, throughput, cpu, memory, or shares
    ///
    /// Shares add up to 1, as latency=0.7,cpu=0.3. They are the powers of a candidate's ratios to
    /// the best.
    #[arg(long, value_name = "OBJECTIVE", default_value = "latency")]
    pub(crate) optimise: Weights,

    /// Both ends on the same CPU, cross CPUs, not pinned (none), or unknown (any)
    #[arg(long, value_name = "PLACE", default_value = "any")]
    pub(crate) placement: ExpectedPlacementArg,

    #[command(flatten)]
    pub(crate) load: BackgroundLoadArgs,

    #[command(flatten)]
    pub(crate) time: TimeArgs,

    #[command(flatten)]
    pub(crate) seed: SeedArgs,

    /// Measure and rank even while other programs use the CPUs
    #[arg(long, conflicts_with = "run")]
    pub(crate) anyway: bool,

    /// Use stored runs of this or another machine; measure nothing
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["time", "seed", "out"])]
    pub(crate) run: Vec<PathBuf>,

    /// Advise for the traffic of a server that `nearcall record` recorded
    ///
    /// Pattern, sizes and rate are those of its busiest connection; - reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "rate"])]
    pub(crate) trace: Option<PathBuf>,

    /// Write the tuning file of this machine, which the runtime reads
    ///
    /// It holds the cost of a wake-up, how long to spin, and what calls cost over the mechanisms
    /// that servers offer by default, by which clients with `via=auto` choose. That takes half a
    /// minute, or --time. It is written to $NEARCALL_TUNING, else
    /// to nearcall/tuning.conf in $XDG_CONFIG_HOME or ~/.config; the runtime reads it there and
    /// then in /etc.
    #[arg(long, conflicts_with = "run")]
    pub(crate) profile: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A call pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PatternArg {
    /// The sender waits for the reply
    Call,
    /// There is no reply
    OneWay,
}

impl From<PatternArg> for Pattern {
    fn from(pattern: PatternArg) -> Self {
        match pattern {
            PatternArg::Call => Self::Call,
            PatternArg::OneWay => Self::OneWay,
        }
    }
}

/// The placement of both ends in the program that the advice is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExpectedPlacementArg {
    /// Not known yet
    Any,
    /// On two CPUs
    Cross,
    /// Both on one CPU
    Same,
    /// Not pinned
    None,
}

impl From<ExpectedPlacementArg> for Placement {
    fn from(placement: ExpectedPlacementArg) -> Self {
        match placement {
            ExpectedPlacementArg::Any => Self::Any,
            ExpectedPlacementArg::Cross => Self::Cross,
            ExpectedPlacementArg::Same => Self::SameCpu,
            ExpectedPlacementArg::None => Self::Unpinned,
        }
    }
}

fn size_or_none(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { value::size(text) }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.trim().parse().map_err(|_| RATE_ADVICE.to_owned())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err(RATE_ADVICE.to_owned()) }
}

pub(super) fn run(args: &AdviseArgs) -> anyhow::Result<End> {
    let base = requirements(args)?;
    let runs = args.run.iter().map(|file| load(file)).collect::<anyhow::Result<Vec<Run>>>()?;
    let json = args.output.format.json;
    if args.profile {
        return profile::run(args.time.time, json);
    }
    let recording = args.trace.as_deref().map(read).transpose()?;
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
        arguments: bench::arguments(&command_line()),
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

/// Reads a recording of `nearcall record`; `-` is standard input.
fn read(file: &Path) -> anyhow::Result<Recording> {
    if file == Path::new("-") {
        return count(io::stdin().lock());
    }
    let name = || format!("{}", file.display());
    let opened = File::open(file).with_context(name)?;
    count(BufReader::new(opened)).with_context(name)
}

/// Counts what a recording has.
fn count(input: impl BufRead) -> anyhow::Result<Recording> {
    let mut reader = Reader::new(input)?;
    let (mut traffic, mut notes) = (Traffic::default(), Vec::new());
    // The connections of the calls that have not ended.
    let mut calls = HashMap::new();
    let bytes = |body: Option<&RecordedBody>| {
        body.map_or(0, |body| body.cut_from_bytes.max(body.data.len() as u64))
    };
    let mut dropped = 0;
    while let Some(RecordedEvent { time_ns, call, what }) = reader.next_event()? {
        match (what, calls.get(&call).copied()) {
            (Some(What::Request(request)), _) => {
                traffic.sent(request.connection, time_ns, bytes(request.body.as_ref()));
                if !request.is_oneway {
                    calls.insert(call, request.connection);
                }
            }
            (Some(What::RequestItem(item)), Some(connection)) => {
                traffic.sent(connection, time_ns, bytes(Some(&item)));
            }
            (Some(What::ReplyItem(item)), Some(connection)) => {
                traffic.received(connection, bytes(Some(&item)), false);
            }
            (Some(What::Result(result)), Some(connection)) => {
                traffic.received(connection, bytes(result.body.as_ref()), true);
                calls.remove(&call);
            }
            (Some(What::Failure(_) | What::Cancel(_)), _) => drop(calls.remove(&call)),
            (Some(What::Dropped(more)), _) => dropped += more.calls + more.events,
            _ => {}
        }
    }
    if dropped > 0 {
        notes.push(format!("the server has left {dropped} calls and events out of the recording"));
    }
    if let Some(FileEnd::CutOff { .. }) = reader.end() {
        notes.push("the recording was cut off".to_owned());
    }
    traffic.conclude(notes).context("the recording has no calls")
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

const RATE_ADVICE: &str = "give messages per second above 0, such as 1000";

const EXAMPLES: &str = "\
Examples:
  nearcall advise                                short calls: measures for 45 s
  nearcall advise --size 4KiB --rate 1000 --needs pollable,crash-detection
  nearcall advise --size 64KiB --pattern one-way --optimise throughput
  nearcall advise --placement same --optimise latency=0.7,cpu=0.3
  nearcall advise --size 1KiB --run calls.json   from a stored run
  nearcall advise --trace room.rec               for what a server has recorded
  nearcall advise --json | jq -r .address";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_are_one_number_each() {
        assert_eq!((size_or_none("4KiB"), size_or_none("0")), (Ok(4_096), Ok(0)));
        assert!(size_or_none("8,9").is_err() && size_or_none("-1").is_err());
        assert_eq!((rate("1000"), rate("0.5"), rate("1e3")), (Ok(1e3), Ok(0.5), Ok(1e3)));
        for bad in ["-1", "0", "", "fast", "inf", "NaN"] {
            assert_eq!(rate(bad), Err(RATE_ADVICE.to_owned()), "{bad}");
        }
    }
}
