//! `nearcall compare`: reports whether a later run differs from an earlier one.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, bail};
use nearcall_results::compare::{Comparison, Overall, Rules, compare};
use nearcall_results::report::table::compare::{markdown, table};
use nearcall_results::run::{CellKey, List, Run, printable};

use super::{End, Usage};
use crate::args::CompareArgs;
use crate::output;
use crate::terminal::style;

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<End> {
    let rules = rules(args)?;
    let (before, after) = (load(&args.before)?, load(&args.after)?);
    let comparison = compare(&before, &after, &rules)?;
    if args.format.json {
        output::json(&comparison)?;
    } else if args.markdown {
        output::result(&markdown(&comparison, args.all))?;
    } else {
        output::result(&table(&comparison, args.all, style()))?;
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

/// Fails if a cell is slower by at least `share`, and names those. Fails too if the runs could not
/// have shown that: a gate that sees nothing must not pass.
fn gate(comparison: &Comparison, share: f64) -> anyhow::Result<End> {
    let profiles = [&comparison.before, &comparison.after].map(|run| run.tool.profile.as_str());
    if !comparison.same_machine {
        bail!("--fail-if-slower judges software, and the runs are of two machines");
    }
    if comparison.same_run {
        bail!("--fail-if-slower: both files hold the same run, so measure the second one");
    }
    if profiles[0] != profiles[1] {
        let [before, after] = profiles;
        bail!("--fail-if-slower: a {before:?} build and a {after:?} build: measure both alike");
    }
    let slower: Vec<&str> = comparison.slower_by(share).map(|cell| cell.name.as_str()).collect();
    if !slower.is_empty() {
        let are = if slower.len() == 1 { "cell is" } else { "cells are" };
        let percent = percent(share);
        bail!("{} {are} slower by {percent} % or more: {}", slower.len(), listed(&slower)?);
    }
    whole(comparison)?;
    sees(comparison, share)?;
    Ok(End::Done)
}

/// Whether the second run has what the first has.
fn whole(comparison: &Comparison) -> anyhow::Result<()> {
    if comparison.after.partial {
        bail!("--fail-if-slower: the second run was cut short; measure it again");
    }
    let is_ours = |key: &&CellKey| key.list != List::Floors;
    let missing: Vec<String> =
        comparison.only_before.iter().filter(is_ours).map(CellKey::to_string).collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(String::as_str).collect();
        bail!(
            "--fail-if-slower: the second run lacks {} of the first, which it may have failed to \
             measure: {}",
            if missing.len() == 1 { "a cell".to_owned() } else { format!("{} cells", names.len()) },
            listed(&names)?
        );
    }
    Ok(())
}

/// Checks that enough cells have a verdict, and fine enough ones, to find a difference of `share`.
fn sees(comparison: &Comparison, share: f64) -> anyhow::Result<()> {
    let (counts, percent) = (&comparison.counts, percent(share));
    if comparison.cells.iter().all(|cell| cell.key.list == List::Floors) {
        bail!("--fail-if-slower: the runs have only floors in common, which are not nearcall");
    }
    if counts.judged() * 2 < counts.cells {
        bail!(
            "--fail-if-slower: only {} of {} cells have a verdict; measure on a quieter machine, \
             with several launches",
            counts.judged(),
            counts.cells
        );
    }
    let seen = comparison.typical_detectable.filter(|&seen| seen > share);
    if let Some(seen) = seen {
        let flagged = comparison.overall == Overall::Slower || comparison.overall == Overall::Mixed;
        if !flagged {
            bail!(
                "--fail-if-slower: the gate cannot see {percent} %: a typical cell shows \
                 differences from {:.0} % on; measure with more launches (--launches), or on a \
                 quieter machine",
                seen * 100.0
            );
        }
    }
    Ok(())
}

/// Rounded, or 7 % would be shown as 7.000000000000001 %.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

/// The first of the names, harmless, in one line.
fn listed(names: &[&str]) -> anyhow::Result<String> {
    let mut text = names[..names.len().min(NAMES_MAX)].join("; ");
    if names.len() > NAMES_MAX {
        write!(text, "; and {} more", names.len() - NAMES_MAX)?;
    }
    Ok(printable(&text))
}

/// The table has all of them.
const NAMES_MAX: usize = 10;
