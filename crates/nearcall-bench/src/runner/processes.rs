//! Starts the two processes of a launch, collects what they write, and ends them.
//!
//! Always true: when [`launch`] returns, both processes are gone. Each is new: own address space
//! layout, environment of a random size. A process that does not end in time is killed by its
//! pidfd; what it had written until then counts.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall_os::poll::{PollFd, PollFlags, poll};
use nearcall_os::process::Child;
use nearcall_os::{clock, pipe};

use crate::exchange::{Cause, Failure};
use crate::launch::{Line, Orders, Role};

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
}

/// What a launch gave.
pub(crate) struct Launched {
    /// Client, then server; zero for one that did not start.
    pub(crate) pids: [u32; 2],
    /// Bytes that were added to the environment of each, in the same order.
    pub(crate) environment_bytes: [usize; 2],
    /// What the client wrote.
    pub(crate) lines: Vec<Line>,
    /// Why it ended before its time.
    pub(crate) failure: Option<Failure>,
}

/// When to stop waiting.
pub(crate) struct Patience<'a> {
    /// For the whole launch.
    pub(crate) limit: Duration,
    /// Asked a few times per second.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    /// Told of each process once it runs and before it has its orders, so that it can be watched
    /// from its first message on.
    pub(crate) started: &'a dyn Fn(Role, u32) -> Result<(), Failure>,
}

/// Runs one launch: `client` and `server` have the same address and the same subject.
pub(crate) fn launch(
    program: &Program,
    orders: [&Orders; 2],
    padding_bytes: [usize; 2],
    patience: &Patience<'_>,
) -> Launched {
    let [client_orders, server_orders] = orders;
    let until_ns = clock::monotonic_ns().saturating_add(ns(patience.limit));
    let mut ends = Vec::new();
    let in_order = [
        (server_orders, padding_bytes[1], Await::Listening),
        (client_orders, padding_bytes[0], Await::Ends),
    ];
    let mut waited = Ok(());
    for (orders, padding, awaited) in in_order {
        waited = End::start(program, padding).map_err(cannot_start).and_then(|mut end| {
            let told = (patience.started)(orders.role, end.child.pid());
            let told = told.and_then(|()| end.order(orders).map_err(cannot_start));
            ends.push(end);
            told?;
            collect(&mut ends, awaited, until_ns, patience)
        });
        if waited.is_err() {
            break;
        }
    }
    finish(ends, waited.err())
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::other(format!("cannot start a process: {error}"))
}

/// Waits for both to end and says what happened.
fn finish(mut ends: Vec<End>, waited: Option<Failure>) -> Launched {
    for end in &mut ends {
        end.reap(waited.is_none());
    }
    let said: Vec<Failure> = ends.iter().filter_map(End::failure).collect();
    let of_cause = |cause| said.iter().find(|failure| failure.cause == cause).cloned();
    let failure = of_cause(Cause::Corrupt).or_else(|| of_cause(Cause::Unsupported)).or_else(|| {
        // What the processes said of themselves explains more than that they did not end. Often
        // one of the two only misses the other, so both are told.
        let mut texts: Vec<&str> = said.iter().map(|failure| failure.text.as_str()).collect();
        texts.dedup();
        (!texts.is_empty()).then(|| Failure::other(texts.join("; other end: "))).or(waited)
    });
    let pid = |index: usize| ends.get(index).map_or(0, |end| end.child.pid());
    let environment = |index: usize| ends.get(index).map_or(0, |end| end.padding_bytes);
    Launched {
        pids: [pid(1), pid(0)],
        environment_bytes: [environment(1), environment(0)],
        failure,
        lines: ends.get_mut(1).map(|end| std::mem::take(&mut end.lines)).unwrap_or_default(),
    }
}

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Await {
    /// The server can be connected to.
    Listening,
    /// Both have closed their output.
    Ends,
}

/// Reads from all until what is awaited has come, the time is over, or somebody interrupts.
fn collect(
    ends: &mut [End],
    awaited: Await,
    mut until_ns: u64,
    patience: &Patience<'_>,
) -> Result<(), Failure> {
    let mut late = "no result in time; it was killed";
    loop {
        let gone = ends.iter().filter(|end| end.out.is_none()).count();
        match awaited {
            Await::Listening if ends.iter().any(End::is_listening) => return Ok(()),
            Await::Listening if gone > 0 => {
                return Err(Failure::other("the server ended before it listened"));
            }
            Await::Ends if gone == ends.len() => return Ok(()),
            Await::Listening | Await::Ends => {}
        }
        if (patience.interrupted)() {
            return Err(Failure::other("interrupted"));
        }
        let now_ns = clock::monotonic_ns();
        if now_ns >= until_ns {
            return Err(Failure::other(late));
        }
        if gone > 0 {
            // The other one may not notice, if it spins.
            until_ns = until_ns.min(now_ns + GRACE_NS);
            late = "one process ended and the other did not";
        }
        read_some(ends, Duration::from_nanos((until_ns - now_ns).min(POLL_NS)))
            .map_err(Failure::other)?;
    }
}

