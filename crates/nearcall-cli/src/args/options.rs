//! Options that several commands share: one name, one meaning, one help text.
//!
//! **Invariants:** an option that two commands have is defined once, here, and flattened into both.
//!
//! **Not here:** the parsers of values (`value.rs`), and options of one command only.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::load::Load;

use super::value::{self, Pin, Sizes};

/// The mechanisms to measure.
#[derive(Debug, Args)]
pub(crate) struct MechanismArgs {
    /// Mechanisms, separated by commas; `nearcall mechanisms` lists them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) mechanism: Option<Vec<Mechanism>>,
}

/// The wait policies to measure.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Wait policies: adaptive, spin, block (in a system call), poll (in epoll)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = value::wait())]
    pub(crate) wait: Option<Vec<WaitPolicy>>,
}

/// The payload sizes to measure.
#[derive(Debug, Args)]
pub(crate) struct SizesArgs {
    /// Payload sizes, such as 8,1KiB,64KiB,1MB
    ///
    /// A size is a whole number of bytes with an optional unit: K, KiB, M and MiB are powers of
    /// 1,024; KB and MB are powers of 1,000. The largest is 4 MiB, and 1 MiB for the argument of a
    /// call. Some experiments measure one size only, 8 bytes by default.
    #[arg(long, value_name = "LIST")]
    pub(crate) size: Option<Sizes>,
}

/// The CPUs of both ends, relative to each other.
#[derive(Debug, Args)]
pub(crate) struct PlacementArgs {
    /// Both ends on the same CPU, cross CPUs, or not pinned (none)
    #[arg(long, value_name = "PLACE", conflicts_with = "pin")]
    pub(crate) placement: Option<PlacementArg>,
}

/// A placement of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlacementArg {
    /// Both on one CPU
    Same,
    /// On two CPUs
    Cross,
    /// Not pinned
    None,
}

/// The CPUs of both ends, by number.
#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// Pin the client and the server to these CPUs, such as 0,1
    #[arg(long, value_name = "CLIENT,SERVER")]
    pub(crate) pin: Option<Pin>,
}

/// The load beside the measured processes.
#[derive(Debug, Args)]
pub(crate) struct BackgroundLoadArgs {
    /// Background load: idle, a list of cpu,memory,io, or a duty cycle such as 35%
    #[arg(long, value_name = "LOAD", default_value = "idle", hide_default_value = true)]
    pub(crate) load: Load,
}

/// Power management during the measurement.
#[derive(Debug, Args)]
pub(crate) struct PmQosArgs {
    /// Keep CPUs out of sleep states by /dev/cpu_dma_latency, if permitted
    #[arg(long)]
    pub(crate) pm_qos: bool,
}

/// The limit of time.
#[derive(Debug, Args)]
pub(crate) struct TimeArgs {
    /// Longest time of the whole measurement, such as 30s, 2m or 90 (seconds)
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    pub(crate) time: Option<Duration>,
}

/// The random numbers.
#[derive(Debug, Args)]
pub(crate) struct SeedArgs {
    /// Seed of the launch order and the payloads [default: a new one each time]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// Less accuracy for less time.
#[derive(Debug, Args)]
pub(crate) struct QuickArgs {
    /// Trade accuracy for speed: fewer launches and sizes, less time
    #[arg(long)]
    pub(crate) quick: bool,
}

/// A stored and a printed result.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Store the result in this JSON file
    ///
    /// Commands that measure a run store it even without this option, in a new file in the data
    /// directory of nearcall, unless --json prints it.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// The form of a printed result.
#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Print one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a server of another machine is reached.
#[derive(Debug, Args)]
pub(crate) struct ReachArgs {
    /// Call servers whose certificates were issued by one of these only
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// Place, duration and output of every measurement that becomes a run.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) pin: PinArgs,

    /// Launches of new processes per figure [default: 3 to 10, by experiment]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=LAUNCHES_MAX))]
    pub(crate) launches: Option<u32>,

    #[command(flatten)]
    pub(crate) time: TimeArgs,

    #[command(flatten)]
    pub(crate) quick: QuickArgs,

    #[command(flatten)]
    pub(crate) seed: SeedArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// More launches than this take days.
const LAUNCHES_MAX: i64 = 1_000;
