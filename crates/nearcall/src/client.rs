//! A client: connections to servers, shared by all callers, and how their calls wait.
//!
//! Always true: there is one connection for each address and way to talk to it; one that has ended
//! is replaced by the next call. While a call of a client in a loop waits, the loop goes on
//! serving.
//! Not here: one call (`remote.rs`).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use nearcall_channel::{
    Address as Place, Deadline, Endpoint, HandshakeError, Mechanism, Options, WaitPolicy, connect,
};
use nearcall_os::clock;
use nearcall_wire::{InstanceId, Time, Timeout};

use crate::address::{Address, At, BadAddress};
use crate::connection_info::ConnectionInfo;
use crate::core::{Core, new_instance};
use crate::dispatch::has_passed;
use crate::event_loop::EventLoop;
use crate::limits::Limits;
use crate::link::{Link, NEAR, Outcome, Ticket, Took};
use crate::options::{self, CallOptions, now};
use crate::reactor::Reactor;
use crate::status::{Code, Status};
use crate::trust::Trust;

/// Connections to servers. Cheap to clone: all clones share them. Belongs to one thread.
///
/// # Examples
///
/// A program that only calls needs no loop:
///
/// ```
#[doc = include_str!("../doc/room.txt")]
/// use std::time::Duration;
///
/// use nearcall::{Client, Mechanism};
///
/// let address = "thermostat"; // Or "unix:/run/room.sock", or "tcp://127.0.0.1:4000".
/// # let address = &*serve_elsewhere("client");
/// let client = Client::new();
/// client.hunt(address, Duration::from_secs(5))?; // It may still be starting.
///
/// let thermostat = ThermostatCaller::new(&client, address)?;
/// thermostat.set_target(&SetTargetRequest { celsius: 20.0 })?;
///
/// // The same server by another mechanism: another connection of the same client.
/// let faster = format!("{address}?via={}", Mechanism::ShmEventfd);
/// let thermostat = ThermostatCaller::new(&client, &faster)?;
/// let before = thermostat.set_target(&SetTargetRequest { celsius: 21.0 })?;
/// assert_eq!(before.celsius_before, 20.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    core: Rc<ClientCore>,
}

struct ClientCore {
    core: Rc<Core>,
    instance: InstanceId,
    limits: Limits,
    short_circuit: Cell<bool>,
    links: RefCell<Vec<(Route, Rc<Link>)>>,
}

