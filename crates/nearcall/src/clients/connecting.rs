//! How a thread's part of a client connects to a server, and connects again.
//!
//! **Invariants:** a connection has its place in the account of the client before its handshake
//! begins.
//! **Not here:** when to try again (`clients/attempts.rs`), how calls wait on a connection
//! (`clients/waiting.rs`), handshakes (`nearcall-channel`).

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use nearcall_channel::{
    Address as Place, Endpoint, HandshakeError, Mechanism, OpenError, Options, Refusal, WaitPolicy,
    connect, runtime_dir,
};
use nearcall_os::{clock, descriptor};

use super::attempts::{Action, Attempts, ConnectFailure, Event, NextTry, Rules};
use super::core::{ClientCore, Known};
use super::hunting::Hunt;
use super::route::Route;
use super::upgrading::upgrade_plan;
use super::waiting::waiting_failed;
use crate::address::{Address, At};
use crate::auto::{self, Chooser, Weights};
use crate::connection::buffer_pool::InlineBuf;
use crate::connection::switch_history::SwitchCause;
use crate::connection::{Connection, Host, ServerId, Setup};
use crate::deadline::{self, Deadline};
use crate::instance::own_thread;
use crate::listen_policy::loop_preference;
use crate::reactor::{Connected, Reactor};
use crate::reconnect::ReconnectPolicy;
use crate::status::{Code, Fate, Status};

impl ClientCore {
    /// Returns the connection to a server, opened by `policy` if there is none.
    pub(crate) fn connect_by(
        &self,
        policy: ReconnectPolicy,
        address: &Address,
        deadline: Deadline,
    ) -> Result<Rc<Connection>, ConnectFailure> {
        let connected = match policy {
            ReconnectPolicy::Never => return self.connect_first(address, deadline),
            _ => self.connect(address, deadline),
        };
        connected.or_else(|failure| {
            let rules = Rules::of_thread(policy, deadline);
            self.connect_again(address, deadline, &rules, Attempts::default(), failure)
        })
    }

    /// Connects, unless there was a connection that has ended.
    fn connect_first(
        &self,
        address: &Address,
        deadline: Deadline,
    ) -> Result<Rc<Connection>, ConnectFailure> {
        self.drop_ended();
        let route = Route::new(address);
        if self.known_connection(&route).is_some() {
            return self.connect(address, deadline);
        }
        let draining = self
            .connections
            .borrow()
            .iter()
            .find(|it| it.route == route)
            .map(|it| it.connection.close_reason());
        let ended = self.ended.borrow().iter().find(|(other, _)| *other == route).cloned();
        let Some(reason) = draining.or(ended.map(|(_, reason)| reason)) else {
            return self.connect(address, deadline);
        };
        Err(connects_once(&reason).into())
    }

    /// Connects as soon as a server listens, until `deadline` at most.
    pub(super) fn hunt(&self, address: &Address, deadline: Deadline) -> Result<(), Status> {
        let connected = self.connect(address, deadline).or_else(|failure| {
            let (rules, attempts) = (Rules::of_hunt(), Attempts::until(deadline));
            self.connect_again(address, deadline, &rules, attempts, failure)
        });
        Ok(connected.map(drop)?)
    }

    /// Makes the attempts that follow a first one which has failed.
    #[cold]
    fn connect_again(
        &self,
        address: &Address,
        deadline: Deadline,
        rules: &Rules,
        mut attempts: Attempts,
        failure: ConnectFailure,
    ) -> Result<Rc<Connection>, ConnectFailure> {
        let at = &address.at;
        let (mut hunt, mut event) = (None::<Hunt>, Event::Failed(failure));
        loop {
            event = match attempts.next(rules, event, deadline::now()) {
                Action::Connect => match self.connect(address, deadline) {
                    Ok(connection) => return Ok(connection),
                    Err(failure) => Event::Failed(failure),
                },
                Action::WatchSocket => {
                    Event::Watching(hunt.get_or_insert_with(|| Hunt::start(at)).arm(at))
                }
                Action::Pause(next) => {
                    self.pause_hunt(hunt.as_mut(), next)?;
                    Event::Resumed
                }
                Action::GiveUp(failure) => return Err(failure),
                Action::TimeOut(failed) => {
                    let why = failed.as_ref().map_or("it was not tried", |it| it.status.message());
                    let text = format!("no server in time: {why}");
                    return Err(Status::deadline_exceeded(text).into());
                }
            };
        }
    }

