//! Options of `nearcall advise` for its modes other than advice for requirements.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::{OUTPUT, WORKLOAD, value};

/// Advice for recorded traffic, the tuning file of the runtime, and the test of the advice.
#[derive(Debug, Args)]
pub(crate) struct ModeArgs {
    /// Advise for recorded traffic: time_s,bytes[,direction], or strace lines
    ///
    /// `strace -f -ttt -e trace=%network,read,write -o FILE PROGRAM` records a program. Sizes, rate
    /// and the share of calls come from the recording; - reads standard input.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = WORKLOAD,
        conflicts_with_all = ["profile", "check", "rate", "out"]
    )]
    pub(crate) trace: Option<PathBuf>,

    /// Write the tuning file of this machine, which the runtime reads
    ///
    /// It holds the cost of a wake-up, how long to spin, and with --run which mechanism is the
    /// fastest from which size on. It is written to $NEARCALL_TUNING, else to nearcall/tuning.conf
    /// in $XDG_CONFIG_HOME or ~/.config; the runtime reads it there and then in /etc.
    #[arg(long, help_heading = OUTPUT, conflicts_with = "check")]
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

    /// Seed of the sets
    #[arg(long, value_name = "N", hide = true, default_value_t = 1, requires = "check")]
    pub(crate) check_seed: u64,

    /// Longest time of the test [default: a quarter of a minute for each set]
    #[arg(
        long,
        value_name = "TIME",
        hide = true,
        value_parser = value::time,
        requires = "check"
    )]
    pub(crate) check_time: Option<Duration>,
}

impl ModeArgs {
    /// Returns whether a mode other than advice for requirements is selected.
    pub(crate) fn is_selected(&self) -> bool {
        self.trace.is_some() || self.profile || self.check.is_some()
    }
}

/// A set takes about a quarter of a minute.
const SETS_MAX: i64 = 10_000;