/// What tells connections apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    at: At,
    mechanism: Mechanism,
    wait: Option<WaitPolicy>,
    trust: Trust,
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// A client that needs no loop: its calls block this thread, each mechanism in its own way.
    pub fn new() -> Self {
        Self::with_limits(None, Limits::default())
    }

    /// A client of a loop: while its calls wait, the loop serves calls, timers and descriptors, so
    /// services may call each other in circles. A server of the same loop is called directly.
    pub fn in_loop(event_loop: &EventLoop) -> Self {
        Self::with_limits(Some(event_loop), Limits::default())
    }

    /// As [`new`](Self::new) or [`in_loop`](Self::in_loop), with limits of one's own.
    pub fn with_limits(event_loop: Option<&EventLoop>, limits: Limits) -> Self {
        let core = event_loop.map_or_else(|| Core::new(None), |own| Rc::clone(own.core()));
        let core = ClientCore {
            core,
            instance: new_instance(),
            limits,
            short_circuit: Cell::new(true),
            links: RefCell::default(),
        };
        Self { core: Rc::new(core) }
    }

    /// Calls a server of the same loop over its mechanism as well, to measure or to test it. For
    /// callers that are made from now on.
    #[must_use]
    pub fn without_short_circuit(self) -> Self {
        self.core.short_circuit.set(false);
        self
    }

    /// Waits until a server listens at `address`, for at most `timeout`, and connects to it.
    ///
    /// Asks again after 1 ms at first and after 50 ms at most.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` or `DEADLINE_EXCEEDED`: no server came in time. `INVALID_ARGUMENT`: the text
    /// is no address, or asks for what cannot be. `FAILED_PRECONDITION`: the mechanism cannot be
    /// had here.
    pub fn hunt(&self, address: &str, timeout: Duration) -> Result<(), Status> {
        let address: Address =
            address.parse().map_err(|error: BadAddress| invalid(error.to_string()))?;
        let until = options::after(timeout);
        let mut pause = HUNT_PAUSE_MIN;
        loop {
            let failed = match self.link_to(&address, until) {
                Ok(_) => return Ok(()),
                // Waiting changes nothing about these.
                Err(status) if status.code() == Code::InvalidArgument => return Err(status),
                Err(status) if status.code() == Code::FailedPrecondition => return Err(status),
                Err(status) => status,
            };
            let next = options::after(pause);
            if next >= until {
                return Err(failed);
            }
            match &self.core.core.reactor {
                Some(reactor) => {
                    let paused = reactor.run_until(&self.core.core, next, || false);
                    paused.map_err(|error| waiting_failed(&error))?;
                }
                None => clock::pause(pause),
            }
            pause = (pause * 2).min(HUNT_PAUSE_MAX);
        }
    }

    /// The connections that are open now. A system call for each that lends.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let links = self.core.links.borrow();
        links.iter().filter(|(_, link)| !link.is_gone()).map(|(_, link)| link.info()).collect()
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core.core
    }

    /// Whether a server of this thread is called directly.
    pub(crate) fn short_circuits(&self) -> bool {
        self.core.short_circuit.get()
    }

    /// A connection would refuse more, so the short circuit does.
    #[inline]
    pub(crate) fn check_metadata(&self, options: &CallOptions) -> Result<(), Status> {
        let bytes = options.metadata_bytes().len();
        if bytes <= usize::from(self.core.limits.metadata_bytes_max) {
            return Ok(());
        }
        let max = self.core.limits.metadata_bytes_max;
        Err(Status::resource_exhausted(format!("metadata of {bytes} bytes, the limit is {max}")))
    }

    /// The connection to a server, opened if there is none.
    pub(crate) fn link_to(&self, address: &Address, until: Time) -> Result<Rc<Link>, Status> {
        let mechanism = address.mechanism();
        let (wait, trust) = (address.wait, address.trust());
        let route = Route { at: address.at.clone(), mechanism, wait, trust };
        let At::Socket(place) = &address.at else {
            if self.core.core.server_at(&address.at).is_some() {
                let text = format!("{} is only reached by the short circuit", address.at);
                return Err(Status::failed_precondition(text));
            }
            return Err(nobody_listens(&address.at));
        };
        if let Some(link) = self.known_link(&route) {
            return Ok(link);
        }
        let endpoint = self.open_channel(place, &route, until)?;
        // A service that ran meanwhile may have connected as well. One connection is enough.
        if let Some(link) = self.known_link(&route) {
            return Ok(link);
        }
        let Self { core } = self;
        let name = format!("the server at {}", address.at);
        let link = Link::new(&core.core, endpoint, name, core.instance, &core.limits, trust, None);
        if let Some(reactor) = &core.core.reactor {
            let added = reactor.add_link(&link);
            added.map_err(|error| Status::failed_precondition(error.to_string()))?;
        }
        self.greet(&link, until)?;
        if let Some(known) = self.known_link(&route) {
            link.close(Status::unavailable("another connection was quicker"));
            return Ok(known);
        }
        let mut links = core.links.borrow_mut();
        links.retain(|(other, link)| *other != route && !link.is_gone());
        links.push((route, Rc::clone(&link)));
        Ok(link)
    }

    /// The connection of this route, if it takes calls.
    fn known_link(&self, route: &Route) -> Option<Rc<Link>> {
        let links = self.core.links.borrow();
        let known = links.iter().find(|(other, link)| *other == *route && link.is_open());
        known.map(|(_, link)| Rc::clone(link))
    }

    fn open_channel(&self, place: &Place, route: &Route, until: Time) -> Result<Endpoint, Status> {
        let mut options = self.core.limits.channel();
        if until != Time::NEVER {
            let left = Duration::from_nanos(now().until(until).as_ns());
            options.handshake_timeout = options.handshake_timeout.min(left);
        }
        options.wait = route.wait;
        let core = &self.core.core;
        let outcome = match &core.reactor {
            None => connect(place, route.mechanism, &options),
            Some(reactor) => {
                options.wait_preferred = crate::server::loop_preference(route.wait);
                // What cannot be polled, the loop sleeps or spins in.
                let pollable = route.mechanism.waits().contains(&WaitPolicy::Poll);
                if pollable && route.wait == Some(WaitPolicy::Block) {
                    options.wait = Some(WaitPolicy::Poll);
                }
                self.connect_in_loop(reactor, place, route.mechanism, options)
                    .map_err(|error| waiting_failed(&error))?
            }
        };
        outcome.map_err(|error| not_met(&route.at, &error, until))
    }

    /// Connects on a helper thread, while the loop goes on serving.
    fn connect_in_loop(
        &self,
        reactor: &Reactor,
        place: &Place,
        mechanism: Mechanism,
        options: Options,
    ) -> io::Result<Result<Endpoint, HandshakeError>> {
        let connected = reactor.meetings.connect(reactor, place.clone(), mechanism, options)?;
        let mut outcome = None;
        // The handshake has deadlines of its own.
        reactor.run_until(&self.core.core, Time::NEVER, || {
            outcome = connected.take();
            outcome.is_some()
        })?;
        Ok(outcome.unwrap_or(Err(HandshakeError::TimedOut)))
    }

    /// Greets, and waits until the server has greeted.
    fn greet(&self, link: &Rc<Link>, until: Time) -> Result<(), Status> {
        let patience = options::after(self.core.limits.channel().handshake_timeout);
        let (asked, until) = (until, until.min(patience));
        link.send_own(Deadline::NOW);
        let is_done = || link.is_open() || link.is_gone();
        match &self.core.core.reactor {
            Some(reactor) => {
                let waited = reactor.run_until(&self.core.core, until, is_done);
                waited.map_err(|error| waiting_failed(&error))?;
            }
            None => {
                while !is_done() && now() < until {
                    link.take_message(deadline_of(until));
                }
            }
        }
        if link.is_open() {
            return Ok(());
        }
        if !link.is_gone() {
            link.close(Status::unavailable(format!("{} did not greet in time", link.name)));
            if has_passed(asked) {
                let text = format!("{} did not greet in time", link.name);
                return Err(Status::deadline_exceeded(text));
            }
        }
        Err(link.why_gone())
    }

    /// Until when sending may wait: a loop never waits in one connection.
    #[inline]
    pub(crate) fn send_deadline(&self, until: Time) -> Deadline {
        if self.core.core.reactor.is_some() { Deadline::NOW } else { deadline_of(until) }
    }

    /// Waits for the end of a call.
    #[inline]
    pub(crate) fn wait(&self, link: &Rc<Link>, ticket: &Ticket, until: Time) -> Outcome {
        loop {
            if let Some(outcome) = link.take_end(ticket) {
                return outcome;
            }
            match &self.core.core.reactor {
                None => self.wait_alone(link, ticket, until),
                Some(reactor) => {
                    let has_ended = || link.has_ended(ticket);
                    match reactor.run_until(&self.core.core, until, has_ended) {
                        Ok(true) => {}
                        Ok(false) => link.handle_timeout(),
                        Err(error) => {
                            link.cancel(ticket);
                            return Err(waiting_failed(&error));
                        }
                    }
                }
            }
        }
    }

    /// Waits until what was sent is in the channel.
    #[inline]
    pub(crate) fn wait_for_room(&self, link: &Rc<Link>, until: Time) -> Result<(), Status> {
        if self.core.core.reactor.is_none() || !link.wants_room() {
            return Ok(());
        }
        let had_room = self.run_until(until, || !link.wants_room() || link.is_gone())?;
        if link.is_gone() {
            return Err(link.why_gone());
        }
        had_room.then_some(()).ok_or_else(|| {
            let name = &link.name;
            Status::deadline_exceeded(format!(
                "{name} did not read what was sent before in time; the message may still arrive"
            ))
        })
    }

    /// Serves until `done` or `until`. Without a loop nothing can happen meanwhile.
    pub(crate) fn run_until(
        &self,
        until: Time,
        done: impl FnMut() -> bool,
    ) -> Result<bool, Status> {
        let core = &self.core.core;
        let Some(reactor) = &core.reactor else { return Ok(false) };
        reactor.run_until(core, until, done).map_err(|error| waiting_failed(&error))
    }

    /// Waits for the end of a call and reads a small result where it was received: the shortest
    /// way, for clients without a loop. `None`: [`wait`](Self::wait) for it.
    #[inline]
    pub(crate) fn wait_near<T>(
        &self,
        link: &Rc<Link>,
        ticket: &Ticket,
        until: Time,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        if self.core.core.reactor.is_some() || link.is_gone() || link.wants_room() {
            return None;
        }
        let mut near = NEAR;
        let deadline = deadline_of(until.min(link.next_deadline()));
        let body = link.take_reply(deadline, &mut near, ticket).ok()?;
        link.forget(ticket);
        Some(read(&near[body]))
    }

    /// Waits for one message, without a loop.
    fn wait_alone(&self, link: &Rc<Link>, ticket: &Ticket, until: Time) {
        // Calls that were started on the same connection have deadlines, too.
        let mut until = until.min(link.next_deadline());
        if link.wants_room() && !link.flush(Deadline::NOW) {
            // A cancellation, say: nobody but us moves it on.
            until = until.min(now().after(ROOM_LOOK_INTERVAL));
        }
        let took = link.take_message(deadline_of(until));
        // A server that sends without pause must not hold a call beyond its time.
        if took == Took::Nothing || (!link.has_ended(ticket) && has_passed(until)) {
            link.handle_timeout();
        }
    }

    /// Looks, without waiting, whether replies have come. For clients without a loop.
    pub(crate) fn look(&self, link: &Rc<Link>) {
        if self.core.core.reactor.is_none() {
            for _ in 0..crate::limits::MESSAGES_PER_TURN_MAX {
                if link.take_message(Deadline::NOW) != Took::Message {
                    return;
                }
            }
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links = self.core.links.borrow();
        let names: Vec<_> = links.iter().map(|(route, _)| route.at.to_string()).collect();
        f.debug_struct("Client").field("connections", &names).finish_non_exhaustive()
    }
}

