//! Starts the two processes of a launch, collects what they report, and ends them.
//!
//! **Invariants:** when [`launch`] returns, both processes are gone. Each is new: own address space
//! layout, environment of a random size. A process that does not end in time is killed; what it had
//! reported until then counts.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nearcall_os::clock;

use super::ns;
use crate::exchange::{Cause, Failure};
use crate::launch::{LaunchRequest, Role, WorkerMessage, WorkerRequest};
use crate::worker::{self, Worker};

/// How to start a process that runs [`peer::run`](crate::peer::run).
#[derive(Clone, Debug)]
pub struct Program {
    /// The file to execute.
    pub path: PathBuf,
    /// What it must be told to run it.
    pub args: Vec<OsString>,
}

impl Program {
    /// The running program itself, told `args`. Works also when its file was replaced meanwhile.
    #[must_use]
    pub fn current(args: &[&str]) -> Self {
        Self { path: "/proc/self/exe".into(), args: args.iter().map(Into::into).collect() }
    }

    /// Returns the command that starts it, with an environment of about that size, which moves its
    /// stack.
    ///
    /// Signals of the terminal do not reach it, so that Ctrl-C keeps what it has measured: its
    /// parent asks it for that, or kills it. Ctrl-Z stops the parent alone; ends that spin and the
    /// workers of a load go on.
    #[must_use]
    pub fn command(&self, padding_bytes: usize) -> Command {
        let mut command = Command::new(&self.path);
        command.process_group(0);
        command.args(&self.args).env(PADDING, "x".repeat(padding_bytes));
        command
    }
}

/// What a launch gave.
pub(crate) struct Launched {
    /// Client, then server; zero for one that did not start.
    pub(crate) pids: [u32; 2],
    /// Bytes that were added to the environment of each, in the same order.
    pub(crate) environment_bytes: [usize; 2],
    /// What the client reported.
    pub(crate) messages: Vec<WorkerMessage>,
    /// Why it ended before its time.
    pub(crate) failure: Option<Failure>,
}

/// When to stop waiting.
pub(crate) struct Patience<'a> {
    /// For the whole launch.
    pub(crate) limit: Duration,
    /// Asked a few times per second.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    /// Told of each process once it runs and before it has its request, so that it can be watched
    /// from its first message on.
    pub(crate) started: &'a dyn Fn(Role, u32) -> Result<(), Failure>,
}

/// Runs one launch: `client` and `server` have the same address and the same subject.
pub(crate) fn launch(
    program: &Program,
    launch: [&LaunchRequest; 2],
    padding_bytes: [usize; 2],
    patience: &Patience<'_>,
) -> Launched {
    let [client_launch, server_launch] = launch;
    let until_ns = clock::monotonic_ns().saturating_add(ns(patience.limit));
    let mut ends: Vec<Worker<WorkerMessage>> = Vec::new();
    let ends_of = if client_launch.slices { Await::Slices } else { Await::Ends };
    let in_order = [
        (server_launch, padding_bytes[1], Await::Ready),
        (client_launch, padding_bytes[0], ends_of),
    ];
    let mut waited = Ok(());
    for (launch, padding, awaited) in in_order {
        let started = Worker::start(&mut program.command(padding)).map_err(cannot_start);
        waited = started.and_then(|mut end| {
            let request = WorkerRequest::End(Box::new(launch.clone()));
            let told = (patience.started)(launch.role, end.pid());
            let told = told.and_then(|()| end.send(&request).map_err(cannot_start));
            ends.push(end);
            told?;
            collect(&mut ends, awaited, until_ns, patience)
        });
        if waited.is_err() {
            break;
        }
    }
    finish(ends, padding_bytes, waited.err())
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::other(format!("cannot start a process: {error}"))
}

