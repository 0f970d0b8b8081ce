//! Where the time of one exchange over a mechanism goes.
//!
//! Several launches of the same two processes, each for one purpose, since looking disturbs: one
//! run undisturbed for times, CPU time and switches; one watched by ptrace for system calls and the
//! bytes that they copy; one sampled by perf. What is not permitted or not there is listed with how
//! to permit it, and nothing fails for want of it.
//! Not here: the text for people (`profile/table.rs`), what a mechanism declares
//! (`nearcall_channel::mechanism`), what `perf stat` and `perf report` tell of either process.
//!
//! **Invariant:** a mechanism makes the system calls and the copies that it declares
//! (`mechanism/costs.rs` of `nearcall-channel`), and no others. *Checked by*
//! `declared_system_calls_and_copies_are_those_that_are_counted`, for every mechanism.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, fs, io};

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_os::cpu;

use crate::bench_plan::{BenchPlan, Placement, RunOptions, Shape};
use crate::experiment;
use crate::machine;
use crate::profile::launches::Launches;
use crate::profile::result::{
    CopyCounts, CountedCall, CountedCalls, Missing, Profile, SCHEMA, Stacks, Used,
};
use crate::profile::tally::PerExchange;
use crate::profile::watching::Uncounted;
use crate::run::{Cell, EndCounts, Kind, PerEnd, Run, check_writable};
use crate::runner::{BenchError, RunContext, placement};

mod folded;
mod launches;
mod permits;
pub mod result;
mod stacks;
pub mod table;
mod tally;
mod watching;

/// What to look at.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfilePlan {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Payload bytes of one message, at least 1.
    pub message_bytes: u64,
    /// What comes back.
    pub shape: Shape,
    /// How both ends wait.
    pub wait: WaitPolicy,
    /// Where both ends run.
    pub placement: Placement,
    /// How long the undisturbed run may take, and the sampled one.
    pub time: Duration,
    /// Decides the payloads.
    pub seed: u64,
    /// The directory for stacks; `None`: none are sampled.
    pub out: Option<PathBuf>,
    /// The arguments of the program, without its name, for the record.
    pub arguments: Vec<String>,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The undisturbed run failed.
    #[error("{0}")]
    Bench(BenchError),
    /// A launch failed.
    #[error("{0}")]
    Failed(String),
    /// A file cannot be written.
    #[error("cannot write {path}: {error}", path = .0.display(), error = .1)]
    File(PathBuf, io::Error),
    /// Somebody interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Profiles what `plan` says. Takes some seconds: the plan's time twice, and a little.
///
/// # Errors
///
/// [`ProfileError`]. What is not permitted is none: it stands in [`Profile::missing`].
pub fn profile(plan: &ProfilePlan, context: &RunContext<'_>) -> Result<Profile, ProfileError> {
    if let Some(out) = &plan.out {
        let file = stacks::file(out, plan.mechanism.name());
        check_writable(&file).map_err(|error| ProfileError::File(file, error))?;
    }
    let (run, cell) = undisturbed(plan, context)?;
    let mut profile = Profile {
        schema: SCHEMA.to_owned(),
        tool: run.tool,
        machine: run.machine,
        arguments: plan.arguments.clone(),
        mechanism: plan.mechanism.name().to_owned(),
        message_bytes: plan.message_bytes,
        shape: plan.shape.name().to_owned(),
        wait: plan.wait.name().to_owned(),
        placement: cell.placement.clone(),
        rtt_ns: cell.rtt_ns.clone(),
        exchanges: cell.count,
        used: used(&cell),
        calls: None,
        copies: declared_copies(plan.mechanism),
        stacks: None,
        missing: Vec::new(),
        warnings: run.warnings,
    };
    (context.progress)(1, STEPS, "counting system calls");
    add_calls(&mut profile, plan, context)?;
    check_interrupted(context)?;
    (context.progress)(2, STEPS, "sampling stacks");
    profile.stacks = sample(plan, context, &mut profile.missing)?;
    check_interrupted(context)?;
    (context.progress)(STEPS, STEPS, "");
    Ok(profile)
}

