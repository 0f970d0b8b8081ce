//! A worker: a process of this program that is told what to do and reports what it finds.
//!
//! It reads its request, one line of JSON on standard input, and writes messages: lines on standard
//! output that begin with `MARK`, so that whatever else it prints is not taken for one. Messages
//! are written outside of measured regions, so that what was measured before a hang is kept.
//! **Invariants:** a worker is killed and reaped when its [`Worker`] is dropped; what it writes
//! cannot fill the memory of its parent; every wait for it has a deadline.
//! **Not here:** what requests and messages contain (`launch.rs`).

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use nearcall_os::poll::{PollFd, PollFlags, poll};
use nearcall_os::process::Child;
use nearcall_os::{clock, pipe};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads what this process is to do. Blocks until its parent has written that.
///
/// # Errors
///
/// Standard input ended, or its first line is not such a request.
pub fn read_request<R: DeserializeOwned>() -> io::Result<R> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let refused = |error| io::Error::other(format!("standard input has no request: {error}"));
    serde_json::from_str(&line).map_err(refused)
}

/// Whether the parent has closed standard input: it wants what was measured so far, or is gone.
#[must_use]
pub fn is_asked_to_end() -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(Duration::ZERO)).is_ok() && !fds[0].revents().is_empty()
}

/// Reports `message` to the parent.
///
/// # Errors
///
/// Standard output is closed: the parent is gone.
pub fn write_message(message: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(message)?;
    let mut out = io::stdout().lock();
    // The line break in front separates it from what a test harness prints.
    write!(out, "\n{MARK}{json}\n")?;
    out.flush()
}

/// A worker, as its parent sees it. `M` is what it reports.
pub struct Worker<M> {
    child: Child,
    input: Option<ChildStdin>,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    /// Output whose line is not complete.
    text: Vec<u8>,
    errors: Vec<u8>,
    /// What it has reported and was not taken yet.
    pub(crate) messages: VecDeque<M>,
}

impl<M: DeserializeOwned> Worker<M> {
    /// Starts `command` with its three standard streams connected to this process.
    ///
    /// # Errors
    ///
    /// The process cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Child::spawn(command)?;
        let pipes = child.pipes();
        let input = pipes.stdin.take();
        let out = pipes.stdout.take().map(OwnedFd::from);
        let err = pipes.stderr.take().map(OwnedFd::from);
        let (text, errors, messages) = (Vec::new(), Vec::new(), VecDeque::new());
        Ok(Self { child, input, out, err, text, errors, messages })
    }

    /// Returns its process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Writes one request, or what it is asked later.
    ///
    /// # Errors
    ///
    /// The process is gone, or its input was closed.
    pub fn send(&mut self, request: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string(request)?;
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(format!("{json}\n").as_bytes())
    }

    /// Ends its standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Returns its next message. Waits until `until_ns` of the monotonic clock; asks `interrupted`
    /// some times per second whether to wait on.
    ///
    /// # Errors
    ///
    /// [`NoMessage`] says why none comes.
    pub fn receive(
        &mut self,
        until_ns: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<M, NoMessage> {
        receive_from(std::slice::from_mut(self), 0, until_ns, interrupted)
    }

    /// Whether it may report more.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.out.is_some()
    }

    /// Waits `grace` for its end, then kills it. Returns how it ended by itself.
    pub fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        let status = self.child.wait(Some(grace)).ok().flatten();
        if status.is_none() {
            let _ = self.child.kill();
        }
        status
    }

    /// Describes how it ended, with the last line of its standard error.
    #[must_use]
    pub fn describe_end(&self, status: Option<ExitStatus>) -> String {
        let status = status.map_or_else(|| "without a status".to_owned(), |s| format!("with {s}"));
        let last = self.last_error().map(|line| format!(": {line}")).unwrap_or_default();
        format!("a process ended {status}{last}")
    }

    /// Returns the last line of its standard error, as far as that was read.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        let errors = String::from_utf8_lossy(&self.errors);
        let last = errors.lines().rfind(|line| !line.trim().is_empty())?;
        Some(last.chars().take(ERROR_CHARS_MAX).collect())
    }

    fn read_out(&mut self) -> io::Result<()> {
        read_to(&mut self.out, &mut self.text)?;
        while let Some(end) = self.text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let json = line.split_once(MARK).map(|(_, json)| json);
            self.messages.extend(json.and_then(|json| serde_json::from_str(json).ok()));
        }
        self.text.truncate(LINE_BYTES_MAX);
        Ok(())
    }

    fn read_err(&mut self) -> io::Result<()> {
        read_to(&mut self.err, &mut self.errors)?;
        // The last lines are those that explain.
        self.errors.drain(..self.errors.len().saturating_sub(ERROR_BYTES_MAX));
        Ok(())
    }
}

