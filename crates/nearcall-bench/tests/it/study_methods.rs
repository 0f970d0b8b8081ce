//! The studies' mechanisms between two real processes: every size and shape, damage, death.

use std::cell::Cell as Slot;
use std::time::Duration;

use nearcall_bench::bench_plan::{BenchPlan, How, Place};
use nearcall_bench::cell::{CellSpec, Scene, Subject};
use nearcall_bench::launch::Fault;
use nearcall_bench::methods::Method;
use nearcall_bench::runner::{BenchError, Hooks, bench_specs};
use nearcall_bench::usage;
use nearcall_os::process::{kill_pidfd, pidfd_open};
use nearcall_results::run::{Kind, Run};
use nearcall_results::shape::Shape;

use crate::runner::{alone, has_two_cpus, hooks, no_children_are_left};

/// Those that move messages between the two processes by themselves.
const METHODS: &[Method] = &[Method::Pipe, Method::Pipe1M, Method::Unix, Method::Tcp, Method::Fifo];

/// Those that do it through a buffer in shared memory.
const BUFFERED: &[Method] = &[Method::CondvarBytes, Method::CondvarMemcpy, Method::Semaphore];

/// One byte, one cache line and a byte more or less, a page less a byte, more than a pipe holds.
const SIZES: [u64; 8] = [1, 4, 63, 64, 65, 4_095, 65_537, 1 << 20];

fn cell(method: Method, kind: Kind, shape: Shape, message_bytes: u64, exchanges: u32) -> CellSpec {
    CellSpec {
        kind,
        subject: Subject::Study(method),
        shape,
        message_bytes,
        wait: method.wait(),
        scene: Scene { exchanges, ..Scene::default() },
    }
}

/// Every shape and size, some exchanges each.
fn cells(methods: &[Method], sizes: &[u64]) -> Vec<CellSpec> {
    let mut cells = Vec::new();
    for &method in methods {
        for &size in sizes {
            // For some of them more than the largest ring holds, so that ends wait for room.
            let (few, many) = match size {
                64 => (30, 20_000),
                4_095 => (30, 1_000),
                0..=65_536 => (30, 2_000),
                65_537 => (30, 100),
                _ => (5, 12),
            };
            cells.push(cell(method, Kind::Latency, Shape::Echo, size, few));
            cells.push(cell(method, Kind::Latency, Shape::Sink, size, few));
            cells.push(cell(method, Kind::Throughput, Shape::Sink, size, many));
        }
    }
    cells
}

fn plan() -> BenchPlan {
    let time_budget = Some(Duration::from_secs(60));
    BenchPlan {
        how: How { launches: Some(1), time_budget, ..How::default() },
        ..BenchPlan::default()
    }
}

fn measured(run: &Run) -> usize {
    run.study_cells.len() + run.parts.len()
}

#[track_caller]
fn check_all_measured(cells: &[CellSpec], plan: &BenchPlan) {
    let run = bench_specs(plan, cells, &hooks()).unwrap();
    let failed: Vec<_> = run.skipped.iter().filter(|one| !one.unsupported).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(measured(&run), cells.len(), "{:?}", run.skipped);
    no_children_are_left();
}

#[test]
fn every_method_moves_every_size() {
    let _alone = alone();
    let methods: Vec<Method> =
        METHODS.iter().copied().filter(|one| has_two_cpus() || !one.needs_two_cpus()).collect();
    check_all_measured(&cells(&methods, &SIZES), &plan());
}

#[test]
fn a_buffer_carries_every_size_one_after_the_other() {
    let _alone = alone();
    check_all_measured(&cells(BUFFERED, &SIZES), &plan());
}

#[test]
fn a_message_larger_than_its_memory_goes_in_pieces() {
    let _alone = alone();
    let methods: Vec<Method> = [Method::Mempipe, Method::MempipeSpin, Method::ShmemPipe]
        .into_iter()
        .filter(|one| has_two_cpus() || !one.needs_two_cpus())
        .collect();
    let memory = 2 << 20;
    let sizes = [memory - 127, memory + 1, 2 * memory];
    check_all_measured(&cells(&methods, &sizes), &plan());
}

#[test]
fn methods_that_block_work_on_one_cpu() {
    let _alone = alone();
    let methods: Vec<Method> =
        METHODS.iter().copied().filter(|one| !one.needs_two_cpus()).collect();
    let mut plan = plan();
    plan.how.placement = Place::Same;
    check_all_measured(&cells(&methods, &SIZES), &plan);
}

