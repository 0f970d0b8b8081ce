//! `nearcall restart`: has a host start its services anew.

use nearcall::Client;
use nearcall_host::proto::{HostCaller, HostRestartRequest};

use super::End;
use crate::args::RestartArgs;
use crate::output;

pub(super) fn run(args: &RestartArgs) -> anyhow::Result<End> {
    let host = HostCaller::new(&Client::new(), &args.asked.host.to_string())?;
    let request = HostRestartRequest { services: args.services.clone() };
    // Without a deadline: the host bounds the wait for each service by its `ready-within`.
    let reply = host.restart(&request)?;
    output::result(&format!("{}\n", nearcall_results::run::printable(&reply.text)))?;
    Ok(End::Done)
}
