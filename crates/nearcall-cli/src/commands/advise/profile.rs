//! `nearcall advise --profile`: measures what the runtime needs of this machine and stores it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use nearcall_bench::advise::costs;
use nearcall_bench::advise::store::{self, Stored, StoredCost};
use nearcall_channel::spin::tuning;
use nearcall_os::clock;
use nearcall_os::signal::Interrupt;
use nearcall_results::report::number;
use serde::Serialize;

use crate::commands::{End, bench};
use crate::output;

pub(super) fn run(time: Option<Duration>, json: bool) -> anyhow::Result<End> {
    let Some(path) = tuning::own_path() else {
        bail!(
            "there is no place to store it: NEARCALL_TUNING is empty, or neither it nor \
             XDG_CONFIG_HOME nor HOME is set"
        );
    };
    let stored = store::measure(clock::realtime_ns() / NS_PER_S);
    let mut stored = stored.context("cannot measure a wake-up: no thread could be had")?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let time = time.unwrap_or(costs::TIME);
    let measured = bench::hooked(interrupt, |context| costs::measure(time, context));
    if interrupt.interrupted() {
        output::diagnostic("interrupted; nothing is stored");
        return Ok(End::Interrupted);
    }
    let measured = measured.context("cannot measure what calls cost")?;
    if measured.is_empty() {
        bail!("the time was too short to measure what calls cost; nothing is stored: raise --time");
    }
    stored.costs = measured.iter().map(StoredCost::from).collect();
    stored.save(&path).with_context(|| format!("cannot store it in {}", path.display()))?;
    match json {
        true => output::json(&Document { stored: &stored, path })?,
        false => output::result(&format!(
            "{}\n  a wake-up costs  {}\n  spin at most     {}\n  costs of calls   {}\n\n\
             Stored in {}\n",
            stored.machine,
            number::time(stored.wake_up_ns as f64),
            number::time(stored.spin_ns as f64),
            stored.costs.len(),
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
