//! `nearcall profile`: where the time of one exchange goes.
//!
//! **Invariants:** what can be refused is refused before the first measurement.
//!
//! **Not here:** the measurement, which is `nearcall_bench::profile`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use nearcall_bench::profile::table::table;
use nearcall_bench::profile::{ProfileError, ProfilePlan, profile};
use nearcall_bench::runner::BenchError;
use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_os::signal::Interrupt;
use nearcall_results::shape::Shape;

use super::bench::{self, Cpus};
use super::{End, Usage, command_line};
use crate::args::{JsonArgs, PinArgs, PlacementArgs, SeedArgs, TimeArgs, value};
use crate::output;
use crate::terminal::style;

/// Show where the time of one message goes
///
/// System calls are counted by ptrace, copies by the bytes that those moved. Switches, faults
/// and CPU time come from an undisturbed run of at most 3 seconds, or --time. Stacks are
/// sampled only where they are permitted; otherwise the output explains how to permit them.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ProfileArgs {
    /// The mechanism; `nearcall mechanisms` lists them
    #[arg(value_name = "MECHANISM")]
    pub(crate) mechanism: Mechanism,

    /// Payload size, from 1 byte to 4 MiB
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = value::size)]
    pub(crate) size: u64,

    /// Reply: the same payload (echo) or none (sink)
    #[arg(long, value_name = "SHAPE", default_value = "echo", value_parser = value::shape())]
    pub(crate) shape: Shape,

    /// Wait policy: adaptive, spin, block, poll [default: the mechanism's usual one]
    #[arg(long, value_name = "WAIT", value_parser = value::wait())]
    pub(crate) wait: Option<WaitPolicy>,

    #[command(flatten)]
    pub(crate) placement: PlacementArgs,

    #[command(flatten)]
    pub(crate) pin: PinArgs,

    #[command(flatten)]
    pub(crate) time: TimeArgs,

    #[command(flatten)]
    pub(crate) seed: SeedArgs,

    /// Sample stacks too, by perf; write profile-MECHANISM.folded to this directory
    ///
    /// Names of functions need a program with symbols: `cargo run --profile profiling -- profile
    /// pipe --out-dir .` builds and runs one.
    #[arg(long, value_name = "DIR")]
    pub(crate) out_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) fn run(args: &ProfileArgs) -> anyhow::Result<End> {
    let plan = plan(args, &command_line(), &Cpus::read()).map_err(Usage)?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let mut found = match bench::hooked(interrupt, |hooks| profile(&plan, hooks)) {
        Ok(found) => found,
        Err(_) if interrupt.interrupted() => {
            output::diagnostic("interrupted; no profile, because one of a part would mislead");
            return Ok(End::Interrupted);
        }
        Err(ProfileError::Bench(error @ (BenchError::OneCpu | BenchError::NotAllowed { .. }))) => {
            return Err(Usage(error.to_string()).into());
        }
        Err(error) => return Err(error.into()),
    };
    found.tool = bench::tool();
    if cfg!(debug_assertions) {
        let warning = "a debug build: nearcall's own part is far slower than in a release build";
        found.warnings.push(warning.to_owned());
    }
    match args.format.json {
        true => output::json(&found)?,
        false => output::result(&table(&found, style()))?,
    }
    Ok(End::Done)
}

fn plan(args: &ProfileArgs, arguments: &[OsString], cpus: &Cpus) -> Result<ProfilePlan, String> {
    let waits = args.mechanism.waits();
    let wait = args.wait.unwrap_or(waits[0]);
    if !waits.contains(&wait) {
        let supported: Vec<&str> = waits.iter().map(|wait| wait.name()).collect();
        return Err(format!(
            "{} does not support the wait policy {wait}; it supports {}",
            args.mechanism,
            supported.join(", ")
        ));
    }
    Ok(ProfilePlan {
        mechanism: args.mechanism,
        message_bytes: args.size,
        shape: args.shape,
        wait,
        placement: bench::placement(args.pin.pin, args.placement.placement, cpus)?,
        time: args.time.time.unwrap_or(TIME),
        seed: args.seed.seed.unwrap_or_else(bench::new_seed),
        out: args.out_dir.clone(),
        arguments: bench::arguments(arguments),
    })
}

/// The usual time of the undisturbed run and of the sampled one.
const TIME: Duration = Duration::from_secs(3);

const EXAMPLES: &str = "\
Examples:
  nearcall profile pipe                          one round trip of 1 KiB
  nearcall profile shm --wait block --size 64KiB
  nearcall profile tcp --out-dir .               stacks for a flame graph
  nearcall profile shm-futex --json | jq '.calls.ends.client'";