    /// Waits until the next attempt is due; a loop goes on serving.
    fn pause_hunt(&self, hunt: Option<&mut Hunt>, next: NextTry) -> Result<(), Status> {
        let Some(hunt) = hunt.filter(|_| next.or_at_change) else { return self.pause(next.at) };
        match &self.reactor {
            Some(reactor) => {
                let waker = Waker::from(Arc::clone(&reactor.mailbox));
                let waited = reactor.run_until(next.at, || hunt.poll_change(&waker));
                waited.map(drop).map_err(|error| waiting_failed(&error))
            }
            None => {
                hunt.block(next);
                Ok(())
            }
        }
    }

    /// Waits until `end`; a loop goes on serving.
    pub(crate) fn pause(&self, end: Deadline) -> Result<(), Status> {
        match &self.reactor {
            Some(reactor) => {
                let waited = reactor.run_until(end, || false);
                waited.map(drop).map_err(|error| waiting_failed(&error))
            }
            None => {
                clock::pause(end.remaining().unwrap_or_default());
                Ok(())
            }
        }
    }

    /// Returns the connection to a server, opened if there is none.
    pub(super) fn connect(
        &self,
        address: &Address,
        deadline: Deadline,
    ) -> Result<Rc<Connection>, ConnectFailure> {
        let route = Route::new(address);
        if let Some(connection) = self.known_connection(&route) {
            return Ok(connection);
        }
        // So that a connection in the place of one that has ended does not lose that to another
        // thread.
        let place = self.take_ended_place(&route);
        self.drop_ended();
        let reservation = match place {
            Some(place) => place,
            None => self.shared.reserve(&route, &self.pending)?,
        };
        let open = |route: &Route| self.open_channel(route, deadline);
        let endpoint = open_first(&route, self.weights(), |_| true, open)?;
        // A service that ran meanwhile may have connected as well. One connection is enough.
        if let Some(connection) = self.known_connection(&route) {
            return Ok(connection);
        }
        let connection = self.new_connection(endpoint, &route)?;
        self.greet(&connection, deadline)
            .map_err(|status| ConnectFailure { is_refused: true, ..status.into() })?;
        if let Some(known) = self.known_connection(&route) {
            connection.close(Status::unavailable("another connection was quicker"));
            self.forget_closed();
            return Ok(known);
        }
        // It may have moved meanwhile.
        let hang_up = connection.with_endpoint(|endpoint| endpoint.hang_up_handle());
        reservation.fill(connection.info(), hang_up);
        connection.show_moves_by(reservation.refill());
        if route.upgrades {
            connection.plan_upgrade(upgrade_plan());
        }
        self.drop_ended();
        self.ended.borrow_mut().retain(|(other, _)| *other != route);
        let known = Known { route, connection: Rc::clone(&connection), reservation };
        let mut connections = self.connections.borrow_mut();
        // One that drains ends when its last call does.
        let drains = connections.extract_if(.., |it| it.route == known.route).collect::<Vec<_>>();
        connections.push(known);
        drop(connections);
        drop(drains);
        Ok(connection)
    }

    fn new_connection(&self, endpoint: Endpoint, route: &Route) -> Result<Rc<Connection>, Status> {
        let setup = Setup {
            name: format!("the server at {}", route.at),
            // A server of this thread has to know that its caller cannot go on while a method runs,
            // by whatever name it was found.
            instance: own_thread(),
            limits: self.limits(),
            trust: route.trust,
            serves: None,
            refusals: None,
            switches: Some(self.switch_options(route.wait)),
            follows_asks: self.shared.settings.follows_asks,
            chooser: route.is_automatic.then(|| Box::new(Chooser::new(self.weights()))),
        };
        let activity = self.reactor.as_ref().map(|reactor| &reactor.activity);
        let connection = Connection::new(endpoint, setup, &self.services().buffers, activity);
        if let Some(reactor) = &self.reactor {
            let added = reactor.add_connection(&connection);
            added.map_err(|error| cannot_watch(&error))?;
        }
        Ok(connection)
    }

    /// Returns how this client opens another channel of a connection, whose address has it wait so.
    fn switch_options(&self, wait: Option<WaitPolicy>) -> Options {
        let mut options = self.limits().channel();
        options.wait_preferred = match (&self.reactor, wait) {
            (Some(_), wait) => loop_preference(wait),
            (None, Some(WaitPolicy::Spin)) => &[WaitPolicy::Spin],
            (None, Some(WaitPolicy::Block)) => &[WaitPolicy::Block],
            (None, Some(WaitPolicy::Poll)) => &[WaitPolicy::Poll],
            // A mechanism that can has it as its usual one.
            (None, Some(WaitPolicy::Adaptive) | None) => &[],
        };
        options
    }

