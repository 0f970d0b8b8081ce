//! `nearcall restart`: has a host start its services anew.

use clap::Args;
use nearcall_host::proto::{HostCaller, HostRestartRequest};

use super::End;
use super::asked_server::{self, AskedHostArgs};
use crate::output;

/// Options of `restart`.
#[derive(Debug, Args)]
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

pub(crate) const EXAMPLES: &str = "\
Examples:
  nearcall restart thermostat                    a new build of it, no call lost
  nearcall restart                               apply changes of the file";
