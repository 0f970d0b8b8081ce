//! What a server accepts clients with: its limits, and the connections that it has.
//!
//! **Invariants:** connections are bounded, in all and for each user; a client that is refused gets
//! the reason.
//! **Not here:** sockets and handshakes (`reactor/handshakes.rs`), objects (`registry.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use nearcall_channel::{Endpoint, Options, WaitPolicy};
use nearcall_wire::InstanceId;

use crate::buffer_pool::BufferPool;
use crate::connection::{Activity, Connection, ServerId, Setup};
use crate::deadline::Deadline;
use crate::limits::Limits;
use crate::peer::{Peer, PeerIdentity};
use crate::trust::Trust;

/// The connections of one server.
pub(crate) struct Acceptor {
    pub(crate) id: ServerId,
    instance: InstanceId,
    limits: Limits,
    connections: RefCell<Vec<Rc<Connection>>>,
    /// Connections that were closed because the client broke the protocol, by what it did.
    violations: RefCell<BTreeMap<&'static str, u64>>,
}

impl Acceptor {
    pub(crate) fn new(id: ServerId, instance: InstanceId, limits: Limits) -> Rc<Self> {
        let (connections, violations) = (RefCell::default(), RefCell::default());
        Rc::new(Self { id, instance, limits, connections, violations })
    }

    /// Returns whether a client of this user may connect; if not, the text for the client. All
    /// clients from other machines count as one user.
    pub(crate) fn check_admission(&self, uid: Option<u32>) -> Result<(), String> {
        let connections = self.connections.borrow();
        let open = || connections.iter().filter(|connection| !connection.is_closed());
        let Limits { connections_max, connections_per_uid_max, .. } = self.limits;
        if open().count() >= connections_max {
            return Err(format!("the server has {connections_max} connections, its limit"));
        }
        let of_uid = open().filter(|other| other.peer.uid() == uid).count();
        if of_uid >= connections_per_uid_max {
            return Err(format!(
                "this user has {connections_per_uid_max} connections to the server, its limit"
            ));
        }
        Ok(())
    }

    /// Creates the connection to a client whose handshake is done. Also returns by when the client
    /// has to greet.
    pub(crate) fn connection(
        &self,
        endpoint: Endpoint,
        trust: Trust,
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
        let (instance, limits) = (self.instance, &self.limits);
        let by = Deadline::after(limits.channel().handshake_timeout);
        let setup = Setup { name, instance, limits, trust, serves: Some(self.id) };
        (Connection::new(endpoint, setup, buffers, Some(activity)), by)
    }

    /// Returns the options of a handshake with a client.
    pub(crate) fn options(&self, wait: Option<WaitPolicy>, pollable_only: bool) -> Options {
        Options { wait_preferred: loop_preference(wait), pollable_only, ..self.limits.channel() }
    }

    pub(crate) fn add(&self, connection: &Rc<Connection>) {
        self.connections.borrow_mut().push(Rc::clone(connection));
    }

    /// Forgets a connection that has ended, and counts why if the client broke the protocol.
    pub(crate) fn remove(&self, connection: &Rc<Connection>) {
        self.connections.borrow_mut().retain(|other| !Rc::ptr_eq(other, connection));
        if let Some(name) = connection.violation() {
            *self.violations.borrow_mut().entry(name).or_default() += 1;
        }
    }

    /// Returns the connections that are open.
    pub(crate) fn connections(&self) -> Vec<Rc<Connection>> {
        let connections = self.connections.borrow();
        connections.iter().filter(|connection| !connection.is_closed()).map(Rc::clone).collect()
    }

    /// Returns how many connections were closed because the client broke the protocol, by the name
    /// of what it did.
    pub(crate) fn violations(&self) -> Vec<(&'static str, u64)> {
        self.violations.borrow().iter().map(|(name, count)| (*name, *count)).collect()
    }
}

/// Returns the wait policies that a loop prefers, the best first.
pub(crate) fn loop_preference(wanted: Option<WaitPolicy>) -> &'static [WaitPolicy] {
    use WaitPolicy::{Adaptive, Block, Poll, Spin};
    match wanted {
        Some(Spin) => &[Spin, Adaptive, Poll, Block],
        Some(Poll | Block) => &[Poll, Block, Adaptive, Spin],
        Some(Adaptive) | None => &[Adaptive, Poll, Block, Spin],
    }
}
