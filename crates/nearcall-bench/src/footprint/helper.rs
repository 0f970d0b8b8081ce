//! A process whose memory is measured, as its parent sees it.
//!
//! Always true: it is killed and reaped when this is dropped, whatever it does; every wait has a
//! deadline and ends when the user interrupts.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process::Child;
use nearcall_os::{clock, pipe};
use nearcall_results::findings::memory::ProcessMemory;

use super::Stop;
use super::child::{Orders, Question, Said};
use crate::memory;
use crate::runner::Hooks;

/// One process.
pub(super) struct Helper<'a> {
    child: Child,
    stdin: Option<ChildStdin>,
    out: OwnedFd,
    /// Output whose line is not complete.
    text: Vec<u8>,
    hooks: &'a Hooks<'a>,
}

impl<'a> Helper<'a> {
    /// Starts a process and gives it its orders.
    pub(super) fn start(orders: &Orders, hooks: &'a Hooks<'a>) -> Result<Self, Stop> {
        let failed = |error: &dyn ToString| {
            Stop::Failed(format!("cannot start a process: {}", error.to_string()))
        };
        let program = &hooks.program;
        let mut command = Command::new(&program.path);
        command.args(&program.args).env(MARK, "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Child::spawn(&mut command).map_err(|error| failed(&error))?;
        let pipes = child.pipes();
        let (stdin, out) = (pipes.stdin.take(), pipes.stdout.take());
        let out = OwnedFd::from(out.ok_or_else(|| failed(&"it has no output"))?);
        let mut helper = Self { child, stdin, out, text: Vec::new(), hooks };
        let text = serde_json::to_string(orders).map_err(|error| failed(&error))?;
        helper.tell(&text).map_err(|error| failed(&error))?;
        Ok(helper)
    }

    /// Starts a process that is ready soon.
    pub(super) fn ready(orders: &Orders, hooks: &'a Hooks<'a>) -> Result<Self, Stop> {
        let mut helper = Self::start(orders, hooks)?;
        match helper.hear(ANSWER_TIMEOUT)? {
            Said::Ready => Ok(helper),
            other => Err(Stop::Failed(format!("a process said {other:?} instead of being ready"))),
        }
    }

    /// How many connections it has, after it was asked for more or only asked.
    pub(super) fn connections(
        &mut self,
        question: Question,
    ) -> Result<(u32, Option<String>), Stop> {
        let text = serde_json::to_string(&question).map_err(|error| error.to_string())?;
        self.tell(&text).map_err(|error| format!("a process takes no questions: {error}"))?;
        match self.hear(CONNECT_TIMEOUT)? {
            Said::Connections(count, reason) => Ok((count, reason)),
            other => Err(Stop::Failed(format!("a process said {other:?} instead of a number"))),
        }
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Why it has given up or ended, if it has. Waits a moment.
    pub(super) fn failure(&mut self) -> Option<String> {
        let is_open = self.read_some().unwrap_or(false);
        match self.take_line() {
            Some(Said::Failed(reason)) => Some(reason),
            _ => (!is_open).then(|| "a process has ended without an answer".to_owned()),
        }
    }

    /// Waits for the next line.
    pub(super) fn hear(&mut self, timeout: Duration) -> Result<Said, Stop> {
        let until_ns = clock::monotonic_ns().saturating_add(ns(timeout));
        loop {
            if let Some(said) = self.take_line() {
                return match said {
                    Said::Failed(reason) => Err(Stop::Failed(reason)),
                    said => Ok(said),
                };
            }
            if (self.hooks.interrupted)() {
                return Err(Stop::Interrupted);
            }
            if clock::monotonic_ns() >= until_ns {
                return Err(Stop::Failed("a process gave no answer in time; it was killed".into()));
            }
            if !self.read_some().map_err(|error| error.to_string())? {
                return Err(Stop::Failed("a process ended without an answer".to_owned()));
            }
        }
    }

    /// Its memory now.
    pub(super) fn memory(&self) -> ProcessMemory {
        let pid = self.child.pid();
        ProcessMemory {
            pss_bytes: memory::pss_bytes(pid),
            private_bytes: memory::private_bytes(pid),
        }
    }

    /// The part of its memory that lies in shared memory.
    pub(super) fn shared_bytes(&self) -> Option<u64> {
        memory::shared_pss_bytes(self.child.pid())
    }

    /// Why its memory cannot be read, if so.
    pub(super) fn unreadable(&self) -> Option<String> {
        let path = format!("/proc/{}/smaps_rollup", self.child.pid());
        match std::fs::read_to_string(path) {
            Ok(_) if self.memory().pss_bytes.is_some() => None,
            Ok(_) => Some("/proc/PID/smaps_rollup lacks the lines that are needed".to_owned()),
            Err(error) => Some(format!("/proc/PID/smaps_rollup cannot be read: {error}")),
        }
    }

    /// Lets it end by itself, and ends it if it does not.
    pub(super) fn end(mut self) {
        self.stdin = None;
        let waited = self.child.wait(Some(END_TIMEOUT));
        if !matches!(waited, Ok(Some(_))) {
            // Dropping it would do the same; here the order is plain.
            let _ = self.child.kill();
        }
    }

    fn tell(&mut self, text: &str) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(format!("{text}\n").as_bytes())
    }

    fn take_line(&mut self) -> Option<Said> {
        while let Some(end) = self.text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            if let Some(said) = Said::parse(&String::from_utf8_lossy(&line)) {
                return Some(said);
            }
        }
        // Whatever runs there, it must not fill our memory.
        self.text.truncate(LINE_BYTES_MAX);
        None
    }

    /// Waits a moment for output. False at its end.
    fn read_some(&mut self) -> io::Result<bool> {
        if poll_one(&self.out, Interest::Readable, Some(POLL))?.is_none() {
            return Ok(true);
        }
        let mut buffer = [0; READ_BYTES];
        let bytes = pipe::read(&self.out, &mut buffer)?;
        self.text.extend_from_slice(&buffer[..bytes]);
        Ok(bytes > 0)
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Tells a test program that it was started as such a process.
const MARK: &str = "NEARCALL_MEMORY_PROCESS";

/// For being ready.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// For a thousand connections, or an allocation.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// For ending by itself.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// How often an interruption is looked for.
const POLL: Duration = Duration::from_millis(50);

/// What one read takes.
const READ_BYTES: usize = 4 << 10;

/// An answer has some hundred bytes.
const LINE_BYTES_MAX: usize = 64 << 10;
