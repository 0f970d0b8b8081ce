//! A client: what callers of all threads are made from.
//!
//! **Invariants:** a handle may be used, cloned and dropped in any thread. The connections behind
//! it belong to the threads that call: a call takes no lock and waits for no other thread. Only
//! calls that are futures, and threads beyond those that may have one, share one for each address.
//! **Not here:** one call (`call.rs`), a thread's part of a client (`clients/core.rs`).
//!
//! **Invariant:** a call of a blocking client takes no lock, counts nothing atomically, and waits
//! for no call of another thread: each thread has its own connection, made at its first call and
//! closed when it ends. Only threads beyond those that may have one share one. *Checked by*
//! `tests/it/threads.rs`.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nearcall_channel::UnknownMechanism;

use crate::address::{Address, BadAddress};
use crate::connection::connection_info::ConnectionInfo;
use crate::deadline::Deadline;
use crate::event_loop::EventLoop;
use crate::instance::new_instance;
use crate::limits::Limits;
use crate::reconnect::ReconnectPolicy;
use crate::status::Status;
use crate::transport;

mod async_opening;
mod async_routes;
mod attach;
pub(crate) mod attempts;
mod automatic;
mod binding;
mod builder;
mod connecting;
mod core;
mod hosted;
mod hunting;
mod observing;
pub(crate) mod own_loop;
mod route;
mod shared;
mod thread;
mod upgrading;
mod waiting;

use self::async_routes::AsyncRoutes;
pub(crate) use self::async_routes::{AsyncRoute, Connected, PendingConnection};
pub use self::attach::{AttachOptions, Attachment, Cause, Notice, NoticeSource};
pub(crate) use self::binding::{Binding, ObjectName, Slot, Target};
pub use self::builder::ClientBuilder;
pub(crate) use self::core::ClientCore;
pub(crate) use self::hosted::HostedObject;
pub(crate) use self::hunting::Hunt;
pub(crate) use self::observing::show_start;
pub(crate) use self::shared::{ClientShared, Settings};
pub(crate) use self::thread::{InUse, bind, current_binding, forget_stale, unbind};

/// Connections to servers, for all threads of a program. Cheap to clone.
///
/// Any thread may use a client and the callers that were made with it. Each thread that calls has a
/// connection of its own to each address, made at its first call there, so that no call waits for
/// another thread's and none takes a lock. [`connections`](Self::connections) shows what that
/// costs, and [`Limits::client_connections_max`] bounds it. Async callers share one more connection
/// to each address, whichever threads poll their futures. So do threads that find no place, no
/// descriptor or no share of the server left for a connection of their own: their calls take some
/// microseconds more, and wait for each other as those of async callers do. A mechanism without a
/// descriptor, such as `shm-futex`, cannot be shared: their calls fail with `RESOURCE_EXHAUSTED`.
///
/// A connection is closed when its thread ends, or with the last handle of the client: callers are
/// handles as well. Where other threads have connections then, their servers see the end at once
/// over shared memory and `tcp://`; over other mechanisms, and for the descriptors that the thread
/// holds, when the thread next makes a call through a new caller, or ends. A call that was started
/// keeps its connection until it is taken or dropped.
///
/// # Examples
///
/// A program that only calls needs no loop:
///
/// ```
#[doc = include_str!("../doc/room.txt")]
/// use std::time::Duration;
///
/// use nearcall::{Client, Mechanism};
///
/// let address = "thermostat"; // Or "unix:/run/room.sock", or "tcp://127.0.0.1:4000".
/// # let address = &*serve_elsewhere("client");
/// let client = Client::new();
/// client.hunt(address, Duration::from_secs(5))?; // It may still be starting.
///
/// let thermostat = ThermostatCaller::new(&client, address)?;
/// thermostat.set_target(&SetTargetRequest { celsius: 20.0 })?;
///
/// // The same server by another mechanism: another connection of the same client.
/// let plainer = format!("{address}?via={}", Mechanism::UnixStream);
/// let thermostat = ThermostatCaller::new(&client, &plainer)?;
/// let before = thermostat.set_target(&SetTargetRequest { celsius: 21.0 })?;
/// assert_eq!(before.celsius_before, 20.0);
///
/// // Any thread may call.
/// std::thread::scope(|scope| {
///     for celsius in [18.0, 19.0] {
///         let thermostat = &thermostat;
///         scope.spawn(move || thermostat.set_target(&SetTargetRequest { celsius }));
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// Closes the client when it is dropped.
struct Handle {
    shared: Arc<ClientShared>,
    async_routes: AsyncRoutes,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
        self.async_routes.close();
        thread::forget_closed_clients();
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// Creates a client that needs no loop: its calls block the thread that makes them, each
    /// mechanism in its own way. In a method of a service of [`service_main!`](crate::service_main)
    /// they are calls of the service's loop, which goes on serving.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Creates a client of a loop: while its calls wait in the loop's thread, the loop serves
    /// calls, timers and descriptors, so services may call each other in circles. A server of the
    /// same loop is called directly there. In any other thread its calls block that thread.
    pub fn in_loop(event_loop: &EventLoop) -> Self {
        Self::builder().in_loop(event_loop).build()
    }

    /// Creates a client like [`new`](Self::new) or [`in_loop`](Self::in_loop), with custom limits.
    pub fn with_limits(event_loop: Option<&EventLoop>, limits: Limits) -> Self {
        let builder = Self::builder().limits(limits);
        match event_loop {
            Some(event_loop) => builder.in_loop(event_loop).build(),
            None => builder.build(),
        }
    }

