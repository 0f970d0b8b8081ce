//! Options of the commands about servers that run: `stop`.

use std::time::Duration;

use clap::Args;
use nearcall::Address;

use super::value::timeout;

/// Options of `stop`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The name or the address of the server
    #[arg(value_name = "NAME")]
    pub(crate) server: Address,

    /// Longest wait for the end of its process
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    pub(crate) timeout: Duration,
}

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  nearcall list
  nearcall list --json | jq -r '.names[] | [.name, .server.pid] | @tsv'";

pub(super) const STOP_EXAMPLES: &str = "\
Examples:
  nearcall stop thermostat
  nearcall stop unix:/run/room.sock --timeout 1m";
