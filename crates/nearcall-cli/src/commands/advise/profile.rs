//! `nearcall advise --profile`: measures what the runtime needs of this machine and stores it.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nearcall_bench::advise::store::{self, BadRuns, Stored};
use nearcall_bench::machine;
use nearcall_channel::spin::tuning;
use nearcall_os::clock;
use nearcall_results::report::number;
use nearcall_results::run::Run;
use serde::Serialize;

use crate::commands::{End, Usage};
use crate::output;

/// Crossovers are those of the run, if there is one.
pub(super) fn run(runs: &[Run], json: bool) -> anyhow::Result<End> {
    let run = match runs {
        [] => None,
        some => match store::run_of(&machine::read().id, some) {
            Err(error @ BadRuns::Many) => return Err(Usage(error.to_string()).into()),
            other => other?,
        },
    };
    let Some(path) = tuning::own_path() else {
        bail!(
            "there is no place to store it: NEARCALL_TUNING is empty, or neither it nor \
             XDG_CONFIG_HOME nor HOME is set"
        );
    };
    let stored = store::measure(run, clock::realtime_ns() / NS_PER_S);
    let stored = stored.context("cannot measure a wake-up: no thread could be had")?;
    stored.save(&path).with_context(|| format!("cannot store it in {}", path.display()))?;
    match json {
        true => output::json(&Document { stored: &stored, path: path.clone() })?,
        false => output::result(&table(&stored, &path))?,
    }
    Ok(End::Done)
}

/// What is stored, and where.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    stored: &'a Stored,
    path: PathBuf,
}

fn table(stored: &Stored, path: &Path) -> String {
    let mut out = format!(
        "{}\n  a wake-up costs  {}\n  spin at most     {}\n",
        stored.machine,
        number::time(stored.wake_up_ns as f64),
        number::time(stored.spin_ns as f64)
    );
    for one in &stored.crossovers {
        let from = number::size(one.from_bytes);
        let of = if one.sleeps { ", of those that never spin" } else { "" };
        out.push_str(&format!("  {} {} from {from}: {}{of}\n", one.class, one.shape, one.fastest));
    }
    out.push_str(&format!("\nStored in {}\n", path.display()));
    out
}

const NS_PER_S: u64 = 1_000_000_000;
