//! `nearcall advise --profile`: measures what the runtime needs of this machine and stores it.

use std::path::PathBuf;

use anyhow::{Context, bail};
use nearcall_bench::advise::store::{self, Stored};
use nearcall_channel::spin::tuning;
use nearcall_os::clock;
use nearcall_results::report::number;
use serde::Serialize;

use crate::commands::End;
use crate::output;

pub(super) fn run(json: bool) -> anyhow::Result<End> {
    let Some(path) = tuning::own_path() else {
        bail!(
            "there is no place to store it: NEARCALL_TUNING is empty, or neither it nor \
             XDG_CONFIG_HOME nor HOME is set"
        );
    };
    let stored = store::measure(clock::realtime_ns() / NS_PER_S);
    let stored = stored.context("cannot measure a wake-up: no thread could be had")?;
    stored.save(&path).with_context(|| format!("cannot store it in {}", path.display()))?;
    match json {
        true => output::json(&Document { stored: &stored, path })?,
        false => output::result(&format!(
            "{}\n  a wake-up costs  {}\n  spin at most     {}\n\nStored in {}\n",
            stored.machine,
            number::time(stored.wake_up_ns as f64),
            number::time(stored.spin_ns as f64),
            path.display()
        ))?,
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

const NS_PER_S: u64 = 1_000_000_000;
