//! `nearcall compare`: reports whether a later run differs from an earlier one.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use nearcall_results::compare::{Comparison, Overall, Rules, compare};
use nearcall_results::report::table::compare::{markdown, table};
use nearcall_results::run::{CellKey, List, Run, printable};

use super::{End, Usage};
use crate::args::JsonArgs;
use crate::output;
use crate::terminal::style;

/// Compare two runs: slower, faster, or no difference
///
/// Cells that measured the same are compared by their launches, corrected for the number of
/// cells; differences below --min-effect are ignored. Where launches vary too much the verdict
/// is "cannot tell", with the number of launches that would be needed. Runs of two machines are
/// compared as machines; runs whose definitions differ are refused.
///
/// Exit code: 0 compared; 1 slower by --fail-if-slower, refused, or too noisy for a verdict; 2
/// usage error.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// The earlier run, as stored by `bench`
    #[arg(value_name = "BEFORE.json")]
    pub(crate) before: PathBuf,

    /// The later run
    #[arg(value_name = "AFTER.json")]
    pub(crate) after: PathBuf,

    /// Smallest difference in time to report [default: 3%]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, value_parser = share)]
    pub(crate) min_effect: Option<f64>,

    /// Exit with 1 if a cell is slower by this, or if the runs are too noisy
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, value_parser = share)]
    pub(crate) fail_if_slower: Option<f64>,

    /// Show every cell, not only those that differ
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,

    /// Print Markdown, for a comment in a review, instead of the table
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// Reads `5%` or `0.5%` as a share. Nothing else: 0.05 could mean either.
fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let Some(number) = text.strip_suffix('%').map(str::trim_end) else {
        return Err("give a percentage such as 3%".to_owned());
    };
    // Otherwise `inf`, `1e3` and `+5` would be numbers too.
    let plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let unsigned = number.strip_prefix('-').unwrap_or(number);
    let value: Option<f64> = Some(unsigned).filter(plain).and_then(|text| text.parse().ok());
    match value {
        None => Err("give a percentage such as 3%".to_owned()),
        Some(_) if unsigned.len() < number.len() => {
            Err("below zero; give how much slower as a percentage above 0%".to_owned())
        }
        Some(value) if value < PERCENT_MIN => {
            Err(format!("the smallest is {PERCENT_MIN}%: no figure is more exact"))
        }
        Some(value) if value > PERCENT_MAX => Err(format!("the largest is {PERCENT_MAX}%")),
        Some(value) => Ok(value / 100.0),
    }
}

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

/// Times are kept with three digits.
const PERCENT_MIN: f64 = 0.1;

/// Ten times as slow. More is a mistake in the unit.
const PERCENT_MAX: f64 = 900.0;

const EXAMPLES: &str = "\
Examples:
  nearcall compare before.json after.json        slower and faster cells
  nearcall compare before.json after.json --all --min-effect 5%
  nearcall compare main.json mine.json --fail-if-slower 5%
  nearcall compare main.json mine.json --markdown >> \"$GITHUB_STEP_SUMMARY\"
  nearcall compare a.json b.json --json | jq '.cells[] | [.verdict, .name]'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_percentages_above_zero_are_shares() {
        for (text, share) in [("5%", 0.05), ("0.5%", 0.005), (" 3 %", 0.03), ("100%", 1.0)] {
            let found = super::share(text).unwrap();
            assert!((found - share).abs() < 1e-12, "{text}: {found}");
        }
        for text in
            ["", "%", "5", "0.05", "five", "five%", "1e1%", "inf%", "NaN%", "--5%", "1.2.3%"]
        {
            assert_eq!(share(text), Err("give a percentage such as 3%".to_owned()), "{text}");
        }
        for (text, says) in [("0%", "smallest"), ("-5%", "below zero"), ("5000%", "largest")] {
            assert!(share(text).unwrap_err().contains(says), "{text}");
        }
    }
}