/// Only the system calls of one exchange, counted for `time`, and the bytes that they copied.
///
/// # Errors
///
/// `Ok(Err)`: they cannot be counted here, and why. `Err`: a launch failed.
pub fn count_calls(
    plan: &ProfilePlan,
    time: Duration,
    context: &RunContext<'_>,
) -> Result<Result<(CountedCalls, CopyCounts), Missing>, ProfileError> {
    let launches = launches(plan, context)?;
    let (counted, exchanges) = match watching::count(&launches, time) {
        Err(Uncounted::Refused(refusal)) => return Ok(Err(permits::system_calls(&refusal))),
        Err(Uncounted::Failed(failure)) => return Err(ProfileError::Failed(failure.text)),
        Ok(counted) => counted,
    };
    let calls = CountedCalls {
        exchanges,
        ends: PerEnd {
            client: declared_and_counted(plan, &counted.client),
            server: declared_and_counted(plan, &counted.server),
        },
    };
    let mut copies = declared_copies(plan.mechanism);
    if plan.mechanism.copies().kernel_is_countable {
        let PerEnd { client, server } = &counted;
        let payload = plan.message_bytes as f64;
        let one_way = client.bytes_out + server.bytes_into;
        let back = server.bytes_out + client.bytes_into;
        copies.kernel_one_way = Some(one_way / payload);
        copies.kernel_there_and_back = Some((one_way + back) / payload);
    }
    Ok(Ok((calls, copies)))
}

fn launches<'a>(
    plan: &'a ProfilePlan,
    context: &'a RunContext<'a>,
) -> Result<Launches<'a>, ProfileError> {
    let placed = placement::resolve(plan.placement, &cpu::allowed(), &machine::topology());
    Ok(Launches { plan, context, placed: placed.map_err(ProfileError::Bench)? })
}

/// Times, CPU time and switches, while nothing watches.
fn undisturbed(plan: &ProfilePlan, context: &RunContext<'_>) -> Result<(Run, Cell), ProfileError> {
    let bench_plan = BenchPlan {
        kinds: vec![Kind::Latency],
        mechanisms: Some(vec![plan.mechanism]),
        sizes_bytes: Some(vec![plan.message_bytes]),
        shapes: Some(vec![plan.shape]),
        waits: Some(vec![plan.wait]),
        options: RunOptions {
            placement: plan.placement,
            launches: Some(LAUNCHES),
            time_budget: Some(plan.time),
            seed: plan.seed,
            arguments: plan.arguments.clone(),
            ..RunOptions::default()
        },
        ..BenchPlan::default()
    };
    let quiet = RunContext {
        progress: &|_, _, _| (context.progress)(0, STEPS, "measuring undisturbed"),
        ..context.clone()
    };
    let run = experiment::measure(&experiment::ALL_KINDS, &bench_plan, &quiet)
        .map_err(ProfileError::Bench)?;
    check_interrupted(context)?;
    match run.cells.first().cloned() {
        Some(cell) => Ok((run, cell)),
        None => Err(ProfileError::Bench(BenchError::Nothing(run.skipped))),
    }
}

fn check_interrupted(context: &RunContext<'_>) -> Result<(), ProfileError> {
    match (context.interrupted)() {
        true => Err(ProfileError::Interrupted),
        false => Ok(()),
    }
}

fn add_calls(
    profile: &mut Profile,
    plan: &ProfilePlan,
    context: &RunContext<'_>,
) -> Result<(), ProfileError> {
    match count_calls(plan, WATCHED, context) {
        Ok(Ok((calls, copies))) => (profile.calls, profile.copies) = (Some(calls), copies),
        Ok(Err(missing)) => profile.missing.push(missing),
        Err(_) if (context.interrupted)() => return Err(ProfileError::Interrupted),
        Err(error) => profile.missing.push(failed("counts of system calls", &error)),
    }
    if profile.calls.is_some() && plan.wait == WaitPolicy::Adaptive {
        let warning = "who is watched is slower: an end that spins before it sleeps may sleep \
                       more often than undisturbed, and make more system calls";
        profile.warnings.push(warning.to_owned());
    }
    Ok(())
}