    /// Moves the connection to a server to another mechanism, while calls go on.
    pub(super) fn switch(
        &self,
        address: &Address,
        mechanism: Mechanism,
        deadline: Deadline,
    ) -> Result<(), Status> {
        let Some(connection) = self.known_connection(&Route::new(address)) else {
            let text = format!(
                "this thread has no connection to {} that takes calls; call a service there first",
                address.at
            );
            return Err(Status::failed_precondition(text));
        };
        if !connection.host().can_wait_for(mechanism) {
            let text = format!("a loop cannot wait for {mechanism} beside its other connections");
            return Err(Status::failed_precondition(text));
        }
        connection.begin_switch(mechanism, SwitchCause::Program)?;
        let mut outcome = None;
        self.wait_until(&connection, deadline, || {
            outcome = connection.take_switch_outcome(SwitchCause::Program);
            outcome.is_some()
        })?;
        match outcome {
            Some(outcome) => outcome,
            None if connection.is_closed() => Err(connection.close_reason()),
            None => Err(connection.late_switch(mechanism, SwitchCause::Program)),
        }
    }

    fn open_channel(&self, route: &Route, deadline: Deadline) -> Result<Endpoint, ConnectFailure> {
        let mut options = self.limits().channel();
        options.server_user = route.server_user()?;
        if let Some(left) = deadline.remaining() {
            options.handshake_timeout = options.handshake_timeout.min(left);
        }
        options.wait = route.wait;
        let outcome = match (&self.reactor, &route.at) {
            (None, At::Socket(place)) => connect(place, route.mechanism, &options),
            (_, at @ At::Remote(_)) | (None, at @ At::InProcess(_)) => {
                return Err(no_listener(at).into());
            }
            (Some(reactor), at) => {
                options.wait_preferred = loop_preference(route.wait);
                // What cannot be polled, the loop sleeps or spins in.
                let pollable = route.mechanism.waits().contains(&WaitPolicy::Poll);
                if pollable && route.wait == Some(WaitPolicy::Block) {
                    options.wait = Some(WaitPolicy::Poll);
                }
                let connected = match at {
                    At::Socket(place) => {
                        reactor.start_connect(place.clone(), route.mechanism, options)
                    }
                    At::InProcess(_) | At::Remote(_) => {
                        let server = self.own_server(at)?;
                        reactor.start_connect_own(server, route.mechanism, options)
                    }
                };
                connected
                    .and_then(|connected| wait_for_handshake(reactor, &connected))
                    .map_err(|error| waiting_failed(&error))?
            }
        };
        outcome.map_err(|error| connect_failure(&route.at, &error, deadline))
    }

    /// Returns the server of this loop at a place without a socket.
    fn own_server(&self, at: &At) -> Result<ServerId, Status> {
        match self.services().registry.server_at(at) {
            Some(server) if self.shared.short_circuits() => Ok(server.id),
            Some(_) => {
                let text = format!("{at} is only reached by the short circuit");
                Err(Status::failed_precondition(text))
            }
            None => Err(no_listener(at)),
        }
    }

