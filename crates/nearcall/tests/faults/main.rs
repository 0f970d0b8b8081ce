//! Faults and hostile peers, each against a server in a process of its own: what is broken, killed,
//! stopped, lost or flooded, what the server answers, and what is left afterwards.
//!
//! A test has the number of its case in its name (`r14_...`). The other processes of a test are
//! this test program itself, which finds its role in its environment ([`entry`]).
//! **Invariants:** a process that a test starts dies with the test; a test that hangs fails; what a
//! test needs and this machine lacks it names in a line with `SKIPPED`.
//! **Not here:** the same cases below the runtime (`nearcall-channel/tests/it/hostile_region.rs`,
//! `nearcall-wire/tests/it/hostile.rs`) and beside a server in the same process
//! (`../it/bad_input.rs`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "processes report, and so do tests")]

mod containers;
mod failing_syscalls;
mod forks;
mod full_file_systems;
mod handed_over;
mod handlers;
mod hostile;
mod hunts;
mod identity;
mod interrupted_sends;
mod killed_clients;
mod killed_servers;
mod killed_switches;
mod meetings;
mod memory;
mod names;
mod namespaces;
mod peer_versions;
mod reused_pids;
mod runtime_directory;
mod shared_sockets;
mod shares;
mod slow_peers;
mod smoke;
mod support;
mod time_namespaces;

use nearcall_testkit::support as served;
use nearcall_testkit::{echo, observed, raw_frames, sizes, streams, stress};

use self::support::in_time;

/// Only `failing_syscalls.rs` has an allocation fail.
#[global_allocator]
static ALLOCATOR: nearcall_os::alloc_fail::FailingAllocator =
    nearcall_os::alloc_fail::FailingAllocator;

#[allow(dead_code, reason = "shared with the stress test, which uses the rest")]
#[path = "../stress/books.rs"]
mod books;
#[allow(dead_code, reason = "shared with the stress test, which uses the rest")]
#[path = "../stress/service.rs"]
mod service;

/// The roles that child processes have, by the module that defines them. Add yours here.
const ROLES: &[&[support::Role]] = &[
    support::server::ROLES,
    support::good::ROLES,
    hostile::ROLES,
    hostile::ATTACKS,
    killed_clients::ROLES,
    killed_servers::ROLES,
    killed_switches::ROLES,
    meetings::ROLES,
    memory::ROLES,
    forks::ROLES,
    identity::ROLES,
    names::ROLES,
    runtime_directory::ROLES,
    full_file_systems::ROLES,
    interrupted_sends::ROLES,
    shared_sockets::ROLES,
    reused_pids::ROLES,
    time_namespaces::ROLES,
    containers::ROLES,
    handed_over::ROLES,
    slow_peers::ROLES,
    handlers::ROLES,
    hunts::ROLES,
    shares::ROLES,
];

/// Where a child process begins; nothing when the harness runs it.
#[test]
fn entry() {
    support::child::enter(ROLES);
}
