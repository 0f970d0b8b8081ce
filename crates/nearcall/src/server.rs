//! A server: objects that others call, and the places where they find them.
//!
//! Always true: an object's name is registered once; connections are bounded, in all and for each
//! user; who is turned away is told why.
//! Not here: handshakes (`meet.rs`), calls (`dispatch.rs`), waiting (`event_loop.rs`).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use nearcall_channel::{Endpoint, HandshakeError, Listener, Options, Rendezvous, WaitPolicy};
use nearcall_wire::InstanceId;

use crate::address::{Address, At, BadAddress};
use crate::connection_info::ConnectionInfo;
use crate::core::{Core, new_instance};
use crate::dispatch::Dispatcher;
use crate::event_loop::EventLoop;
use crate::interface::object_id;
use crate::limits::Limits;
use crate::link::Link;
use crate::options;
use crate::peer::{Peer, PeerIdentity};
use crate::reactor::Reactor;
use crate::status::Status;
use crate::trust::Trust;

/// Objects that can be called, in one event loop. Dropping it closes its connections.
///
/// # Examples
///
/// Two objects with one interface, told apart by the end of the address:
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
/// // The kernel chooses the port; `listen` tells which.
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
    _alive: Rc<Alive>,
}

/// Closes the server with its last handle.
struct Alive(Rc<ServerCore>);

pub(crate) struct ServerCore {
    core: Rc<Core>,
    pub(crate) instance: InstanceId,
    limits: Limits,
    /// By id.
    objects: RefCell<Vec<Object>>,
    listening: RefCell<Vec<Listening>>,
    links: RefCell<Vec<Rc<Link>>>,
    /// Clients whose handshake was under way by then are not served any more.
    drains: Cell<bool>,
}

struct Object {
    id: u64,
    name: String,
    dispatcher: Rc<dyn Dispatcher>,
}

struct Listening {
    at: At,
    wait: Option<WaitPolicy>,
    trust: Trust,
    /// Absent for a place inside the process.
    socket: Option<(Listener, u64)>,
}

/// Why an object was not registered.
#[derive(Debug, Clone, PartialEq, Eq)]
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

impl std::error::Error for RegisterError {}

/// Why a server does not listen at an address.
#[derive(Debug)]
pub enum ListenError {
    /// The text is no address.
    BadAddress(BadAddress),
    /// Another server of this thread is there.
    InUse(Address),
    /// The socket could not be had.
    Meet(Address, HandshakeError),
    /// A system call failed.
    Os(Address, io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadAddress(error) => error.fmt(f),
            Self::InUse(address) => write!(f, "{address} is in use by a server of this process"),
            Self::Meet(_, error @ HandshakeError::AddressInUse(_)) => error.fmt(f),
            Self::Meet(address, error) => write!(f, "cannot listen at {address}: {error}"),
            Self::Os(address, error) => write!(f, "cannot listen at {address}: {error}"),
        }
    }
}

impl std::error::Error for ListenError {}

impl Server {
    /// A server in `event_loop` that has no objects and listens nowhere yet.
    pub fn new(event_loop: &EventLoop) -> Self {
        Self::with_limits(event_loop, Limits::default())
    }

