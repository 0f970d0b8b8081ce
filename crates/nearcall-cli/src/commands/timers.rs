//! `nearcall timers`: measures the clocks and prints the findings.
//!
//! **Invariants:** what was measured before Ctrl-C is printed and stored, marked as partial.

use anyhow::Context;
use clap::Args;
use nearcall_os::signal::Interrupt;
use nearcall_results::findings::clocks::ClockFindings;
use nearcall_results::report::table;
use nearcall_studies::clocks::{self, ClockOptions};

use super::{End, bench, findings};
use crate::args::{OutputArgs, QuickArgs};
use crate::progress::Progress;
use crate::terminal::style;

/// Measure clock overhead, resolution, sleep error and agreement
///
/// Compares clock_gettime, gettimeofday and the processor's counter, as two studies did: the
/// cost of a reading, the smallest difference, the error of known sleeps, and the agreement of
/// the clocks over the same spans. The counter is refused, with the reason, where it cannot be
/// trusted. Takes about four seconds.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct TimersArgs {
    #[command(flatten)]
    pub(crate) quick: QuickArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(super) fn run(args: &TimersArgs) -> anyhow::Result<End> {
    findings::check(args.output.out.as_deref())?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let mut found = measure(args.quick.quick, interrupt);
    found.tool = bench::tool();
    if cfg!(debug_assertions) {
        found.warnings.push("a debug build: readings cost more than in a release build".to_owned());
    }
    let table = (!args.output.format.json).then(|| table::clocks::table(&found, style()));
    findings::deliver(&found.to_json(), table, args.output.out.as_deref())?;
    Ok(if found.partial.is_some() { End::Interrupted } else { End::Done })
}

fn measure(quick: bool, interrupt: Interrupt) -> ClockFindings {
    let progress = Progress::new();
    let show = |done, total, text: &str| progress.show(done, total, text);
    clocks::measure(&ClockOptions { quick, progress: &show }, &|| interrupt.interrupted())
}

const EXAMPLES: &str = "\
Examples:
  nearcall timers
  nearcall timers --quick                        a first look, in one second
  nearcall timers --json | jq '.clocks[] | [.name, .overhead.mean_ns]'";
