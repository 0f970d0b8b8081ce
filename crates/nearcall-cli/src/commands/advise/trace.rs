//! `nearcall advise --trace`: reads a recording and advises for its traffic.
//!
//! Always true: the recording is read to its end before anything is measured.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use anyhow::Context;
use nearcall_bench::advise::trace::{self, Recording, advise_kind, combine, requirements, summary};
use nearcall_bench::advise::{Effort, MeasureError, Requirements, measure, text};
use nearcall_bench::run::Run;
use nearcall_os::signal::Interrupt;

use crate::commands::{End, bench};
use crate::output;

/// Advises for the traffic in `file`: by `runs`, or by a measurement of `effort` if there are none.
/// What the recording does not tell is that of `base`.
pub(super) fn run(
    file: &Path,
    base: &Requirements,
    runs: &[Run],
    effort: &Effort,
    json: bool,
) -> anyhow::Result<End> {
    let recording = read(file)?;
    let wanted = requirements(&recording, base);
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let mut parts = Vec::new();
    for (wanted, share) in &wanted {
        let advice = if runs.is_empty() {
            let effort =
                Effort { time_budget: effort.time_budget.mul_f64(*share), ..effort.clone() };
            let measured = bench::hooked(interrupt, |hooks| measure(wanted, &effort, hooks));
            if interrupt.interrupted() {
                output::aside("interrupted; there is no advice for a part of the traffic");
                return Ok(End::Interrupted);
            }
            match measured {
                Ok(run) => advise_kind(wanted, &[&run])?,
                Err(MeasureError::Refused(refusal)) => return Err(refusal.into()),
                Err(error) => return Err(error.into()),
            }
        } else {
            advise_kind(wanted, &runs.iter().collect::<Vec<_>>())?
        };
        parts.push((advice, *share));
    }
    let found = combine(recording, parts)?;
    match json {
        true => output::json(&found)?,
        false => {
            let recorded = summary(&found.recording, &found.kinds);
            output::result(&format!("{recorded}\n{}", text(&found.advice)))?;
        }
    }
    Ok(End::Done)
}

fn read(file: &Path) -> anyhow::Result<Recording> {
    if file == Path::new("-") {
        return Ok(trace::read(&mut io::stdin().lock())?);
    }
    let name = || format!("{}", file.display());
    let opened = File::open(file).with_context(name)?;
    trace::read(&mut BufReader::new(opened)).with_context(name)
}
