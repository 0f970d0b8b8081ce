//! The way in: a gRPC server in front of servers of nearcall.
//!
//! **Invariants:** only what was exposed can be called; who calls is said by the gateway
//! alone; no memory grows with what peers do not read.
//! **Not here:** the way out (`outbound.rs`).

mod calls;
mod connections;
mod counters;
mod exposed;
mod health;
mod limits;
mod own_server;
mod reflection;
mod request_body;
mod running;
mod timeout;
mod tls;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use http::{Method, Request, StatusCode, Version};
use hyper::body::Incoming;
use nearcall::client::ReconnectPolicy;
use nearcall::dynamic::DynamicCaller;
use nearcall::{CallOptions, Client, Limits};
use tokio::sync::{Semaphore, watch};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service as _;

use self::connections::Peer;
use self::counters::{CountedBody, CountedCall, Counters, count, counted};
use self::exposed::Exposed;
use self::tls::Certificates;

pub(crate) use self::limits::{ASK_TIMEOUT, DRAIN_TIMEOUT};

pub use self::counters::GatewayCounters;
pub use self::limits::GatewayLimits;
pub use self::reflection::descriptor_pool;
pub use self::running::RunningGateway;
pub use self::tls::TlsOptions;

/// Why a gateway was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// An interface cannot be exposed.
    #[error("{interface} of {address:?} is not exposed: {why}")]
    Expose {
        /// The address of its server.
        address: String,
        /// Its name.
        interface: String,
        /// What is wrong, and what can be done.
        why: String,
    },
    /// The gateway cannot listen.
    #[error("the gateway cannot listen at {address:?}: {why}")]
    Listen {
        /// Where it should.
        address: String,
        /// What is wrong, and what can be done.
        why: String,
    },
    /// The gateway cannot be asked at its name.
    #[error("the gateway cannot be asked at {name:?}: {why}")]
    Name {
        /// Its name.
        name: String,
        /// What is wrong, and what can be done.
        why: Box<nearcall::server::StartError>,
    },
    /// A file with a certificate or a key cannot be used.
    #[error("{}: {why}", file.display())]
    Tls {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The machine has no thread or descriptor for it.
    #[error("the gateway has no threads to run in: {0}")]
    Threads(std::io::Error),
    /// A server that was asked does not have what is to be exposed.
    #[error("the server at {address:?} does not answer for {interface}: {status}")]
    Server {
        /// Its address.
        address: String,
        /// What it was asked for.
        interface: String,
        /// What came of it.
        status: nearcall::Status,
    },
}

/// A gRPC server in front of servers of nearcall: peers call by HTTP/2, and each call goes on to
/// the server that has the interface.
///
/// - All four shapes of methods, as bytes: nothing is decoded. A one-way method is answered once it
///   was sent.
/// - Metadata go both ways; what gRPC and HTTP keep for themselves does not. Services find who
///   calls in the metadata `nearcall-peer-address`, and the names of a verified certificate in
///   `nearcall-peer-name`, an entry for each; peers cannot send those.
/// - `grpc-timeout` is the deadline of the call. A call that its peer has given up is cancelled.
/// - `grpc.health.v1.Health` and `grpc.reflection.v1` (also `v1alpha`) answer for what is exposed.
#[derive(Debug)]
pub struct Gateway {}

impl Gateway {
    /// Returns a builder of a gateway that exposes nothing yet and listens nowhere.
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder::default()
    }
}

/// Makes a [`Gateway`].
#[must_use = "a builder makes nothing before `start`"]
#[derive(Debug, Default)]
pub struct GatewayBuilder {
    exposed: Vec<(String, String)>,
    name: Option<String>,
    listen: Vec<String>,
    sockets: Vec<TcpListener>,
    tls: Option<TlsOptions>,
    limits: GatewayLimits,
    insecure: bool,
    balance: bool,
    plain_replies: bool,
}

impl GatewayBuilder {
    /// Has peers call these interfaces, such as `home.v1.Thermostat`, of the server at a nearcall
    /// address, which need not be there yet. An instance of an object is named by the address.
    ///
    /// After [`install`](crate::install) the address may be one of another gateway, or of any other
    /// server of gRPC with reflection: `grpc://HOST:PORT`. Its services see this gateway as the peer.
    pub fn expose(mut self, address: &str, interfaces: &[&str]) -> Self {
        let interfaces = interfaces.iter().map(|it| (address.to_owned(), (*it).to_owned()));
        self.exposed.extend(interfaces);
        self
    }