/// Waits for both to end and explains what happened.
fn finish(
    mut ends: Vec<Worker<WorkerMessage>>,
    environment_bytes: [usize; 2],
    waited: Option<Failure>,
) -> Launched {
    let grace = if waited.is_none() { GRACE } else { Duration::ZERO };
    let explained: Vec<Failure> = ends.iter_mut().filter_map(|end| failure(end, grace)).collect();
    let of_cause = |cause| explained.iter().find(|failure| failure.cause == cause).cloned();
    let failure = of_cause(Cause::Corrupt).or_else(|| of_cause(Cause::Unsupported)).or_else(|| {
        // What the processes report of themselves explains more than that they did not end. Often
        // one of the two only misses the other, so both are named.
        let mut texts: Vec<&str> = explained.iter().map(|failure| failure.text.as_str()).collect();
        texts.dedup();
        (!texts.is_empty()).then(|| Failure::other(texts.join("; other end: "))).or(waited)
    });
    let pid = |index: usize| ends.get(index).map_or(0, Worker::pid);
    Launched {
        pids: [pid(1), pid(0)],
        environment_bytes,
        failure,
        messages: ends.get_mut(1).map(|end| end.messages.drain(..).collect()).unwrap_or_default(),
    }
}

/// Ends a process, and returns what went wrong with it.
fn failure(end: &mut Worker<WorkerMessage>, grace: Duration) -> Option<Failure> {
    // One that still ran when it was killed may have failed only because the other one was gone.
    let by_itself = !grace.is_zero() || !end.is_open();
    let status = end.end(grace).filter(|status| by_itself && !status.success());
    let reported = end.messages.iter().find_map(|message| match message {
        WorkerMessage::Failed(failure) => Some(failure.clone()),
        _ => None,
    });
    reported.or_else(|| {
        let is_done = end.messages.iter().any(|message| matches!(message, WorkerMessage::Done));
        status.filter(|_| !is_done).map(|status| Failure::other(end.describe_end(Some(status))))
    })
}

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Await {
    /// The server can be connected to.
    Ready,
    /// Both have closed their output.
    Ends,
    /// The same, of a client that reports only at its end, or sooner if it is asked to end.
    Slices,
}

/// Reads from all until what is awaited has come, the time is over, or the caller interrupts.
fn collect(
    ends: &mut [Worker<WorkerMessage>],
    awaited: Await,
    mut until_ns: u64,
    patience: &Patience<'_>,
) -> Result<(), Failure> {
    let mut late = "no result in time; it was killed";
    let is_ready = |end: &Worker<WorkerMessage>| {
        end.messages.iter().any(|message| matches!(message, WorkerMessage::Ready))
    };
    loop {
        let gone = ends.iter().filter(|end| !end.is_open()).count();
        match awaited {
            Await::Ready if ends.iter().any(is_ready) => return Ok(()),
            Await::Ready if gone > 0 => {
                return Err(Failure::other("the server ended before it listened"));
            }
            Await::Ends | Await::Slices if gone == ends.len() => return Ok(()),
            Await::Ready | Await::Ends | Await::Slices => {}
        }
        let now_ns = clock::monotonic_ns();
        if (patience.interrupted)() {
            late = "interrupted";
            let grace = if awaited == Await::Slices { REPORT_TIME } else { Duration::ZERO };
            until_ns = until_ns.min(now_ns.saturating_add(ns(grace)));
            ends.iter_mut().for_each(Worker::close_input);
        }
        if now_ns >= until_ns {
            return Err(Failure::other(late));
        }
        if gone > 0 {
            // The other one may not notice, if it spins.
            until_ns = until_ns.min(now_ns.saturating_add(ns(GRACE)));
            late = "one process ended and the other did not";
        }
        let wait = Duration::from_nanos(until_ns - now_ns).min(worker::POLL);
        worker::read_some(ends, wait).map_err(Failure::other)?;
    }
}

/// Changes where the stack of a new process begins. Its value means nothing.
const PADDING: &str = "NEARCALL_PADDING";

/// How long a client that is asked to end may take for the slice that it is in and for its report.
const REPORT_TIME: Duration = Duration::from_secs(5);

/// How long a process may take to end after the other has, and its parent to see that. Only one
/// that hangs takes it.
const GRACE: Duration = Duration::from_secs(5);
