//! A server: objects that others call, and the places where they find them.
//!
//! **Invariants:** an object's name is registered once; a server that is dropped closes its
//! connections and its listeners.
//! **Not here:** a server with several loops (`servers/builder.rs`, `servers/running.rs`), how a
//! server ends (`servers/ending.rs`), handshakes (`reactor/handshakes.rs`), admission
//! (`reactor/acceptor.rs`), calls (`services/dispatch.rs`), waiting (`event_loop.rs`).
//!
//! **Invariant:** a server outlives every attack of a client, and keeps no descriptor, mapping,
//! thread or name of it; what a client does makes the process of a server hold no more than its
//! first clients did. *Checked by* `tests/faults/hostile.rs`, `tests/stress`, and for longer by
//! `cargo xtask hostile` and `cargo xtask soak`.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use nearcall_channel::{Endpoint, MechanismSet};

use crate::address::{Address, At};
use crate::clients::forget_stale;
use crate::connection::connection_info::ConnectionInfo;
use crate::control::Health;
use crate::event_loop::EventLoop;
use crate::instance;
use crate::interceptor::{Chain, Interceptor};
use crate::limits::Limits;
use crate::reactor::acceptor::Acceptor;
use crate::reactor::{ListenerEntry, ListenerId, Reactor};
use crate::refusals::RefusalCount;
use crate::services::dispatcher::{Dispatcher, Registered};
use crate::services::intercepted::{Intercepted, SharedChain};
use crate::services::registry::{ObjectTable, Taken};
use crate::tasks::mailbox::Mailbox;
use crate::thread_marker::BelongsToItsThread;

mod builder;
mod built_in;
mod counting;
mod ending;
mod errors;
mod gathering;
mod group;
mod listen_options;
mod listening;
mod loop_thread;
mod record_service;
mod running;
mod state;
mod switch_service;

pub use self::builder::ServerBuilder;
pub use self::errors::{ListenError, RegisterError, ServerError, StartError};
pub use self::listen_options::ListenOptions;
pub use self::running::RunningServer;

use self::gathering::LoopHandle;
use self::listening::Listening;
use self::state::ServerState;

/// Objects that can be called, in one event loop. Dropping it closes its connections.
///
/// One address in several threads: [`Server::builder`]. A second server at the address of another
/// one is refused with [`ListenError::Rendezvous`] (`AddressInUse`).
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
///
/// It stays in its thread: see [`BelongsToItsThread`].
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<nearcall::Server>();
/// ```
#[derive(Clone)]
pub struct Server {
    _thread: BelongsToItsThread,
    core: Rc<ServerCore>,
}

struct ServerCore {
    reactor: Rc<Reactor>,
    objects: Rc<ObjectTable>,
    acceptor: Rc<Acceptor>,
    state: Arc<ServerState>,
    limits: Limits,
    listeners: RefCell<Vec<ListenerId>>,
    interceptors: SharedChain,
}

impl Server {
    /// Creates a server in `event_loop` that has no objects and listens nowhere yet.
    pub fn new(event_loop: &EventLoop) -> Self {
        Self::with_limits(event_loop, Limits::default())
    }

    /// Creates a server like [`new`](Self::new), with custom limits. [`listen`](Self::listen)
    /// checks them.
    pub fn with_limits(event_loop: &EventLoop, limits: Limits) -> Self {
        Self::in_loop(event_loop, limits, ServerState::new(1, &limits), 0)
    }

    /// Starts a server that has event loops of its own, in threads of their own.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }

    /// Creates the part of a server that is in one of its loops.
    fn in_loop(
        event_loop: &EventLoop,
        limits: Limits,
        state: Arc<ServerState>,
        loop_index: usize,
    ) -> Self {
        let reactor = Rc::clone(event_loop.reactor());
        let instance = instance::of_loop(state.instance, loop_index);
        let objects = reactor.services.registry.add_server(instance);
        let (mailbox, server) = (Arc::clone(&reactor.mailbox), objects.id);
        state.add_loop(LoopHandle { index: loop_index, mailbox, server });
        let census = Arc::clone(&state.census);
        let acceptor = Acceptor::new(&objects, instance, limits, census, loop_index);
        reactor.add_acceptor(&acceptor);
        let (listeners, interceptors) = (RefCell::default(), SharedChain::default());
        let core =
            ServerCore { reactor, objects, acceptor, state, limits, listeners, interceptors };
        let core = Rc::new(core);
        built_in::install(&core);
        Self { _thread: BelongsToItsThread::default(), core }
    }

