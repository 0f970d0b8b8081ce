//! Child processes: this test program again, with a role, and the lines that it reports.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process::Child;
use nearcall_os::{Deadline, clock, socket_activation};

use super::{PATIENCE, Role};

const ROLE: &str = "NEARCALL_TEST_ROLE";
const ADDRESS: &str = "NEARCALL_TEST_ADDRESS";
/// What a line of a report begins with. The harness prints lines of its own.
const MARK: &str = "REPORT ";

/// Runs the role that the environment names; nothing without one.
pub(crate) fn enter(roles: &[&[Role]]) {
    let Ok(role) = std::env::var(ROLE) else { return };
    let address = std::env::var(ADDRESS).unwrap();
    let run = roles.iter().copied().flatten().find(|(name, _)| *name == role);
    let (_, run) = run.unwrap_or_else(|| panic!("there is no role `{role}` in ROLES"));
    run(&address);
}

/// A command that starts this program with a role. `limits` are words for the shell's `ulimit`,
/// such as `-n 40`; empty for none.
pub(crate) fn command(role: &str, address: &str, limits: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match limits {
        "" => Command::new(program),
        limits => {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!(r#"ulimit {limits} && exec "$0" "$@""#)]).arg(program);
            shell
        }
    };
    command
        .args(["entry", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(ADDRESS, address)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// A child process that reports lines and takes commands.
///
/// It is killed when this is dropped. One that has ended by then without being asked to fails the
/// test.
#[derive(Debug)]
pub(crate) struct Process {
    role: String,
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    unread: Vec<u8>,
    may_have_ended: bool,
}

impl Process {
    pub(crate) fn start(role: &str, address: &str) -> Self {
        Self::start_as(role, command(role, address, ""))
    }

    /// Starts what [`command`] has made.
    pub(crate) fn start_as(role: &str, mut command: Command) -> Self {
        Self::of(role, Child::spawn(&mut command).unwrap())
    }

    /// Starts it with a listening socket.
    pub(crate) fn start_with(socket: &OwnedFd, role: &str, command: Command) -> Self {
        let sockets = [("socket", socket.as_fd())];
        Self::of(role, socket_activation::spawn(command, &sockets, None).unwrap())
    }

    fn of(role: &str, mut child: Child) -> Self {
        let pipes = child.pipes();
        let (input, output) = (pipes.stdin.take().unwrap(), pipes.stdout.take().unwrap());
        let role = role.to_owned();
        Self { role, child, input, output, unread: Vec::new(), may_have_ended: false }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The process itself. Whoever ends it says so with [`Process::expect_end`].
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// From now on the process may end.
    pub(crate) fn expect_end(&mut self) {
        self.may_have_ended = true;
    }

    /// Sends it a line. One that has gone does not get it.
    pub(crate) fn tell(&mut self, line: &str) {
        let _ = self.input.write_all(format!("{line}\n").as_bytes());
    }

    /// Waits for its next line that begins with `word`, and returns what follows.
    #[track_caller]
    pub(crate) fn hear(&mut self, word: &str) -> String {
        let line = self.hear_or_end(word);
        line.unwrap_or_else(|| panic!("`{}` has ended before it reports `{word}`", self.role))
    }

    /// Works like [`Process::hear`]; `None` when it has ended.
    #[track_caller]
    pub(crate) fn hear_or_end(&mut self, word: &str) -> Option<String> {
        let end = Deadline::after(PATIENCE);
        loop {
            while let Some(line) = self.take_line() {
                let report = line.strip_prefix(MARK).and_then(|line| line.strip_prefix(word));
                if let Some(rest) = report {
                    return Some(rest.trim().to_owned());
                }
            }
            let ready = poll_one(&self.output, Interest::Readable, end).unwrap();
            assert!(ready.is_some(), "`{}` does not report `{word}`", self.role);
            let mut part = [0; 4096];
            let bytes = self.output.read(&mut part).unwrap();
            if bytes == 0 {
                return None;
            }
            self.unread.extend(&part[..bytes]);
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.unread.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    /// Kills it and reaps it.
    pub(crate) fn kill(&mut self) {
        self.may_have_ended = true;
        self.child.kill().unwrap();
    }

    /// Waits until it has ended by itself, without an error.
    #[track_caller]
    pub(crate) fn finish(&mut self) {
        self.may_have_ended = true;
        let status = self.child.wait(Some(PATIENCE)).unwrap();
        let status = status.unwrap_or_else(|| panic!("`{}` does not end", self.role));
        assert!(status.success(), "`{}`: {status}", self.role);
    }

    /// Whether it runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.wait(Some(Duration::ZERO)).unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let ended = !self.may_have_ended && !self.is_alive();
        let _ = self.child.kill();
        assert!(!ended || std::thread::panicking(), "`{}` has ended by itself", self.role);
    }
}

/// Reports a line to the parent, from a child.
pub(crate) fn report(line: &str) {
    // The harness may have begun a line. A parent that has gone reads nothing.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n{MARK}{line}");
    let _ = out.flush();
}

/// Waits for the end of standard input, which is the parent's word that a child may end.
pub(crate) fn wait_for_the_parent() {
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
}

/// State of a process as the kernel gives it: R, S, D, T, Z, or `None` when it has gone.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Waits until a process is in this state.
#[track_caller]
pub(crate) fn wait_for_state(pid: u32, wanted: char) {
    let end = clock::now() + PATIENCE;
    while state(pid) != Some(wanted) {
        assert!(clock::now() < end, "process {pid} is {:?}, not {wanted}", state(pid));
        clock::pause(Duration::from_micros(200));
    }
}
