//! `nearcall stop`: ends a server, and waits for its process.
//!
//! **Not here:** how a server ends, which is `nearcall`'s.

use std::time::Duration;

use anyhow::{Context, bail};
use nearcall::control::{DescribeRequest, ServerCaller, StopRequest};
use nearcall::{CallOptions, Client};
use nearcall_os::{Deadline, process};

use super::End;
use crate::args::StopArgs;
use crate::output;

pub(super) fn run(args: &StopArgs) -> anyhow::Result<End> {
    let (name, timeout) = (&args.server, args.timeout);
    let options = CallOptions::new().deadline(ANSWER_MAX);
    let server = ServerCaller::new(&Client::new(), &name.to_string())?;
    // Held before it can end: its number may be another process's afterwards.
    let described = server.describe_with(&DescribeRequest::default(), &options)?;
    let held = described.pid.and_then(|pid| Some((pid, process::pidfd_open(pid).ok()?)));
    let pid = server.stop_with(&StopRequest {}, &options)?.pid;
    let end = Deadline::after(timeout);
    drop(server);
    let Some((_, pidfd)) = held.filter(|(held, _)| *held == pid) else {
        bail!(
            "{name} ends, and whether its process has ended cannot be seen from here: it was \
             replaced meanwhile, or it is in another PID namespace"
        );
    };
    if !process::wait_pidfd(&pidfd, end).context("cannot wait for the process")? {
        bail!(
            "{name} ends, and process {pid} has not ended within {timeout:?}: calls under way may \
             take longer, or the program has more to do; wait with a longer --timeout, or end it \
             by a signal"
        );
    }
    output::result(&format!("{name}: process {pid} has ended\n"))?;
    Ok(End::Done)
}

/// Longest wait for an answer of the server: one that runs no method needs a millisecond.
const ANSWER_MAX: Duration = Duration::from_secs(5);
