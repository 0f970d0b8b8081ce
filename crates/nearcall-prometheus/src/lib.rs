//! The counters of nearcall servers for Prometheus: an endpoint that answers `GET /metrics`.
//!
//! One line has a program report its own server, or those of other programs of its user:
//!
//! ```no_run
//! use nearcall_prometheus::Endpoint;
//!
//! # fn main() -> std::io::Result<()> {
//! let metrics = Endpoint::listen("127.0.0.1:9464", ["thermostat"])?;
//! # drop(metrics);
//! # Ok(())
//! # }
//! ```
//!
//! A scrape asks each server for its counters, in the endpoint's own thread, over a connection of
//! its own. Nothing is counted for it, and nothing happens between scrapes. There is no encryption
//! and no password: listen on a loopback address, or behind something that has both.
//!
//! **Invariants:** a server that does not answer in [`SERVER_TIMEOUT`] is `nearcall_up` 0, and the
//! others are reported all the same; at most [`CONNECTIONS_MAX`] clients are served at once; the
//! thread of an endpoint takes none of the signals that a program waits for.
//! **Not here:** what servers count (`nearcall.v1.Server/Counters`), how it is written
//! (`exposition.rs`).
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nearcall::control::{CountersRequest, ServerCaller};
use nearcall::{Client, Status};
use nearcall_os::signal::{self, Signal, SignalSet};
use tokio::sync::{Semaphore, oneshot};

mod exposition;

/// How long a server may take to answer: less than the ten seconds that Prometheus gives a scrape.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(2);

/// How many clients are served at once; the next ones wait. A few scrapers and a curious person.
pub const CONNECTIONS_MAX: usize = 16;

/// How long a client may take to send the head of its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The type of the text, which Prometheus asks for.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers scrapes until it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Listens, and reports the counters of the servers at these addresses of nearcall from then
    /// on. A server need not run yet.
    ///
    /// # Errors
    ///
    /// The kernel's, when it cannot listen there or start a thread. `InvalidInput` names a server
    /// whose address is none.
    pub fn listen<S: Into<String>>(
        at: impl ToSocketAddrs,
        servers: impl IntoIterator<Item = S>,
    ) -> io::Result<Self> {
        let servers: Vec<String> = servers.into_iter().map(Into::into).collect();
        for server in &servers {
            if let Err(error) = server.parse::<nearcall::Address>() {
                let text = format!("{server:?}: {error}");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            // What ends or informs the program is for its own threads, whichever wait for it.
            let others = [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::USR2];
            let _ = signal::block(&SignalSet::new(&others));
            runtime.block_on(serve(listener, Arc::new(servers), stopped));
        };
        let thread = thread::Builder::new().name("nearcall-metrics".to_owned()).spawn(run)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns where it listens, with the port that the kernel has chosen for port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // What it could report has been seen as a failed scrape.
            let _ = thread.join();
        }
    }
}

/// Serves clients until `stopped`.
async fn serve(listener: TcpListener, servers: Arc<Vec<String>>, stopped: oneshot::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accept = async {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // No descriptor is left, or the client is gone. Both end by themselves.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let servers = Arc::clone(&servers);
            tokio::spawn(async move {
                let service = service_fn(|request| answer(request, Arc::clone(&servers)));
                let mut http = http1::Builder::new();
                let http = http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
                // A client that breaks off concerns no other client.
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
                drop(permit);
            });
        }
    };
    let (mut accept, mut stopped) = (pin!(accept), pin!(stopped));
    poll_fn(|context| match stopped.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => accept.as_mut().poll(context),
    })
    .await;
}

async fn answer(
    request: Request<Incoming>,
    servers: Arc<Vec<String>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let asked = tokio::task::spawn_blocking(move || scrape(&servers)).await;
            asked.map_or_else(
                |_| (StatusCode::INTERNAL_SERVER_ERROR, "a scrape panicked\n".to_owned()),
                |text| (StatusCode::OK, text),
            )
        }
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "ask by GET\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "the counters are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(TEXT));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
    }
    Ok(response)
}

/// Asks all servers, and returns the text.
fn scrape(servers: &[String]) -> String {
    let client = Client::builder().default_deadline(SERVER_TIMEOUT).build();
    // All before one is waited for, so that a scrape takes one timeout at most.
    let start = |server: &String| -> Result<_, Status> {
        Ok(ServerCaller::new(&client, server)?.start_counters(&CountersRequest::default()))
    };
    let pending: Vec<_> = servers.iter().map(start).collect();
    let replies: Vec<_> = servers
        .iter()
        .zip(pending)
        .map(|(server, pending)| (server.as_str(), pending.and_then(|it| it.wait()).ok()))
        .collect();
    exposition::text(&replies)
}
