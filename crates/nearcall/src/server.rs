//! A server: objects that others call, and the places where they find them.
//!
//! **Invariants:** an object's name is registered once; a server that is dropped closes its
//! connections and its listeners.
//! **Not here:** handshakes (`reactor/handshakes.rs`), admission (`acceptor.rs`), calls
//! (`dispatch.rs`), waiting (`event_loop.rs`).

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;

use nearcall_channel::{HandshakeError, Listener};

use crate::acceptor::Acceptor;
use crate::address::{Address, At, BadAddress};
use crate::connection_info::ConnectionInfo;
use crate::dispatcher::Dispatcher;
use crate::event_loop::EventLoop;
use crate::limits::Limits;
use crate::reactor::{ListenerEntry, ListenerId, Reactor};
use crate::registry::{ObjectTable, Taken, new_instance};
use crate::status::Status;
use crate::trust::Trust;

/// Objects that can be called, in one event loop. Dropping it closes its connections.
///
/// # Examples
///
/// Two objects with one interface, distinguished by the end of the address:
///
/// ```
#[doc = include_str!("../doc/room.txt")]
/// use nearcall::{Client, EventLoop, Server};
///
/// let event_loop = EventLoop::new()?;
/// let server = Server::new(&event_loop);
/// server.register_as("kitchen", ThermostatDispatcher::new(Room::default()))?;
/// server.register_as("hall", ThermostatDispatcher::new(Room::default()))?;
///
/// // The kernel chooses the port; `listen` returns which.
/// let address = server.listen("tcp://127.0.0.1:0")?;
///
/// let client = Client::in_loop(&event_loop);
/// let kitchen = ThermostatCaller::new(&client, &format!("{address}#kitchen"))?;
/// let hall = ThermostatCaller::new(&client, &format!("{address}#hall"))?;
/// kitchen.set_target(&SetTargetRequest { celsius: 22.0 })?;
/// assert_eq!(hall.set_target(&SetTargetRequest { celsius: 17.0 })?.celsius_before, 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Server {
    core: Rc<ServerCore>,
}

struct ServerCore {
    reactor: Rc<Reactor>,
    objects: Rc<ObjectTable>,
    acceptor: Rc<Acceptor>,
    limits: Limits,
    listeners: RefCell<Vec<ListenerId>>,
}

/// Why an object was not registered.
#[derive(Clone, PartialEq, Eq)]
pub enum RegisterError {
    /// This server has an object of that name. Give one of them another instance.
    NameTaken(String),
    /// Two names have the same number. Rename one of them.
    Collision(String, String),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken(name) => write!(
                f,
                "this server has an object `{name}` already: register one of them as another \
                 instance"
            ),
            Self::Collision(one, other) => {
                write!(f, "the names `{one}` and `{other}` have the same number: rename one")
            }
        }
    }
}

/// Prints like [`Display`](fmt::Display), for `fn main() -> Result<(), RegisterError>`.
impl fmt::Debug for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for RegisterError {}

/// Why a server does not listen at an address.
pub enum ListenError {
    /// The text is no address.
    BadAddress(BadAddress),
    /// Another server of this thread is there.
    InUse(Address),
    /// A limit of the server is above what any connection supports.
    Limits(Address, String),
    /// The rendezvous failed: the address is taken, or not available here.
    Rendezvous(Address, Box<HandshakeError>),
    /// A system call failed.
    Os(Address, io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadAddress(error) => error.fmt(f),
            Self::InUse(address) => write!(f, "{address} is in use by a server of this process"),
            Self::Limits(address, text) => write!(f, "cannot listen at {address}: {text}"),
            Self::Rendezvous(address, error) => match &**error {
                HandshakeError::AddressInUse(_) => error.fmt(f),
                error => write!(f, "cannot listen at {address}: {error}"),
            },
            Self::Os(address, error) => write!(f, "cannot listen at {address}: {error}"),
        }
    }
}

/// Prints like [`Display`](fmt::Display), for `fn main() -> Result<(), ListenError>`.
impl fmt::Debug for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ListenError {}

impl Server {
    /// Creates a server in `event_loop` that has no objects and listens nowhere yet.
    pub fn new(event_loop: &EventLoop) -> Self {
        Self::with_limits(event_loop, Limits::default())
    }

    /// Creates a server like [`new`](Self::new), with custom limits. [`listen`](Self::listen)
    /// checks them.
    pub fn with_limits(event_loop: &EventLoop, limits: Limits) -> Self {
        let reactor = Rc::clone(event_loop.reactor());
        let instance = new_instance();
        let objects = reactor.services.registry.add_server(instance);
        let acceptor = Acceptor::new(objects.id, instance, limits);
        reactor.add_acceptor(&acceptor);
        let listeners = RefCell::default();
        Self { core: Rc::new(ServerCore { reactor, objects, acceptor, limits, listeners }) }
    }

    /// Serves `dispatcher` as the object with the name of its interface.
    ///
    /// # Errors
    ///
    /// [`RegisterError::NameTaken`]: this server has an object of that name.
    pub fn register(&self, dispatcher: impl Dispatcher) -> Result<(), RegisterError> {
        self.core.register(None, Rc::new(dispatcher))
    }

