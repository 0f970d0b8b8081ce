//! Compiles the golden files under strict lints, and calls them by the real runtime.
//!
//! Not here: tests of the runtime itself (`nearcall`).
#![deny(warnings, missing_docs, unreachable_pub, unused_qualifications)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU32, Ordering};

use nearcall::server::RunningServer;
use nearcall::service::Dispatcher;
use nearcall::{Client, EventLoop, Server};

mod async_services;
mod packages;
mod parts;
mod scanner;
mod thermostat;

#[deny(clippy::pedantic)]
#[rustfmt::skip]
#[path = "../../../nearcall-build/tests/golden/names.rs"]
mod names;
#[deny(clippy::pedantic)]
#[rustfmt::skip]
#[path = "../../../nearcall-build/tests/golden/scanner.rs"]
mod scan;
#[deny(clippy::pedantic)]
#[rustfmt::skip]
#[path = "../../../nearcall-build/tests/golden/thermostat.rs"]
mod home;

/// A server in this thread, with a client that calls it without marshalling where it can.
struct InLoop {
    client: Client,
    address: String,
    _server: Server,
    event_loop: EventLoop,
}

impl InLoop {
    fn serve(dispatcher: impl Dispatcher) -> Self {
        let event_loop = EventLoop::new().unwrap();
        let (server, address) = (Server::new(&event_loop), unique_address());
        server.register(dispatcher).unwrap();
        server.listen(&address).unwrap();
        let client = Client::in_loop(&event_loop);
        Self { client, address, _server: server, event_loop }
    }
}

/// Starts a server with a thread of its own. Returns its address as well.
fn serve(dispatcher: impl Dispatcher + Clone + Send + Sync) -> (RunningServer, String) {
    let address = unique_address();
    let server = Server::builder().register(dispatcher).listen(&address).start().unwrap();
    (server, address)
}

fn unique_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("unix:@nearcall-generated-{}-{number}", std::process::id())
}