fn sample(
    plan: &ProfilePlan,
    context: &RunContext<'_>,
    missing: &mut Vec<Missing>,
) -> Result<Option<Stacks>, ProfileError> {
    let Some(out) = &plan.out else { return Ok(None) };
    let folded = match stacks::sample(&launches(plan, context)?, plan.time) {
        Ok(folded) => folded,
        Err(failure) => {
            missing.push(permits::stacks(&failure.text));
            return Ok(None);
        }
    };
    let program = fs::canonicalize(&context.program.path).unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    if folded.client.lacks_names(&program) || folded.server.lacks_names(&program) {
        missing.push(permits::function_names());
    }
    if !folded.client.shows_kernel() && !folded.server.shows_kernel() {
        missing.push(permits::kernel_stacks());
    }
    let file = stacks::file(out, plan.mechanism.name());
    let written = fs::write(&file, folded.client.text() + &folded.server.text());
    written.map_err(|error| ProfileError::File(file.clone(), error))?;
    let samples = PerEnd { client: folded.client.samples(), server: folded.server.samples() };
    Ok(Some(Stacks { folded: file.display().to_string(), samples }))
}

fn failed(what: &str, why: impl fmt::Display) -> Missing {
    Missing { what: what.to_owned(), why: why.to_string(), how: String::new() }
}

/// What each end of a cell used per exchange.
fn used(cell: &Cell) -> PerEnd<Used> {
    let each = |count: Option<u64>| Some(count? as f64 / cell.count.max(1) as f64);
    let end = |counts: &EndCounts, cpu_ns: Option<f64>| Used {
        user_ns: each(counts.user_ns),
        system_ns: each(counts.system_ns),
        cpu_ns,
        sleeps: each(counts.voluntary_switches),
        involuntary_switches: each(counts.involuntary_switches),
        page_faults: each(
            counts.minor_faults.map(|minor| minor + counts.major_faults.unwrap_or(0)),
        ),
        migrations: each(counts.migrations),
    };
    let cpu_ns = cell.cpu_ns_per_message;
    PerEnd {
        client: end(&cell.counts.client, cpu_ns.client),
        server: end(&cell.counts.server, cpu_ns.server),
    }
}

/// Counted calls beside what the mechanism declares, each name once.
fn declared_and_counted(plan: &ProfilePlan, counted: &PerExchange) -> Vec<CountedCall> {
    // What is declared is for both ways alike, and for one piece.
    let is_short = plan.shape == Shape::Echo && plan.message_bytes <= DECLARED_BYTES_MAX;
    let costs = plan.mechanism.costs(plan.wait).filter(|_| is_short);
    let declared = costs.map(|costs| costs.calls).unwrap_or_default();
    let names = declared.iter().map(|calls| calls.name);
    let names: BTreeSet<&str> = names.chain(counted.calls.keys().map(String::as_str)).collect();
    let call = |name: &str| CountedCall {
        name: name.to_owned(),
        per_exchange: counted.calls.get(name).copied().unwrap_or(0.0),
        declared: declared
            .iter()
            .find(|calls| calls.name == name)
            .map(|calls| [calls.least, calls.most]),
    };
    names.into_iter().map(call).collect()
}

fn declared_copies(mechanism: Mechanism) -> CopyCounts {
    let copies = mechanism.copies();
    CopyCounts {
        kernel_one_way: None,
        kernel_there_and_back: None,
        declared_kernel: copies.kernel,
        declared_inside: copies.inside,
        declared_send: copies.send,
        declared_receive: copies.receive,
    }
}

/// Runs, counts, samples.
const STEPS: usize = 3;

/// Of the undisturbed run.
const LAUNCHES: u32 = 3;

/// Every mechanism takes so many bytes in one piece.
const DECLARED_BYTES_MAX: u64 = 4 << 10;

/// Some thousand exchanges, although each is some ten times slower while it is watched.
const WATCHED: Duration = Duration::from_millis(400);
