//! `nearcall timers`: has the clocks measured and prints what was found.
//!
//! Always true: what was measured before Ctrl-C is printed and stored, marked as partial.

use anyhow::Context;
use nearcall_bench::clocks::{self, ClockFindings, How};
use nearcall_bench::report::table;
use nearcall_bench::run::{check_writable, save_text};
use nearcall_os::signal::Interrupt;

use super::{End, bench};
use crate::args::TimersArgs;
use crate::output;
use crate::progress::Progress;

pub(super) fn run(args: &TimersArgs) -> anyhow::Result<End> {
    if let Some(file) = &args.out {
        check_writable(file).with_context(|| format!("cannot store in {}", file.display()))?;
    }
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let mut found = measure(args.quick, interrupt);
    found.tool = bench::tool();
    if cfg!(debug_assertions) {
        found.warnings.push("a debug build: readings cost more than in a release build".to_owned());
    }
    let text = found.to_json() + "\n";
    // First, since a closed pipe must not cost what was measured.
    let stored = args.out.as_ref().map_or(Ok(()), |file| {
        save_text(file, &text).with_context(|| format!("cannot store in {}", file.display()))
    });
    if args.json {
        output::result(&text)?;
    } else {
        output::result(&table::clocks::table(&found))?;
    }
    stored?;
    Ok(if found.partial.is_some() { End::Interrupted } else { End::Done })
}

fn measure(quick: bool, interrupt: Interrupt) -> ClockFindings {
    let progress = Progress::new();
    let show = |done, total, text: &str| progress.show(done, total, text);
    clocks::measure(&How { quick, progress: &show }, &|| interrupt.interrupted())
}
