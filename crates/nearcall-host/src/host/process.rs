//! One process of a unit: how it is started, what it writes to its standard error, how it ends.
//!
//! **Invariants:** it dies with the host. Reading what it writes never waits, and keeps a bounded
//! number of lines.
//! **Not here:** handing sockets over (`nearcall-os`), asking it whether it serves (`watch.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStderr, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;

use nearcall::EventLoop;
use nearcall::event_loop::{DescriptorId, Interest, Signal};
use nearcall_channel::{HEALTH_SUFFIX, Listener};
use nearcall_os::process::Child;
use nearcall_os::socket::{self, UnixAddress};
use nearcall_os::{Deadline, descriptor, signal, socket_activation};

use super::watch::{Findings, Watcher};
use crate::config::{Run, Unit};
use crate::library::LibraryConfig;
use crate::limits::{STDERR_LINE_BYTES_MAX, STDERR_LINES_MAX, STDERR_READ_BYTES};
use crate::supervisor::{End, InstanceId};

/// A process that serves a unit.
pub(super) struct Process {
    unit: Rc<Unit>,
    child: Child,
    ended: DescriptorId,
    stderr: Option<Stderr>,
    lines: Lines,
    /// One for each service. They end when this is dropped.
    _watchers: Vec<Watcher>,
}

struct Stderr {
    pipe: ChildStderr,
    descriptor: DescriptorId,
}

/// What a process needs of its host.
type Parts<'a> = (&'a BTreeMap<String, Listener>, &'a EventLoop, &'a Arc<Findings>);

impl Process {
    /// Starts the process of a unit, and hands over the sockets of its services.
    pub(super) fn start(
        id: InstanceId,
        unit: &Rc<Unit>,
        (listeners, event_loop, findings): Parts<'_>,
        worker: &[OsString],
    ) -> io::Result<Self> {
        let mut command = command(unit, worker)?;
        command.envs(&unit.environment).stderr(Stdio::piped());
        // So that Ctrl-C reaches the host alone, which stops its services in order.
        command.process_group(0);
        // Those of the host itself, to which no service may speak in its place.
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PIDFDID"] {
            command.env_remove(name);
        }
        let mut handed: Vec<(String, BorrowedFd<'_>)> = Vec::new();
        let mut health: Vec<(String, OwnedFd)> = Vec::new();
        for service in &unit.services {
            let place = format!("nearcall-host-{}-{:016x}", std::process::id(), fastrand::u64(..));
            health.push((
                place.clone(),
                socket::unix_listen(UnixAddress::Abstract(place.as_bytes()), 8)?,
            ));
            let listener = listeners.get(&service.listen.to_string());
            handed.extend(listener.map(|listener| (service.name.clone(), listener.as_fd())));
        }
        for (service, (_, socket)) in unit.services.iter().zip(&health) {
            handed.push((format!("{}{HEALTH_SUFFIX}", service.name), socket.as_fd()));
        }
        let sockets: Vec<_> = handed.iter().map(|(name, fd)| (name.as_str(), *fd)).collect();
        let mut child = socket_activation::spawn(&mut command, &sockets)?;
        if let Some(stdin) = child.pipes().stdin.take() {
            write_libraries(unit, stdin)?;
        }
        let ended = event_loop.add_descriptor(child.pidfd(), Interest::Readable)?;
        let stderr = match child.pipes().stderr.take() {
            Some(pipe) => {
                descriptor::set_nonblocking(&pipe, true)?;
                let descriptor = event_loop.add_descriptor(&pipe, Interest::Readable)?;
                Some(Stderr { pipe, descriptor })
            }
            None => None,
        };
        let watchers = unit.services.iter().zip(health).map(|(service, (place, socket))| {
            Watcher::start(id, unit, service, (place, socket), Arc::clone(findings))
        });
        let watchers = watchers.collect::<io::Result<_>>()?;
        let lines = Lines::new(unit.name.to_string());
        Ok(Self { unit: Rc::clone(unit), child, ended, stderr, lines, _watchers: watchers })
    }

    pub(super) fn unit(&self) -> &Unit {
        &self.unit
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Asks it to end.
    pub(super) fn terminate(&self) {
        // One that has ended already is seen by its pidfd.
        let _ = signal::send_by_pidfd(self.child.pidfd(), Signal::TERM);
    }

    /// Ends it.
    pub(super) fn kill(&self) {
        let _ = nearcall_os::process::kill_pidfd(self.child.pidfd());
    }

    pub(super) fn owns(&self, descriptor: DescriptorId) -> bool {
        self.ended == descriptor || self.is_stderr(descriptor)
    }

    pub(super) fn is_stderr(&self, descriptor: DescriptorId) -> bool {
        self.stderr.as_ref().is_some_and(|stderr| stderr.descriptor == descriptor)
    }

    /// Passes on what it has written to its standard error.
    pub(super) fn read_stderr(&mut self, event_loop: &EventLoop, log: &dyn Fn(&str)) {
        let Some(stderr) = &mut self.stderr else { return };
        let mut buffer = vec![0; STDERR_READ_BYTES];
        match stderr.pipe.read(&mut buffer) {
            Ok(0) => {
                event_loop.remove_descriptor(stderr.descriptor);
                self.stderr = None;
                self.lines.finish(log);
            }
            Ok(length) => self.lines.add(&buffer[..length], log),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                event_loop.remove_descriptor(stderr.descriptor);
                self.stderr = None;
            }
        }
    }

