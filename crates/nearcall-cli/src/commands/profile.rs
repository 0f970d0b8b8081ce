//! `nearcall profile`: where the time of one exchange goes.
//!
//! Always true: what can be refused is refused before the first measurement. What is looked at how
//! is `nearcall_bench::profile`'s.

use std::ffi::OsString;

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

pub(super) fn run(args: &ProfileArgs, words: &[OsString]) -> anyhow::Result<End> {
    let plan = plan(args, words, &Cpus::read()).map_err(Usage)?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let mut found = match bench::hooked(interrupt, |hooks| profile(&plan, hooks)) {
        Ok(found) => found,
        Err(_) if interrupt.interrupted() => {
            output::aside("interrupted; a profile is whole or none");
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
    match args.json {
        true => output::json(&found)?,
        false => output::result(&table(&found, style()))?,
    }
    Ok(End::Done)
}

fn plan(args: &ProfileArgs, words: &[OsString], cpus: &Cpus) -> Result<ProfilePlan, String> {
    let waits = args.mechanism.waits();
    let wait = args.wait.unwrap_or(waits[0]);
    if !waits.contains(&wait) {
        let can: Vec<&str> = waits.iter().map(|wait| wait.name()).collect();
        return Err(format!(
            "{} cannot wait by {wait}; it can by {}",
            args.mechanism,
            can.join(", ")
        ));
    }
    Ok(ProfilePlan {
        mechanism: args.mechanism,
        message_bytes: args.size,
        shape: args.shape,
        wait,
        placement: bench::place_of(args.pin, args.place.placement, cpus)?,
        time: args.time,
        seed: args.seed.unwrap_or_else(bench::new_seed),
        out: args.out.clone(),
        arguments: bench::arguments(words),
    })
}
