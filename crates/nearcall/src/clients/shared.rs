//! What all threads of a client share: its settings, and an account of its connections.
//!
//! **Invariants:** nothing of it is locked or counted on the path of a call that has a connection;
//! a connection counts from before its handshake until its thread has dropped it.
//! **Not here:** the connections themselves, which belong to their threads (`clients/core.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearcall_channel::{ClosedFlag, HangUp, UseCount};
use nearcall_os::fork::Epoch;
use nearcall_wire::InstanceId;

use super::route::Route;
use crate::auto::Weights;
use crate::connection::ShowMove;
use crate::connection::connection_info::{ConnectionInfo, ThreadInfo};
use crate::interceptor::Chain;
use crate::limits::{Limits, OWN_CONNECTIONS_ALONE_MAX};
use crate::reconnect::ReconnectPolicy;
use crate::status::Status;

/// Clients that were closed, in this process. A thread that has seen fewer looks for what it still
/// holds of them.
static CLOSED_CLIENTS: AtomicU64 = AtomicU64::new(0);

/// Returns how many clients were closed in this process.
pub(super) fn closed_clients() -> u64 {
    // A thread that sees the number sees as well which clients those are.
    CLOSED_CLIENTS.load(Ordering::Acquire)
}

/// The settings of a client.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) limits: Limits,
    /// The deadline of calls whose method and options give none.
    pub(crate) default_deadline: Option<Duration>,
    pub(crate) reconnect: ReconnectPolicy,
    /// Connections move to another mechanism when their server asks for it.
    pub(crate) follows_asks: bool,
    pub(crate) interceptors: Chain,
    /// What automatic connections minimise.
    pub(crate) weights: Weights,
}

/// The part of a client that all threads share.
pub(crate) struct ClientShared {
    /// What its connections that tasks share greet with; those of a thread greet with its own.
    pub(crate) instance: InstanceId,
    pub(crate) settings: Settings,
    short_circuits: AtomicBool,
    closed: ClosedFlag,
    accounts: Mutex<Accounts>,
    /// Places of open connections that were given back.
    returned: AtomicU64,
    /// A forked process has the same connections as its parent, and must not use them.
    epoch: Epoch,
}

#[derive(Default)]
struct Accounts {
    last: u64,
    /// One for each connection.
    open: Vec<Account>,
}

/// What is known of one connection outside of its thread.
struct Account {
    number: u64,
    /// None: tasks of any thread share it.
    thread: Option<ThreadInfo>,
    /// Where the connection of a thread leads.
    route: Option<Route>,
    /// Calls that were started and neither taken nor dropped.
    pending: Arc<UseCount>,
    /// None: its handshake is under way.
    opened: Option<Opened>,
}

#[derive(Clone)]
struct Opened {
    info: ConnectionInfo,
    hang_up: HangUp,
}

impl ClientShared {
    pub(crate) fn new(instance: InstanceId, settings: Settings) -> Self {
        Self {
            instance,
            settings,
            short_circuits: AtomicBool::new(true),
            closed: ClosedFlag::default(),
            accounts: Mutex::default(),
            returned: AtomicU64::new(0),
            epoch: Epoch::current(),
        }
    }

