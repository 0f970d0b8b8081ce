//! One process of a unit: how it is started, what it writes to its standard error, how it ends.
//!
//! **Invariants:** it dies with the host, and what is left of its process group dies with it.
//! Reading what it writes never waits, and keeps a bounded number of lines.
//! **Not here:** handing sockets over (`nearcall-os`), asking it whether it serves (`watch.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{ChildStderr, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;

use nearcall::EventLoop;
use nearcall::event_loop::{DescriptorId, Interest, Signal};
use nearcall_channel::{HEALTH_SUFFIX, Listener};
use nearcall_os::process::{self, Child, DescriptorLimit};
use nearcall_os::program::ProgramFile;
use nearcall_os::{Deadline, descriptor, signal, socket_activation};

use super::log::{Log, LogSource};
use super::watch::{Findings, HealthSocket, Watcher};
use crate::config::{Run, Unit, open_program};
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
    watchers: Vec<Watcher>,
}

struct Stderr {
    pipe: ChildStderr,
    descriptor: DescriptorId,
}

/// What a process needs of its host.
pub(super) struct Parts<'a> {
    pub(super) listeners: &'a BTreeMap<String, Listener>,
    pub(super) event_loop: &'a EventLoop,
    pub(super) findings: &'a Arc<Findings>,
    pub(super) worker: &'a [OsString],
    pub(super) gateway: &'a [OsString],
    pub(super) log: &'a Log,
    /// Where the host can make files.
    pub(super) directories: &'a [PathBuf],
    /// The limits that the host was started with.
    pub(super) descriptors: DescriptorLimit,
}

impl Process {
    /// Starts the process of a unit, and hands over the sockets of its services.
    pub(super) fn start(id: InstanceId, unit: &Rc<Unit>, parts: &Parts<'_>) -> io::Result<Self> {
        let Parts { listeners, event_loop, findings, .. } = parts;
        let mut command = command(unit, parts)?;
        command.envs(&unit.environment).stderr(Stdio::piped());
        // So that Ctrl-C reaches the host alone, which stops its services in order, and that what a
        // service starts can be ended with it.
        command.process_group(0);
        // Those of the host itself, to which no service may speak in its place.
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PIDFDID"] {
            command.env_remove(name);
        }
        let mut handed: Vec<(String, BorrowedFd<'_>)> = Vec::new();
        let mut health: Vec<HealthSocket> = Vec::new();
        for service in &unit.services {
            health.push(HealthSocket::listen(parts.directories)?);
            let listener = listeners.get(&service.listen.to_string());
            handed.extend(listener.map(|listener| (service.name.clone(), listener.as_fd())));
            // By another name, as that is the one of a health socket as well.
            let sockets = service.sockets.iter().filter_map(|it| listeners.get(&it.to_string()));
            handed.extend(sockets.map(|it| (format!("{}/socket", service.name), it.as_fd())));
        }
        for (service, health) in unit.services.iter().zip(&health) {
            handed.push((format!("{}{HEALTH_SUFFIX}", service.name), health.socket.as_fd()));
        }
        let sockets: Vec<_> = handed.iter().map(|(name, fd)| (name.as_str(), *fd)).collect();
        let (program, limit) = (program(unit)?, Some(parts.descriptors));
        let child = socket_activation::spawn_file(command, program.as_ref(), &sockets, limit)?;
        let ended = event_loop.add_descriptor(child.pidfd(), Interest::Readable)?;
        let log = parts.log.source(&unit.name.to_string(), unit.log_rate);
        let (unit, lines) = (Rc::clone(unit), Lines::new(log));
        // From here on what it has started ends with it, also if the rest fails.
        let mut process = Self { unit, child, ended, stderr: None, lines, watchers: Vec::new() };
        if let Some(stdin) = process.child.pipes().stdin.take() {
            write_libraries(&process.unit, stdin)?;
        }
        if let Some(pipe) = process.child.pipes().stderr.take() {
            descriptor::set_nonblocking(&pipe, true)?;
            let descriptor = event_loop.add_descriptor(&pipe, Interest::Readable)?;
            process.stderr = Some(Stderr { pipe, descriptor });
        }
        for (service, health) in process.unit.services.iter().zip(health) {
            let findings = Arc::clone(findings);
            process.watchers.push(Watcher::start(id, &process.unit, service, health, findings)?);
        }
        Ok(process)
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

    /// Ends it, and what it has started.
    pub(super) fn kill(&self) {
        let _ = self.child.kill_group();
        // It may lead another group by now.
        let _ = process::kill_pidfd(self.child.pidfd());
    }

    pub(super) fn owns(&self, descriptor: DescriptorId) -> bool {
        self.ended == descriptor || self.is_stderr(descriptor)
    }

    pub(super) fn is_stderr(&self, descriptor: DescriptorId) -> bool {
        self.stderr.as_ref().is_some_and(|stderr| stderr.descriptor == descriptor)
    }

    /// Passes on what it has written to its standard error.
    pub(super) fn read_stderr(&mut self, event_loop: &EventLoop) {
        let Some(stderr) = &mut self.stderr else { return };
        let mut buffer = vec![0; STDERR_READ_BYTES];
        match stderr.pipe.read(&mut buffer) {
            Ok(0) => {
                event_loop.remove_descriptor(stderr.descriptor);
                self.stderr = None;
                self.lines.finish();
            }
            Ok(length) => self.lines.add(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                event_loop.remove_descriptor(stderr.descriptor);
                self.stderr = None;
            }
        }
    }

    /// Returns how it has ended, if it has, and what it wrote before.
    pub(super) fn take_end(&mut self, event_loop: &EventLoop) -> Option<End> {
        // What it leaves behind could have sockets that were handed over to it, where no process
        // accepts any more. As long as it is not waited for, the group is its own.
        if process::wait_pidfd(self.child.pidfd(), Deadline::NOW).is_ok_and(|has_ended| has_ended) {
            let _ = self.child.kill_group();
        }
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
        self.read_stderr(event_loop);
        if let Some(stderr) = self.stderr.take() {
            event_loop.remove_descriptor(stderr.descriptor);
        }
        self.lines.finish();
        Some(end)
    }

    /// Returns the last lines that it has written to its standard error.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.lines.last.iter().cloned().collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill_group();
    }
}

