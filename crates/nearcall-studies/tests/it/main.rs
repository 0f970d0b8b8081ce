//! The mechanisms of the studies, tested by real launches of two processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod methods;
mod survivors;

use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearcall_bench::bench_plan::{BenchPlan, RunOptions};
use nearcall_bench::cell::CellSpec;
use nearcall_bench::conditions::{Conditions, PinChoice};
use nearcall_bench::peer;
use nearcall_bench::runner::{Program, RunContext, bench_specs};
use nearcall_results::run::{Kind, Run};
use nearcall_results::shape::Shape;
use nearcall_studies::methods::{Method, Methods};

/// Those that move a stream of bytes.
const STREAMS: [Method; 5] =
    [Method::Pipe, Method::Pipe1M, Method::Unix, Method::Tcp, Method::Fifo];

/// Those that do it through a buffer in shared memory.
const BUFFERED: [Method; 3] = [Method::CondvarBytes, Method::CondvarMemcpy, Method::Semaphore];

/// Those of the study of signal messages.
const SIGNALS: [Method; 2] = [Method::SignalFifo, Method::SignalSocket];

/// Those of the study of calls.
const CALLS: [Method; 6] = [
    Method::AllocLoop,
    Method::AllocSignal,
    Method::AllocQueue,
    Method::AllocSocket,
    Method::AllocPoll,
    Method::SocketPoll,
];

/// What the runner starts: runs as a test that does nothing without a request.
#[test]
fn peer_process() {
    if std::env::var_os("NEARCALL_PADDING").is_some() {
        peer::run_with(&Methods).unwrap();
    }
}

/// Measuring pairs of several tests at once would keep each other from running.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn context() -> RunContext<'static> {
    let args = ["--exact", "peer_process", "--nocapture", "--test-threads=1"];
    let program = Program { path: "/proc/self/exe".into(), args: args.map(OsString::from).into() };
    let patience = Duration::from_secs(30);
    RunContext { patience, waits_for_quiet: false, ..RunContext::new(program) }
}

fn has_two_cpus() -> bool {
    nearcall_os::cpu::allowed().len() > 1
}

/// The processes that this thread has started and not yet ended, in the order of their start.
fn children() -> Vec<i32> {
    let tid = nearcall_os::process::tid();
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/children"));
    text.unwrap_or_default().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn cell(method: Method, kind: Kind, shape: Shape, message_bytes: u64, exchanges: u32) -> CellSpec {
    let conditions = Conditions { exchanges, ..Conditions::default() };
    let cell = CellSpec::latency(method.subject(), shape, message_bytes, method.wait());
    CellSpec { kind, conditions, ..cell }
}

fn at(spot: PinChoice, cell: &CellSpec) -> CellSpec {
    CellSpec { conditions: Conditions { spot, ..cell.conditions }, ..*cell }
}

/// Cells with a number of exchanges end long before the time is over.
fn plan(launches: u32, time: Duration) -> BenchPlan {
    let options =
        RunOptions { launches: Some(launches), time_budget: Some(time), ..RunOptions::default() };
    BenchPlan { options, ..BenchPlan::default() }
}

/// Measures all of `cells` as often as they have exchanges.
#[track_caller]
fn measure(launches: u32, cells: &[CellSpec]) -> Run {
    measure_for(&plan(launches, Duration::from_secs(300)), cells)
}

#[track_caller]
fn measure_for(plan: &BenchPlan, cells: &[CellSpec]) -> Run {
    let run = bench_specs(plan, cells, &context()).unwrap();
    // What the machine lacks is told, and no failure.
    let failed: Vec<_> = run.skipped.iter().filter(|one| !one.unsupported).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let measured = run.study_cells.len() + run.parts.len();
    assert_eq!(measured + run.skipped.len(), cells.len(), "{:?}", run.warnings);
    assert_eq!(children(), [0; 0], "processes are left");
    run
}