    /// Returns how it has ended, if it has, and what it wrote before.
    pub(super) fn take_end(&mut self, event_loop: &EventLoop, log: &dyn Fn(&str)) -> Option<End> {
        let end = match self.child.wait(Deadline::NOW) {
            Ok(None) => return None,
            Ok(Some(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => End::Exited(code),
                (None, Some(signal)) => End::Killed(signal),
                (None, None) => End::NotStarted(format!("it ended with the status {status}")),
            },
            Err(error) => End::NotStarted(format!("its end cannot be seen: {error}")),
        };
        event_loop.remove_descriptor(self.ended);
        // What is in the pipe now. A process that it has started may write on; that is not read.
        self.read_stderr(event_loop, log);
        if let Some(stderr) = self.stderr.take() {
            event_loop.remove_descriptor(stderr.descriptor);
        }
        self.lines.finish(log);
        Some(end)
    }

    /// Returns the last lines that it has written to its standard error.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.lines.last.iter().cloned().collect()
    }
}

/// Returns the program of a unit with its arguments.
fn command(unit: &Unit, worker: &[OsString]) -> io::Result<Command> {
    let service = &unit.services[0];
    match service.run {
        Run::Process => {
            let mut command = Command::new(&service.file);
            command.args(&service.arguments).stdin(Stdio::null());
            command.env("NEARCALL_LISTEN", service.listen.to_string());
            Ok(command)
        }
        Run::Library => {
            let Some((program, arguments)) = worker.split_first() else {
                return Err(io::Error::other("this host has no program that loads libraries"));
            };
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped());
            Ok(command)
        }
    }
}

/// Says to the process of a group which libraries it is to load.
fn write_libraries(unit: &Unit, mut stdin: impl Write + Send + 'static) -> io::Result<()> {
    let library = |service: &crate::config::Service| LibraryConfig {
        name: service.name.clone(),
        file: service.file.clone(),
        arguments: service.arguments.clone(),
        listen: service.listen.to_string(),
        interfaces: service.interfaces.clone(),
        watchdog: service.watchdog,
        // So that what is left then is cut off by the library's own server, which says so.
        stop_within: unit.stop_within.mul_f64(0.9),
    };
    let libraries: Vec<LibraryConfig> = unit.services.iter().map(library).collect();
    let text = serde_json::to_vec(&libraries).map_err(io::Error::other)?;
    // The pipe may be shorter than the text, and the process may be slow.
    std::thread::Builder::new().name("nearcall-host-spec".into()).spawn(move || {
        // If it has ended, that is seen by its pidfd.
        let _ = stdin.write_all(&text);
    })?;
    Ok(())
}

/// The lines of a process's standard error.
struct Lines {
    name: String,
    last: VecDeque<String>,
    /// The line that has no end yet.
    rest: Vec<u8>,
}

impl Lines {
    fn new(name: String) -> Self {
        Self { name, last: VecDeque::new(), rest: Vec::new() }
    }

    fn add(&mut self, bytes: &[u8], log: &dyn Fn(&str)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = STDERR_LINE_BYTES_MAX.saturating_sub(self.rest.len());
            self.rest.extend(&text[..text.len().min(room)]);
            if is_whole {
                self.end_line(log);
            }
        }
    }

    /// Ends the line that has none.
    fn finish(&mut self, log: &dyn Fn(&str)) {
        if !self.rest.is_empty() {
            self.end_line(log);
        }
    }

    fn end_line(&mut self, log: &dyn Fn(&str)) {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned();
        // What a service writes must not steer the terminal of whoever reads the log.
        let text: String = text
            .chars()
            .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
            .collect();
        log(&format!("[{}] {text}", self.name));
        self.last.push_back(text);
        if self.last.len() > STDERR_LINES_MAX {
            self.last.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn lines_are_passed_on_whole_and_the_last_ones_are_kept() {
        let logged = RefCell::new(Vec::new());
        let log = |line: &str| logged.borrow_mut().push(line.to_owned());
        let mut lines = Lines::new("room".into());
        lines.add(b"one\ntw", &log);
        lines.add(b"o\n\x1b[2J\n", &log);
        for number in 0..STDERR_LINES_MAX {
            lines.add(format!("{number}\n").as_bytes(), &log);
        }
        lines.add(&vec![b'x'; 3 * STDERR_LINE_BYTES_MAX], &log);
        lines.finish(&log);
        let logged = logged.into_inner();
        assert_eq!(logged[..3], ["[room] one", "[room] two", "[room] \u{fffd}[2J"]);
        assert_eq!(lines.last.len(), STDERR_LINES_MAX);
        assert_eq!(lines.last[0], "1");
        assert_eq!(lines.last.back().unwrap().len(), STDERR_LINE_BYTES_MAX);
    }
}
