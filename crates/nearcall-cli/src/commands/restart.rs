//! `nearcall restart`: has a host start its services anew.

use clap::Args;
use nearcall_host::proto::{HostCaller, HostRestartRequest};

use super::End;
use super::asked_server::{self, AskedHostArgs};
use crate::output;

/// Restart services of a host, without losing a call
///
/// The host reads its file again, starts new processes for the services that are named and for
/// whatever has changed, and ends the ones before when the new ones serve. If one of them does
/// not, nothing has changed.
///
/// Exit code: 0 the new processes serve; 1 nothing was restarted; 2 usage error.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct RestartArgs {
    /// Services to restart, though nothing about them has changed in the file
    #[arg(value_name = "SERVICE")]
    pub(crate) services: Vec<String>,

    #[command(flatten)]
    pub(crate) asked: AskedHostArgs,
}

pub(super) fn run(args: &RestartArgs) -> anyhow::Result<End> {
    let address = &args.asked.host;
    let host = HostCaller::new(&asked_server::client(), &address.to_string())?;
    let request = HostRestartRequest { services: args.services.clone() };
    // Without a deadline: the host bounds the wait for each service by its `ready-within`.
    let reply =
        host.restart(&request).map_err(|status| asked_server::host_failure(status, address))?;
    output::result(&format!("{}\n", nearcall_results::run::printable(&reply.text)))?;
    Ok(End::Done)
}

const EXAMPLES: &str = "\
Examples:
  nearcall restart thermostat                    a new build of it, no call lost
  nearcall restart                               apply changes of the file";
