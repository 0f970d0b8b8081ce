//! `nearcall profile`: where the time of one exchange goes.
//!
//! **Invariants:** what can be refused is refused before the first measurement.
//!
//! **Not here:** the measurement, which is `nearcall_bench::profile`.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context;
use nearcall_bench::profile::table::table;
use nearcall_bench::profile::{ProfileError, ProfilePlan, profile};
use nearcall_bench::runner::BenchError;
use nearcall_os::signal::Interrupt;

use super::bench::{self, Cpus};
use super::{End, Usage};
use crate::args::ProfileArgs;
use crate::output;
use crate::terminal::style;

pub(super) fn run(args: &ProfileArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let plan = plan(args, arguments, &Cpus::read()).map_err(Usage)?;
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
