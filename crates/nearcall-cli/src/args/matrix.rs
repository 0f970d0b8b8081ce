//! Options of `bench matrix`.

use clap::Args;
use nearcall_channel::{Mechanism, WaitPolicy};

use super::load::LoadArgs;
use super::rules::QuietArgs;
use super::value::{self, Sizes};
use super::{HowArgs, WHAT};

/// Options of `bench matrix`.
#[derive(Debug, Args)]
pub(crate) struct MatrixArgs {
    /// Mechanisms, separated by commas [default: shm that spins, pipe]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub(crate) mechanism: Option<Vec<Mechanism>>,

    /// Payload size, from 1 byte to 4 MiB [default: 8]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = WHAT)]
    pub(crate) size: Option<Sizes>,

    /// How both ends wait: adaptive, spin, block (in a call), poll (in epoll)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = value::wait(),
        hide_possible_values = true,
        help_heading = WHAT
    )]
    pub(crate) wait: Option<Vec<WaitPolicy>>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) quiet: QuietArgs,

    #[command(flatten)]
    pub(crate) how: HowArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  nearcall bench matrix                          shared memory and a pipe, within 90 seconds
  nearcall bench matrix --mechanism unix-stream --size 1KiB --time 3m
  nearcall bench matrix --load cpu,memory,io     the same beside load
  nearcall bench matrix --json | jq '.cells[] | [.placement.class, .rtt_ns.p50]'";
