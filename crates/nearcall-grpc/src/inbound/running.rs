//! A gateway in threads of its own.
//!
//! **Invariants:** the threads end with the handle.
//! **Not here:** what they do (`connections.rs`).

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall::server::RunningServer;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::connections::serve;
use super::limits::DRAIN_TIMEOUT;
use super::{GatewayCounters, GatewayError, Shared, health, own_server};

/// A [`Gateway`](super::Gateway) that serves. Dropped, it ends at once; [`stop`](Self::stop) lets
/// calls end first.
#[derive(Debug)]
#[must_use = "a gateway that is dropped ends"]
pub struct RunningGateway {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    /// Takes how long calls under way may take.
    end: Option<oneshot::Sender<Duration>>,
    thread: Option<JoinHandle<bool>>,
}

impl RunningGateway {
    pub(super) fn start(
        shared: Arc<Shared>,
        listeners: Vec<TcpListener>,
        name: Option<&str>,
    ) -> Result<Self, GatewayError> {
        let addresses =
            listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>();
        let addresses = addresses.map_err(GatewayError::Threads)?;
        let server = name.map(|name| own_server::start(name, &shared, &addresses)).transpose()?;
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.enable_all().thread_name("nearcall-gateway");
        let runtime = runtime.build().map_err(GatewayError::Threads)?;
        let entered = runtime.enter();
        let listeners = listeners.into_iter().map(tokio::net::TcpListener::from_std);
        let listeners: Vec<_> =
            listeners.collect::<Result<_, _>>().map_err(GatewayError::Threads)?;
        drop(entered);
        let (end, ended) = oneshot::channel();
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("nearcall-gateway".into());
        let thread = thread.spawn(move || {
            let has_drained = runtime.block_on(run(own, listeners, server, ended));
            runtime.shutdown_background();
            has_drained
        });
        let thread = Some(thread.map_err(GatewayError::Threads)?);
        Ok(Self { addresses, shared, end: Some(end), thread })
    }

    /// Returns where it listens, in the order in which that was asked for.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns what it has done.
    pub fn counters(&self) -> GatewayCounters {
        self.shared.counters.read()
    }

    /// Ends the gateway: takes no more connections and calls, has peers open others elsewhere
    /// (GOAWAY), and waits so long for the calls under way. Returns whether all have ended by then;
    /// the others are cut off.
    pub fn drain(mut self, timeout: Duration) -> bool {
        self.finish(timeout)
    }

    /// Ends the gateway, with five seconds for the calls under way. Returns whether they have.
    pub fn stop(self) -> bool {
        self.drain(DRAIN_TIMEOUT)
    }

    fn finish(&mut self, timeout: Duration) -> bool {
        if let Some(end) = self.end.take() {
            // A thread that is gone has ended.
            let _ = end.send(timeout);
        }
        self.thread.take().is_none_or(|thread| thread.join().unwrap_or(false))
    }
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        self.finish(Duration::ZERO);
    }
}

/// Serves until it is told to end. Returns whether all calls have ended by themselves.
async fn run(
    shared: Arc<Shared>,
    listeners: Vec<tokio::net::TcpListener>,
    server: Option<RunningServer>,
    ended: oneshot::Receiver<Duration>,
) -> bool {
    let mut serving = JoinSet::new();
    for listener in listeners {
        serving.spawn(serve(listener, Arc::clone(&shared)));
    }
    let timeout = tokio::select! {
        timeout = ended => timeout.unwrap_or_default(),
        never = health::report(&shared, server.as_ref()) => match never {},
    };
    shared.stop.send_replace(true);
    let drained = async { while serving.join_next().await.is_some() {} };
    tokio::time::timeout(timeout, drained).await.is_ok()
}
