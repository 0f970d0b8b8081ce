//! Memory of a server and its clients with more and more idle connections.
//!
//! **Invariants:** every connection that counts was greeted by the server, which is asked how many
//! it has. A server without calls is left alone for a moment before its memory is read.

use std::time::Duration;

use nearcall_channel::Mechanism;
use nearcall_os::{clock, process};
use nearcall_results::findings::memory::{ConnectionMemory, Level, PerConnection};

use super::Stop;
use super::budget;
use super::helper::Helper;
use crate::launch::{Question, WorkerRequest};
use crate::runner::RunContext;

/// Measures one mechanism, as far as it goes.
pub(super) fn measure(
    mechanism: Mechanism,
    quick: bool,
    context: &RunContext<'_>,
) -> Result<ConnectionMemory, Stop> {
    mechanism.supported()?;
    if mechanism.capabilities().needs_spinning {
        return Err(Stop::Failed("both ends must spin, so no connection is ever idle".to_owned()));
    }
    let counts = if quick { &COUNTS[..COUNTS.len() - 1] } else { &COUNTS[..] };
    let most = counts[counts.len() - 1];
    // The one that calls, and a few for whoever looks in.
    let connections_max = most + CONNECTIONS_BESIDE;
    let at = server_address(mechanism.name());
    let serve = WorkerRequest::Serve { addresses: vec![at.clone()], connections_max };
    let mut server = Helper::ready(&serve, context)?;
    let address = client_address(&at, mechanism);
    let mut client = Helper::ready(&WorkerRequest::Connect { address, connections_max }, context)?;
    // The first reading maps what later ones find present.
    let _ = read(0, &server, &client);
    let mut found = ConnectionMemory {
        mechanism: mechanism.name().to_owned(),
        levels: Vec::new(),
        stopped: None,
        unreadable: server.unreadable().or_else(|| client.unreadable()),
        per_connection: PerConnection::default(),
    };
    for &count in counts {
        match level(count, &mut server, &mut client) {
            Ok((level, stopped)) => {
                found.levels.extend(level);
                found.stopped = stopped;
            }
            Err(Stop::Interrupted) => found.stopped = Some(super::INTERRUPTED.to_owned()),
            Err(Stop::Failed(reason)) => found.stopped = Some(reason),
        }
        if found.stopped.is_some() {
            break;
        }
    }
    found.per_connection = PerConnection::of(&found.levels);
    client.end();
    server.end();
    Ok(found)
}

/// Makes the connections and reads. Without a level: so many cannot be had, and why.
fn level(
    count: u32,
    server: &mut Helper<'_>,
    client: &mut Helper<'_>,
) -> Result<(Option<Level>, Option<String>), Stop> {
    let (made, reason) = client.connections(Question::Idle(count))?;
    if made < count {
        let reason = reason.unwrap_or_else(|| "no reason was given".to_owned());
        return Ok((None, Some(format!("{count} connections: after {made}, {reason}"))));
    }
    let (served, _) = server.connections(Question::Count)?;
    // And the one that has called.
    if served != count + 1 {
        let told = format!("the server has {served} connections where {} were made", count + 1);
        return Ok((None, Some(told)));
    }
    clock::pause(SETTLE);
    Ok((Some(read(count, server, client)), None))
}

fn read(idle_connections: u32, server: &Helper<'_>, client: &Helper<'_>) -> Level {
    Level {
        idle_connections,
        server: server.memory(),
        client: client.memory(),
        shared_bytes: server.shared_bytes().zip(client.shared_bytes()).map(|(a, b)| a + b),
        available_bytes: budget::left_bytes(),
    }
}

/// A new address for a server.
pub(super) fn server_address(name: &str) -> String {
    format!("unix:@nearcall-memory-{}-{name}-{:x}", process::pid(), clock::monotonic_ns())
}

/// Where and how clients connect to it.
pub(super) fn client_address(server: &str, mechanism: Mechanism) -> String {
    format!("{server}?via={mechanism}")
}

/// Idle connections of the levels.
const COUNTS: [u32; 5] = [0, 1, 10, 100, 1_000];

const CONNECTIONS_BESIDE: u32 = 8;

/// What a handshake leaves to do is done by then.
const SETTLE: Duration = Duration::from_millis(100);