    /// Serves `dispatcher` as one of several objects with one interface: `interface@instance`,
    /// which callers address as `ADDRESS#instance`.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    pub fn register_as(
        &self,
        instance: &str,
        dispatcher: impl Dispatcher,
    ) -> Result<(), RegisterError> {
        self.core.register(Some(instance), Rc::new(dispatcher))
    }

    /// Serves an object no more: `package.Service` or `package.Service@instance`. Returns whether
    /// it was there. Calls that it has not answered yet go on.
    pub fn unregister(&self, name: &str) -> bool {
        // The end of a service may call this server.
        let removed = self.core.objects.remove(name);
        self.core.reactor.services.registry.note_change();
        removed.is_some()
    }

    /// Listens at an address, and returns where exactly. `?wait=spin` has the loop spin for clients
    /// that come here; `?trust=same-user` has it read what clients of the same user id lend where
    /// it lies ([`Trust`]).
    ///
    /// # Errors
    ///
    /// [`ListenError::Rendezvous`] with `AddressInUse`: another server listens there. A socket file
    /// whose server is gone is taken over. [`ListenError::Limits`]: see [`Limits`].
    pub fn listen(&self, address: &str) -> Result<Address, ListenError> {
        let parsed: Address = address.parse().map_err(ListenError::BadAddress)?;
        if parsed.trust() == Trust::Yes {
            return Err(ListenError::BadAddress(BadAddress::trusts_every_client(address)));
        }
        self.core.listen(parsed)
    }

    /// Takes no more calls and no more clients. Calls under way go on, then each connection closes.
    ///
    /// The loop must go on meanwhile: replies are lost if the program ends at once. Loans and
    /// clients that keep their connection open are closed with the server, so bound the wait.
    ///
    /// # Examples
    ///
    /// A server that ends well on SIGTERM:
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use nearcall::event_loop::Signal;
    /// use nearcall::{Deadline, Event, EventLoop, Server};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let server = Server::new(&event_loop);
    /// // ... register and listen
    /// event_loop.add_signals(&[Signal::TERM, Signal::INT])?;
    /// while !matches!(event_loop.next(Deadline::NEVER)?, Some(Event::Signal(_))) {}
    /// server.drain();
    /// let end = Deadline::after(Duration::from_secs(5));
    /// while !server.connections().is_empty() && !end.has_passed() {
    ///     event_loop.next(end.min(Deadline::after(Duration::from_millis(10))))?;
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn drain(&self) {
        self.core.stop_listening();
        for connection in self.core.acceptor.connections() {
            connection.drain();
        }
        self.core.reactor.forget_closed();
    }

    /// Returns the clients that are connected now. A system call for each that is lent something.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.core.acceptor.connections().iter().map(|connection| connection.info()).collect()
    }

    /// Returns how many connections were closed because their client broke the protocol, by the
    /// name of what it did, such as `second-reply`.
    pub fn protocol_violations(&self) -> Vec<(&'static str, u64)> {
        self.core.acceptor.violations()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("objects", &self.core.objects.names())
            .field("connections", &self.core.acceptor.connections().len())
            .finish_non_exhaustive()
    }
}

/// Closes the server with its last handle.
impl Drop for ServerCore {
    fn drop(&mut self) {
        self.stop_listening();
        for connection in self.acceptor.connections() {
            connection.close(Status::unavailable("the server was closed"));
        }
        self.reactor.forget_closed();
        let objects = self.objects.remove_all();
        self.reactor.services.registry.note_change();
        // The end of a service may make calls.
        drop(objects);
    }
}

impl ServerCore {
    fn register(
        &self,
        instance: Option<&str>,
        dispatcher: Rc<dyn Dispatcher>,
    ) -> Result<(), RegisterError> {
        let name = dispatcher.interface().object_name(instance);
        match self.objects.add(&name, dispatcher) {
            Ok(()) => {
                self.reactor.services.registry.note_change();
                Ok(())
            }
            Err(Taken::Name) => Err(RegisterError::NameTaken(name)),
            Err(Taken::Number(other)) => Err(RegisterError::Collision(other, name)),
        }
    }

    fn listen(&self, mut address: Address) -> Result<Address, ListenError> {
        let registry = &self.reactor.services.registry;
        if registry.server_at(&address.at).is_some() {
            return Err(ListenError::InUse(address));
        }
        if let Err(text) = self.limits.check() {
            return Err(ListenError::Limits(address, text));
        }
        if let At::Socket(place) = &address.at {
            let bound = Listener::bind(place);
            let listener =
                bound.map_err(|error| ListenError::Rendezvous(address.clone(), error.into()))?;
            address.at = At::Socket(listener.address().clone());
            let (wait, trust) = (address.wait, address.trust());
            let acceptor = Rc::clone(&self.acceptor);
            let entry = ListenerEntry { listener, wait, trust, acceptor };
            let id = self.reactor.add_listener(entry);
            let id = id.map_err(|error| ListenError::Os(address.clone(), error))?;
            self.listeners.borrow_mut().push(id);
        }
        self.objects.add_place(address.at.clone());
        registry.note_change();
        Ok(address)
    }

    fn stop_listening(&self) {
        for id in self.listeners.take() {
            self.reactor.remove_listener(id);
        }
        self.objects.clear_places();
        self.reactor.services.registry.note_change();
    }
}
