//! `nearcall advise --trace`: reads a recording and advises for its traffic.
//!
//! **Invariants:** the recording is read to its end before anything is measured.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use anyhow::Context;
use nearcall_bench::advise::{Effort, MeasureError, measure};
use nearcall_bench::runner::BenchError;
use nearcall_os::signal::Interrupt;
use nearcall_results::advise::trace::{
    self, Recording, advise_kind, combine, kind_words, requirements, summary,
};
use nearcall_results::advise::{Requirements, text};
use nearcall_results::run::Run;

use crate::commands::{End, Usage, bench};
use crate::output;
use crate::terminal::style;

/// What the advice is by.
pub(super) struct Evidence<'a> {
    /// Stored runs.
    pub(super) runs: &'a [Run],
    /// Their files.
    pub(super) files: Vec<String>,
    /// What to measure where there is no run.
    pub(super) effort: &'a Effort,
}

/// Advises for the traffic in `file`. What the recording lacks is taken from `base`.
pub(super) fn run(
    file: &Path,
    base: &Requirements,
    evidence: Evidence<'_>,
    json: bool,
) -> anyhow::Result<End> {
    let Evidence { runs, files, effort } = evidence;
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
                output::diagnostic("interrupted; there is no advice for a part of the traffic");
                return Ok(End::Interrupted);
            }
            match measured {
                Ok(run) => advise_kind(wanted, &[&run]),
                Err(MeasureError::Refused(refusal)) => Err(refusal),
                Err(MeasureError::Bench(error @ BenchError::OneCpu)) => {
                    return Err(Usage(error.to_string()).into());
                }
                Err(error) => return Err(error.into()),
            }
        } else {
            advise_kind(wanted, &runs.iter().collect::<Vec<_>>())
        };
        // The refusal alone does not name the kind of traffic.
        let advice = advice.with_context(|| format!("for {}", kind_words(wanted)))?;
        parts.push((advice, *share));
    }
    let mut found = combine(recording, parts)?;
    found.advice.runs = files;
    match json {
        true => output::json(&found)?,
        false => {
            let recorded = summary(&found.recording, &found.kinds, style());
            output::result(&format!("{recorded}\n{}", text(&found.advice, style())))?;
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