    /// Serves `dispatcher` as the object with the name of its interface.
    ///
    /// # Errors
    ///
    /// [`RegisterError::NameTaken`]: this server has an object of that name.
    /// [`RegisterError::Reserved`]: every server answers this interface itself.
    pub fn register(&self, dispatcher: impl Dispatcher) -> Result<(), RegisterError> {
        self.core.register(None, Rc::new(Registered::new(dispatcher)))
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
        self.core.register(Some(instance), Rc::new(Registered::new(dispatcher)))
    }

    /// Serves an object no more: `package.Service` or `package.Service@instance`. Returns whether
    /// it was there. Calls that it has not answered yet go on.
    pub fn unregister(&self, name: &str) -> bool {
        // The end of a service may call this server.
        let removed = self.core.objects.remove(name);
        // The name of the server as a whole, the empty one, is that of no object.
        if removed.is_some() {
            self.core.state.remove_object(name);
        }
        self.core.reactor.services.registry.note_change();
        forget_stale();
        removed.is_some()
    }

    /// Sets the health of an object, `package.Service` or `package.Service@instance`, or with an
    /// empty name of the server as a whole, which clients ask for ([`control`](crate::control)).
    /// Returns whether there is such an object. Calls are served whatever it is.
    ///
    /// Everything is [`Health::Serving`] unless this says otherwise, and [`Health::Draining`] from
    /// the moment when the server drains.
    pub fn set_health(&self, object: &str, health: Health) -> bool {
        self.core.state.set_health(object, health)
    }

    /// Has an interceptor see the calls of all objects of this server, also of those that were
    /// registered before, after the interceptors that were added before. Add it before the server
    /// listens, so that it sees all calls.
    ///
    /// Calls from the same thread go through interceptors as well, and then as bytes.
    pub fn add_interceptor(&self, interceptor: impl Interceptor) {
        let chain = self.core.interceptors.borrow().with(Arc::new(interceptor));
        self.core.set_interceptors(chain);
    }

    /// Listens at an address, and returns where exactly, for clients. `?wait=spin` has the loop
    /// spin for clients that come here; `?trust=same-user` has it read what clients of the same
    /// user id lend where it lies ([`Trust`](crate::client::Trust)). At an `inproc:` address
    /// neither has an effect.
    ///
    /// A client chooses the mechanism from those that are offered. By default these are the ones
    /// with which no client can hurt the server or its other clients; `?allow=shm-spin,cma` offers
    /// exactly these instead, and `?allow=all` every one
    /// ([`MechanismSet`](crate::mechanism::MechanismSet)). A client that asks for another gets
    /// `FAILED_PRECONDITION` with the names of what is offered. At `tcp://` every connection begins
    /// over `tcp`; to what is offered beside it, connections of this machine may move
    /// ([`Limits::switches_per_minute_max`]).
    ///
    /// A socket of this address with which the process was started (`LISTEN_FDS`: a socket unit of
    /// systemd with `ListenSequentialPacket=`, or `nearcall host`) is adopted. Clients that wait in
    /// its queue when this server ends are left to the next process that gets it.
    ///
    /// # Errors
    ///
    /// [`ListenError::BadAddress`]: it cannot be parsed, or has `?via=`, `?user=` or `#instance`,
    /// which are for clients. [`ListenError::Rendezvous`] with `AddressInUse`: another server
    /// listens there, perhaps in another thread; [`builder`](Self::builder) serves one address in
    /// several. A socket file whose server is gone is taken over. [`ListenError::Limits`]: see
    /// [`Limits`].
    pub fn listen(&self, address: &str) -> Result<Address, ListenError> {
        self.listen_with(address, &ListenOptions::default())
    }

    /// Listens like [`listen`](Self::listen), with options of this listener: who may connect, by
    /// which mechanisms, and within which limits.
    ///
    /// # Errors
    ///
    /// As [`listen`](Self::listen). [`ListenError::Limits`]: the options contradict each other or
    /// the address, or let no client in.
    pub fn listen_with(
        &self,
        address: &str,
        options: &ListenOptions,
    ) -> Result<Address, ListenError> {
        let address = Address::of_listener(address).map_err(ListenError::BadAddress)?;
        self.core.listen(address, options)
    }

    /// Serves a client over a channel that is open already, as if it had come to an address of this
    /// server. For the fuzz target of dispatchers, whose inputs need no handshake.
    #[doc(hidden)]
    pub fn serve_channel(&self, channel: Endpoint) {
        let policy = self.core.acceptor.policy_of_own_loop();
        self.core.reactor.place_client(&self.core.acceptor, &policy, &[], channel);
    }