/// Returns the next message of `workers[index]`, as [`Worker::receive`]. Reads what the others
/// write meanwhile, so that none of them has to wait for its reader.
///
/// # Errors
///
/// [`NoMessage`] says why none comes.
pub fn receive_from<M: DeserializeOwned>(
    workers: &mut [Worker<M>],
    index: usize,
    until_ns: u64,
    interrupted: &dyn Fn() -> bool,
) -> Result<M, NoMessage> {
    loop {
        let worker = &mut workers[index];
        if let Some(message) = worker.messages.pop_front() {
            return Ok(message);
        }
        if !worker.is_open() {
            let status = worker.end(GRACE);
            if worker.err.is_some() {
                read_some(std::slice::from_mut(worker), GRACE)?;
            }
            return Err(NoMessage::Ended(worker.describe_end(status)));
        }
        if interrupted() {
            return Err(NoMessage::Interrupted);
        }
        let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
        if left_ns == 0 {
            return Err(NoMessage::Late);
        }
        read_some(workers, Duration::from_nanos(left_ns).min(POLL))?;
    }
}

/// Waits at most `wait` until one of `workers` has written something, and takes it.
///
/// # Errors
///
/// The kernel refuses to wait or to read.
pub fn read_some<M: DeserializeOwned>(workers: &mut [Worker<M>], wait: Duration) -> io::Result<()> {
    let outputs = workers.iter().flat_map(|worker| [&worker.out, &worker.err]).flatten();
    let mut fds: Vec<PollFd<'_>> =
        outputs.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
    poll(&mut fds, Some(wait))?;
    let mut ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
    for worker in workers {
        if worker.out.is_some() && ready.next() == Some(true) {
            worker.read_out()?;
        }
        if worker.err.is_some() && ready.next() == Some(true) {
            worker.read_err()?;
        }
    }
    Ok(())
}

/// Reads what is there. Closes the descriptor at its end.
fn read_to(fd: &mut Option<OwnedFd>, into: &mut Vec<u8>) -> io::Result<()> {
    let Some(open) = fd else { return Ok(()) };
    let start = into.len();
    into.resize(start + READ_BYTES, 0);
    let outcome = pipe::read(&*open, &mut into[start..]);
    into.truncate(start + outcome.as_ref().copied().unwrap_or(0));
    if outcome? == 0 {
        *fd = None;
    }
    Ok(())
}

/// Why a worker has no message.
#[derive(Debug, thiserror::Error)]
pub enum NoMessage {
    /// The caller does not want to wait on.
    #[error("interrupted")]
    Interrupted,
    /// It took too long.
    #[error("a process gave no answer in time; it was killed")]
    Late,
    /// It ended; the text says how.
    #[error("{0}")]
    Ended(String),
    /// Its output cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What each message begins with.
const MARK: &str = "nearcall-worker ";

/// How often an interruption is looked for.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// How long a process may take to end after it has closed its output. Only one that hangs takes it.
const GRACE: Duration = Duration::from_secs(5);

/// A report with a whole histogram has some tens of kilobytes.
const LINE_BYTES_MAX: usize = 16 << 20;

/// The end of what a process says of its failure.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// A reason is for one line of a table.
const ERROR_CHARS_MAX: usize = 300;

/// What one read takes. Small, because memory of the parent is measured too.
const READ_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Worker<u32> {
        Worker::start(Command::new("/bin/sh").args(["-c", script])).unwrap()
    }

    fn soon_ns() -> u64 {
        clock::monotonic_ns() + 20_000_000_000
    }

    #[test]
    fn only_messages_are_taken_from_what_a_worker_prints() {
        let script = format!("read word; echo noise; echo; echo '{MARK}'$word; echo '{MARK}x'");
        let mut worker = shell(&script);
        worker.send(&7).unwrap();
        assert_eq!(worker.receive(soon_ns(), &|| false).unwrap(), 7);
        let ended = worker.receive(soon_ns(), &|| false).unwrap_err().to_string();
        assert_eq!(ended, "a process ended with exit status: 0");
    }

    #[test]
    fn an_end_is_explained_by_the_last_error_and_a_wait_ends() {
        let mut worker = shell("echo first >&2; echo last >&2; exit 3");
        let ended = worker.receive(soon_ns(), &|| false).unwrap_err().to_string();
        assert_eq!(ended, "a process ended with exit status: 3: last");
        let mut worker = shell("read forever");
        assert!(matches!(worker.receive(0, &|| false), Err(NoMessage::Late)));
        assert!(matches!(worker.receive(soon_ns(), &|| true), Err(NoMessage::Interrupted)));
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut worker = shell("head -c 40000000 /dev/zero");
        assert!(worker.receive(soon_ns(), &|| false).is_err());
        assert!(worker.text.len() <= LINE_BYTES_MAX);
    }
}
