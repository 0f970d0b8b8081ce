//! Connections of HTTP/2, from their first byte to their end.
//!
//! **Invariants:** a peer that sends nothing, or too slowly, has a connection for a bounded time
//! only; each connection ends with the future that serves the gateway.
//! **Not here:** the calls (`calls.rs`).

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::counters::{Counters, count};
use super::limits::{
    ACCEPT_PAUSE, CONNECTION_WINDOW_BYTES, GatewayLimits, LINGER_TIME, PREFACE_BYTES,
    REQUEST_WINDOW_BYTES, SEND_BUFFER_BYTES,
};
use super::tls::names_in;

/// Who is at the other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// The names in its certificate, if that was verified.
    pub(super) names: Vec<String>,
}

/// Serves the connections that come to a socket until the gateway is to stop, and then until those
/// that are open have ended.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            () = shared.stopped() => break,
            Some(_) = open.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    if let Some(permit) = admit(&shared, address) {
                        open.spawn(connection(Arc::clone(&shared), stream, address, permit));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the gateway cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// Counts a connection, and returns its place among those that there may be.
fn admit(shared: &Shared, address: SocketAddr) -> Option<OwnedSemaphorePermit> {
    count(&shared.counters.connections_total);
    let permit = Arc::clone(&shared.connection_places).try_acquire_owned().ok();
    if permit.is_none() {
        count(&shared.counters.connections_refused);
        let limit = shared.limits.connections_max;
        tracing::debug!(%address, limit, "the gateway has as many connections as it may have");
    }
    permit
}

/// Counts a connection as open until this is dropped.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn connection(
    shared: Arc<Shared>,
    stream: TcpStream,
    address: SocketAddr,
    _permit: OwnedSemaphorePermit,
) {
    count(&shared.counters.connections);
    let _open = Open(Arc::clone(&shared));
    // Small messages go out at once.
    let _ = stream.set_nodelay(true);
    let counters = Arc::clone(&shared.counters);
    let stream = Counted { stream, counters, read: Arc::default(), closing: Arc::default() };
    let (read, closing) = (Arc::clone(&stream.read), Arc::clone(&stream.closing));
    let served = match &shared.certificates {
        None => {
            let peer = Peer { address, names: Vec::new() };
            http(&shared, stream, peer, &read).await
        }
        Some(certificates) => {
            let accepted = certificates.acceptor().accept(stream);
            let accepted = match timeout(shared.limits.handshake_timeout, accepted).await {
                Ok(accepted) => accepted,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            };
            match accepted {
                Ok(stream) => {
                    let presented = stream.get_ref().1.peer_certificates();
                    let own = presented.and_then(|certificates| certificates.first());
                    let names = own.map(names_in).transpose().ok().flatten().unwrap_or_default();
                    // What came for the handshake counts no more.
                    read.store(0, Ordering::Relaxed);
                    http(&shared, stream, Peer { address, names }, &read).await
                }
                Err(error) => {
                    count(&shared.counters.handshakes_failed);
                    Err(error.into())
                }
            }
        }
    };
    if let Err(error) = served {
        tracing::debug!(%address, error, "a connection to the gateway has ended");
    }
    let closing = closing.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(socket) = closing {
        let _ = timeout(LINGER_TIME, read_to_end(socket)).await;
    }
}

/// Reads what the peer still sends, until it closes its end as well. A socket that is closed with
/// bytes that were not read resets the connection, and the peer loses replies that it has not read.
async fn read_to_end(socket: OwnedFd) -> io::Result<()> {
    let mut stream = TcpStream::from_std(std::net::TcpStream::from(socket))?;
    let mut bytes = [0; 1 << 10];
    while stream.read(&mut bytes).await? > 0 {}
    Ok(())
}

type ConnectionError = Box<dyn std::error::Error + Send + Sync>;

/// Serves a connection by HTTP.
async fn http(
    shared: &Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: Peer,
    read: &AtomicU64,
) -> Result<(), ConnectionError> {
    let peer = Arc::new(peer);
    let service = service_fn(move |request| {
        let (shared, peer) = (Arc::clone(shared), Arc::clone(&peer));
        async move { Ok::<_, Infallible>(super::answer(&shared, &peer, request).await) }
    });
    let builder = builder_of(&shared.limits);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut stopped = pin!(shared.stopped());
    let mut first_bytes = pin!(sleep(shared.limits.handshake_timeout));
    let mut is_young = true;
    loop {
        tokio::select! {
            ended = poll_fn(|context| connection.as_mut().poll(context)) => return ended,
            () = &mut first_bytes, if is_young => {
                is_young = false;
                if read.load(Ordering::Relaxed) < PREFACE_BYTES {
                    count(&shared.counters.handshakes_failed);
                    return Err("no request has come in time".into());
                }
            }
            () = &mut stopped => {
                connection.as_mut().graceful_shutdown();
                return connection.await;
            }
        }
    }
}

fn builder_of(limits: &GatewayLimits) -> Builder<TokioExecutor> {
    let header_bytes = usize::try_from(limits.header_bytes_max).unwrap_or(usize::MAX);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.handshake_timeout)
        // The least that hyper takes.
        .max_buf_size(header_bytes.max(8 << 10))
        .keep_alive(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.keepalive_interval)
        .keep_alive_timeout(limits.keepalive_timeout)
        .max_concurrent_streams(limits.streams_per_connection_max)
        .max_header_list_size(limits.header_bytes_max)
        .initial_stream_window_size(REQUEST_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES);
    builder
}

/// A socket that counts its bytes.
struct Counted {
    stream: TcpStream,
    counters: Arc<Counters>,
    /// Bytes that came over this connection.
    read: Arc<AtomicU64>,
    /// The socket, once nothing more is sent.
    closing: Arc<Mutex<Option<OwnedFd>>>,
}

impl Counted {
    fn count_written(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.counters.bytes_out.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        let bytes = (into.filled().len() - before) as u64;
        self.read.fetch_add(bytes, Ordering::Relaxed);
        self.counters.bytes_in.fetch_add(bytes, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count_written(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.count_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.stream.as_fd().try_clone_to_owned().ok();
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner) = socket;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
