//! A client: connections to servers, shared by all callers, and how their calls wait.
//!
//! **Invariants:** there is one connection for each address and way to talk to it; one that has
//! ended is replaced by the next call. While a call of a client in a loop waits, the loop goes on
//! serving.
//! **Not here:** one call (`call.rs`).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use nearcall_channel::{
    Address as Place, Endpoint, HandshakeError, Mechanism, Options, WaitPolicy, connect,
    runtime_dir,
};
use nearcall_os::clock;
use nearcall_wire::{InstanceId, OutgoingCall};

use crate::acceptor::loop_preference;
use crate::address::{Address, At, BadAddress};
use crate::connection::{Connection, INLINE_BUF, Outcome, SendMode, Setup};
use crate::connection_info::ConnectionInfo;
use crate::deadline::Deadline;
use crate::dispatch::{Received, Services};
use crate::event_loop::EventLoop;
use crate::limits::{
    CLIENT_ROOM_INTERVAL, HUNT_PAUSE_MAX, HUNT_PAUSE_MIN, Limits, MESSAGES_PER_TURN_MAX,
};
use crate::options::CallOptions;
use crate::reactor::Reactor;
use crate::registry::new_instance;
use crate::status::{Code, Status};
use crate::trust::Trust;

/// Connections to servers. Cheap to clone: all clones share them. Belongs to one thread.
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
/// let faster = format!("{address}?via={}", Mechanism::ShmEventfd);
/// let thermostat = ThermostatCaller::new(&client, &faster)?;
/// let before = thermostat.set_target(&SetTargetRequest { celsius: 21.0 })?;
/// assert_eq!(before.celsius_before, 20.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    core: Rc<ClientCore>,
}

struct ClientCore {
    /// None: calls block this thread.
    reactor: Option<Rc<Reactor>>,
    /// The loop's, or those of this client alone.
    services: Services,
    instance: InstanceId,
    limits: Limits,
    short_circuit: Cell<bool>,
    connections: RefCell<Vec<(Route, Rc<Connection>)>>,
}

