//! Options of the commands about servers that run: `stop`, `host`, `status`, `restart`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nearcall::Address;

use super::options::JsonArgs;
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

/// Options of `host`.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// The services: a table `[service.NAME]` for each
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,

    /// Check the file and the programs that it names, and start nothing
    #[arg(long)]
    pub(crate) check: bool,
}

/// Which host is asked.
#[derive(Debug, Args)]
pub(crate) struct AskedHostArgs {
    /// The address of the host, which its file may set as `listen` of `[host]`
    #[arg(long, value_name = "ADDRESS", default_value = nearcall_host::LISTEN_DEFAULT)]
    pub(crate) host: Address,
}

/// Options of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) asked: AskedHostArgs,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// Options of `restart`.
#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// Services to restart, though nothing about them has changed in the file
    #[arg(value_name = "SERVICE")]
    pub(crate) services: Vec<String>,

    #[command(flatten)]
    pub(crate) asked: AskedHostArgs,
}

pub(super) const HOST_EXAMPLES: &str = "\
Examples:
  nearcall host services.toml
  nearcall host services.toml --check            is the file right?";

pub(super) const STATUS_EXAMPLES: &str = "\
Examples:
  nearcall status
  nearcall status --json | jq -r '.services[] | select(.state != \"up\") | .name'";

pub(super) const RESTART_EXAMPLES: &str = "\
Examples:
  nearcall restart thermostat                    a new build of it, no call lost
  nearcall restart                               apply changes of the file";

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  nearcall list
  nearcall list --json | jq -r '.names[] | [.name, .server.pid] | @tsv'";

pub(super) const STOP_EXAMPLES: &str = "\
Examples:
  nearcall stop thermostat
  nearcall stop unix:/run/room.sock --timeout 1m";
