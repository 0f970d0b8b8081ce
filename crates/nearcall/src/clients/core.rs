//! The part of a client that one thread has: its connections, and the loop if it is the loop's
//! thread.
//!
//! **Invariants:** there is one connection for each address and way to talk to it; one that has
//! ended is replaced by the next call. It never leaves its thread.
//! **Not here:** connecting (`clients/connecting.rs`), waiting (`clients/waiting.rs`), which thread
//! has which (`clients/thread.rs`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use nearcall_channel::UseCount;

use super::route::Route;
use super::shared::{ClientShared, Reservation};
use crate::auto::Weights;
use crate::connection::Connection;
use crate::connection::connection_info::ConnectionInfo;
use crate::limits::Limits;
use crate::options::CallOptions;
use crate::reactor::Reactor;
use crate::services::dispatch::Services;
use crate::status::Status;

/// The part of a client that one thread has.
pub(crate) struct ClientCore {
    pub(super) shared: Arc<ClientShared>,
    /// None: calls block this thread.
    pub(super) reactor: Option<Rc<Reactor>>,
    /// The loop's, or those of this client in this thread alone.
    services: Services,
    pub(super) pending: Arc<UseCount>,
    pub(super) connections: RefCell<Vec<Known>>,
    /// The ends of connections that no other has replaced.
    pub(super) ended: RefCell<Vec<(Route, Status)>>,
    /// A connection was dropped that callers may still hold.
    has_dropped: Cell<bool>,
}

/// A connection of this thread.
pub(super) struct Known {
    pub(super) route: Route,
    pub(super) connection: Rc<Connection>,
    pub(super) reservation: Reservation,
}

impl ClientCore {
    pub(super) fn new(shared: &Arc<ClientShared>, reactor: Option<Rc<Reactor>>) -> Rc<Self> {
        let services = reactor.as_ref().map(|reactor| reactor.services.clone());
        Rc::new(Self {
            shared: Arc::clone(shared),
            reactor,
            services: services.unwrap_or_default(),
            pending: Arc::default(),
            connections: RefCell::default(),
            ended: RefCell::default(),
            has_dropped: Cell::new(false),
        })
    }

    pub(crate) fn reactor(&self) -> Option<&Reactor> {
        self.reactor.as_deref()
    }

    #[inline]
    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.shared.settings.limits
    }

    /// Returns how an automatic connection weighs costs.
    pub(super) fn weights(&self) -> Weights {
        self.shared.settings.weights
    }

    /// Refuses metadata in the short circuit that a connection would refuse.
    #[inline]
    pub(crate) fn check_metadata(&self, options: &CallOptions) -> Result<(), Status> {
        let bytes = options.metadata_bytes().len();
        let max = self.limits().metadata_bytes_max;
        if bytes <= usize::from(max) {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "the metadata of {bytes} bytes are above the limit of {max} bytes of the client; \
             raise its limit `metadata_bytes_max`"
        )))
    }

    /// Returns the connection of this route, if it takes calls.
    pub(super) fn known_connection(&self, route: &Route) -> Option<Rc<Connection>> {
        let connections = self.connections.borrow();
        let known = connections.iter().find(|it| it.route == *route && it.connection.is_open());
        known.map(|known| Rc::clone(&known.connection))
    }

    /// Takes the place of a connection of this route that has ended, for another one.
    pub(super) fn take_ended_place(&self, route: &Route) -> Option<Reservation> {
        let mut connections = self.connections.borrow_mut();
        let index =
            connections.iter().position(|it| it.route == *route && it.connection.is_closed())?;
        let Known { connection, reservation, .. } = connections.swap_remove(index);
        drop(connections);
        self.has_dropped.set(true);
        drop(connection);
        Some(reservation)
    }

    /// Drops the connections that have ended, and keeps why.
    pub(super) fn drop_ended(&self) {
        let mut connections = self.connections.borrow_mut();
        let ended: Vec<_> = connections.extract_if(.., |it| it.connection.is_closed()).collect();
        drop(connections);
        for Known { route, connection, reservation } in ended {
            let reason = connection.close_reason();
            let mut reasons = self.ended.borrow_mut();
            reasons.retain(|(other, _)| *other != route);
            reasons.push((route, reason));
            drop(reasons);
            self.has_dropped.set(true);
            drop((connection, reservation));
        }
    }

    /// Returns whether connections were dropped since the last time, which callers may still hold.
    pub(super) fn take_has_dropped(&self) -> bool {
        self.has_dropped.take()
    }

    /// Returns the connections of this thread, by the number of their places.
    pub(super) fn connection_infos(&self) -> Vec<(u64, ConnectionInfo)> {
        self.drop_ended();
        let connections = self.connections.borrow();
        connections.iter().map(|it| (it.reservation.number(), it.connection.info())).collect()
    }

    /// Has the loop forget connections that have ended, outside of its rounds.
    pub(super) fn forget_closed(&self) {
        if let Some(reactor) = &self.reactor {
            reactor.forget_closed();
        }
    }

    /// Ends all connections; the other ends see it at once, whoever still holds them.
    pub(super) fn close(&self, why: &str) {
        for Known { connection, reservation, .. } in self.connections.take() {
            connection.close(Status::unavailable(why));
            if Rc::strong_count(&connection) > 1 {
                reservation.hang_up();
            }
        }
        self.forget_closed();
    }
}

impl Drop for ClientCore {
    fn drop(&mut self) {
        self.close("the client was closed");
    }
}
