//! The connections of a client that tasks of any thread share: one for each address and way to talk
//! to it.
//!
//! **Invariants:** a connection is opened by a thread of its own, so that no executor waits for a
//! handshake; all tasks that want it meanwhile share the one attempt, and each learns how it ended.
//! One that has ended gives back its place and its descriptors without another call.
//! An attempt connects once: whoever waits for it decides whether to try again.
//! **Not here:** the connection (`async_connection.rs`), opening it (`clients/async_opening.rs`),
//! when tasks try again (`async_call/connecting.rs`), and when a client does by itself
//! (`clients/async_routes/reopening.rs`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use self::reopening::Reopening;
use super::async_opening;
use super::attempts::ConnectFailure;
use super::route::Route;
use super::shared::ClientShared;
use crate::address::{Address, At};
use crate::async_connection::AsyncConnection;
use crate::connection::connection_info::ConnectionInfo;
use crate::reconnect::ReconnectPolicy;
use crate::status::Status;
use crate::waking;

mod reopening;

/// The connections of one client that tasks share.
#[derive(Default)]
pub(crate) struct AsyncRoutes {
    routes: Mutex<Vec<Arc<AsyncRoute>>>,
}

/// One address and way to talk to it.
pub(crate) struct AsyncRoute {
    client: Arc<ClientShared>,
    route: Route,
    state: Mutex<State>,
    /// Attempts to connect that have begun.
    attempts: AtomicU64,
    reopening: Reopening,
}

enum State {
    Unconnected,
    Connecting(Arc<Attempt>),
    Open(Arc<AsyncConnection>),
    /// It has ended, and no other has replaced it.
    Ended(Status),
    /// The client was closed.
    Closed,
}

/// A connection, or what a task waits for until there is one.
pub(crate) enum Connected {
    Open(Arc<AsyncConnection>),
    Pending(PendingConnection),
}

type Outcome = Result<Arc<AsyncConnection>, ConnectFailure>;

/// One attempt to connect, for all tasks that wait for it.
struct Attempt {
    /// Later ones of the same route have higher numbers.
    number: u64,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    last: u64,
    /// By their numbers: there may be thousands.
    waiting: BTreeMap<u64, Waker>,
    outcome: Option<Outcome>,
}

/// A task that waits for a connection.
pub(crate) struct PendingConnection {
    attempt: Arc<Attempt>,
    number: Option<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncRoutes {
    /// Returns the way to an address. Connects nothing.
    pub(crate) fn route(&self, client: &Arc<ClientShared>, address: &Address) -> Arc<AsyncRoute> {
        let route = Route::new(address);
        let mut routes = lock(&self.routes);
        if let Some(known) = routes.iter().find(|it| it.route == route) {
            return Arc::clone(known);
        }
        // Those that no caller has any more.
        let unused = |it: &Arc<AsyncRoute>| Arc::strong_count(it) == 1 && it.may_be_forgotten();
        let unused: Vec<_> = routes.extract_if(.., |it| unused(it)).collect();
        let state = Mutex::new(State::Unconnected);
        let (client, attempts) = (Arc::clone(client), AtomicU64::new(0));
        let reopening = Reopening::default();
        let added = Arc::new(AsyncRoute { client, route, state, attempts, reopening });
        routes.push(Arc::clone(&added));
        drop(routes);
        drop(unused);
        added
    }

    /// Returns what is known of the connections that are open.
    pub(crate) fn connections(&self) -> Vec<ConnectionInfo> {
        let routes = lock(&self.routes).clone();
        routes.iter().filter_map(|route| route.info()).collect()
    }

    /// Ends all connections: the client has no handle any more.
    pub(crate) fn close(&self) {
        // Not in the loop's head, where it would stay locked while wakers run.
        let routes = std::mem::take(&mut *lock(&self.routes));
        for route in routes {
            let before = std::mem::replace(&mut *lock(&route.state), State::Closed);
            route.reopening.close();
            if let State::Open(connection) = before {
                connection.close(client_closed());
            }
        }
    }
}

impl AsyncRoute {
    /// Returns where it leads, for people.
    pub(crate) fn at(&self) -> &At {
        &self.route.at
    }

    /// Returns whether so many threads have connections of their own there that there is to be one
    /// that further ones share, and can be.
    pub(crate) fn is_due_for_threads(&self) -> bool {
        self.client.has_many_threads(&self.route) && async_opening::can_be_had(&self.route)
    }