/// Returns the file of the program of a unit, checked again: it may be another one since the
/// configuration was read.
fn program(unit: &Unit) -> io::Result<Option<ProgramFile>> {
    let service = &unit.services[0];
    match service.run {
        Run::Process => open_program(&service.file).map(Some).map_err(io::Error::other),
        Run::Library | Run::Gateway => Ok(None),
    }
}

/// Returns the program of a unit with its arguments.
fn command(unit: &Unit, parts: &Parts<'_>) -> io::Result<Command> {
    let of_host = |words: &[OsString]| {
        let (program, arguments) = words.split_first().ok_or_else(|| {
            io::Error::other("this host has no program that loads libraries, or for gateways")
        })?;
        let mut command = Command::new(program);
        command.args(arguments);
        Ok::<_, io::Error>(command)
    };
    let service = &unit.services[0];
    match service.run {
        Run::Process => {
            let mut command = Command::new(&service.file);
            command.args(&service.arguments).stdin(Stdio::null());
            command.env("NEARCALL_LISTEN", service.listen.to_string());
            Ok(command)
        }
        Run::Library => {
            let mut command = of_host(parts.worker)?;
            command.stdin(Stdio::piped());
            Ok(command)
        }
        Run::Gateway => {
            let mut command = of_host(parts.gateway)?;
            for socket in &service.sockets {
                // With the port that the kernel chose.
                let bound = parts.listeners.get(&socket.to_string());
                let place = bound.map_or(socket, Listener::address).to_string();
                command.arg("--listen").arg(place.trim_start_matches("tcp://"));
            }
            command.args(&service.arguments).stdin(Stdio::null());
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
    log: LogSource,
    last: VecDeque<String>,
    /// The line that has no end yet.
    rest: Vec<u8>,
}

impl Lines {
    fn new(log: LogSource) -> Self {
        Self { log, last: VecDeque::new(), rest: Vec::new() }
    }

    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = STDERR_LINE_BYTES_MAX.saturating_sub(self.rest.len());
            self.rest.extend(&text[..text.len().min(room)]);
            if is_whole {
                self.end_line();
            }
        }
    }

    /// Ends the line that has none.
    fn finish(&mut self) {
        if !self.rest.is_empty() {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned();
        // What a service writes must not steer the terminal of whoever reads the log.
        let text: String = text
            .chars()
            .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
            .collect();
        self.log.add(&text);
        self.last.push_back(text);
        if self.last.len() > STDERR_LINES_MAX {
            self.last.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn lines_are_passed_on_whole_and_the_last_ones_are_kept() {
        let (give, logged) = channel();
        let log = Log::start(Box::new(move |line: &str| drop(give.send(line.to_owned())))).unwrap();
        let mut lines = Lines::new(log.source("room", 1000));
        lines.add(b"one\ntw");
        lines.add(b"o\n\x1b[2J\n");
        for number in 0..STDERR_LINES_MAX {
            lines.add(format!("{number}\n").as_bytes());
        }
        lines.add(&vec![b'x'; 3 * STDERR_LINE_BYTES_MAX]);
        lines.finish();
        drop(log);
        let logged: Vec<String> = logged.iter().collect();
        assert_eq!(logged[..3], ["[room] one", "[room] two", "[room] \u{fffd}[2J"]);
        assert_eq!(lines.last.len(), STDERR_LINES_MAX);
        assert_eq!(lines.last[0], "1");
        assert_eq!(lines.last.back().unwrap().len(), STDERR_LINE_BYTES_MAX);
    }
}