    /// As [`new`](Self::new), with limits of one's own.
    pub fn with_limits(event_loop: &EventLoop, limits: Limits) -> Self {
        let core = Rc::new(ServerCore {
            core: Rc::clone(event_loop.core()),
            instance: new_instance(),
            limits,
            objects: RefCell::default(),
            listening: RefCell::default(),
            links: RefCell::default(),
            drains: Cell::new(false),
        });
        event_loop.core().add_server(&core);
        Self { _alive: Rc::new(Alive(Rc::clone(&core))), core }
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

    /// Serves an object no more: `package.Service` or `package.Service@instance`. Whether it was
    /// there. Calls that it has not answered yet go on.
    pub fn unregister(&self, name: &str) -> bool {
        let mut objects = self.core.objects.borrow_mut();
        let at = objects.iter().position(|object| object.name == name);
        let removed = at.map(|at| objects.remove(at));
        // The end of a service may call this server.
        drop(objects);
        self.core.core.changed();
        removed.is_some()
    }

    /// Listens at an address, and tells where exactly. `?wait=spin` has the loop spin for clients
    /// that come here; `?trust=same-user` has it read what clients of the same user id lend where
    /// it lies ([`Trust`]).
    ///
    /// # Errors
    ///
    /// [`ListenError::Meet`] with `AddressInUse`: another server listens there. A socket file whose
    /// server is gone is taken over.
    pub fn listen(&self, address: &str) -> Result<Address, ListenError> {
        let parsed: Address = address.parse().map_err(ListenError::BadAddress)?;
        if parsed.trust() == Trust::Yes {
            return Err(ListenError::BadAddress(BadAddress::trusts_anybody(address)));
        }
        self.core.listen(parsed)
    }

    /// Takes no more calls and no more clients. Calls under way go on, then each connection closes.
    pub fn drain(&self) {
        self.core.drains.set(true);
        self.core.stop_listening();
        let links = self.core.links.borrow().clone();
        for link in links {
            link.drain();
        }
    }

    /// The clients that are connected now. A system call for each that is lent something.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.core.links.borrow().iter().map(|link| link.info()).collect()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = self.core.objects.borrow();
        let names: Vec<_> = objects.iter().map(|object| object.name.as_str()).collect();
        f.debug_struct("Server")
            .field("objects", &names)
            .field("connections", &self.core.links.borrow().len())
            .finish_non_exhaustive()
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.stop_listening();
        let links = std::mem::take(&mut *self.0.links.borrow_mut());
        for link in links {
            link.close(Status::unavailable("the server was closed"));
        }
        let objects = std::mem::take(&mut *self.0.objects.borrow_mut());
        self.0.core.changed();
        // The end of a service may call this server.
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
        let id = object_id(&name);
        let mut objects = self.objects.borrow_mut();
        match objects.binary_search_by_key(&id, |object| object.id) {
            Ok(at) if objects[at].name == name => Err(RegisterError::NameTaken(name)),
            Ok(at) => Err(RegisterError::Collision(objects[at].name.clone(), name)),
            Err(at) => {
                objects.insert(at, Object { id, name, dispatcher });
                self.core.changed();
                Ok(())
            }
        }
    }

    /// The object with this number.
    #[inline]
    pub(crate) fn object(&self, id: u64) -> Option<Rc<dyn Dispatcher>> {
        let objects = self.objects.borrow();
        let at = objects.binary_search_by_key(&id, |object| object.id).ok()?;
        Some(Rc::clone(&objects[at].dispatcher))
    }

    /// What to say of an object that is not here.
    #[cold]
    pub(crate) fn no_such_object(&self) -> Status {
        let objects = self.objects.borrow();
        let mut names: Vec<_> = objects.iter().map(|object| object.name.as_str()).collect();
        names.sort_unstable();
        names.truncate(NAMES_TOLD_MAX);
        let has = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        Status::unimplemented(format!("{NO_SUCH_OBJECT}; this server has {has}"))
    }

    fn listen(self: &Rc<Self>, mut address: Address) -> Result<Address, ListenError> {
        if self.core.server_at(&address.at).is_some() {
            return Err(ListenError::InUse(address));
        }
        let which = self.listening.borrow().len();
        let socket = match &address.at {
            At::InProcess(_) => None,
            At::Socket(place) => {
                let bound = Listener::bind(place);
                let listener = bound.map_err(|error| ListenError::Meet(address.clone(), error))?;
                address.at = At::Socket(listener.address().clone());
                let Some(reactor) = &self.core.reactor else { return Ok(address) };
                let token = reactor.add_listener(&listener, Rc::downgrade(self), which);
                let token = token.map_err(|error| ListenError::Os(address.clone(), error))?;
                Some((listener, token))
            }
        };
        let (at, wait, trust) = (address.at.clone(), address.wait, address.trust());
        self.listening.borrow_mut().push(Listening { at, wait, trust, socket });
        self.drains.set(false);
        self.core.changed();
        Ok(address)
    }

    pub(crate) fn listens_at(&self, at: &At) -> bool {
        self.listening.borrow().iter().any(|listening| listening.at == *at)
    }

    fn stop_listening(&self) {
        let listening = std::mem::take(&mut *self.listening.borrow_mut());
        for (listener, token) in listening.iter().filter_map(|listening| listening.socket.as_ref())
        {
            if let Some(reactor) = &self.core.reactor {
                reactor.remove_listener(listener, *token);
            }
        }
        self.core.changed();
    }

