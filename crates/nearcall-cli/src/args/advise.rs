//! Options of `nearcall advise`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nearcall_results::advise::{Need, Pattern, Placement, Weights};

use self::modes::ModeArgs;
use super::options::{BackgroundLoadArgs, OutputArgs, SeedArgs, TimeArgs};
use super::value;

mod modes;

/// Options of `advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// Payload of one message, such as 8, 4KiB, 1MiB
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = value::size)]
    pub(crate) size: u64,

    /// Payload of the reply [default: an empty reply]
    #[arg(long, value_name = "SIZE", value_parser = size_or_none)]
    pub(crate) reply: Option<u64>,

    /// Messages per second to sustain [default: one after the other]
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    pub(crate) rate: Option<f64>,

    /// Call pattern: call (waits for a reply) or one-way
    #[arg(long, value_name = "PATTERN", default_value = "call")]
    pub(crate) pattern: PatternArg,

    /// Required capabilities, such as pollable,isolation; --help lists all
    ///
    /// pollable, crash-detection, isolation, descriptor-passing, multi-machine, no-spin (not even
    /// for a bounded time, as the adaptive policy does), same-cpu-safe, survives-oversized,
    /// delivers-after-death, kill-safe, nothing-left, shared-memory. `nearcall mechanisms` explains
    /// them.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) needs: Vec<Need>,

    /// Clients that one server has at once: 1 also considers what serves one only [default: any]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) clients: Option<u32>,

    /// Objective: latency, p99, throughput, cpu, memory, or shares
    ///
    /// Shares add up to 1, as latency=0.7,cpu=0.3. They are the powers of a candidate's ratios to
    /// the best.
    #[arg(long, value_name = "OBJECTIVE", default_value = "latency")]
    pub(crate) optimise: Weights,

    /// Both ends on the same CPU, cross CPUs, not pinned (none), or unknown (any)
    #[arg(long, value_name = "PLACE", default_value = "any")]
    pub(crate) placement: ExpectedPlacementArg,

    #[command(flatten)]
    pub(crate) load: BackgroundLoadArgs,

    #[command(flatten)]
    pub(crate) time: TimeArgs,

    #[command(flatten)]
    pub(crate) seed: SeedArgs,

    /// Measure and rank even while other programs use the CPUs
    #[arg(long, conflicts_with = "run")]
    pub(crate) anyway: bool,

    /// Use stored runs of this or another machine; measure nothing
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["time", "seed", "out"])]
    pub(crate) run: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) modes: ModeArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A call pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PatternArg {
    /// The sender waits for the reply
    Call,
    /// There is no reply
    OneWay,
}

impl From<PatternArg> for Pattern {
    fn from(pattern: PatternArg) -> Self {
        match pattern {
            PatternArg::Call => Self::Call,
            PatternArg::OneWay => Self::OneWay,
        }
    }
}

/// The placement of both ends in the program that the advice is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExpectedPlacementArg {
    /// Not known yet
    Any,
    /// On two CPUs
    Cross,
    /// Both on one CPU
    Same,
    /// Not pinned
    None,
}

impl From<ExpectedPlacementArg> for Placement {
    fn from(placement: ExpectedPlacementArg) -> Self {
        match placement {
            ExpectedPlacementArg::Any => Self::Any,
            ExpectedPlacementArg::Cross => Self::Cross,
            ExpectedPlacementArg::Same => Self::SameCpu,
            ExpectedPlacementArg::None => Self::Unpinned,
        }
    }
}

fn size_or_none(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { value::size(text) }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.trim().parse().map_err(|_| RATE_ADVICE.to_owned())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err(RATE_ADVICE.to_owned()) }
}

const RATE_ADVICE: &str = "give messages per second above 0, such as 1000";

pub(super) const EXAMPLES: &str = "\
Examples:
  nearcall advise                                short calls: measures for 45 s
  nearcall advise --size 4KiB --rate 1000 --needs pollable,crash-detection
  nearcall advise --size 64KiB --pattern one-way --optimise throughput
  nearcall advise --placement same --optimise latency=0.7,cpu=0.3
  nearcall advise --size 1KiB --run calls.json   from a stored run
  nearcall advise --trace recording.txt          from strace of your program
  nearcall advise --json | jq -r .address";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_are_one_number_each() {
        assert_eq!((size_or_none("4KiB"), size_or_none("0")), (Ok(4_096), Ok(0)));
        assert!(size_or_none("8,9").is_err() && size_or_none("-1").is_err());
        assert_eq!((rate("1000"), rate("0.5"), rate("1e3")), (Ok(1e3), Ok(0.5), Ok(1e3)));
        for bad in ["-1", "0", "", "fast", "inf", "NaN"] {
            assert_eq!(rate(bad), Err(RATE_ADVICE.to_owned()), "{bad}");
        }
    }
}
