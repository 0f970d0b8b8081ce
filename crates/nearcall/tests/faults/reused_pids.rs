//! The number of a process is used again: who lives is known by sockets and pidfds, not by numbers.

use crate::namespaces;
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[
    ("r22", |_| reuse_numbers()),
    ("r22-client", |address| {
        let echo = EchoCaller::new(&Client::new(), address).unwrap();
        echo.nothing(&()).unwrap();
        report("connected");
        wait_for_the_parent();
    }),
    ("r22-other", |_| {
        report("runs");
        wait_for_the_parent();
    }),
];

const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";
/// Other processes of the namespace may be given the number first.
const TRIES_MAX: u32 = 100;

/// Starts a process that has the number of one that has ended.
fn start_as(pid: u32) -> Process {
    for _ in 0..TRIES_MAX {
        std::fs::write(LAST_PID, (pid - 1).to_string()).unwrap();
        let mut other = Process::start("r22-other", "none");
        other.hear("runs");
        if other.pid() == pid {
            return other;
        }
        other.kill();
    }
    panic!("number {pid} is not given again");
}

/// In a PID namespace of its own.
fn reuse_numbers() {
    let mut server = ServerProcess::start();
    for via in ["", "?via=unix-stream", "?via=unix-seqpacket"] {
        let mut client = Process::start("r22-client", &server.via(via));
        client.hear("connected");
        server.wait_for_connections(1);
        let pid = client.pid();
        client.kill();
        let other = start_as(pid);
        server.wait_for_connections(0);
        drop(other);
    }
    for via in ["", "?via=unix-stream", "?via=unix-seqpacket"] {
        let path = format!("unix:/tmp/nearcall-r22-{:016x}", fastrand::u64(..));
        let mut first = ServerSetup::new("server").at(&path).start();
        let echo = EchoCaller::new(&Client::new(), &first.via(via)).unwrap();
        echo.nothing(&()).unwrap();
        let pid = first.pid();
        first.kill();
        let other = start_as(pid);
        let status = echo.nothing(&()).unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{via}: {status}");
        // Its socket is left, and a process has its number: a successor takes its place.
        let second = ServerSetup::new("server").at(&path).start();
        echo.nothing(&()).unwrap();
        second.finish();
        drop(other);
    }
    report("done");
}

#[timed]
fn r22_a_number_that_is_used_again_is_not_the_process() {
    let test = "r22_a_number_that_is_used_again_is_not_the_process";
    let flags = ["-p", "-f", "--mount-proc"];
    let setup = format!("test -w {LAST_PID}");
    let Some(mut process) = namespaces::start(test, &flags, &setup, "r22", "none") else {
        return;
    };
    process.hear("done");
    process.finish();
}