#[test]
fn flags_take_two_round_trips_and_no_stream() {
    let _alone = alone();
    if !has_two_cpus() {
        return;
    }
    let shapes = [Shape::Echo, Shape::Sink];
    let mut cells: Vec<CellSpec> =
        shapes.map(|shape| cell(Method::Flag, Kind::Latency, shape, 1, 1_000)).to_vec();
    let run = bench_specs(&plan(), &cells, &hooks()).unwrap();
    assert_eq!(measured(&run), cells.len(), "{:?}", run.skipped);
    cells = vec![cell(Method::Flag, Kind::Throughput, Shape::Sink, 1, 1_000)];
    let run = bench_specs(&plan(), &cells, &hooks()).unwrap();
    assert!(run.skipped.iter().all(|one| one.unsupported), "{:?}", run.skipped);
    assert_eq!((measured(&run), run.skipped.len()), (0, 1));
}

#[test]
fn a_damaged_byte_fails_the_run_of_every_method() {
    let _alone = alone();
    let hooks = Hooks { fault: Fault::Corrupt, ..hooks() };
    for &method in METHODS.iter().filter(|one| has_two_cpus() || !one.needs_two_cpus()) {
        for (kind, shape) in [(Kind::Latency, Shape::Echo), (Kind::Throughput, Shape::Sink)] {
            let cells = [cell(method, kind, shape, 1_000, 50)];
            let error = bench_specs(&plan(), &cells, &hooks).unwrap_err();
            assert!(matches!(error, BenchError::Corrupt { .. }), "{method} {shape}: {error}");
        }
    }
    no_children_are_left();
}

/// The processes that this thread has started and not yet ended, in the order of their start.
pub(crate) fn children() -> Vec<i32> {
    let tid = nearcall_os::process::tid();
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/children"));
    text.unwrap_or_default().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Whether a process has worked for longer than starting and meeting take.
pub(crate) fn is_measuring(pid: i32) -> bool {
    let used = u32::try_from(pid).ok().and_then(usage::of);
    used.is_some_and(|used| used.cpu_ns >= CPU_NS_BEFORE_KILL)
}

/// Kills the server or the client of every launch in the middle of its exchanges.
fn check_survivor_notices(methods: &[Method], kind: Kind, victim: usize) {
    let killed = Slot::new(0);
    let kill = || {
        let children = children();
        if let [_, _] = children[..]
            && killed.get() != children[victim]
            && children.iter().all(|&pid| is_measuring(pid))
        {
            // A child of this thread that nobody has waited for: the number is its own.
            kill_pidfd(pidfd_open(children[victim]).unwrap()).unwrap();
            killed.set(children[victim]);
        }
        false
    };
    let hooks = Hooks { interrupted: &kill, ..hooks() };
    // By time, and long enough that the kill comes first.
    let cells: Vec<CellSpec> =
        methods.iter().map(|&method| cell(method, kind, Shape::Echo, 4_096, u32::MAX)).collect();
    let budget = Duration::from_secs(5 * methods.len() as u64);
    let mut plan = plan();
    plan.how.time_budget = Some(budget);
    let started = nearcall_os::clock::now();
    let run = bench_specs(&plan, &cells, &hooks).unwrap();
    assert!(started.elapsed() < budget, "nobody waits for the dead");
    assert_eq!(measured(&run), 0);
    for &method in methods {
        let failed = run.skipped.iter().find(|one| one.mechanism == method.name()).unwrap();
        assert!(!failed.unsupported, "{method}: {}", failed.reason);
        let noticed = ["gone", "Broken pipe", "reset"].iter().any(|w| failed.reason.contains(w));
        // The C library's condition variables may keep the survivor; the runner ends it then.
        let excused = method.name().contains("condvar");
        assert!(noticed || excused, "{method}, {kind:?}, {victim}: {}", failed.reason);
    }
    no_children_are_left();
}

/// Starting takes some milliseconds of this.
const CPU_NS_BEFORE_KILL: u64 = 80_000_000;

#[test]
fn a_killed_process_fails_its_cell_and_the_other_notices() {
    let _alone = alone();
    let can_run = |one: &Method| has_two_cpus() || !one.needs_two_cpus();
    let streams: Vec<Method> = METHODS.iter().copied().filter(can_run).collect();
    let all: Vec<Method> = streams.iter().copied().chain([Method::Flag]).filter(can_run).collect();
    for victim in [0, 1] {
        check_survivor_notices(&all, Kind::Latency, victim);
        check_survivor_notices(&streams, Kind::Throughput, victim);
        check_survivor_notices(BUFFERED, Kind::Latency, victim);
    }
}
