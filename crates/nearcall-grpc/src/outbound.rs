//! Calls to `grpc://` and `grpcs://` addresses: a server in this process that forwards them.
//!
//! A caller of such an address calls that server over shared memory. So each form of call works as
//! usual, at the price of one call within the machine, some thousandths of one to another.
//! **Invariants:** the server lets in processes of its own user only; it connects to other machines
//! when the first call needs it, and keeps one connection to each of their addresses.
//! **Not here:** the same for other programs (`outbound/forwarder.rs`), one machine
//! (`outbound/remote.rs`), one call (`outbound/forward.rs`).

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use nearcall::client::ReconnectPolicy;
use nearcall::dynamic::{DynamicDispatcher, interface_from_descriptor_set};
use nearcall::event_loop::Poster;
use nearcall::server::ListenOptions;
use nearcall::service::Interface;
use nearcall::transport::{self, AlreadyInstalled, Transport, TransportFuture};
use nearcall::{EventLoop, Server, Status};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, Runtime};

use self::forward::Forward;
pub use self::forwarder::{Forwarder, ForwarderError, RunningForwarder};
use self::remote::Remote;

mod forward;
mod forwarder;
mod reflection;
mod remote;

/// Longest message that another machine may send, in bytes, unless
/// [`Outbound::message_bytes_max`] says more: as nearcall has it by default.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Has callers take `grpc://` and `grpcs://` addresses, with the certificate authorities of this
/// machine. [`Outbound`] sets others.
///
/// # Errors
///
/// It was done before, or another transport is installed.
pub fn install() -> Result<(), AlreadyInstalled> {
    Outbound::new().install()
}

/// How calls leave: who is trusted at the other end, and what this end proves of itself.
///
/// ```no_run
/// nearcall_grpc::Outbound::new()
///     .ca("/etc/home/ca.pem")
///     .identity("/etc/home/node1.pem", "/etc/home/node1.key")
///     .install()?;
/// # Ok::<(), nearcall::transport::AlreadyInstalled>(())
/// ```
#[derive(Debug, Clone)]
pub struct Outbound {
    ca: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
    name: Option<String>,
    message_bytes_max: usize,
    gzip: bool,
}

impl Default for Outbound {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbound {
    /// Returns the defaults: the certificate authorities of this machine, no certificate of its
    /// own, messages of up to 64 MiB, not compressed.
    pub fn new() -> Self {
        let (ca, identity, name) = (None, None, None);
        Self { ca, identity, name, message_bytes_max: MESSAGE_BYTES_MAX, gzip: false }
    }

    /// Accepts servers whose certificates are signed by those of this file (PEM), and no others.
    /// It is read again when it changes.
    #[must_use]
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// Proves who calls, where a server asks: a chain of certificates and the key (PEM). They are
    /// read again when they change; calls under way go on.
    #[must_use]
    pub fn identity(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Demands this name in the certificates of servers, in the place of the host of the address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the longest message that a server may send, in bytes, after it was decompressed.
    #[must_use]
    pub fn message_bytes_max(mut self, bytes: usize) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// Compresses requests by gzip.
    #[must_use]
    pub fn gzip(mut self) -> Self {
        self.gzip = true;
        self
    }

    /// Returns the interfaces with these names that the gRPC server at `address`
    /// (`grpc://HOST:PORT`) has, or all of them if none is named, by its reflection service (v1, or
    /// v1alpha). Connects, and waits for 5 seconds at most.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT`: the address is none of a gRPC server. `UNAVAILABLE`: it cannot be
    /// reached. `UNIMPLEMENTED`: it has no reflection, or no such interface. `DEADLINE_EXCEEDED`:
    /// it does not answer in time.
    pub fn describe(
        &self,
        address: &str,
        interfaces: &[&str],
    ) -> Result<Vec<&'static Interface>, Status> {
        forwarder::described_at(self.clone(), address, interfaces)
    }

    /// Has callers of this process that are made from now on take `grpc://` and `grpcs://`
    /// addresses.
    ///
    /// # Errors
    ///
    /// It was done before, or another transport is installed.
    pub fn install(self) -> Result<(), AlreadyInstalled> {
        let (options, running, remotes) = (Arc::new(self), OnceLock::new(), Mutex::default());
        transport::install(Engine { options, running, remotes })
    }
}

struct Engine {
    options: Arc<Outbound>,
    running: OnceLock<Result<Running, String>>,
    remotes: Mutex<Vec<Arc<Remote>>>,
}

/// The server that forwards, and the runtime of the connections to other machines: one thread for
/// both, so that a call changes threads no oftener than one by tonic does.
struct Running {
    runtime: Handle,
    poster: Poster,
    address: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// In the thread of its loop.
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

impl Running {
    fn start() -> Result<Self, String> {
        let (give, take) = mpsc::sync_channel(1);
        let run = move || match serve() {
            Ok((runtime, event_loop, address)) => {
                let (handle, poster) = (runtime.handle().clone(), event_loop.poster());
                let _ = give.send(Ok(Self { runtime: handle, poster, address }));
                if let Err(error) = runtime.block_on(turn(&event_loop)) {
                    tracing::error!("the loop that forwards calls by gRPC has ended: {error}");
                }
            }
            Err(why) => drop(give.send(Err(why))),
        };
        let thread = thread::Builder::new().name("nearcall-grpc".into()).spawn(run);
        thread.map_err(|error| format!("no thread for calls by gRPC: {error}"))?;
        take.recv().map_err(|_| "the thread for calls by gRPC panicked".to_owned())?
    }

