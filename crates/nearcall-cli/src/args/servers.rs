//! Options of the commands about servers that run: `stop`, `switch`, `explain`, `host`, `status`,
//! `restart`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use nearcall::{Address, BadAddress, Mechanism};

use super::options::JsonArgs;
use super::value::{ask_timeout, timeout};

/// Options of `stop`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The name or the address of the server
    #[arg(value_name = "NAME")]
    pub(crate) server: Address,

    /// Longest wait until that is done
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    pub(crate) timeout: Duration,
}

/// The server that a command is about.
#[derive(Debug, Clone)]
pub(crate) enum ServerChoice {
    /// That of a process, which listens by name.
    Process(i32),
    At(Address),
}

impl FromStr for ServerChoice {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(pid) if pid > 0 => Ok(Self::Process(pid)),
            _ => text.parse().map(Self::At),
        }
    }
}

/// Options of `switch`.
#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// The name or the address of the server, or the number of its process
    #[arg(value_name = "PID|NAME")]
    pub(crate) server: ServerChoice,

    /// The mechanism to move to; `nearcall mechanisms` lists them
    #[arg(value_name = "MECHANISM")]
    pub(crate) mechanism: Mechanism,

    /// Only connections of this client process
    #[arg(id = "client_pid", long = "client", value_name = "PID", conflicts_with = "connection")]
    pub(crate) client: Option<i32>,

    /// Only connections of these numbers, separated by commas; `nearcall explain` shows them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) connection: Vec<u64>,

    /// Longest wait until that is done
    ///
    /// A minute at most. Clients that have not answered by then may still move.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = ask_timeout)]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// Options of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The name or the address of the server, or the number of its process
    #[arg(value_name = "PID|NAME")]
    pub(crate) server: ServerChoice,

    /// How long to watch what the connections carry, a minute at most
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = ask_timeout)]
    pub(crate) watch: Duration,

    /// Use stored runs of this or another machine; measure nothing
    ///
    /// Without it alternatives are judged by the newest 20 runs that are stored, as far as they are
    /// of this machine.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) run: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
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

pub(super) const SWITCH_EXAMPLES: &str = "\
Examples:
  nearcall switch thermostat shm-futex           all of its clients
  nearcall switch 4711 unix-stream --client 4712   by processes
  nearcall switch thermostat shm --connection 3,5 --timeout 30s";

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  nearcall explain thermostat
  nearcall explain 4711 --watch 10s              by its process
  nearcall explain thermostat --json | jq '.connections[].switches'";

pub(super) const STOP_EXAMPLES: &str = "\
Examples:
  nearcall stop thermostat
  nearcall stop unix:/run/room.sock --timeout 1m";
