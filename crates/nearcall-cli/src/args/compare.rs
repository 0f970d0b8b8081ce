//! Options of `nearcall compare`.

use std::path::PathBuf;

use clap::Args;

use super::options::JsonArgs;

/// Options of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The earlier run, as stored by `bench`
    #[arg(value_name = "BEFORE.json")]
    pub(crate) before: PathBuf,

    /// The later run
    #[arg(value_name = "AFTER.json")]
    pub(crate) after: PathBuf,

    /// Smallest difference in time to report [default: 3%]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, value_parser = percent)]
    pub(crate) min_effect: Option<f64>,

    /// Exit with 1 if a cell is slower by this, or if the runs are too noisy
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, value_parser = percent)]
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
fn percent(text: &str) -> Result<f64, String> {
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

/// Times are kept with three digits.
const PERCENT_MIN: f64 = 0.1;

/// Ten times as slow. More is a mistake in the unit.
const PERCENT_MAX: f64 = 900.0;

pub(super) const EXAMPLES: &str = "\
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
            let found = percent(text).unwrap();
            assert!((found - share).abs() < 1e-12, "{text}: {found}");
        }
        for text in
            ["", "%", "5", "0.05", "five", "five%", "1e1%", "inf%", "NaN%", "--5%", "1.2.3%"]
        {
            assert_eq!(percent(text), Err("give a percentage such as 3%".to_owned()), "{text}");
        }
        for (text, says) in [("0%", "smallest"), ("-5%", "below zero"), ("5000%", "largest")] {
            assert!(percent(text).unwrap_err().contains(says), "{text}");
        }
    }
}
