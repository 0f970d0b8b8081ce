//! Memory of real processes: this test program itself is each of them.
//!
//! A test program of its own, and one test at a time: processes that map the same file share its
//! pages, so each that comes or goes changes the proportional memory of the others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearcall_bench::footprint::{self, MemoryPlan};
use nearcall_bench::peer;
use nearcall_bench::runner::{Program, RunContext};
use nearcall_channel::Mechanism;

/// What is started: runs as a test that does nothing when no measurement started it.
#[test]
fn memory_process() {
    if std::env::var_os("NEARCALL_PADDING").is_some() {
        peer::run().unwrap();
    }
}

fn context() -> RunContext<'static> {
    let args = ["--exact", "memory_process", "--nocapture", "--test-threads=1"];
    let args = args.map(OsString::from).into();
    RunContext::new(Program { path: "/proc/self/exe".into(), args })
}

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn idle_connections_are_counted_and_what_cannot_be_idle_is_skipped() {
    let _alone = alone();
    let mechanisms = vec![Mechanism::UnixStream, Mechanism::ShmSpin];
    let found = footprint::measure(&MemoryPlan { mechanisms, quick: true }, &context());
    let [connections] = &found.connections[..] else { panic!("{found:?}") };
    assert_eq!(connections.stopped, None);
    let counts = connections.levels.iter().map(|level| level.idle_connections);
    assert!(counts.eq([0, 1, 10, 100]), "{connections:?}");
    if connections.unreadable.is_none() {
        assert!(connections.per_connection.touched_bytes.unwrap() > 0.0, "{connections:?}");
    }
    let skip = &found.skipped[0];
    assert_eq!(skip.what, "shm-spin");
    assert!(skip.reason.contains("no connection is ever idle"), "{skip:?}");
}

#[test]
fn an_interruption_ends_all_processes_and_keeps_what_was_measured() {
    let _alone = alone();
    let asked = Cell::new(0);
    let soon = || {
        asked.set(asked.get() + 1);
        asked.get() > 3
    };
    let context = RunContext { interrupted: &soon, ..context() };
    let plan = MemoryPlan { mechanisms: vec![Mechanism::UnixStream; 2], quick: true };
    let found = footprint::measure(&plan, &context);
    assert_eq!(found.partial.as_deref(), Some("interrupted"));
    assert!(found.connections.len() <= 1, "{found:?}");
    let tid = nearcall_os::process::tid();
    let children = std::fs::read_to_string(format!("/proc/self/task/{tid}/children"));
    assert_eq!(children.unwrap_or_default().trim(), "");
}
