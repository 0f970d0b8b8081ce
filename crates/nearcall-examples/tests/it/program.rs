//! Starts an example, and ends it if it hangs.
//!
//! Cargo builds the examples of a package with its tests, in a directory beside them.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nearcall_os::process::Child;

/// No example runs for more than two seconds; a busy machine may take longer.
const DEADLINE: Duration = Duration::from_secs(60);

/// The end of an example.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if a signal ended it, or the deadline.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn last_line(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }
}

/// Runs an example to its end, with `stdin` as its input.
#[track_caller]
pub(crate) fn run(example: &str, arguments: &[&str], stdin: &str) -> Ended {
    end_of(&mut command(example, arguments), stdin)
}

/// Runs a command whose stdout is a pipe to its end, with `stdin` as its input.
#[track_caller]
pub(crate) fn end_of(command: &mut Command, stdin: &str) -> Ended {
    let mut child = spawn(command.stdin(Stdio::piped()).stderr(Stdio::piped()));
    let pipes = child.pipes();
    // Less than a pipe holds, so this does not wait.
    pipes.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let (stdout, stderr) = (pipes.stdout.take().unwrap(), pipes.stderr.take().unwrap());
    let [stdout, stderr] = [read_all(stdout), read_all(stderr)];
    let status = child.wait(Some(DEADLINE)).unwrap();
    if status.is_none() {
        child.kill().unwrap();
    }
    Ended {
        code: status.and_then(|status| status.code()),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// An example that runs until it is dropped.
pub(crate) struct Running {
    _child: Child,
    pub(crate) first_line: String,
}

/// Starts an example, and waits until it has printed a line.
#[track_caller]
pub(crate) fn start(example: &str, arguments: &[&str]) -> Running {
    let mut child = spawn(command(example, arguments).stdin(Stdio::null()));
    let mut lines = BufReader::new(child.pipes().stdout.take().unwrap());
    let mut first_line = String::new();
    lines.read_line(&mut first_line).unwrap();
    // Keeps reading, so that printing does not fail in the example; ends with it.
    let _ = read_all(lines);
    Running { _child: child, first_line: first_line.trim_end().to_owned() }
}

pub(crate) fn command(example: &str, arguments: &[&str]) -> Command {
    // target/debug/deps/it-HASH: the examples are in target/debug/examples.
    let deps = env::current_exe().unwrap();
    let path: PathBuf = deps.parent().unwrap().with_file_name("examples").join(example);
    assert!(path.is_file(), "{} is not built; run `cargo test`", path.display());
    let mut command = Command::new(path);
    command.args(arguments).stdout(Stdio::piped());
    command
}

#[track_caller]
pub(crate) fn spawn(command: &mut Command) -> Child {
    Child::spawn(command).unwrap()
}

fn read_all(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).map(|_| text).unwrap()
    })
}