    pub(crate) fn pause_listener(&self, reactor: &Reactor, which: usize, paused: bool) {
        let listening = self.listening.borrow();
        if let Some(Listening { socket: Some((listener, token)), .. }) = listening.get(which) {
            reactor.pause_listener(listener.as_fd(), *token, paused);
        }
    }

    /// A client that waits at a listener.
    pub(crate) fn accept_socket(&self, which: usize) -> io::Result<Option<(OwnedFd, Rendezvous)>> {
        let listening = self.listening.borrow();
        let Some(Listening { socket: Some((listener, _)), .. }) = listening.get(which) else {
            return Ok(None);
        };
        Ok(listener.accept_socket()?.map(|socket| (socket, listener.rendezvous())))
    }

    /// What to agree on with clients that came to a listener.
    pub(crate) fn options_for(&self, which: usize) -> Options {
        let listening = self.listening.borrow();
        let wait = listening.get(which).and_then(|listening| listening.wait);
        let sleeps = self.core.reactor.as_ref().is_some_and(Reactor::sleeps_in_one);
        Options {
            wait_preferred: loop_preference(wait),
            pollable_only: sleeps,
            ..self.limits.channel()
        }
    }

    /// Whether a client of this user may connect; if not, the text that it is told. All clients
    /// from other machines count as one user.
    pub(crate) fn may_join(&self, uid: Option<u32>) -> Result<(), String> {
        let links = self.links.borrow();
        let Limits { connections_max, connections_per_uid_max, .. } = self.limits;
        if links.len() >= connections_max {
            return Err(format!("the server has {connections_max} connections, its limit"));
        }
        let of_uid = links.iter().filter(|link| link.peer.uid() == uid).count();
        if of_uid >= connections_per_uid_max {
            return Err(format!(
                "this user has {connections_per_uid_max} connections to the server, its limit"
            ));
        }
        Ok(())
    }

    /// Takes a client whose handshake is done.
    pub(crate) fn welcome(self: &Rc<Self>, endpoint: Endpoint, which: usize) {
        let name = match Peer::of(&endpoint) {
            Peer::Process(PeerIdentity { pid: Some(pid), .. }) => {
                format!("the client with process id {pid}")
            }
            Peer::Remote(address) => format!("the client at {address}"),
            _ => "the client".to_owned(),
        };
        let server = Some(Rc::downgrade(self));
        let trust = self.listening.borrow().get(which).map(|listening| listening.trust);
        let (trust, limits) = (trust.unwrap_or_default(), &self.limits);
        let link = Link::new(&self.core, endpoint, name, self.instance, limits, trust, server);
        let Some(reactor) = &self.core.reactor else { return };
        if self.drains.get() {
            return link.close(Status::unavailable("the server takes no more clients"));
        }
        // Others may have come in during its handshake.
        if let Err(text) = self.may_join(link.peer.uid()) {
            return link.close(Status::resource_exhausted(text));
        }
        if let Err(error) = reactor.add_link(&link) {
            return link.close(Status::unavailable(error.to_string()));
        }
        let by = options::after(self.limits.channel().handshake_timeout);
        reactor.meetings.expect_greeting(&link, by);
        self.links.borrow_mut().push(Rc::clone(&link));
        link.send_own(nearcall_channel::Deadline::NOW);
    }

    pub(crate) fn forget(&self, link: &Rc<Link>) {
        self.links.borrow_mut().retain(|other| !Rc::ptr_eq(other, link));
    }
}

/// The wait policies that a loop likes, the best first.
pub(crate) fn loop_preference(wanted: Option<WaitPolicy>) -> &'static [WaitPolicy] {
    use WaitPolicy::{Adaptive, Block, Poll, Spin};
    match wanted {
        Some(Spin) => &[Spin, Adaptive, Poll, Block],
        Some(Poll | Block) => &[Poll, Block, Adaptive, Spin],
        Some(Adaptive) | None => &[Adaptive, Poll, Block, Spin],
    }
}

/// How the text begins, so that clients can add which object it was.
pub(crate) const NO_SUCH_OBJECT: &str = "no such object here";

/// Names of objects in an error text: what fits a screen.
const NAMES_TOLD_MAX: usize = 16;