    /// Greets, and waits until the server has greeted.
    fn greet(&self, connection: &Rc<Connection>, asked: Deadline) -> Result<(), Status> {
        let deadline = asked.min(Deadline::after(self.limits().channel().handshake_timeout));
        connection.send_control(Deadline::NOW);
        let is_done = || connection.is_open() || connection.is_closed();
        match &self.reactor {
            Some(reactor) => {
                let waited = reactor.run_until(deadline, is_done);
                waited.map_err(|error| waiting_failed(&error))?;
            }
            None => {
                while !is_done() && !deadline.has_passed() {
                    self.services().receive_message(connection, deadline, &mut InlineBuf::take());
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
}

/// Opens the first channel of a connection by `open`. An automatic one begins with what is best
/// while nothing is known of its traffic, if it can have that.
pub(super) fn open_first<T>(
    route: &Route,
    weights: Weights,
    can_wait_for: impl FnOnce(Mechanism) -> bool,
    open: impl Fn(&Route) -> Result<T, ConnectFailure>,
) -> Result<T, ConnectFailure> {
    let first = route.is_automatic.then(|| auto::first_mechanism(weights)).flatten();
    match first.filter(|first| *first != route.mechanism && can_wait_for(*first)) {
        Some(mechanism) => match open(&Route { mechanism, ..route.clone() }) {
            Err(failure) if failure.status.code() == Code::FailedPrecondition => open(route),
            opened => opened,
        },
        None => open(route),
    }
}

/// Returns the status of a call for which no second connection is made.
pub(super) fn connects_once(reason: &Status) -> Status {
    Status::unavailable(format!(
        "{}; this client connects once (its policy is never to reconnect): make another one",
        reason.message()
    ))
}

/// Returns the status of a connection that its loop cannot wait for.
#[cold]
fn cannot_watch(error: &io::Error) -> Status {
    let text = format!("the loop cannot wait for the connection: {error}");
    match descriptor::means_shortage(error) {
        true => Status::resource_exhausted(text),
        false => Status::failed_precondition(text),
    }
}

/// Waits until a handshake is done, while the loop goes on serving.
fn wait_for_handshake(
    reactor: &Reactor,
    connected: &Connected,
) -> io::Result<Result<Endpoint, HandshakeError>> {
    let mut outcome = None;
    // The handshake has deadlines of its own.
    reactor.run_until(Deadline::NEVER, || {
        outcome = connected.take();
        outcome.is_some()
    })?;
    Ok(outcome.unwrap_or(Err(HandshakeError::TimedOut)))
}

pub(super) fn no_listener(at: &At) -> Status {
    Status::unavailable(match at {
        At::InProcess(_) => format!(
            "no server of this event loop listens at {at}; `inproc:` reaches servers of the same \
             loop only"
        ),
        At::Remote(_) => format!("calls to {at} have no connection of this client"),
        At::Socket(Place::Name(name)) => {
            // The directory depends on the user and the environment of each process.
            let (path, by) = (runtime_dir::path().join(name), runtime_dir::chosen_by());
            let next = runtime_dir::hint_at_other(name);
            let next = next.as_deref().unwrap_or(START_IT);
            format!(
                "no server listens at {at} ({}; the directory was chosen by {by}): {next}",
                path.display()
            )
        }
        At::Socket(_) => format!("no server listens at {at}: {START_IT}"),
    })
}

/// What to do where no server listens.
const START_IT: &str = "start the server, or hunt for it, which waits until it is there";

pub(super) fn connect_failure(
    at: &At,
    error: &HandshakeError,
    deadline: Deadline,
) -> ConnectFailure {
    let is_absent = matches!(error, HandshakeError::NoListener(_));
    let status = connect_error(at, error, deadline);
    let is_short = status.code() == Code::ResourceExhausted || error.shortage().is_some();
    let is_refused = matches!(error, HandshakeError::Refused { .. } | HandshakeError::TimedOut);
    ConnectFailure { status, is_absent, is_short, is_refused }
}

fn connect_error(at: &At, error: &HandshakeError, deadline: Deadline) -> Status {
    if let Some(shortage) = error.shortage() {
        // What is missing here now may be there later.
        return Status::unavailable(format!(
            "this process cannot connect to {at}: {}",
            descriptor::explain_shortage(shortage)
        ));
    }
    match error {
        HandshakeError::NoListener(_) => no_listener(at),
        HandshakeError::BadOptions(_) | HandshakeError::UnknownMechanism(_) => {
            Status::invalid_argument(format!("cannot connect to {at}: {error}"))
        }
        HandshakeError::Refused { code: Refusal::Exhausted, text } => {
            Status::resource_exhausted(format!("{at} refused the connection: {text}"))
        }
        HandshakeError::Refused { code: Refusal::NotAllowed, .. } => {
            Status::permission_denied(format!("cannot connect to {at}: {error}"))
        }
        // A server that ends in the meantime: another one may listen in its place.
        HandshakeError::PeerGone | HandshakeError::Refused { code: Refusal::Draining, .. } => {
            let text = format!("cannot connect to {at}: {error}");
            Status::unavailable(text).with_fate(Fate::NotBegun)
        }
        HandshakeError::TimedOut if deadline.has_passed() => {
            Status::deadline_exceeded(format!("no connection to {at} in time"))
        }
        // What is missing here now may be there later.
        HandshakeError::Open(_, OpenError::Os { .. }) => {
            Status::unavailable(format!("cannot connect to {at}: {error}"))
        }
        HandshakeError::Open(..)
        | HandshakeError::NotOffered { .. }
        | HandshakeError::OtherUser { .. }
        | HandshakeError::UntrustedDirectory(_)
        | HandshakeError::PathTooLong(_)
        | HandshakeError::OtherSocket { .. }
        | HandshakeError::Refused { code: Refusal::NotOffered, .. } => {
            Status::failed_precondition(format!("cannot connect to {at}: {error}"))
        }
        _ => Status::unavailable(format!("cannot connect to {at}: {error}")),
    }
}