/// The key of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    at: At,
    mechanism: Mechanism,
    wait: Option<WaitPolicy>,
    trust: Trust,
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// Creates a client that needs no loop: its calls block this thread, each mechanism in its own
    /// way.
    pub fn new() -> Self {
        Self::with_limits(None, Limits::default())
    }

    /// Creates a client of a loop: while its calls wait, the loop serves calls, timers and
    /// descriptors, so services may call each other in circles. A server of the same loop is called
    /// directly.
    pub fn in_loop(event_loop: &EventLoop) -> Self {
        Self::with_limits(Some(event_loop), Limits::default())
    }

    /// Creates a client like [`new`](Self::new) or [`in_loop`](Self::in_loop), with custom limits.
    pub fn with_limits(event_loop: Option<&EventLoop>, limits: Limits) -> Self {
        let reactor = event_loop.map(|event_loop| Rc::clone(event_loop.reactor()));
        let services = reactor.as_ref().map(|reactor| reactor.services.clone());
        let core = ClientCore {
            reactor,
            services: services.unwrap_or_default(),
            instance: new_instance(),
            limits,
            short_circuit: Cell::new(true),
            connections: RefCell::default(),
        };
        Self { core: Rc::new(core) }
    }

    /// Calls a server of the same loop over its mechanism as well, to measure or to test it. For
    /// callers that are made from now on.
    #[must_use]
    pub fn without_short_circuit(self) -> Self {
        self.core.short_circuit.set(false);
        self
    }

    /// Waits until a server listens at `address`, for at most `timeout`, and connects to it.
    ///
    /// Tries again after 1 ms at first and after 50 ms at most.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` or `DEADLINE_EXCEEDED`: no server came in time. `INVALID_ARGUMENT`: the text
    /// is no address, or asks for what is impossible. `FAILED_PRECONDITION`: the mechanism is not
    /// available here.
    pub fn hunt(&self, address: &str, timeout: Duration) -> Result<(), Status> {
        let address: Address = address.parse().map_err(|error: BadAddress| Status::from(error))?;
        let deadline = Deadline::after(timeout);
        let mut pause = HUNT_PAUSE_MIN;
        loop {
            let failed = match self.connection_to(&address, deadline) {
                Ok(_) => return Ok(()),
                // Waiting changes nothing about these.
                Err(status) if status.code() == Code::InvalidArgument => return Err(status),
                Err(status) if status.code() == Code::FailedPrecondition => return Err(status),
                Err(status) => status,
            };
            let next = Deadline::after(pause);
            if next >= deadline {
                return Err(failed);
            }
            match &self.core.reactor {
                Some(reactor) => {
                    reactor.run_until(next, || false).map_err(|error| waiting_failed(&error))?;
                }
                None => clock::pause(pause),
            }
            pause = (pause * 2).min(HUNT_PAUSE_MAX);
        }
    }

    /// Returns the connections that are open now. A system call for each that lends.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let connections = self.core.connections.borrow();
        let open = connections.iter().filter(|(_, connection)| !connection.is_closed());
        open.map(|(_, connection)| connection.info()).collect()
    }

    pub(crate) fn reactor(&self) -> Option<&Reactor> {
        self.core.reactor.as_deref()
    }

    pub(crate) fn services(&self) -> &Services {
        &self.core.services
    }

    /// Returns whether a server of this thread is called directly.
    pub(crate) fn short_circuits(&self) -> bool {
        self.core.short_circuit.get()
    }

    /// Refuses metadata in the short circuit that a connection would refuse.
    #[inline]
    pub(crate) fn check_metadata(&self, options: &CallOptions) -> Result<(), Status> {
        let bytes = options.metadata_bytes().len();
        let max = self.core.limits.metadata_bytes_max;
        if bytes <= usize::from(max) {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "the metadata of {bytes} bytes are above the limit of {max} bytes of this client; \
             raise `Limits::metadata_bytes_max` here"
        )))
    }

    /// Returns the connection to a server, opened if there is none.
    pub(crate) fn connection_to(
        &self,
        address: &Address,
        deadline: Deadline,
    ) -> Result<Rc<Connection>, Status> {
        let mechanism = address.mechanism();
        let (wait, trust) = (address.wait, address.trust());
        let route = Route { at: address.at.clone(), mechanism, wait, trust };
        let At::Socket(place) = &address.at else {
            if self.services().registry.server_at(&address.at).is_some() {
                let text = format!("{} is only reached by the short circuit", address.at);
                return Err(Status::failed_precondition(text));
            }
            return Err(no_listener(&address.at));
        };
        if let Some(connection) = self.known_connection(&route) {
            return Ok(connection);
        }
        let endpoint = self.open_channel(place, &route, deadline)?;
        // A service that ran meanwhile may have connected as well. One connection is enough.
        if let Some(connection) = self.known_connection(&route) {
            return Ok(connection);
        }
        let core = &self.core;
        let setup = Setup {
            name: format!("the server at {}", address.at),
            instance: core.instance,
            limits: &core.limits,
            trust,
            serves: None,
        };
        let activity = core.reactor.as_ref().map(|reactor| &reactor.activity);
        let connection = Connection::new(endpoint, setup, &core.services.buffers, activity);
        if let Some(reactor) = &core.reactor {
            let added = reactor.add_connection(&connection);
            added.map_err(|error| Status::failed_precondition(error.to_string()))?;
        }
        self.greet(&connection, deadline)?;
        if let Some(known) = self.known_connection(&route) {
            connection.close(Status::unavailable("another connection was quicker"));
            self.forget_closed();
            return Ok(known);
        }
        let mut connections = core.connections.borrow_mut();
        connections.retain(|(other, connection)| *other != route && !connection.is_closed());
        connections.push((route, Rc::clone(&connection)));
        Ok(connection)
    }

    /// Returns the connection of this route, if it takes calls.
    fn known_connection(&self, route: &Route) -> Option<Rc<Connection>> {
        let connections = self.core.connections.borrow();
        let known = connections.iter().find(|(other, known)| *other == *route && known.is_open());
        known.map(|(_, connection)| Rc::clone(connection))
    }

    fn open_channel(
        &self,
        place: &Place,
        route: &Route,
        deadline: Deadline,
    ) -> Result<Endpoint, Status> {
        let mut options = self.core.limits.channel();
        if let Some(left) = deadline.remaining() {
            options.handshake_timeout = options.handshake_timeout.min(left);
        }
        options.wait = route.wait;
        let outcome = match &self.core.reactor {
            None => connect(place, route.mechanism, &options),
            Some(reactor) => {
                options.wait_preferred = loop_preference(route.wait);
                // What cannot be polled, the loop sleeps or spins in.
                let pollable = route.mechanism.waits().contains(&WaitPolicy::Poll);
                if pollable && route.wait == Some(WaitPolicy::Block) {
                    options.wait = Some(WaitPolicy::Poll);
                }
                connect_in_loop(reactor, place, route.mechanism, options)
                    .map_err(|error| waiting_failed(&error))?
            }
        };
        outcome.map_err(|error| connect_error(&route.at, &error, deadline))
    }

    /// Greets, and waits until the server has greeted.
    fn greet(&self, connection: &Rc<Connection>, asked: Deadline) -> Result<(), Status> {
        let deadline = asked.min(Deadline::after(self.core.limits.channel().handshake_timeout));
        connection.send_control(Deadline::NOW);
        let is_done = || connection.is_open() || connection.is_closed();
        match &self.core.reactor {
            Some(reactor) => {
                let waited = reactor.run_until(deadline, is_done);
                waited.map_err(|error| waiting_failed(&error))?;
            }
            None => {
                while !is_done() && !deadline.has_passed() {
                    self.services().receive(connection, deadline);
                }
            }
        }
        if connection.is_open() {
            return Ok(());
        }
        if !connection.is_closed() {
            let text = format!("{} did not greet in time", connection.name);
            connection.close(Status::unavailable(text.clone()));
            self.forget_closed();
            if asked.has_passed() {
                return Err(Status::deadline_exceeded(text));
            }
        }
        Err(connection.close_reason())
    }

    /// Returns how a request is sent that may wait until `deadline`: a loop never waits in one
    /// connection.
    #[inline]
    pub(crate) fn send_mode(&self, deadline: Deadline) -> SendMode {
        match self.core.reactor {
            Some(_) => SendMode::Keep,
            None => SendMode::WaitUntil(deadline),
        }
    }

    /// Returns how a request is sent that must not wait.
    pub(crate) fn try_mode(&self) -> SendMode {
        match self.core.reactor {
            Some(_) => SendMode::Try,
            None => SendMode::TRY_WHOLE,
        }
    }

    /// Waits for the reply to a call and reads a small result where it was received: the shortest
    /// way, for clients without a loop. `None`: [`wait`](Self::wait) for it.
    #[inline]
    pub(crate) fn wait_inline<T>(
        &self,
        connection: &Rc<Connection>,
        call: OutgoingCall,
        deadline: Deadline,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        let core = &self.core;
        if core.reactor.is_some() || connection.is_closed() || connection.has_pending_writes() {
            return None;
        }
        let mut buf = INLINE_BUF;
        let deadline = deadline.min(connection.next_deadline());
        let services = &core.services;
        let body = services.receive_reply(connection, deadline, &mut buf, Some(call)).ok()?;
        Some(read(&buf[body]))
    }

    /// Waits for the end of a call.
    #[inline]
    pub(crate) fn wait(
        &self,
        connection: &Rc<Connection>,
        call: OutgoingCall,
        deadline: Deadline,
    ) -> Outcome {
        loop {
            if let Some(outcome) = connection.take_outcome(call) {
                return outcome;
            }
            match &self.core.reactor {
                None => {
                    self.wait_alone(connection, deadline, || connection.has_ended(call));
                }
                Some(reactor) => match reactor.run_until(deadline, || connection.has_ended(call)) {
                    Ok(true) => {}
                    Ok(false) => connection.handle_timeout(),
                    Err(error) => {
                        connection.cancel(call);
                        return Err(waiting_failed(&error));
                    }
                },
            }
        }
    }

    /// Waits for one message, without a loop.
    fn wait_alone(
        &self,
        connection: &Rc<Connection>,
        asked: Deadline,
        mut is_done: impl FnMut() -> bool,
    ) {
        // Calls that were started on the same connection have deadlines, too.
        let mut deadline = asked.min(connection.next_deadline());
        if connection.has_pending_writes() && !connection.flush(Deadline::NOW) {
            // A cancellation, say: only this wait moves it on.
            deadline = deadline.min(Deadline::after(CLIENT_ROOM_INTERVAL));
        }
        let received = self.services().receive(connection, deadline);
        // A server that sends without pause must not hold a call beyond its time.
        if received == Received::Empty || (!is_done() && deadline.has_passed()) {
            connection.handle_timeout();
        }
    }

    /// Waits until what was sent is in the channel.
    #[inline]
    pub(crate) fn wait_for_room(
        &self,
        connection: &Rc<Connection>,
        deadline: Deadline,
    ) -> Result<(), Status> {
        if self.core.reactor.is_none() || !connection.has_pending_writes() {
            return Ok(());
        }
        let is_done = || !connection.has_pending_writes() || connection.is_closed();
        let had_room = self.run_until(deadline, is_done)?;
        if connection.is_closed() {
            return Err(connection.close_reason());
        }
        had_room.then_some(()).ok_or_else(|| {
            let name = &connection.name;
            Status::deadline_exceeded(format!(
                "{name} did not read what was sent before in time; the message may still arrive"
            ))
        })
    }

    /// Waits until `done`, which is asked after everything that happens, or until the connection
    /// has ended: in a loop, the loop goes on serving. Returns false at `deadline`.
    pub(crate) fn wait_until(
        &self,
        connection: &Rc<Connection>,
        deadline: Deadline,
        mut done: impl FnMut() -> bool,
    ) -> Result<bool, Status> {
        let mut done = || connection.is_closed() || done();
        if self.core.reactor.is_some() {
            return self.run_until(deadline, done);
        }
        loop {
            if done() {
                return Ok(true);
            }
            if deadline.has_passed() {
                return Ok(false);
            }
            self.wait_alone(connection, deadline, || false);
        }
    }

    /// Serves until `done` or `deadline`. Without a loop nothing can happen meanwhile.
    pub(crate) fn run_until(
        &self,
        deadline: Deadline,
        done: impl FnMut() -> bool,
    ) -> Result<bool, Status> {
        let Some(reactor) = &self.core.reactor else { return Ok(false) };
        reactor.run_until(deadline, done).map_err(|error| waiting_failed(&error))
    }

    /// Receives what has come, without waiting. For clients without a loop.
    pub(crate) fn poll(&self, connection: &Rc<Connection>) {
        if self.core.reactor.is_none() {
            for _ in 0..MESSAGES_PER_TURN_MAX {
                if self.services().receive(connection, Deadline::NOW) != Received::Message {
                    return;
                }
            }
        }
    }

    /// Has the loop forget connections that have ended, outside of its rounds.
    fn forget_closed(&self) {
        if let Some(reactor) = &self.core.reactor {
            reactor.forget_closed();
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.core.connections.borrow();
        let names: Vec<_> = connections.iter().map(|(route, _)| route.at.to_string()).collect();
        f.debug_struct("Client").field("connections", &names).finish_non_exhaustive()
    }
}