    /// Returns the number of attempts to connect that have begun. One that begins from now on gets
    /// a higher number.
    pub(crate) fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Acquire)
    }

    /// Returns the connection, if there is one.
    #[inline]
    pub(crate) fn connection(&self) -> Option<Arc<AsyncConnection>> {
        if !self.client.is_of_this_process() {
            return None;
        }
        match &*lock(&self.state) {
            State::Open(connection) => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// Returns the connection. If there is none, one is being opened afterwards.
    ///
    /// # Errors
    ///
    /// `FAILED_PRECONDITION`: the process was forked. `UNAVAILABLE`: it has ended, and `policy` is
    /// to leave it at that. `RESOURCE_EXHAUSTED`: there is no room for a thread.
    #[inline]
    pub(crate) fn connect(self: &Arc<Self>, policy: ReconnectPolicy) -> Result<Connected, Status> {
        self.client.check_process()?;
        let mut state = lock(&self.state);
        if let State::Open(connection) = &*state {
            return Ok(Connected::Open(Arc::clone(connection)));
        }
        self.open(&mut state, policy).map(Connected::Pending)
    }

    /// Has a connection opened.
    #[cold]
    fn open(
        self: &Arc<Self>,
        state: &mut State,
        policy: ReconnectPolicy,
    ) -> Result<PendingConnection, Status> {
        match state {
            State::Connecting(attempt) => {
                return Ok(PendingConnection { attempt: Arc::clone(attempt), number: None });
            }
            State::Closed => return Err(client_closed()),
            State::Ended(reason) if policy == ReconnectPolicy::Never => {
                return Err(super::connecting::connects_once(reason));
            }
            State::Unconnected | State::Ended(_) | State::Open(_) => {}
        }
        let attempt = self.begin_attempt(state);
        let (route, this) = (Arc::clone(self), Arc::clone(&attempt));
        let thread = std::thread::Builder::new().name("nearcall-meet".into());
        if let Err(error) = thread.spawn(move || route.run(&this)) {
            *state = State::Unconnected;
            return Err(Status::resource_exhausted(format!(
                "no thread to connect to {}: {error}",
                self.route.at
            )));
        }
        Ok(PendingConnection { attempt, number: None })
    }

    fn begin_attempt(&self, state: &mut State) -> Arc<Attempt> {
        let number = self.attempts.fetch_add(1, Ordering::AcqRel) + 1;
        let attempt = Arc::new(Attempt { number, progress: Mutex::default() });
        *state = State::Connecting(Arc::clone(&attempt));
        attempt
    }

    /// Opens the connection, in a thread of its own.
    fn run(self: &Arc<Self>, attempt: &Attempt) {
        let outcome = self.open_now();
        self.finish(attempt, outcome);
    }

    fn open_now(self: &Arc<Self>) -> Outcome {
        let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let route = Arc::downgrade(self);
            async_opening::open(&self.client, &self.route, move |ended| {
                if let Some(route) = route.upgrade() {
                    route.forget(ended);
                }
            })
        }));
        opened.unwrap_or_else(|_| {
            Err(Status::internal(format!("connecting to {} panicked", self.route.at)).into())
        })
    }

    fn finish(self: &Arc<Self>, attempt: &Attempt, mut outcome: Outcome) {
        let mut state = lock(&self.state);
        if matches!(&*state, State::Closed) {
            drop(state);
            if let Ok(connection) = &outcome {
                connection.close(client_closed());
            }
            outcome = Err(client_closed().into());
        } else {
            *state = match &outcome {
                Ok(connection) => State::Open(Arc::clone(connection)),
                Err(_) => State::Unconnected,
            };
            if outcome.is_ok() {
                self.reopening.note_opened();
            }
            drop(state);
            // It may have ended before it was known here.
            if let Ok(connection) = &outcome
                && !connection.is_open()
            {
                self.forget(connection);
            }
        }
        attempt.finish(outcome);
    }

    /// Notes that a connection takes no more calls; the next call opens another one, unless that is
    /// done at once.
    #[cold]
    pub(crate) fn forget(self: &Arc<Self>, ended: &AsyncConnection) {
        let mut state = lock(&self.state);
        let before = match &*state {
            State::Open(connection) if std::ptr::eq(&**connection, ended) => {
                std::mem::replace(&mut *state, State::Ended(ended.close_reason()))
            }
            _ => return,
        };
        if let ReconnectPolicy::AtOnce(patience) = self.client.settings.reconnect {
            self.reopening.begin(self, patience);
        }
        drop(state);
        drop(before);
    }

    /// Returns whether it is as if it had never been used.
    fn may_be_forgotten(&self) -> bool {
        match &*lock(&self.state) {
            State::Unconnected => true,
            // A client that connects once to each address remembers which.
            State::Ended(_) => self.client.settings.reconnect != ReconnectPolicy::Never,
            State::Connecting(_) | State::Open(_) | State::Closed => false,
        }
    }

    fn info(&self) -> Option<ConnectionInfo> {
        let connection = match &*lock(&self.state) {
            State::Open(connection) => Arc::clone(connection),
            _ => return None,
        };
        connection.info()
    }
}

impl Attempt {
    fn outcome(&self) -> Option<Outcome> {
        lock(&self.progress).outcome.clone()
    }

    fn finish(&self, outcome: Outcome) {
        let mut progress = lock(&self.progress);
        progress.outcome = Some(outcome);
        let waiting = std::mem::take(&mut progress.waiting);
        drop(progress);
        waiting.into_values().for_each(waking::wake);
    }
}

impl PendingConnection {
    /// Returns the number of the attempt.
    pub(crate) fn attempt(&self) -> u64 {
        self.attempt.number
    }

    /// Returns the outcome, if it is there; `waker` is woken when it is.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Outcome> {
        let mut progress = lock(&self.attempt.progress);
        if let Some(outcome) = &progress.outcome {
            return Poll::Ready(outcome.clone());
        }
        let number = *self.number.get_or_insert_with(|| {
            progress.last += 1;
            progress.last
        });
        let before = progress.waiting.insert(number, waker.clone());
        drop(progress);
        waking::retire(before);
        Poll::Pending
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut progress = lock(&self.attempt.progress);
        let waker = progress.waiting.remove(&number);
        drop(progress);
        waking::retire(waker);
    }
}

fn client_closed() -> Status {
    Status::unavailable("the client was closed")
}