impl Drop for ClientCore {
    fn drop(&mut self) {
        for (_, link) in self.links.take() {
            link.close(Status::unavailable("the client was closed"));
        }
    }
}

#[inline]
fn deadline_of(until: Time) -> Deadline {
    Deadline::from_ns(until.as_ns())
}

fn nobody_listens(at: &At) -> Status {
    Status::unavailable(format!(
        "nobody listens at {at}: start the server, or wait for it with Client::hunt"
    ))
}

fn not_met(at: &At, error: &HandshakeError, until: Time) -> Status {
    match error {
        HandshakeError::NoListener(_) => nobody_listens(at),
        HandshakeError::BadOptions(_) | HandshakeError::UnknownMechanism(_) => {
            Status::invalid_argument(format!("cannot connect to {at}: {error}"))
        }
        HandshakeError::TimedOut if has_passed(until) => {
            Status::deadline_exceeded(format!("no connection to {at} in time"))
        }
        HandshakeError::Open(..) => {
            Status::failed_precondition(format!("cannot connect to {at}: {error}"))
        }
        _ => Status::unavailable(format!("cannot connect to {at}: {error}")),
    }
}

fn invalid(text: String) -> Status {
    Status::invalid_argument(text)
}

#[cold]
fn waiting_failed(error: &io::Error) -> Status {
    Status::internal(format!("the event loop failed: {error}"))
}

/// How often a connection is asked for room, while something waits for that and for a message.
const ROOM_LOOK_INTERVAL: Timeout = Timeout::from_ns(1_000_000);

/// First and longest pause between two looks of `hunt`: a server that starts takes milliseconds,
/// and twenty looks a second cost nothing.
const HUNT_PAUSE_MIN: Duration = Duration::from_millis(1);
const HUNT_PAUSE_MAX: Duration = Duration::from_millis(50);
