//! The methods of the studies of calls and signal messages, by real launches of two processes.

use std::cell::Cell as Flag;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use nearcall_bench::bench_plan::{BenchPlan, How};
use nearcall_bench::cell::{CellSpec, Subject};
use nearcall_bench::launch::Fault;
use nearcall_bench::methods::Method;
use nearcall_bench::runner::{BenchError, Hooks, bench_specs};
use nearcall_bench::scene::{Scene, Spot};
use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_os::{clock, process};
use nearcall_results::route::Route;
use nearcall_results::run::{Kind, Run};
use nearcall_results::shape::Shape;

use crate::runner::{alone, hooks, no_children_are_left};
use crate::study_methods::{children, is_measuring};

/// The methods tested here; those of throughput studies have tests of their own.
const METHODS: [Method; 8] = [
    Method::SignalFifo,
    Method::SignalSocket,
    Method::AllocLoop,
    Method::AllocSignal,
    Method::AllocQueue,
    Method::AllocSocket,
    Method::AllocPoll,
    Method::SocketPoll,
];

/// Those whose server tells nothing but that a call is complete.
const WITHOUT_ECHO: [Method; 2] = [Method::AllocLoop, Method::AllocSignal];

const EXCHANGES: u32 = 20;

fn latency(method: Method, shape: Shape, message_bytes: u64) -> CellSpec {
    CellSpec {
        kind: Kind::Latency,
        subject: Subject::Study(method),
        shape,
        message_bytes,
        wait: method.wait(),
        scene: Scene { exchanges: EXCHANGES, ..Scene::default() },
    }
}

fn at(spot: Spot, cell: CellSpec) -> CellSpec {
    CellSpec { scene: Scene { spot, ..cell.scene }, ..cell }
}

/// Cells with a number of exchanges end long before.
fn plan() -> BenchPlan {
    plan_of(2, Duration::from_secs(60))
}

/// For cells that take all the time that they are given.
fn short_plan() -> BenchPlan {
    plan_of(2, Duration::from_millis(300))
}

fn plan_of(launches: u32, time_budget: Duration) -> BenchPlan {
    let (launches, time_budget) = (Some(launches), Some(time_budget));
    BenchPlan { how: How { launches, time_budget, ..How::default() }, ..BenchPlan::default() }
}

/// Names of queues, memory and named pipes that somebody has left behind. Those that others have
/// for a moment are in one listing at most.
fn names() -> Vec<PathBuf> {
    let list = || {
        let folders = ["/dev/shm".into(), "/dev/mqueue".into(), std::env::temp_dir()];
        let entries = folders.into_iter().filter_map(|folder| std::fs::read_dir(folder).ok());
        let paths = entries.flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // The folders of tests are nobody's leftovers.
            name.contains("nearcall-") && !path.is_dir()
        };
        paths.filter(is_ours).collect::<BTreeSet<PathBuf>>()
    };
    list().intersection(&list()).cloned().collect()
}

#[track_caller]
fn measure(plan: &BenchPlan, cells: &[CellSpec]) -> Run {
    let run = bench_specs(plan, cells, &hooks()).unwrap();
    assert_eq!(run.skipped, [], "{:?}", run.warnings);
    let found = [&run.study_cells, &run.parts].map(Vec::len).iter().sum::<usize>();
    assert_eq!(found, cells.len(), "{:?}", run.warnings);
    no_children_are_left();
    run
}

#[test]
fn every_method_carries_every_size_of_its_study() {
    let _alone = alone();
    for method in METHODS {
        let sizes = [1, 1 << 10, 8 << 10, 64 << 10, 1 << 20];
        let cells = sizes.map(|bytes| latency(method, Shape::Sink, bytes));
        let run = measure(&plan(), &cells);
        for cell in &run.study_cells {
            assert_eq!(cell.mechanism, method.name());
            // The first of each launch is in no count.
            assert_eq!(cell.count, 2 * (u64::from(EXCHANGES) - 1), "{method}");
            let pids = cell.pids[0];
            assert_ne!(pids[0], pids[1]);
        }
    }
}

#[test]
fn every_method_works_on_one_cpu_and_wherever_it_is_put() {
    let _alone = alone();
    for method in METHODS {
        let cell = latency(method, Shape::Sink, 1 << 10);
        measure(&plan(), &[at(Spot::OneCpu, cell), at(Spot::Unpinned, cell)]);
    }
}

#[test]
fn every_method_gives_back_an_echo_and_warms_up() {
    let _alone = alone();
    for method in METHODS {
        let usual = CellSpec { scene: Scene::default(), ..latency(method, Shape::Sink, 64) };
        if WITHOUT_ECHO.contains(&method) {
            measure(&short_plan(), &[usual]);
            continue;
        }
        measure(&short_plan(), &[latency(method, Shape::Echo, 3_000), usual]);
    }
}

#[test]
fn a_damaged_byte_fails_every_method() {
    let _alone = alone();
    for method in METHODS {
        let hooks = Hooks { fault: Fault::Corrupt, ..hooks() };
        let cell = latency(method, Shape::Sink, 1 << 10);
        let error = bench_specs(&plan(), &[cell], &hooks).unwrap_err();
        assert!(matches!(error, BenchError::Corrupt { .. }), "{method}: {error}");
        assert!(error.to_string().contains("checksum"), "{method}: {error}");
    }
    no_children_are_left();
}

