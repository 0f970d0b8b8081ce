//! Opens a connection that tasks will share, in a thread that may wait.
//!
//! **Invariants:** its mechanism has a descriptor, which the driver waits for; nothing is opened
//! before that is sure.
//! **Not here:** who waits for it (`clients/async_routes.rs`).

use std::sync::Arc;
use std::time::Duration;

use nearcall_channel::{Address as Place, Interest, Options, WaitPolicy, connect};
use nearcall_os::poll;
use nearcall_wire::InstanceId;

use super::attempts::ConnectFailure;
use super::automatic::end_sample;
use super::connecting::{connect_failure, no_listener, open_first};
use super::route::Route;
use super::shared::ClientShared;
use super::upgrading::upgrade_plan;
use crate::address::At;
use crate::async_connection::{AsyncConnection, AsyncHost, DriverHandle, check_waits, no_driver};
use crate::auto::Chooser;
use crate::connection::buffer_pool::InlineBuf;
use crate::connection::{Connection, Setup};
use crate::deadline::Deadline;
use crate::limits::Limits;
use crate::peer::Peer;
use crate::status::Status;

/// Opens a connection by this route. `on_end` lets go of it once it has ended.
pub(super) fn open(
    client: &Arc<ClientShared>,
    route: &Route,
    on_end: impl Fn(&AsyncConnection) + Send + Sync + 'static,
) -> Result<Arc<AsyncConnection>, ConnectFailure> {
    let At::Socket(place) = &route.at else {
        return Err(Status::failed_precondition(format!(
            "{} is only reached by the short circuit, which async callers do not have; use another \
             address of the server",
            route.at
        ))
        .into());
    };
    let account = client.reserve_shared()?;
    let can_wait_for = |mechanism| check_waits(mechanism).is_ok();
    let connection = open_first(route, client.settings.weights, can_wait_for, |route| {
        connect_and_greet(client, route, place, Duration::MAX)
    })?;
    if route.upgrades {
        connection.plan_upgrade(upgrade_plan());
    }
    let driver = DriverHandle::new().map_err(|error| no_driver(&error))?;
    AsyncConnection::new(connection, driver, account, end_sample, on_end).map_err(|error| {
        Status::failed_precondition(format!("cannot wait for {}: {error}", route.at)).into()
    })
}

/// Returns whether a connection by this route can be shared.
pub(super) fn can_be_had(route: &Route) -> bool {
    matches!(route.at, At::Socket(_)) && wait_policy(route).is_ok()
}

/// Connects, for at most `timeout`, and returns who answers: the instance and its process.
pub(super) fn look(
    client: &Arc<ClientShared>,
    route: &Route,
    timeout: Duration,
) -> Result<(Option<InstanceId>, Peer), Status> {
    let At::Socket(place) = &route.at else { return Err(no_listener(&route.at)) };
    let connection = connect_and_greet(client, route, place, timeout)?;
    Ok((connection.peer_instance(), connection.peer.clone()))
}

fn connect_and_greet(
    client: &Arc<ClientShared>,
    route: &Route,
    place: &Place,
    timeout: Duration,
) -> Result<Connection<AsyncHost>, ConnectFailure> {
    let limits = &client.settings.limits;
    let mut options = limits.channel();
    options.wait = Some(wait_policy(route)?);
    options.server_user = route.server_user()?;
    options.handshake_timeout = options.handshake_timeout.min(timeout);
    let deadline = Deadline::after(options.handshake_timeout);
    let endpoint = connect(place, route.mechanism, &options)
        .map_err(|error| connect_failure(&route.at, &error, Deadline::NEVER))?;
    let setup = Setup {
        name: format!("the server at {}", route.at),
        instance: client.instance,
        limits,
        trust: route.trust,
        serves: None,
        refusals: None,
        switches: Some(switch_options(route, limits)),
        follows_asks: client.settings.follows_asks,
        chooser: route.is_automatic.then(|| Box::new(Chooser::new(client.settings.weights))),
    };
    let connection = Connection::with_host(endpoint, setup, Box::default(), AsyncHost::default());
    greet(&connection, deadline)?;
    Ok(connection)
}

/// Returns how the connection waits: for a descriptor in any case, and before that by looking if
/// the mechanism can.
fn wait_policy(route: &Route) -> Result<WaitPolicy, Status> {
    let (mechanism, waits) = (route.mechanism, route.mechanism.waits());
    check_waits(mechanism)?;
    match route.wait {
        Some(WaitPolicy::Spin) => Err(Status::failed_precondition(format!(
            "an async caller of {} cannot spin, which would hold its executor; leave `wait` away, \
             or use {} or {}",
            route.at,
            WaitPolicy::Adaptive,
            WaitPolicy::Poll
        ))),
        None if waits.contains(&WaitPolicy::Adaptive) => Ok(WaitPolicy::Adaptive),
        Some(WaitPolicy::Adaptive) => Ok(WaitPolicy::Adaptive),
        Some(WaitPolicy::Block | WaitPolicy::Poll) | None => Ok(WaitPolicy::Poll),
    }
}

/// Returns how the connection opens another channel.
fn switch_options(route: &Route, limits: &Limits) -> Options {
    let wait_preferred: &[WaitPolicy] = match route.wait {
        Some(WaitPolicy::Block | WaitPolicy::Poll) => &[WaitPolicy::Poll],
        _ => &[WaitPolicy::Adaptive, WaitPolicy::Poll],
    };
    Options { wait_preferred, ..limits.channel() }
}

/// Greets, and waits until the server has greeted. On the descriptor: a sleep of another kind would
/// have the connection watched for the rest of its life.
fn greet(connection: &Connection<AsyncHost>, deadline: Deadline) -> Result<(), Status> {
    let mut buf = InlineBuf::take();
    connection.send_control(Deadline::NOW);
    while !connection.is_open() && !connection.is_closed() && !deadline.has_passed() {
        connection.receive(Deadline::NOW, &mut buf, None);
        connection.finish_message();
        if !connection.is_open() && !connection.is_closed() {
            connection.with_endpoint(|endpoint| {
                if endpoint.arm(Interest::Receive)
                    && let Some(readiness) = endpoint.readiness(Interest::Receive)
                {
                    // An error is found by the next receive.
                    let _ = poll::poll_one(readiness.fd, poll::Interest::Readable, deadline);
                }
            });
        }
    }
    if connection.is_open() {
        return Ok(());
    }
    if !connection.is_closed() {
        let text = format!("{} did not greet in time", connection.name);
        connection.close(Status::unavailable(text));
    }
    Err(connection.close_reason())
}