    /// Returns whether this is the process that has made the client. One load.
    #[inline]
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.epoch.is_current()
    }

    /// Returns an error unless this is the process that has made the client.
    ///
    /// # Errors
    ///
    /// `FAILED_PRECONDITION`: it was made before this process was forked.
    pub(crate) fn check_process(&self) -> Result<(), Status> {
        let error = |error| Status::failed_precondition(format!("this client: {error}"));
        self.epoch.check().map_err(error)
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether servers of the loop's thread are called directly.
    pub(crate) fn short_circuits(&self) -> bool {
        self.short_circuits.load(Ordering::Relaxed)
    }

    pub(super) fn disable_short_circuit(&self) {
        self.short_circuits.store(false, Ordering::Relaxed);
    }

    /// Returns whether the last handle of the client was dropped.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_closed()
    }

    pub(super) fn closed(&self) -> &ClosedFlag {
        &self.closed
    }

    /// Notes that there is no handle any more, and ends the connections of other threads, except
    /// those on which a started call is still waited for.
    pub(super) fn close(&self) {
        if !self.is_of_this_process() {
            return;
        }
        // Either a thread sees this when its last call ends, or that is seen below.
        self.closed.close();
        CLOSED_CLIENTS.fetch_add(1, Ordering::Release);
        let tid = nearcall_os::process::tid();
        // A thread that starts a call has a handle, so nothing is started after this; and dropping
        // a handle makes visible what was done with it.
        let ended: Vec<_> = self
            .accounts()
            .open
            .iter()
            .filter(|it| it.thread.as_ref().is_some_and(|thread| thread.tid != tid))
            .filter(|it| !it.pending.is_in_use())
            .filter_map(|it| Some(it.opened.as_ref()?.hang_up.clone()))
            .collect();
        ended.iter().for_each(HangUp::hang_up);
    }

    /// Returns how many places of open connections were given back. Once it has changed, a thread
    /// that found no place may find one. One load.
    #[inline]
    pub(crate) fn returned_places(&self) -> u64 {
        self.returned.load(Ordering::Relaxed)
    }

    /// Returns whether any address may have so many connections of threads that there is to be one
    /// that further ones share.
    pub(crate) fn has_many_places(&self) -> bool {
        self.accounts().open.len() >= OWN_CONNECTIONS_ALONE_MAX
    }

    /// Returns whether so many threads have connections of their own there that there is to be one
    /// that further ones share.
    pub(super) fn has_many_threads(&self, route: &Route) -> bool {
        let accounts = self.accounts();
        let threads = accounts.open.iter().filter(|it| it.route.as_ref() == Some(route)).count();
        threads >= OWN_CONNECTIONS_ALONE_MAX
    }

    /// Takes a place among the connections of this client, for the thread that calls.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: its threads have as many as they may have.
    pub(super) fn reserve(
        self: &Arc<Self>,
        route: &Route,
        pending: &Arc<UseCount>,
    ) -> Result<Reservation, Status> {
        self.reserve_for(Some((ThreadInfo::current(), route.clone())), pending)
    }

    /// Takes a place for a connection that tasks and threads share. Those are counted apart, so
    /// that a client whose threads have all that they may have still gets one.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    pub(super) fn reserve_shared(self: &Arc<Self>) -> Result<Reservation, Status> {
        self.reserve_for(None, &Arc::default())
    }

    fn reserve_for(
        self: &Arc<Self>,
        thread: Option<(ThreadInfo, Route)>,
        pending: &Arc<UseCount>,
    ) -> Result<Reservation, Status> {
        let max = self.settings.limits.client_connections_max;
        let mut accounts = self.accounts();
        let is_shared = thread.is_none();
        let open = accounts.open.iter().filter(|it| it.thread.is_none() == is_shared).count();
        if open >= max {
            drop(accounts);
            let kind = if is_shared { "shared connections" } else { "connections of threads" };
            return Err(Status::resource_exhausted(format!(
                "this client has {open} {kind}, and its limit is {max}: raise \
                 the limit `client_connections_max`, or use fewer addresses or threads"
            )));
        }
        accounts.last += 1;
        let number = accounts.last;
        let pending = Arc::clone(pending);
        let (thread, route) = thread.unzip();
        accounts.open.push(Account { number, thread, route, pending, opened: None });
        drop(accounts);
        Ok(Reservation { shared: Arc::clone(self), number })
    }

    fn fill(&self, number: u64, info: ConnectionInfo, hang_up: HangUp) {
        let mut accounts = self.accounts();
        if let Some(account) = accounts.open.iter_mut().find(|account| account.number == number) {
            account.opened = Some(Opened { info, hang_up });
        }
    }

    /// Returns the connections that are open, with the number of their places.
    pub(super) fn connections(&self) -> Vec<(u64, ConnectionInfo)> {
        let accounts = self.accounts();
        let opened = accounts.open.iter().filter_map(|account| {
            let info = account.opened.as_ref()?.info.clone().without_counts();
            let info = ConnectionInfo { thread: account.thread.clone(), ..info };
            Some((account.number, info))
        });
        opened.collect()
    }
}

/// The place of one connection in the account of its client, given back when it is dropped.
pub(super) struct Reservation {
    shared: Arc<ClientShared>,
    number: u64,
}

impl Reservation {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Notes which connection took the place.
    pub(super) fn fill(&self, info: ConnectionInfo, hang_up: HangUp) {
        self.shared.fill(self.number, info, hang_up);
    }

    /// Returns what notes that the connection has moved to another channel. After the place was
    /// given back it does nothing.
    pub(super) fn refill(&self) -> ShowMove {
        let (shared, number) = (Arc::clone(&self.shared), self.number);
        Box::new(move |info, hang_up| shared.fill(number, info, hang_up))
    }

    /// Ends the connection as its other end sees it, even if something keeps it in memory.
    pub(super) fn hang_up(&self) {
        let accounts = self.shared.accounts();
        let account = accounts.open.iter().find(|account| account.number == self.number);
        let hang_up = account.and_then(|it| Some(it.opened.as_ref()?.hang_up.clone()));
        drop(accounts);
        if let Some(hang_up) = hang_up {
            hang_up.hang_up();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut accounts = self.shared.accounts();
        let index = accounts.open.iter().position(|account| account.number == self.number);
        let returned = index.map(|index| accounts.open.swap_remove(index));
        drop(accounts);
        // A place of a connection that was never open is of no use to threads that found none.
        if returned.is_some_and(|account| account.opened.is_some()) {
            self.shared.returned.fetch_add(1, Ordering::Relaxed);
        }
    }
}
