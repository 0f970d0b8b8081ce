//! What a server accepts clients with in one event loop: its limits, and the connections that it
//! has there.
//!
//! **Invariants:** connections are bounded, in all and for each user; a client that is refused gets
//! the reason.
//! **Not here:** sockets and handshakes (`handshakes.rs`), objects (`services/registry.rs`).

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use nearcall_channel::{Endpoint, Options};
use nearcall_wire::InstanceId;

use crate::connection::buffer_pool::BufferPool;
use crate::connection::{Activity, Connection, ServerId, Setup};
use crate::deadline::Deadline;
use crate::limits::Limits;
use crate::listen_policy::ListenPolicy;
use crate::peer::{Peer, PeerIdentity};
use crate::reactor::census::{Admission, Census};
use crate::recording::Recording;
use crate::services::registry::ObjectTable;

/// The connections of one server in one loop.
pub(crate) struct Acceptor {
    pub(crate) id: ServerId,
    /// What the server serves here.
    objects: Weak<ObjectTable>,
    instance: InstanceId,
    limits: Limits,
    /// Counts the connections of all loops of the server.
    pub(crate) census: Arc<Census>,
    /// Which of the server's loops this is.
    pub(crate) loop_index: usize,
    /// No more clients are accepted.
    is_draining: Cell<bool>,
    connections: RefCell<Vec<(Rc<Connection>, Admission)>>,
    /// What the calls of all of them are recorded to.
    recording: RefCell<Option<Arc<Recording>>>,
}

impl Acceptor {
    pub(crate) fn new(
        objects: &Rc<ObjectTable>,
        instance: InstanceId,
        limits: Limits,
        census: Arc<Census>,
        loop_index: usize,
    ) -> Rc<Self> {
        Rc::new(Self {
            id: objects.id,
            objects: Rc::downgrade(objects),
            instance,
            limits,
            census,
            loop_index,
            is_draining: Cell::new(false),
            connections: RefCell::default(),
            recording: RefCell::default(),
        })
    }

    /// Returns what the server serves here; none once it was closed.
    pub(crate) fn objects(&self) -> Option<Rc<ObjectTable>> {
        self.objects.upgrade()
    }

    /// Creates the connection to a client whose handshake is done. Also returns by when the client
    /// has to greet.
    pub(crate) fn connection(
        &self,
        endpoint: Endpoint,
        policy: &ListenPolicy,
        buffers: &Rc<BufferPool>,
        activity: &Rc<Activity>,
    ) -> (Rc<Connection>, Deadline) {
        let name = match Peer::of(&endpoint) {
            Peer::Process(PeerIdentity { pid: Some(pid), .. }) => {
                format!("the client with process id {pid}")
            }
            Peer::Remote(address) => format!("the client at {address}"),
            _ => "the client".to_owned(),
        };
        let (instance, trust, limits) = (self.instance, policy.trust, &policy.limits);
        let by = Deadline::after(limits.channel().handshake_timeout);
        let refusals = Some(Arc::clone(&self.census.refusals));
        let switches = (limits.switches_per_minute_max > 0).then(|| {
            let account = endpoint.account().cloned();
            // A loop can sleep in one connection without a descriptor, and its place may be taken.
            Options { account, ..policy.options(true) }
        });
        let serves = Some(self.id);
        let setup = Setup {
            name,
            instance,
            limits,
            trust,
            serves,
            refusals,
            switches,
            follows_asks: false,
            chooser: None,
        };
        (Connection::new(endpoint, setup, buffers, Some(activity)), by)
    }

    /// Returns the policy for clients of this loop, which no process of another user can be.
    pub(crate) fn policy_of_own_loop(&self) -> Arc<ListenPolicy> {
        Arc::new(ListenPolicy::of_own_loop(self.limits))
    }

    pub(crate) fn add(&self, connection: &Rc<Connection>, admission: Admission) {
        connection.set_number(admission.number());
        admission.show(connection.info());
        self.connections.borrow_mut().push((Rc::clone(connection), admission));
        self.record_chosen(connection);
    }

    /// Records the calls of all connections from now on, or no more.
    pub(crate) fn record_to(&self, recording: Option<Arc<Recording>>) {
        let before = self.recording.replace(recording);
        drop(before);
        self.connections().iter().for_each(|connection| self.record_chosen(connection));
    }

    fn record_chosen(&self, connection: &Connection) {
        let recording = self.recording.borrow();
        let number = connection.number().unwrap_or_default();
        connection.record_to(recording.as_ref().filter(|it| it.chooses_connection(number)));
    }

    /// Shows what a connection has become that has moved to another channel.
    pub(crate) fn show_again(&self, connection: &Rc<Connection>) {
        let connections = self.connections.borrow();
        if let Some((_, admission)) = connections.iter().find(|(it, _)| Rc::ptr_eq(it, connection))
        {
            admission.show(connection.info());
        }
    }

    /// Forgets a connection that has ended.
    pub(crate) fn remove(&self, connection: &Rc<Connection>) {
        self.connections.borrow_mut().retain(|(other, _)| !Rc::ptr_eq(other, connection));
    }

    /// Returns the connections that are open.
    pub(crate) fn connections(&self) -> Vec<Rc<Connection>> {
        let connections = self.connections.borrow();
        let open = connections.iter().filter(|(connection, _)| !connection.is_closed());
        open.map(|(connection, _)| Rc::clone(connection)).collect()
    }

    /// Returns the open connection of this number.
    pub(crate) fn connection_of_number(&self, number: u64) -> Option<Rc<Connection>> {
        let connections = self.connections.borrow();
        let mut open = connections.iter().map(|(connection, _)| connection);
        open.find(|it| it.number() == Some(number) && !it.is_closed()).cloned()
    }

    /// Refuses clients from now on, or accepts them again.
    pub(crate) fn set_draining(&self, draining: bool) {
        self.is_draining.set(draining);
    }

    /// Returns whether clients are refused.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }
}
