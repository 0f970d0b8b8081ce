//! Containers: ends in different namespaces, kernels and filters without newer system calls, a
//! read-only runtime directory.

use nearcall_os::ptrace::Errno;

use crate::failing_syscalls::{self, Kind};
use crate::namespaces;
use crate::served::Served;
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[
    ("r29-client", |address| {
        call_over_each(address);
        report("done");
        wait_for_the_parent();
    }),
    ("r29-read-only", |_| with_a_read_only_directory()),
];

const VIAS: [&str; 3] = ["", "?via=unix-stream", "?via=unix-seqpacket"];

fn call_over_each(address: &str) {
    for via in VIAS {
        let echo = EchoCaller::new(&Client::new(), &format!("{address}{via}")).unwrap();
        let words = Words { data: vec![9; 1 << 20].into(), number: 9 };
        assert!(echo.say(&words).unwrap() == words, "{via}");
        let pid = echo.look(&()).unwrap().pid;
        report(&format!("seen {via} as {pid}"));
    }
}

/// Whoever is in a namespace of its own: the client, or the server.
#[timed]
fn r29_ends_in_different_namespaces_call_each_other() {
    let test = "r29_ends_in_different_namespaces_call_each_other";
    for flags in [
        &["-p", "-f", "--mount-proc"][..],
        &["-i"],
        &["-n"],
        &["-u"],
        &["-U", "-r"],
        &["-p", "-f", "--mount-proc", "-i", "-n", "-u", "-U", "-r"],
    ] {
        // A path: abstract names belong to a network namespace.
        let path = format!("unix:/tmp/nearcall-r29-{:016x}", fastrand::u64(..));
        let mut server = ServerSetup::new("server").at(&path).start();
        let Some(mut client) = namespaces::start(test, flags, "true", "r29-client", &path) else {
            server.finish();
            continue;
        };
        client.hear("done");
        // The death of a client is noticed across namespaces.
        client.kill();
        server.wait_for_connections(0);
        server.finish();

        let path = format!("unix:/tmp/nearcall-r29-{:016x}", fastrand::u64(..));
        let Some(mut server) = namespaces::start(test, flags, "true", "server", &path) else {
            continue;
        };
        server.hear("listens");
        let mut client = Process::start("r29-client", &path);
        println!("{flags:?}: the server sees number {}", client.hear("seen"));
        client.hear("done");
        drop(client);
        server.tell("stop");
        server.finish();
    }
}

/// Calls that older kernels lack, and that filters of containers forbid.
const NEWER_CALLS: &[&str] = &[
    "epoll_pwait2",
    "futex_waitv",
    "io_uring_setup",
    "membarrier",
    "openat2",
    "pidfd_getfd",
    "pidfd_open",
    "pidfd_send_signal",
    "process_vm_readv",
    "process_vm_writev",
];

#[timed]
fn r29_without_newer_system_calls_everything_works() {
    for kind in Kind::ALL {
        for errno in [Errno::NOSYS, Errno::PERM] {
            let Some(outcome) = failing_syscalls::run_without(kind, NEWER_CALLS, errno) else {
                return;
            };
            assert_eq!(outcome.faults(None), Vec::<String>::new(), "{kind:?}");
            assert_eq!(outcome.failed_steps(), [], "{kind:?} {}", errno.error());
        }
    }
}

fn with_a_read_only_directory() {
    let event_loop = EventLoop::new().unwrap();
    let error = Server::new(&event_loop).listen("r29").unwrap_err().to_string();
    assert!(error.contains("/mnt/nearcall") && error.contains("Read-only"), "{error}");
    let served = Served::start();
    let client = Client::new();
    client.hunt(&served.address, PATIENCE).unwrap();
    EchoCaller::new(&client, &served.address).unwrap().nothing(&()).unwrap();
    report(&format!("done {error}"));
}

#[timed]
fn r29_a_read_only_runtime_directory_is_named() {
    let test = "r29_a_read_only_runtime_directory_is_named";
    let setup = "mount -t tmpfs tmpfs /mnt && mount -o remount,ro /mnt && \
                     export NEARCALL_RUNTIME_DIR=/mnt/nearcall";
    let started = namespaces::start(test, &["-m"], setup, "r29-read-only", "none");
    let Some(mut process) = started else { return };
    println!("{}", process.hear("done"));
    process.finish();
}
