//! Words of `nearcall profile`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nearcall_bench::bench_plan::Shape;
use nearcall_channel::{Mechanism, WaitPolicy};

use super::value::{self, Pin, Sizes};
use super::{HOW, PlaceArgs, RESULT, WHAT, WHERE};

/// Options of `profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// The mechanism; see `nearcall mechanisms`
    #[arg(value_name = "MECHANISM")]
    pub(crate) mechanism: Mechanism,

    /// The payload of one message, from 1 byte to 4 MiB
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1KiB",
        allow_negative_numbers = true,
        value_parser = size,
        help_heading = WHAT
    )]
    pub(crate) size: u64,

    /// What comes back: the same size (echo), or nothing (sink)
    #[arg(
        long,
        value_name = "SHAPE",
        default_value = "echo",
        value_parser = value::shape(),
        hide_possible_values = true,
        help_heading = WHAT
    )]
    pub(crate) shape: Shape,

    /// How both ends wait: adaptive, spin, block, poll [default: the usual way]
    #[arg(
        long,
        value_name = "WAIT",
        value_parser = value::wait(),
        hide_possible_values = true,
        help_heading = WHAT
    )]
    pub(crate) wait: Option<WaitPolicy>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Pin the client and the server to these CPUs
    #[arg(
        long,
        value_name = "CLIENT,SERVER",
        allow_negative_numbers = true,
        help_heading = WHERE
    )]
    pub(crate) pin: Option<Pin>,

    /// How long the undisturbed run and the sampled one may take
    #[arg(
        long,
        value_name = "TIME",
        default_value = "3s",
        allow_negative_numbers = true,
        value_parser = value::budget,
        help_heading = HOW
    )]
    pub(crate) time: Duration,

    /// Decides the payloads [default: a new one each time]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = HOW)]
    pub(crate) seed: Option<u64>,

    /// Sample stacks too; write profile-MECHANISM.folded and .svg into it
    #[arg(long, value_name = "DIR", help_heading = RESULT)]
    pub(crate) out: Option<PathBuf>,

    /// Print the profile as one JSON document (nearcall.profile/1) instead of the tables
    #[arg(long, help_heading = RESULT)]
    pub(crate) json: bool,
}

/// One size.
fn size(text: &str) -> Result<u64, String> {
    match text.parse::<Sizes>().map_err(|error| error.to_string())?.0[..] {
        [size] => Ok(size),
        _ => Err("give one size such as 1KiB".to_owned()),
    }
}

/// What its help begins with.
pub(super) const EXAMPLES: &str = "\
Examples:
  nearcall profile pipe                          what one round trip of 1 KiB costs, and where
  nearcall profile shm --wait block --size 64KiB
  nearcall profile tcp --out .                   stacks and a flame graph, by the program perf
  nearcall profile shm-futex --json | jq '.calls.ends.client'";