    /// Takes no more calls and no more clients. Calls under way go on, then each connection closes.
    /// Clients that are connecting are refused with the reason.
    ///
    /// The loop must go on meanwhile: replies are lost if the program ends at once. Loans and
    /// clients that keep their connection open are closed with the server, so bound the wait.
    /// [`run_until_signal`](Self::run_until_signal) does all of that.
    pub fn drain(&self) {
        self.core.drain();
    }

    /// Returns the clients that are connected now. A system call for each that is lent something.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.core.acceptor.connections().iter().map(|connection| connection.info()).collect()
    }

    /// Returns what this server has refused, by kind and user. Each refusal is also an event of the
    /// `tracing` crate with the target `nearcall` and the level `WARN`: at most five a second of
    /// one kind and user, with the number of those that were suppressed.
    pub fn refusals(&self) -> Vec<RefusalCount> {
        self.core.acceptor.census.refusals.counts()
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
        self.close_connections();
        let objects = self.objects.remove_all();
        self.reactor.services.registry.note_change();
        // The end of a service may make calls.
        drop(objects);
        forget_stale();
    }
}

impl ServerCore {
    fn set_interceptors(&self, chain: Chain) {
        let is_first = !chain.is_empty() && self.interceptors.replace(chain).is_empty();
        if is_first {
            self.objects.replace_all(|object| Intercepted::register(object, &self.interceptors));
        }
        self.reactor.services.registry.note_change();
    }

    fn register(
        &self,
        instance: Option<&str>,
        dispatcher: Rc<Registered>,
    ) -> Result<(), RegisterError> {
        let name = dispatcher.interface().object_name(instance);
        if self.is_built_in(dispatcher.interface()) {
            return Err(RegisterError::Reserved(name));
        }
        let dispatcher = match self.interceptors.borrow().is_empty() {
            true => dispatcher,
            false => Intercepted::register(dispatcher, &self.interceptors),
        };
        match self.objects.add(&name, dispatcher) {
            Ok(()) => {
                self.state.add_object(&name);
                self.reactor.services.registry.note_change();
                Ok(())
            }
            Err(Taken::Name) => Err(RegisterError::NameTaken(name)),
            Err(Taken::Number(other)) => Err(RegisterError::Collision(other, name)),
        }
    }

    fn listen(
        &self,
        mut address: Address,
        options: &ListenOptions,
    ) -> Result<Address, ListenError> {
        let registry = &self.reactor.services.registry;
        if registry.server_at(&address.at).is_some() {
            return Err(ListenError::InUse(address));
        }
        if let Err(text) = self.limits.check() {
            return Err(ListenError::Limits(address, text));
        }
        if let At::Socket(_) = &address.at {
            let listening = Listening::bind(address, options, self.limits)?;
            address = listening.address.clone();
            self.add_listener(listening, Vec::new())?;
        } else {
            let policy = options.policy(&address, self.limits);
            policy.map_err(|text| ListenError::Limits(address.clone(), text))?;
            self.accept_at(&address, MechanismSet::NONE);
        }
        self.objects.add_place(address.at.clone());
        registry.note_change();
        Ok(address)
    }

    /// Accepts the clients of a listener, for this loop or for that of one of the mailboxes.
    fn add_listener(
        &self,
        listening: Listening,
        mailboxes: Vec<Arc<Mailbox>>,
    ) -> Result<(), ListenError> {
        let Listening { address, listener, policy, health } = listening;
        let offered = policy.offered;
        let mut added = Vec::new();
        for (listener, policy) in [(listener, policy)].into_iter().chain(health) {
            let (acceptor, mailboxes) = (Rc::clone(&self.acceptor), mailboxes.clone());
            let entry = ListenerEntry { listener, policy, acceptor, mailboxes };
            match self.reactor.add_listener(entry) {
                Ok(id) => added.push(id),
                Err(error) => {
                    // Or clients would be served at an address where this has failed to listen.
                    added.into_iter().for_each(|id| self.reactor.remove_listener(id));
                    return Err(ListenError::Os(address, error));
                }
            }
        }
        self.listeners.borrow_mut().extend(added);
        self.accept_at(&address, offered);
        Ok(())
    }

    /// Notes that clients find the server there.
    fn accept_at(&self, address: &Address, offered: MechanismSet) {
        self.acceptor.set_draining(false);
        self.state.set_draining(false);
        self.state.add_place(address, offered);
    }

    fn stop_listening(&self) {
        for id in self.listeners.take() {
            self.reactor.remove_listener(id);
        }
        self.objects.clear_places();
        self.state.clear_places();
        self.reactor.services.registry.note_change();
    }
}
