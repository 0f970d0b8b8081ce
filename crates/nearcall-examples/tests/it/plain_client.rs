//! The book's `reference/protocol.md` against real servers: its golden bytes, over a
//! unix socket and TCP, and the client in Python that was written from it.
//!
//! **Invariants:** each server is one of the examples, started for one test.
//! **Not here:** what the bytes mean, and the client's end of them (the tests of `nearcall-wire`
//! and `nearcall-channel`).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{self, Command, Stdio};
use std::time::Duration;

use nearcall_os::descriptor::{receive_with_fds, send_with_fds};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::socket::{UnixAddress, unix_connect};

use crate::golden::{PROTOCOL, Turn, block};
use crate::program::{Ended, end_of, start};

/// Longest wait of one step. Far above what is needed, so that it only ends a hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server of each session of the document.
const SESSIONS: [(&str, &str); 3] =
    [("thermostat", "thermostat"), ("brewer", "streams"), ("archive", "streams")];

fn unix_address(test: &str) -> String {
    format!("nearcall-it-plain-{test}-{}", process::id())
}

/// Plays the client of these turns over a stream.
fn replay(mut stream: impl Read + Write, turns: &[Turn]) {
    for turn in turns {
        if turn.is_client {
            stream.write_all(&turn.to_send()).unwrap();
        } else {
            let mut found = vec![0; turn.bytes.len()];
            stream.read_exact(&mut found).unwrap();
            turn.expect(&found);
        }
    }
    if turns.ends_with(&block("archive")) {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server closes after both GOAWAYs");
    }
}

/// The turns that follow the handshake.
fn session(name: &str) -> Vec<Turn> {
    [block("greetings"), block(name)].concat()
}

#[test]
fn a_server_at_a_port_answers_the_bytes_of_the_document() {
    for (name, example) in SESSIONS {
        let server = start(example, &["serve", "tcp://127.0.0.1:0"]);
        let address = server.first_line.strip_prefix("listening at tcp://").unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        replay(stream, &[block("tcp-handshake"), session(name)].concat());
    }
}

#[test]
fn a_server_at_a_unix_socket_answers_the_bytes_of_the_document() {
    for (name, example) in SESSIONS {
        let address = unix_address(name);
        let _server = start(example, &["serve", &format!("unix:@{address}")]);
        let at = UnixAddress::Abstract(address.as_bytes());
        let control = unix_connect(at, Some(PATIENCE)).unwrap();
        let mut passed: Vec<OwnedFd> = Vec::new();
        for turn in block("unix-handshake") {
            if turn.is_client {
                send_with_fds(&control, &turn.to_send(), &[]).unwrap();
                continue;
            }
            poll_one(control.as_fd(), Interest::Readable, Some(PATIENCE)).unwrap().unwrap();
            let mut packet = [0; 1024];
            let received = receive_with_fds(&control, &mut packet, 8).unwrap();
            turn.expect(&packet[..received.bytes]);
            assert_eq!(received.fds.len(), turn.descriptors);
            passed.extend(received.fds);
        }
        let stream = UnixStream::from(passed.pop().unwrap());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        replay(stream, &session(name));
    }
}

/// Whether there is a Python that has what the client needs; else says that the test is skipped.
#[allow(clippy::print_stdout, reason = "a test that is skipped says so")]
fn has_python() -> bool {
    let found = Command::new("python3").args(["-c", "import socket; socket.recv_fds"]).output();
    let is_there = found.is_ok_and(|it| it.status.success());
    if !is_there {
        println!("skipped: there is no python3 of version 3.9 or newer");
    }
    is_there
}

/// Runs the client in Python to its end, without anything in its environment that Python reads.
fn python(words: &[&str]) -> Ended {
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/python/plain_client.py");
    let mut command = Command::new("python3");
    // Isolated from the environment, and without a cache of what was compiled.
    command.args(["-I", "-B", client]).args(words).stdout(Stdio::piped());
    end_of(&mut command, "")
}

#[track_caller]
fn check(words: &[&str], code: i32, stdout: &str, stderr: &str) {
    let ended = python(words);
    let found = (ended.code, ended.stdout.trim_end(), ended.stderr.trim_end());
    assert_eq!(found, (Some(code), stdout, stderr), "{words:?}");
}

/// Gives each test of a client an address of this example's server.
fn at_each_address(example: &str, check: impl Fn(&str)) {
    let unix = format!("unix:@{}", unix_address(example));
    for address in ["tcp://127.0.0.1:0", &unix] {
        let server = start(example, &["serve", address]);
        check(server.first_line.strip_prefix("listening at ").unwrap());
    }
}

#[test]
fn a_client_in_python_calls_and_gets_errors() {
    if !has_python() {
        return;
    }
    at_each_address("thermostat", |address| {
        check(&[address, "set", "21.5"], 0, "it was 18.0", "");
        check(&[address, "set", "90"], 1, "", "error 11: a room has 5 to 30 degrees");
        check(&[address, "set", "19"], 0, "it was 21.5", "");
        let other = python(&[address, "brew", "1"]);
        assert_eq!(other.code, Some(1));
        assert!(other.stderr.starts_with("error 12: no such object"), "{other:?}");
    });
}

#[test]
fn a_client_in_python_streams_both_ways() {
    if !has_python() {
        return;
    }
    at_each_address("streams", |address| {
        check(&[address, "brew", "2"], 0, "brewing: 25 50 75 100", "");
        check(&[address, "brew", "0"], 1, "", "error 3: brew at least one cup");
        let parts = ["store", &"x".repeat(127), "abc", ""];
        check(&[&[address], &parts[..]].concat(), 0, "stored 3 parts, 130 bytes", "");
        check(&[address, "store"], 0, "stored 0 parts, 0 bytes", "");
    });
}

#[test]
fn the_numbers_of_names_in_the_document_are_those_of_its_bytes() {
    let call = block("thermostat")[0].to_send();
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |high, low| high << 8 | u64::from(*low));
    let (method, object) = (number(&call[20..24]), number(&call[32..40]));
    for row in [
        format!("| `home.v1.Thermostat` | `{object:#x}` |"),
        format!("| `home.v1.Thermostat/SetTarget` | `{method:#x}` |"),
    ] {
        assert!(PROTOCOL.contains(&row), "reference/protocol.md does not have `{row}`");
    }
}

#[test]
fn the_client_in_python_is_as_short_as_the_document_says() {
    let client = include_str!("../../python/plain_client.py");
    assert!(client.lines().count() < 150);
    assert!(client.lines().all(|line| line.chars().count() <= 100));
}
