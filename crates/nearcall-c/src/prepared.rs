//! A server that was not started yet.
//!
//! **Invariants:** it is started as a whole or not at all.
//! **Not here:** its handle (`server.rs`).

use nearcall::server::{ListenError, ListenOptions, RegisterError, RunningServer, StartError};
use nearcall::{Address, EventLoop, Limits, Server, Status};

use crate::service::Service;

/// A server that was started in a loop, and where it listens.
pub(crate) struct InLoop {
    pub(crate) server: Server,
    pub(crate) addresses: Vec<Address>,
}

/// What a server will do.
pub(crate) struct Prepared {
    pub(crate) threads: usize,
    pub(crate) limits: Limits,
    /// With the names of objects.
    pub(crate) services: Vec<(Option<String>, Service)>,
    pub(crate) addresses: Vec<(String, ListenOptions)>,
}

impl Prepared {
    /// Starts the server in threads of its own.
    pub(crate) fn start(self) -> Result<RunningServer, Status> {
        let mut builder = Server::builder().threads(self.threads).limits(self.limits);
        for (object, service) in self.services {
            let dispatcher = service.dispatcher();
            builder = match object {
                Some(object) => builder.register_as(&object, dispatcher),
                None => builder.register(dispatcher),
            };
        }
        for (address, options) in &self.addresses {
            builder = builder.listen_with(address, options);
        }
        let failed = |error: StartError| Status::failed_precondition(error.to_string());
        builder.start().map_err(failed)
    }

    /// Starts the server in a loop of this thread.
    pub(crate) fn serve_in(self, event_loop: &EventLoop) -> Result<InLoop, Status> {
        let server = Server::with_limits(event_loop, self.limits);
        let refused = |error: RegisterError| Status::failed_precondition(error.to_string());
        for (object, service) in self.services {
            let dispatcher = service.dispatcher();
            match object {
                Some(object) => server.register_as(&object, dispatcher).map_err(refused)?,
                None => server.register(dispatcher).map_err(refused)?,
            }
        }
        let no_place = |error: ListenError| Status::failed_precondition(error.to_string());
        let listen = |(address, options): &(String, _)| server.listen_with(address, options);
        let addresses: Result<_, _> = self.addresses.iter().map(listen).collect();
        Ok(InLoop { addresses: addresses.map_err(no_place)?, server })
    }
}