#[test]
fn signal_messages_are_counted_and_echoed_and_sent_in_a_row() {
    let _alone = alone();
    for method in [Method::SignalFifo, Method::SignalSocket] {
        let echoes = [1, 63, 65, 4_095, 65_537, 1 << 20];
        let mut cells = echoes.map(|bytes| latency(method, Shape::Echo, bytes)).to_vec();
        for (bytes, many) in [(1, 20_000), (8_192, 1_000), (1 << 20, 20)] {
            let cell = latency(method, Shape::Sink, bytes);
            let scene = Scene { exchanges: many, ..cell.scene };
            cells.push(CellSpec { kind: Kind::Throughput, scene, ..cell });
        }
        let one_cpu = cells.iter().map(|&cell| at(Spot::OneCpu, cell)).collect::<Vec<_>>();
        measure(&plan(), &cells);
        measure(&plan(), &one_cpu);
    }
}

#[test]
fn calls_in_a_segment_have_no_throughput() {
    let _alone = alone();
    let cell = latency(Method::AllocSocket, Shape::Sink, 1 << 10);
    let cell = CellSpec { kind: Kind::Throughput, ..cell };
    let run = bench_specs(&plan(), &[cell], &hooks()).unwrap();
    assert!(run.skipped[0].unsupported, "{}", run.skipped[0].reason);
    assert_eq!(run.study_cells, []);
}

fn call(route: Route, message_bytes: u64) -> CellSpec {
    CellSpec {
        subject: Subject::Call(route),
        wait: WaitPolicy::Block,
        ..latency(Method::AllocLoop, Shape::Call, message_bytes)
    }
}

#[test]
fn calls_that_carry_their_argument_are_counted_as_well() {
    let _alone = alone();
    let routes = [
        Route::Blocking(Mechanism::UnixStream),
        Route::SameLoop(Mechanism::UnixStream),
        Route::Bytes,
        Route::Typed,
    ];
    for route in routes {
        let wait = if route.is_alone() { route.usual_wait() } else { WaitPolicy::Block };
        let cells = [1 << 10, 64 << 10, 1 << 20].map(|bytes| call(route, bytes));
        let mut cells = cells.map(|cell| CellSpec { wait, ..cell }).to_vec();
        cells.push(at(Spot::OneCpu, cells[0]));
        cells.push(at(Spot::Unpinned, cells[0]));
        let run = measure(&plan(), &cells);
        for cell in &run.study_cells {
            let one_by_one = 2 * (u64::from(EXCHANGES) - 1);
            // Small ones within a process are counted in whole batches.
            let whole = cell.messages_per_sample * 2;
            assert!(cell.count >= one_by_one.min(whole), "{route}: {}", cell.count);
            assert!(cell.count <= one_by_one.max(whole), "{route}: {}", cell.count);
            let study = cell.study.as_ref().unwrap();
            assert_eq!((study.launch_means_ns.len(), study.exchanges), (2, EXCHANGES));
        }
    }
}

#[test]
fn allocating_alone_is_measured_in_batches() {
    let _alone = alone();
    let counted = latency(Method::AllocAlone, Shape::Sink, 8 << 10);
    let usual = CellSpec { scene: Scene::default(), ..counted };
    let run = measure(&short_plan(), &[counted, usual]);
    for cell in run.study_cells.iter().chain(&run.parts) {
        assert!(cell.messages_per_sample > 1 && cell.rtt_ns.is_some());
    }
}

/// Kills the server (0) or the client (1) when both are at work: the other one must say so.
fn check_survivor(method: Method, kind: Kind, victim: usize) {
    let killed = Flag::new(false);
    let kill = || {
        let pids = children();
        let both_work = pids.len() == 2 && pids.iter().all(|&pid| is_measuring(pid));
        if both_work && !killed.replace(true) {
            process::kill_pidfd(process::pidfd_open(pids[victim]).unwrap()).unwrap();
        }
        false
    };
    let hooks = Hooks { interrupted: &kill, ..hooks() };
    let cell = CellSpec { kind, ..latency(method, Shape::Sink, 1 << 10) };
    let cell = CellSpec { scene: Scene::default(), ..cell };
    let plan = plan_of(1, Duration::from_secs(60));
    let started = clock::now();
    let run = bench_specs(&plan, &[cell], &hooks).unwrap();
    assert!(killed.get() && started.elapsed() < Duration::from_secs(15), "{method}");
    let failed = &run.skipped[0];
    // The runner had to end neither.
    assert!(!failed.reason.contains("did not"), "{method}: {}", failed.reason);
    assert!(!failed.reason.contains("in time"), "{method}: {}", failed.reason);
    no_children_are_left();
}

#[test]
fn whoever_loses_its_peer_says_so_in_time() {
    let _alone = alone();
    let before = names();
    for victim in [0, 1] {
        for method in METHODS {
            check_survivor(method, Kind::Latency, victim);
        }
        for method in [Method::SignalFifo, Method::SignalSocket] {
            check_survivor(method, Kind::Throughput, victim);
        }
    }
    assert_eq!(names(), before);
}
