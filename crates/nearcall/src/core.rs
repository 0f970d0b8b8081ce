//! What one thread's client, servers and loop share.
//!
//! Always true: it belongs to one thread and nothing in it is locked.
//! Not here: waiting (`reactor.rs`), connections (`link.rs`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use nearcall_wire::{InstanceId, Time};

use crate::address::At;
use crate::buffers::Buffers;
use crate::codec::Body;
use crate::context::{Context, Origin};
use crate::dispatch::{self, Dispatcher, Incoming, ReplyTo};
use crate::link::Link;
use crate::local_reply::LocalReply;
use crate::metadata::Metadata;
use crate::reactor::Reactor;
use crate::server::ServerCore;

/// Shared by a thread's parts.
#[derive(Default)]
pub(crate) struct Core {
    pub(crate) buffers: Buffers,
    /// What waits for several connections at once; a client without a loop has none.
    pub(crate) reactor: Option<Reactor>,
    /// Services that run inside each other right now.
    pub(crate) nesting: Cell<u32>,
    servers: RefCell<Vec<Weak<ServerCore>>>,
    /// Changes whenever an object, an address or a server comes or goes.
    epoch: Cell<u64>,
    /// One-way messages to servers of this thread, for the next turn.
    pub(crate) local_oneways: RefCell<VecDeque<LocalOneway>>,
}

/// A one-way message to a server of this thread.
pub(crate) struct LocalOneway {
    pub(crate) dispatcher: Rc<dyn Dispatcher>,
    pub(crate) method: u32,
    pub(crate) deadline: Time,
    pub(crate) metadata: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Core {
    pub(crate) fn new(reactor: Option<Reactor>) -> Rc<Self> {
        Rc::new(Self { reactor, ..Self::default() })
    }

    /// A connection was used: it must be armed again before the loop sleeps, and wakes it for the
    /// deadline of a call.
    #[inline]
    pub(crate) fn touched(&self, link: &Rc<Link>, deadline: Time) {
        if let Some(reactor) = &self.reactor {
            reactor.touched(link);
            reactor.note_deadline(deadline);
        }
    }

    /// The loop looks at the clock at this time, at the latest.
    pub(crate) fn note_deadline(&self, deadline: Time) {
        if let Some(reactor) = &self.reactor {
            reactor.note_deadline(deadline);
        }
    }

    /// Has who waits for this answer woken at its deadline.
    pub(crate) fn wake_at(&self, deadline: Time, reply: &LocalReply) {
        if let Some(reactor) = &self.reactor
            && deadline != Time::NEVER
        {
            reactor.wake_at(deadline, reply);
        }
    }

    /// Something is to be done that no descriptor tells of.
    pub(crate) fn wake_host(&self) {
        if let Some(reactor) = &self.reactor {
            reactor.wake_host();
        }
    }

    /// A connection has ended.
    pub(crate) fn forget(&self, link: &Rc<Link>) {
        if let Some(reactor) = &self.reactor {
            reactor.remove_link(link);
        }
        if let Some(server) = link.server.as_ref().and_then(Weak::upgrade) {
            server.forget(link);
        }
    }

    /// Serves one-way messages from this thread to itself that were sent before this turn.
    #[inline]
    pub(crate) fn serve_local_oneways(self: &Rc<Self>) {
        let count = self.local_oneways.borrow().len();
        for _ in 0..count {
            let Some(oneway) = self.local_oneways.borrow_mut().pop_front() else { return };
            let LocalOneway { dispatcher, method, deadline, metadata, body } = oneway;
            let (metadata, interface) = (Metadata::new(&metadata), dispatcher.interface());
            let context = Context::new(deadline, metadata, interface, method, Origin::Local);
            let (body, to) = (Body::copied(&body), ReplyTo::Local(None));
            let incoming = || Incoming { method, body, context, to };
            dispatch::run(self, &*dispatcher, to, deadline, incoming);
        }
    }

    pub(crate) fn add_server(&self, server: &Rc<ServerCore>) {
        self.servers.borrow_mut().push(Rc::downgrade(server));
    }

    /// Counts changes of what this thread serves.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// What this thread serves has changed.
    pub(crate) fn changed(&self) {
        self.epoch.set(self.epoch.get() + 1);
        self.servers.borrow_mut().retain(|server| server.strong_count() > 0);
    }

    /// A server of this thread that listens at this place.
    pub(crate) fn server_at(&self, at: &At) -> Option<Rc<ServerCore>> {
        let servers = self.servers.borrow();
        servers.iter().filter_map(Weak::upgrade).find(|server| server.listens_at(at))
    }

    /// The server of this thread that greets with this instance id.
    pub(crate) fn server_with(&self, instance: InstanceId) -> Option<Rc<ServerCore>> {
        let servers = self.servers.borrow();
        servers.iter().filter_map(Weak::upgrade).find(|server| server.instance == instance)
    }
}

/// Random bytes that tell this server or client from all others. They are no secret.
pub(crate) fn new_instance() -> InstanceId {
    let mut instance = [0; 16];
    fastrand::fill(&mut instance);
    instance
}
