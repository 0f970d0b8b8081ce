//! `nearcall compare`: tells whether a later run differs from an earlier one.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, bail};
use nearcall_bench::compare::{Comparison, Overall, Rules, compare, markdown};
use nearcall_bench::report::table::compare::table;
use nearcall_bench::run::Run;

use super::{End, Usage};
use crate::args::CompareArgs;
use crate::output;

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<End> {
    let rules = rules(args)?;
    let (before, after) = (load(&args.before)?, load(&args.after)?);
    let comparison = compare(&before, &after, &rules)?;
    if args.json {
        output::json(&comparison)?;
    } else if args.markdown {
        output::result(&markdown(&comparison, args.all))?;
    } else {
        output::result(&table(&comparison, args.all))?;
    }
    if comparison.overall == Overall::Unknown {
        let why = comparison.summary.first().map(|said| said.trim_end_matches('.'));
        bail!("{}", why.unwrap_or("nothing can be said"));
    }
    args.fail_if_slower.map_or(Ok(End::Done), |share| gate(&comparison, share))
}

fn load(file: &Path) -> anyhow::Result<Run> {
    Run::load(file).with_context(|| file.display().to_string())
}

/// A gate below the margin could never close, so it lowers the margin unless that was set too.
fn rules(args: &CompareArgs) -> anyhow::Result<Rules> {
    let default = Rules::default();
    let min_effect = match (args.min_effect, args.fail_if_slower) {
        (Some(margin), Some(gate)) if gate < margin => {
            let text = "--fail-if-slower is below --min-effect, so it would never fail";
            bail!(Usage(text.to_owned()));
        }
        (Some(margin), _) => margin,
        (None, Some(gate)) => gate.min(default.min_effect),
        (None, None) => default.min_effect,
    };
    Ok(Rules { min_effect, ..default })
}

/// Fails if a cell is slower by at least `share`, and names those.
fn gate(comparison: &Comparison, share: f64) -> anyhow::Result<End> {
    if !comparison.same_machine {
        bail!("--fail-if-slower judges software, and the runs are of two machines");
    }
    let slower: Vec<&str> = comparison.slower_by(share).map(|cell| cell.name.as_str()).collect();
    if slower.is_empty() {
        return Ok(End::Done);
    }
    let (are, share) = (if slower.len() == 1 { "cell is" } else { "cells are" }, share * 100.0);
    // Rounded, or 7 % would be shown as 7.000000000000001 %.
    let share = (share * 1e6).round() / 1e6;
    let mut text = format!("{} {are} slower by {share} % or more: ", slower.len());
    text.push_str(&slower[..slower.len().min(NAMES_MAX)].join("; "));
    if slower.len() > NAMES_MAX {
        write!(text, "; and {} more", slower.len() - NAMES_MAX)?;
    }
    let harmless = |c: char| if c.is_control() { ' ' } else { c };
    bail!("{}", text.chars().map(harmless).collect::<String>());
}

/// The table has all of them.
const NAMES_MAX: usize = 10;
