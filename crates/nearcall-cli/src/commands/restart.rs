//! `nearcall restart`: has a host start its services anew.

use nearcall_host::proto::{HostCaller, HostRestartRequest};

use super::{End, asked_server};
use crate::args::RestartArgs;
use crate::output;

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
