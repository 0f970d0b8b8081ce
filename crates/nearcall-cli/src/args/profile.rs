//! Options of `nearcall profile`.

use std::path::PathBuf;

use clap::Args;
use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::shape::Shape;

use super::options::{JsonArgs, PinArgs, PlacementArgs, SeedArgs, TimeArgs};
use super::value;

/// Options of `profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// The mechanism; `nearcall mechanisms` lists them
    #[arg(value_name = "MECHANISM")]
    pub(crate) mechanism: Mechanism,

    /// Payload size, from 1 byte to 4 MiB
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = value::size)]
    pub(crate) size: u64,

    /// Reply: the same payload (echo) or none (sink)
    #[arg(long, value_name = "SHAPE", default_value = "echo", value_parser = value::shape())]
    pub(crate) shape: Shape,

    /// Wait policy: adaptive, spin, block, poll [default: the mechanism's usual one]
    #[arg(long, value_name = "WAIT", value_parser = value::wait())]
    pub(crate) wait: Option<WaitPolicy>,

    #[command(flatten)]
    pub(crate) placement: PlacementArgs,

    #[command(flatten)]
    pub(crate) pin: PinArgs,

    #[command(flatten)]
    pub(crate) time: TimeArgs,

    #[command(flatten)]
    pub(crate) seed: SeedArgs,

    /// Sample stacks too, by perf; write profile-MECHANISM.folded to this directory
    ///
    /// Names of functions need a program with symbols: `cargo run --profile profiling -- profile
    /// pipe --out-dir .` builds and runs one.
    #[arg(long, value_name = "DIR")]
    pub(crate) out_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  nearcall profile pipe                          one round trip of 1 KiB
  nearcall profile shm --wait block --size 64KiB
  nearcall profile tcp --out-dir .               stacks for a flame graph
  nearcall profile shm-futex --json | jq '.calls.ends.client'";
