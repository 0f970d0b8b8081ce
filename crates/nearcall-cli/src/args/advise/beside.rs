//! Words of `nearcall advise` for what it does beside advising for requirements.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::value;

/// Recorded traffic, what is stored for the runtime, and the test of the advice.
#[derive(Debug, Args)]
pub(crate) struct BesideArgs {
    /// Advise for recorded traffic: time_s,bytes[,direction], or strace lines
    ///
    /// `strace -f -ttt -e trace=%network,read,write -o FILE PROGRAM` records a program. Sizes,
    /// rate and the share of calls come from the recording; - reads standard input.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = super::WANTED,
        conflicts_with_all = ["profile", "check", "rate", "out"],
        verbatim_doc_comment
    )]
    pub(crate) trace: Option<PathBuf>,

    /// Store what the runtime needs of this machine, where it finds it
    ///
    /// What a wake-up costs, how long to spin, and with --run which mechanism is the fastest
    /// from which size on. Goes to $NEARCALL_TUNING, else to nearcall/tuning.conf in
    /// $XDG_CONFIG_HOME or ~/.config; the runtime looks there and then in /etc.
    #[arg(
        long,
        help_heading = crate::args::RESULT,
        conflicts_with = "check",
        verbatim_doc_comment
    )]
    pub(crate) profile: bool,

    /// Test the advice blind, with N random sets of requirements
    #[arg(
        long,
        value_name = "N",
        hide = true,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=SETS_MAX)
    )]
    pub(crate) check: Option<u32>,

    /// What the sets are drawn from
    #[arg(long, value_name = "N", hide = true, default_value_t = 1, requires = "check")]
    pub(crate) check_seed: u64,

    /// How long the test may take [default: a quarter of a minute for each set]
    #[arg(
        long,
        value_name = "BUDGET",
        hide = true,
        value_parser = value::budget,
        requires = "check"
    )]
    pub(crate) check_time: Option<Duration>,
}

impl BesideArgs {
    /// Whether something else than an advice for requirements is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.trace.is_some() || self.profile || self.check.is_some()
    }
}

/// A set takes about a quarter of a minute.
const SETS_MAX: i64 = 10_000;