    /// Has several servers share the calls to an interface that each of them has, in turns. One
    /// that is away is left out.
    pub fn balance(mut self) -> Self {
        self.balance = true;
        self
    }

    /// Listens at a place such as `127.0.0.1:50051` or `[::]:0`, where the system chooses the port.
    pub fn listen(mut self, address: &str) -> Self {
        self.listen.push(address.to_owned());
        self
    }

    /// Listens at a socket that was bound before, such as one that the process was started with.
    pub fn listen_on(mut self, socket: TcpListener) -> Self {
        self.sockets.push(socket);
        self
    }

    /// Has programs of this machine ask the gateway at a nearcall address: `nearcall.v1.Server` for
    /// its health, which is that of all exposed servers and at most a second old, and
    /// `nearcall.v1.Gateway` ([`proto`](crate::proto)) for its counters.
    pub fn name(mut self, address: &str) -> Self {
        self.name = Some(address.to_owned());
        self
    }

    /// Takes connections by TLS only.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// Allows plain text at addresses that other machines reach: whoever is on the way can read and
    /// change the calls. The log says so.
    pub fn insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    /// Sets what peers can make the gateway keep and wait for.
    pub fn limits(mut self, limits: GatewayLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sends replies as they are also to peers that take compressed ones.
    pub fn plain_replies(mut self) -> Self {
        self.plain_replies = true;
        self
    }

    /// Asks the servers whether they have what is to be exposed, reads the certificates and tries
    /// the addresses, without serving.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and [`GatewayError::Server`].
    pub fn check(mut self) -> Result<(), GatewayError> {
        let client = self.client();
        let (exposed, name) = (self.exposed.clone(), self.name.take());
        let (shared, _listeners) = self.prepare()?;
        name.map(|name| own_server::start(&name, &shared, &[])).transpose()?;
        for (address, interface) in exposed {
            let options = CallOptions::new().deadline(ASK_TIMEOUT);
            let asked = DynamicCaller::new(&client, &address, &interface)
                .and_then(|caller| caller.with(options).interface());
            if let Err(status) = asked {
                return Err(GatewayError::Server { address, interface, status });
            }
        }
        Ok(())
    }

    /// Starts the gateway in threads of its own.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Expose`]: an address or a name cannot be used, a name is one that the
    /// gateway answers to itself, or two servers have the interface and
    /// [`balance`](Self::balance) was not said. [`GatewayError::Listen`]: a place cannot be used,
    /// or other machines reach it and the gateway has neither [`tls`](Self::tls) nor
    /// [`insecure`](Self::insecure).
    /// [`GatewayError::Tls`]: a file cannot be used. [`GatewayError::Name`]: another server has the
    /// name. [`GatewayError::Threads`].
    pub fn start(mut self) -> Result<RunningGateway, GatewayError> {
        let name = self.name.take();
        let (shared, listeners) = self.prepare()?;
        RunningGateway::start(shared, listeners, name.as_deref())
    }

    fn client(&self) -> Client {
        let GatewayLimits { message_bytes_max, stream_window_bytes, .. } = self.limits;
        // Beside the message there are header and metadata.
        let message_bytes_max = message_bytes_max.saturating_add(MESSAGE_HEADROOM_BYTES);
        let limits = Limits { message_bytes_max, stream_window_bytes, ..Limits::default() };
        Client::builder().limits(limits).reconnect(ReconnectPolicy::Once).build()
    }

    fn prepare(mut self) -> Result<(Arc<Shared>, Vec<TcpListener>), GatewayError> {
        let client = self.client();
        let mut exposed = Exposed::default();
        for (address, interface) in &self.exposed {
            exposed.add(&client, (address, interface), self.balance)?;
        }
        let certificates = self.tls.clone().map(Certificates::read).transpose()?;
        let mut listeners = Vec::new();
        for address in &self.listen {
            listeners.push(self.bind(address)?);
        }
        for socket in std::mem::take(&mut self.sockets) {
            let place = socket.local_addr().map_err(GatewayError::Threads)?;
            self.check_plain(&place.to_string(), &[place])?;
            socket.set_nonblocking(true).map_err(GatewayError::Threads)?;
            listeners.push(socket);
        }
        let shared = Shared {
            exposed,
            pools: reflection::Pools::default(),
            certificates,
            compresses_replies: !self.plain_replies,
            counters: Arc::default(),
            connection_places: Arc::new(Semaphore::new(self.limits.connections_max)),
            call_places: Arc::new(Semaphore::new(self.limits.calls_max)),
            limits: self.limits,
            stop: watch::Sender::new(false),
        };
        Ok((Arc::new(shared), listeners))
    }

    fn bind(&self, address: &str) -> Result<TcpListener, GatewayError> {
        let refuse = |why: String| GatewayError::Listen { address: address.into(), why };
        let places = address.to_socket_addrs().map_err(|error| {
            refuse(format!("{error}; a place is HOST:PORT, such as 127.0.0.1:50051"))
        })?;
        let places: Vec<SocketAddr> = places.collect();
        self.check_plain(address, &places)?;
        let listener = TcpListener::bind(&*places).map_err(|error| refuse(error.to_string()))?;
        listener.set_nonblocking(true).map_err(|error| refuse(error.to_string()))?;
        Ok(listener)
    }

    /// Refuses plain text where other machines come, unless that was asked for.
    fn check_plain(&self, address: &str, places: &[SocketAddr]) -> Result<(), GatewayError> {
        if self.tls.is_some() || places.iter().all(|place| place.ip().is_loopback()) {
            return Ok(());
        }
        if !self.insecure {
            let why = "other machines reach it, and the calls would travel as plain text; give the \
                       gateway a certificate, or say `insecure`";
            return Err(GatewayError::Listen { address: address.into(), why: why.into() });
        }
        tracing::warn!(address, "the gateway takes calls in plain text from other machines");
        Ok(())
    }
}

/// What a message may have beside its bytes, in bytes: a header, and 8 KiB of metadata.
const MESSAGE_HEADROOM_BYTES: u32 = 16 << 10;

/// What all connections of a gateway use.
#[derive(Debug)]
struct Shared {
    exposed: Exposed,
    pools: reflection::Pools,
    certificates: Option<Certificates>,
    compresses_replies: bool,
    limits: GatewayLimits,
    counters: Arc<Counters>,
    connection_places: Arc<Semaphore>,
    call_places: Arc<Semaphore>,
    /// True once the gateway is to end.
    stop: watch::Sender<bool>,
}

impl Shared {
    /// Waits until the gateway is to end.
    async fn stopped(&self) {
        // The sender lives as long as this.
        let _ = self.stop.subscribe().wait_for(|stops| *stops).await;
    }
}

/// Answers a request.
async fn answer(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    request: Request<Incoming>,
) -> http::Response<CountedBody> {
    if let Some(refusal) = no_grpc(&request) {
        return counted(refusal, None);
    }
    let Ok(permit) = Arc::clone(&shared.call_places).try_acquire_owned() else {
        count(&shared.counters.calls_refused);
        let call = CountedCall::new(&shared.counters, None);
        let limit = shared.limits.calls_max;
        let status = Status::resource_exhausted(format!(
            "the gateway has {limit} calls under way, as many as it may; try again later"
        ));
        return counted(status.into_http(), Some(call));
    };
    let call = CountedCall::new(&shared.counters, Some(permit));
    let service = request.uri().path().split('/').nth(1).unwrap_or_default();
    let answered = match service {
        "grpc.health.v1.Health" => health::server(shared).call(request).await,
        "grpc.reflection.v1.ServerReflection" => reflection::server(shared).call(request).await,
        "grpc.reflection.v1alpha.ServerReflection" => {
            reflection::alpha_server(shared).call(request).await
        }
        _ => Ok(calls::answer(shared, peer, request).await),
    };
    match answered {
        Ok(answer) => counted(answer, Some(call)),
        Err(never) => match never {},
    }
}

/// Returns what a program is told that speaks something else than gRPC.
fn no_grpc(request: &Request<Incoming>) -> Option<http::Response<Body>> {
    let kind = request.headers().get(http::header::CONTENT_TYPE);
    let kind = kind.map(|kind| kind.as_bytes()).unwrap_or_default();
    let rest = kind.strip_prefix(b"application/grpc");
    let is_grpc = rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')));
    let (code, text) = if request.version() != Version::HTTP_2 {
        (StatusCode::HTTP_VERSION_NOT_SUPPORTED, "This is a gRPC server: it takes HTTP/2 only.\n")
    } else if !is_grpc {
        let text = "This is a gRPC server: it takes requests of the type application/grpc.\n";
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
    } else if request.method() != Method::POST {
        (StatusCode::METHOD_NOT_ALLOWED, "This is a gRPC server: it takes POST only.\n")
    } else {
        return None;
    };
    let mut answer = http::Response::new(Body::new(text.to_owned()));
    *answer.status_mut() = code;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    Some(answer)
}
