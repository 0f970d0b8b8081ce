//! The nearcall server of a gateway that has a name, by which programs of this machine ask how it
//! is.
//!
//! **Invariants:** it takes no call for the exposed servers.
//! **Not here:** its health (`health.rs`), the counters (`counters.rs`).

use std::net::SocketAddr;
use std::sync::Arc;

use nearcall::server::RunningServer;
use nearcall::{Context, Server, Status};

use super::{GatewayError, Shared};
use crate::proto::{Gateway, GatewayCountersReply, GatewayCountersRequest, GatewayDispatcher};

struct Service {
    shared: Arc<Shared>,
    addresses: Vec<String>,
}

impl Gateway for Service {
    fn counters(
        &self,
        _context: &Context<'_>,
        _request: &GatewayCountersRequest,
    ) -> Result<GatewayCountersReply, Status> {
        let counters = self.shared.counters.read();
        Ok(GatewayCountersReply {
            addresses: self.addresses.clone(),
            connections: counters.connections,
            connections_total: counters.connections_total,
            connections_refused: counters.connections_refused,
            handshakes_failed: counters.handshakes_failed,
            calls: counters.calls,
            calls_by_code: counters.calls_by_code.to_vec(),
            calls_refused: counters.calls_refused,
            bytes_in: counters.bytes_in,
            bytes_out: counters.bytes_out,
        })
    }
}

/// Starts the server of a gateway.
pub(super) fn start(
    name: &str,
    shared: &Arc<Shared>,
    addresses: &[SocketAddr],
) -> Result<RunningServer, GatewayError> {
    let addresses = addresses.iter().map(ToString::to_string).collect();
    let service = Service { shared: Arc::clone(shared), addresses };
    let server = Server::builder().register(GatewayDispatcher::new(service)).listen(name);
    server.start().map_err(|why| GatewayError::Name { name: name.to_owned(), why: why.into() })
}
