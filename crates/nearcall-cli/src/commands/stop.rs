//! `nearcall stop`: ends a server, and waits for its process.
//!
//! A server whose program waits for it is ended by a call; one that can be ended by a signal only
//! gets SIGTERM. What a killed server has left is removed.
//!
//! **Invariants:** the process that is waited for, and that gets the signal, is the one that the
//! kernel reports at the other end of the connection, by its pidfd.
//! **Not here:** how a server ends, which is `nearcall`'s.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use nearcall::control::{DescribeRequest, STOP_BY_SIGNAL, ServerCaller, StopRequest};
use nearcall::{Address, CallOptions, Code, Status};
use nearcall_os::{Deadline, process};

use super::{End, asked_server};
use crate::args::timeout;
use crate::{completion, output};

/// End a server as SIGTERM does, and wait for its process
///
/// The server finishes the calls under way and takes no more. It obeys its own user and root. A
/// program that does not wait in `run_until_signal`, such as a host of services, gets SIGTERM.
/// Of a server that was killed before, what it has left is removed.
///
/// Exit code: 0 the process has ended, or had been killed; 1 it has not, or the server refused;
/// 2 usage error.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct StopArgs {
    /// The name or the address of the server
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(completion::servers))]
    pub(crate) server: Address,

    /// Longest wait until that is done
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    pub(crate) timeout: Duration,
}

pub(super) fn run(args: &StopArgs) -> anyhow::Result<End> {
    let (name, timeout) = (&args.server, args.timeout);
    let options = CallOptions::new().deadline(ANSWER_MAX);
    let client = asked_server::client();
    let server = ServerCaller::new(&client, &name.to_string())?;
    let described = match server.with(options.clone()).describe(&DescribeRequest::default()) {
        Err(status) if status.code() == Code::Unavailable => return remove_left(name, status),
        described => described.map_err(asked_server::failure)?,
    };
    // Held before it can end: its number may be another process's afterwards.
    let identity = asked_server::process_of(&client);
    let held = identity.as_ref().and_then(|it| asked_server::hold(it, described.pid));
    let stopped = server.with(options.clone()).stop(&StopRequest {});
    let needs_signal = stopped.as_ref().is_err_and(needs_signal);
    match &held {
        Some(pidfd) if needs_signal => process::terminate_pidfd(pidfd).with_context(|| {
            format!("{name}: its program ends by a signal only, and cannot be sent one")
        })?,
        _ => drop(stopped?),
    }
    let end = Deadline::after(timeout);
    drop((server, client));
    let shown = Shown { pid: identity.and_then(|it| it.pid), claimed: described.pid };
    let Some(pidfd) = held else {
        bail!(
            "{name} ends, and whether its process has ended cannot be seen from here: the kernel \
             does not report which one it is"
        );
    };
    if !process::wait_pidfd(&pidfd, end).context("cannot wait for the process")? {
        let how = if needs_signal { "has got SIGTERM" } else { "ends" };
        bail!(
            "{name} {how}, and {shown} has not ended within {timeout:?}: calls under way may take \
             longer, or the program has more to do; wait with a longer --timeout, or end it by a \
             signal"
        );
    }
    // A signal that a program does not handle leaves the socket.
    let left = place(name).and_then(|it| it.remove_left_socket().ok().flatten());
    let left = left.map(|path| format!("; {}, which it has left, is removed", path.display()));
    output::result(&format!("{name}: {shown} has ended{}\n", left.unwrap_or_default()))?;
    Ok(End::Done)
}

/// Removes the socket that a server has left which was killed; without one there is no server.
fn remove_left(name: &Address, status: Status) -> anyhow::Result<End> {
    let left = place(name).map(|place| place.remove_left_socket());
    match left.transpose().with_context(|| format!("no server listens at {name}"))?.flatten() {
        None => Err(asked_server::failure(status)),
        Some(path) => {
            let path = path.display();
            output::result(&format!(
                "{name}: its server was killed before; {path}, which it has left, is removed\n"
            ))?;
            Ok(End::Done)
        }
    }
}

/// Returns whether a server refuses to stop because only a signal ends its program.
fn needs_signal(refusal: &Status) -> bool {
    refusal.metadata().get(STOP_BY_SIGNAL) == Some("SIGTERM")
}

/// Returns where the server of an address listens. `None`: within a program.
fn place(address: &Address) -> Option<nearcall_channel::Address> {
    address.to_string().split(['?', '#']).next()?.parse().ok()
}

/// A process for people: its number here, and the one that it has where it lives.
struct Shown {
    pid: Option<i32>,
    claimed: Option<i32>,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, self.claimed) {
            (Some(pid), Some(claimed)) if pid != claimed => {
                write!(f, "process {pid} ({claimed} in its own PID namespace)")
            }
            (Some(pid), _) => write!(f, "process {pid}"),
            (None, Some(claimed)) => write!(f, "its process ({claimed} in its own PID namespace)"),
            (None, None) => f.write_str("its process"),
        }
    }
}

/// Longest wait for an answer of the server: one that runs no method needs a millisecond.
const ANSWER_MAX: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  nearcall stop thermostat
  nearcall stop unix:/run/room.sock --timeout 1m";