fn read_some(ends: &mut [End], wait: Duration) -> io::Result<()> {
    let outputs = ends.iter().flat_map(|end| [&end.out, &end.err]).flatten();
    let mut fds: Vec<PollFd<'_>> =
        outputs.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
    poll(&mut fds, Some(wait))?;
    let mut ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
    for end in ends {
        if end.out.is_some() && ready.next() == Some(true) {
            end.read_out()?;
        }
        if end.err.is_some() && ready.next() == Some(true) {
            end.read_err()?;
        }
    }
    Ok(())
}

/// One process.
struct End {
    child: Child,
    padding_bytes: usize,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    /// Output whose line is not complete.
    text: Vec<u8>,
    complaint: Vec<u8>,
    lines: Vec<Line>,
    ended: Option<String>,
}

impl End {
    fn start(program: &Program, padding_bytes: usize) -> io::Result<Self> {
        let mut command = Command::new(&program.path);
        command.args(&program.args).env(PADDING, "x".repeat(padding_bytes));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Child::spawn(&mut command)?;
        let pipes = child.pipes();
        let out = pipes.stdout.take().map(OwnedFd::from);
        let err = pipes.stderr.take().map(OwnedFd::from);
        let (text, complaint, lines) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { child, padding_bytes, out, err, text, complaint, lines, ended: None })
    }

    /// Tells it what to do; until then it waits.
    fn order(&mut self, orders: &Orders) -> io::Result<()> {
        let orders = serde_json::to_string(orders).map_err(io::Error::other)?;
        match self.child.pipes().stdin.take() {
            Some(mut stdin) => stdin.write_all(orders.as_bytes()),
            None => Ok(()),
        }
    }

    fn read_out(&mut self) -> io::Result<()> {
        let Some(out) = &self.out else { return Ok(()) };
        if read_to(out, &mut self.text)? {
            self.out = None;
        }
        while let Some(end) = self.text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            self.lines.extend(Line::parse(&String::from_utf8_lossy(&line)));
        }
        // Whatever runs there, it must not fill our memory.
        self.text.truncate(LINE_BYTES_MAX);
        Ok(())
    }

    fn read_err(&mut self) -> io::Result<()> {
        let Some(err) = &self.err else { return Ok(()) };
        if read_to(err, &mut self.complaint)? {
            self.err = None;
        }
        self.complaint.truncate(LINE_BYTES_MAX);
        Ok(())
    }

    /// Ends the process: gives it a moment if it is about to end by itself.
    fn reap(&mut self, by_itself: bool) {
        let wait = if by_itself { Duration::from_nanos(GRACE_NS) } else { Duration::ZERO };
        match self.child.wait(Some(wait)) {
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => self.ended = Some(status.to_string()),
            // Dropping it would do the same; here the order is plain.
            Ok(None) | Err(_) => drop(self.child.kill()),
        }
    }

    fn is_listening(&self) -> bool {
        self.lines.iter().any(|line| matches!(line, Line::Listening))
    }

    fn failure(&self) -> Option<Failure> {
        let said = self.lines.iter().find_map(|line| match line {
            Line::Failed(failure) => Some(failure.clone()),
            _ => None,
        });
        let done = || self.lines.iter().any(|line| matches!(line, Line::Done));
        said.or_else(|| {
            let status = self.ended.as_ref().filter(|_| !done())?;
            let complaint = String::from_utf8_lossy(&self.complaint);
            let last = complaint.lines().rfind(|line| !line.trim().is_empty());
            let last = last.map(|line| format!(": {line}")).unwrap_or_default();
            Some(Failure::other(format!("a process ended with {status}{last}")))
        })
    }
}

/// Reads what is there. True at the end.
fn read_to(fd: &OwnedFd, into: &mut Vec<u8>) -> io::Result<bool> {
    let start = into.len();
    into.resize(start + READ_BYTES, 0);
    let outcome = pipe::read(fd, &mut into[start..]);
    into.truncate(start + outcome.as_ref().copied().unwrap_or(0));
    Ok(outcome? == 0)
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Changes where the stack of a new process begins. Its value means nothing.
const PADDING: &str = "NEARCALL_PADDING";

/// How often an interruption is looked for.
const POLL_NS: u64 = 50_000_000;

/// How long a process may take to end after the other has.
const GRACE_NS: u64 = 500_000_000;

/// A report with a whole histogram has some tens of kilobytes.
const LINE_BYTES_MAX: usize = 16 << 20;

/// What one read takes.
const READ_BYTES: usize = 64 << 10;
