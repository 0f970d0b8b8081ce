//! Words of `nearcall advise`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nearcall_bench::advise::{Need, Pattern, Placement, Weights};
use nearcall_bench::plan::parse_sizes;

use self::beside::BesideArgs;
use super::load::LoadArgs;
use super::value;

mod beside;

/// Options of `advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// Payload bytes of one message, such as 8, 4KiB, 1MiB
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "64",
        value_parser = one_size,
        allow_negative_numbers = true,
        help_heading = WANTED
    )]
    pub(crate) size: u64,

    /// Payload bytes of the reply [default: an empty reply]
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = size_or_none,
        allow_negative_numbers = true,
        help_heading = WANTED
    )]
    pub(crate) reply: Option<u64>,

    /// Messages per second that must be kept up [default: as they come]
    #[arg(
        long,
        value_name = "PER_SECOND",
        value_parser = rate,
        allow_negative_numbers = true,
        help_heading = WANTED
    )]
    pub(crate) rate: Option<f64>,

    /// Whether somebody waits for a reply: call or one-way
    #[arg(
        long,
        value_name = "PATTERN",
        default_value = "call",
        hide_possible_values = true,
        help_heading = WANTED
    )]
    pub(crate) pattern: PatternWord,

    /// Things that the choice must have, separated by commas; a wrong one lists them all
    ///
    /// pollable, crash-detection, isolation, descriptor-passing, multi-machine, no-spin (not even
    /// for a while, as adaptive waiting does), same-cpu-safe, survives-oversized,
    /// delivers-after-death, kill-safe, nothing-left, shared-memory
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = WANTED,
        verbatim_doc_comment
    )]
    pub(crate) needs: Vec<Need>,

    /// What counts: latency, p99, throughput, cpu, memory, or shares as latency=0.7,cpu=0.3
    #[arg(long, value_name = "WHAT", default_value = "latency", help_heading = WANTED)]
    pub(crate) optimise: Weights,

    /// Both ends on the same CPU, cross CPUs, not pinned (none), or any
    #[arg(
        long,
        value_name = "PLACE",
        default_value = "any",
        hide_possible_values = true,
        help_heading = super::WHERE
    )]
    pub(crate) placement: Where,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    /// Stored runs of this or another machine instead of a fresh measurement
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["time", "seed", "out"],
        help_heading = EVIDENCE
    )]
    pub(crate) run: Vec<PathBuf>,

    /// How long a fresh measurement may take
    #[arg(
        long,
        value_name = "BUDGET",
        default_value = "45s",
        allow_negative_numbers = true,
        value_parser = value::budget,
        help_heading = EVIDENCE
    )]
    pub(crate) time: Duration,

    /// Decides the order of launches and the payloads [default: a new one each time]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = EVIDENCE)]
    pub(crate) seed: Option<u64>,

    /// Store the fresh run here [default: a new file in the data directory of nearcall]
    #[arg(long, value_name = "FILE", help_heading = EVIDENCE)]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) beside: BesideArgs,

    /// Print one JSON document (nearcall.advice/1) instead of the text
    #[arg(long, help_heading = super::RESULT)]
    pub(crate) json: bool,
}

/// Whether somebody waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PatternWord {
    /// The sender waits for the reply
    Call,
    /// Nobody answers
    OneWay,
}

impl From<PatternWord> for Pattern {
    fn from(word: PatternWord) -> Self {
        match word {
            PatternWord::Call => Self::Call,
            PatternWord::OneWay => Self::OneWay,
        }
    }
}

/// Where both ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Where {
    /// Nobody knows yet
    Any,
    /// On two CPUs
    Cross,
    /// Both on one CPU
    Same,
    /// Not pinned
    None,
}

impl From<Where> for Placement {
    fn from(word: Where) -> Self {
        match word {
            Where::Any => Self::Any,
            Where::Cross => Self::Cross,
            Where::Same => Self::SameCpu,
            Where::None => Self::Unpinned,
        }
    }
}

fn one_size(text: &str) -> Result<u64, String> {
    match parse_sizes(text).map_err(|error| error.to_string())?[..] {
        [size] => Ok(size),
        _ => Err("give one size such as 64 or 4KiB".to_owned()),
    }
}

fn size_or_none(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { one_size(text) }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.trim().parse().map_err(|_| RATE_ADVICE.to_owned())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err(RATE_ADVICE.to_owned()) }
}

const RATE_ADVICE: &str = "give messages per second above 0, such as 1000";

pub(super) const EXAMPLES: &str = "\
Examples:
  nearcall advise                                short calls: measures this machine for 45 seconds
  nearcall advise --size 4KiB --rate 1000 --needs pollable,crash-detection
  nearcall advise --size 64KiB --pattern one-way --optimise throughput
  nearcall advise --placement same --optimise latency=0.7,cpu=0.3
  nearcall advise --size 1KiB --run calls.json   by what a stored run says
  nearcall advise --trace recording.txt          for what strace saw of your own program
  nearcall advise --json | jq -r .address";

const WANTED: &str = "What is wanted";
const EVIDENCE: &str = "Evidence";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_are_one_number_each() {
        assert_eq!((one_size("4KiB"), size_or_none("0")), (Ok(4_096), Ok(0)));
        assert!(one_size("0").is_err() && one_size("8,9").is_err() && size_or_none("-1").is_err());
        assert_eq!((rate("1000"), rate("0.5"), rate("1e3")), (Ok(1e3), Ok(0.5), Ok(1e3)));
        for bad in ["-1", "0", "", "fast", "inf", "NaN"] {
            assert_eq!(rate(bad), Err(RATE_ADVICE.to_owned()), "{bad}");
        }
    }
}