    /// Has the server forward the calls of an interface to a machine.
    fn register(&self, remote: &Arc<Remote>, interface: &'static Interface) -> Result<(), String> {
        let bytes = interface_from_descriptor_set(interface.descriptor_set, interface.name);
        let bytes = bytes.map_err(|status| status.message().to_owned())?;
        let (number, handle) = (remote.number.to_string(), self.runtime.clone());
        let forward = Forward::new(Arc::clone(remote), bytes);
        let dispatcher =
            DynamicDispatcher::new(bytes, forward).spawn_on(move |task| drop(handle.spawn(task)));
        let (give, take) = mpsc::sync_channel(1);
        let post = move |_: &EventLoop| {
            let registered = SERVER.with_borrow(|server| match server {
                Some(server) => {
                    let registered = server.register_as(&number, dispatcher);
                    registered.map_err(|error| error.to_string())
                }
                None => Err("the server that forwards has ended".to_owned()),
            });
            let _ = give.send(registered);
        };
        self.poster.post(post).map_err(|error| error.to_string())?;
        take.recv().map_err(|_| "the loop that forwards calls has ended".to_owned())?
    }
}

/// Starts the server in this thread.
fn serve() -> Result<(Runtime, EventLoop, String), String> {
    let failed = |error: &dyn std::fmt::Display| format!("no server for calls by gRPC: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let event_loop = EventLoop::new().map_err(|error| failed(&error))?;
    let server = Server::new(&event_loop);
    let number: u64 = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let place = format!("unix:@nearcall-grpc-{}-{number:016x}", std::process::id());
    let own_user = ListenOptions::new().users([nearcall_os::process::user_id()]);
    let address = server.listen_with(&place, &own_user).map_err(|error| failed(&error))?;
    SERVER.set(Some(server));
    Ok((runtime, event_loop, address.to_string()))
}

/// Runs the loop within the runtime, a turn whenever it has work.
async fn turn(event_loop: &EventLoop) -> io::Result<()> {
    #[allow(
        deprecated,
        reason = "the newer one is unsafe; what it asks for, a `BorrowedFd` promises"
    )]
    let readable = AsyncFd::with_interest(event_loop.as_fd(), Interest::READABLE)?;
    loop {
        event_loop.turn()?;
        readable.readable().await?.clear_ready();
    }
}

impl Engine {
    fn running(&self) -> Result<&Running, String> {
        self.running.get_or_init(Running::start).as_ref().map_err(Clone::clone)
    }

    fn remote(&self, address: &str, policy: ReconnectPolicy) -> Result<Arc<Remote>, String> {
        let running = self.running()?;
        let mut remotes = lock(&self.remotes);
        let same = |it: &&Arc<Remote>| it.address == address && it.policy == policy;
        if let Some(known) = remotes.iter().find(same) {
            return Ok(Arc::clone(known));
        }
        let (number, options) = (remotes.len(), Arc::clone(&self.options));
        let remote = Remote::new(number, address, policy, options, &running.runtime)?;
        remotes.push(Arc::clone(&remote));
        Ok(remote)
    }

    /// Has the runtime do something with a machine.
    fn spawn<T: Send + 'static, F>(
        &self,
        address: &str,
        run: impl FnOnce(Arc<Remote>) -> F,
    ) -> TransportFuture<T>
    where
        F: Future<Output = Result<T, Status>> + Send + 'static,
    {
        let running = self.running().map_err(Status::resource_exhausted);
        let begun = running.and_then(|running| {
            let remote = self.remote(address, ReconnectPolicy::default());
            Ok((running.runtime.clone(), run(remote.map_err(Status::invalid_argument)?)))
        });
        Box::pin(async move {
            let (runtime, future) = begun?;
            runtime.spawn(future).await.map_err(|_| Status::unavailable("the process ends"))?
        })
    }

    /// Has the server forward an interface, unless it does.
    fn register(&self, remote: &Arc<Remote>, interface: &'static Interface) -> Result<(), String> {
        let mut registered = lock(&remote.registered);
        if !registered.contains(&interface.name) {
            self.running()?.register(remote, interface)?;
            registered.push(interface.name);
        }
        Ok(())
    }
}

impl Transport for Engine {
    fn serve(
        &self,
        address: &str,
        interface: &'static Interface,
        policy: ReconnectPolicy,
    ) -> Result<String, String> {
        let remote = self.remote(address, policy)?;
        if !interface.methods.is_empty() {
            self.register(&remote, interface)?;
        }
        // Another machine is too far away for a spin to pay.
        Ok(format!("{}?wait=block#{}", self.running()?.address, remote.number))
    }

    fn hunt(&self, address: &str, timeout: Duration) -> TransportFuture<()> {
        self.spawn(address, |remote| async move { remote.hunt(timeout).await })
    }

    fn describe(
        &self,
        address: &str,
        interface: &'static str,
    ) -> TransportFuture<&'static Interface> {
        self.spawn(address, move |remote| async move {
            let (channel, _) = remote.channel().await?;
            reflection::describe(channel, interface).await
        })
    }
}