    /// Returns a builder, for limits, a default deadline or a reconnect policy.
    pub fn builder<'a>() -> ClientBuilder<'a> {
        ClientBuilder::default()
    }

    fn build(settings: Settings, event_loop: Option<&EventLoop>) -> Self {
        let shared = Arc::new(ClientShared::new(new_instance(), settings));
        if let Some(event_loop) = event_loop {
            let reactor = Rc::clone(event_loop.reactor());
            thread::add_core(&ClientCore::new(&shared, Some(reactor)));
        }
        Self { handle: Arc::new(Handle { shared, async_routes: AsyncRoutes::default() }) }
    }

    /// Calls a server of the same loop over its mechanism as well, to measure or to test it. For
    /// callers that are made from now on.
    #[must_use]
    pub fn without_short_circuit(self) -> Self {
        self.shared().disable_short_circuit();
        self
    }

    /// Waits until a server listens at `address`, for at most `timeout`, and connects to it, for
    /// this thread: other threads connect at their first calls, and async callers by
    /// [`hunt_async`](Self::hunt_async).
    ///
    /// The thread sleeps until the file of the server's socket appears or changes, and then
    /// connects; a loop goes on serving meanwhile. Where that cannot be watched (`tcp://`,
    /// `unix:@name`, `inproc:`, or no inotify watch is left, which is reported once to the
    /// subscriber of `tracing`), and while a server that listens cannot take the client, it tries
    /// again after 1 ms at first and after 50 ms at most. The runtime directory is made if it is
    /// not there.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` or `DEADLINE_EXCEEDED`: no server came in time. `INVALID_ARGUMENT`: the text
    /// is no address, or asks for what is impossible. `FAILED_PRECONDITION`: the mechanism is not
    /// available here, or others may change the runtime directory. `RESOURCE_EXHAUSTED`: the client
    /// has as many connections as it may have.
    pub fn hunt(&self, address: &str, timeout: Duration) -> Result<(), Status> {
        let address: Address = address.parse().map_err(|error: BadAddress| Status::from(error))?;
        if let Some(hunt) = transport::hunt(&address, timeout) {
            return transport::wait(hunt);
        }
        let deadline = Deadline::after(timeout);
        self.core()?.hunt(&address, deadline)
    }

    /// Moves this thread's connection to a server at `address` to another mechanism, such as
    /// `shm-futex` or `unix-stream`, and returns once both ends use it. Calls, streams and loans
    /// that are under way go on; no message is lost, doubled or overtaken. Beside a handshake the
    /// switch costs two messages, during which nothing waits.
    ///
    /// The server has to allow it ([`Limits::switches_per_minute_max`]) and to offer the mechanism,
    /// as to a client that connects by it. If that fails the connection stays on the mechanism that
    /// it has; [`connections`](Self::connections) shows which that is. Connections within a thread
    /// and over `tcp://` do not switch. Those over `tcp://` move to `shm` by themselves where both
    /// ends share a kernel and the server allows it, which this waits for, and switch from there;
    /// `?via=tcp` has them stay. [`switch_async`](Self::switch_async) moves the connection of async
    /// callers.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT`: the text is no address, or names no mechanism. `FAILED_PRECONDITION`:
    /// this thread has no connection there yet, the peer is older than switches, the connection
    /// stays on `tcp`, or the server or this machine does not have the mechanism.
    /// `RESOURCE_EXHAUSTED`: too many switches within a minute, or no room at the server.
    /// `UNAVAILABLE`: the connection has ended, or another switch is under way.
    /// `DEADLINE_EXCEEDED`: the server did not answer within `timeout`.
    pub fn switch(&self, address: &str, mechanism: &str, timeout: Duration) -> Result<(), Status> {
        let address: Address = address.parse().map_err(|error: BadAddress| Status::from(error))?;
        let mechanism = mechanism
            .parse()
            .map_err(|error: UnknownMechanism| Status::invalid_argument(error.to_string()))?;
        self.core()?.switch(&address, mechanism, Deadline::after(timeout))
    }

    /// Returns the connections that are open now, of all threads. A system call for each of this
    /// thread that lends.
    ///
    /// One of another thread that has ended is listed until that thread connects again.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let own = match thread::known_core(self.shared()) {
            Ok(Some(core)) => core.connection_infos(),
            _ => Vec::new(),
        };
        let all = self.shared().connections().into_iter();
        all.map(|(number, info)| match own.iter().find(|(other, _)| *other == number) {
            Some((_, own)) => ConnectionInfo { thread: info.thread, ..own.clone() },
            None => info,
        })
        .chain(self.handle.async_routes.connections())
        .collect()
    }

    /// Returns this thread's part of the client.
    pub(crate) fn core(&self) -> Result<Rc<ClientCore>, Status> {
        thread::core_of(self.shared())
    }

    /// Returns the way to an address for calls that are futures.
    pub(crate) fn async_route(&self, address: &Address) -> Arc<AsyncRoute> {
        self.handle.async_routes.route(&self.handle.shared, address)
    }

    /// Returns what its calls do that find no connection.
    pub(crate) fn reconnect(&self) -> ReconnectPolicy {
        self.shared().settings.reconnect
    }

    pub(crate) fn shared(&self) -> &Arc<ClientShared> {
        &self.handle.shared
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.shared().connections();
        let names: Vec<_> = connections.into_iter().map(|(_, info)| info.name).collect();
        f.debug_struct("Client").field("connections", &names).finish_non_exhaustive()
    }
}
