//! Starts this test program a second time as the other process of a test.
//!
//! A test that needs a child names a role; the child runs only the test of that name, sees the role
//! in the environment and does its part instead. Stdin and stdout are free for the two to talk.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process::Child;

/// The role this process was started for, with its argument.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Starts a child that runs the test `test` with `role`; its stdin and stdout are pipes.
pub(crate) fn start(test: &str, role: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped());
    Child::spawn(&mut command).unwrap()
}

/// Writes to the other process, or to the log of the tests.
pub(crate) fn send(text: &str) {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).unwrap();
    output.flush().unwrap();
}

/// Reads the output of the other process up to and including `text`.
pub(crate) fn read_until(output: &mut impl Read, text: &str) -> String {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(text.as_bytes()) {
        assert_eq!(output.read(&mut byte).unwrap(), 1, "ended without {text:?}");
        seen.push(byte[0]);
    }
    String::from_utf8(seen).unwrap()
}

/// Waits until the other end of `fd`, which must have nothing to read, is closed. A drop alone is
/// not enough: a child that another test starts holds copies of everything until its exec.
pub(crate) fn wait_closed(fd: impl AsFd) {
    let ready = poll_one(fd, Interest::Readable, PATIENCE).unwrap();
    assert!(ready.is_some(), "still open");
}

/// Longest wait of any test: far above what is needed, so that it only ends a hang.
pub(crate) const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
/// A wait that is expected to end without result.
pub(crate) const SHORT: Option<Duration> = Some(Duration::from_millis(5));

const ROLE: &str = "NEARCALL_OS_TEST_ROLE";