impl Drop for ClientCore {
    fn drop(&mut self) {
        for (_, connection) in self.connections.take() {
            connection.close(Status::unavailable("the client was closed"));
        }
        if let Some(reactor) = &self.reactor {
            reactor.forget_closed();
        }
    }
}

/// Connects on a thread of its own, while the loop goes on serving.
fn connect_in_loop(
    reactor: &Reactor,
    place: &Place,
    mechanism: Mechanism,
    options: Options,
) -> io::Result<Result<Endpoint, HandshakeError>> {
    let connected = reactor.start_connect(place.clone(), mechanism, options)?;
    let mut outcome = None;
    // The handshake has deadlines of its own.
    reactor.run_until(Deadline::NEVER, || {
        outcome = connected.take();
        outcome.is_some()
    })?;
    Ok(outcome.unwrap_or(Err(HandshakeError::TimedOut)))
}

fn no_listener(at: &At) -> Status {
    Status::unavailable(match at {
        At::InProcess(_) => format!(
            "no server of this event loop listens at {at}; `inproc:` reaches servers of the same \
             loop only"
        ),
        At::Socket(place) => {
            // The directory depends on the user and the environment of each process.
            let socket = match place {
                Place::Name(name) => format!(" ({})", runtime_dir::path().join(name).display()),
                _ => String::new(),
            };
            format!(
                "no server listens at {at}{socket}: start the server, or wait for it with \
                 Client::hunt"
            )
        }
    })
}

fn connect_error(at: &At, error: &HandshakeError, deadline: Deadline) -> Status {
    match error {
        HandshakeError::NoListener(_) => no_listener(at),
        HandshakeError::BadOptions(_) | HandshakeError::UnknownMechanism(_) => {
            Status::invalid_argument(format!("cannot connect to {at}: {error}"))
        }
        HandshakeError::TimedOut if deadline.has_passed() => {
            Status::deadline_exceeded(format!("no connection to {at} in time"))
        }
        HandshakeError::Open(..) => {
            Status::failed_precondition(format!("cannot connect to {at}: {error}"))
        }
        _ => Status::unavailable(format!("cannot connect to {at}: {error}")),
    }
}

#[cold]
fn waiting_failed(error: &io::Error) -> Status {
    Status::internal(format!("the event loop failed: {error}"))
}
