//! Every size and shape of every method, and damage.

use std::time::Duration;

use nearcall_bench::cell::{CellSpec, Subject};
use nearcall_bench::conditions::{Conditions, PinChoice};
use nearcall_bench::launch::Fault;
use nearcall_bench::runner::{BenchError, RunContext, bench_specs};
use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::route::Route;
use nearcall_results::run::Kind;
use nearcall_results::shape::Shape;
use nearcall_studies::methods::Method;

use crate::{
    BUFFERED, CALLS, SIGNALS, STREAMS, alone, at, cell, context, has_two_cpus, measure,
    measure_for, plan,
};

/// One byte, one cache line and a byte more or less, a page less a byte, more than a pipe holds.
const SIZES: [u64; 8] = [1, 4, 63, 64, 65, 4_095, 65_537, 1 << 20];

/// Exchanges of a call.
const EXCHANGES: u32 = 20;

fn call(method: Method, message_bytes: u64) -> CellSpec {
    cell(method, Kind::Latency, Shape::Sink, message_bytes, EXCHANGES)
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

#[test]
fn what_carries_a_stream_moves_every_size_and_shape() {
    let _alone = alone();
    for methods in [&STREAMS[..], &BUFFERED, &SIGNALS] {
        let cells = cells(methods, &SIZES);
        assert_eq!(measure(1, &cells).skipped, []);
    }
}

#[test]
fn a_message_larger_than_its_memory_goes_in_pieces() {
    let _alone = alone();
    let methods = [Method::Mempipe, Method::MempipeSpin, Method::ShmemPipe];
    let methods: Vec<Method> =
        methods.into_iter().filter(|one| has_two_cpus() || !one.needs_two_cpus()).collect();
    let memory = 2 << 20;
    measure(1, &cells(&methods, &[memory - 127, memory + 1, 2 * memory]));
}

#[test]
fn methods_that_block_work_on_one_cpu_and_wherever_they_are_put() {
    let _alone = alone();
    let on_one_cpu = |cells: Vec<CellSpec>| -> Vec<CellSpec> {
        cells.iter().map(|cell| at(PinChoice::OneCpu, cell)).collect()
    };
    measure(1, &on_one_cpu(cells(&STREAMS, &SIZES)));
    measure(1, &on_one_cpu(cells(&SIGNALS, &[1, 8_192, 1 << 20])));
    let calls: Vec<CellSpec> = CALLS.iter().map(|&method| call(method, 1 << 10)).collect();
    let unpinned = calls.iter().map(|cell| at(PinChoice::Unpinned, cell)).collect::<Vec<_>>();
    measure(1, &unpinned);
    measure(1, &on_one_cpu(calls));
}

#[test]
fn flags_take_two_round_trips_and_no_stream() {
    let _alone = alone();
    if !has_two_cpus() {
        return;
    }
    let shapes = [Shape::Echo, Shape::Sink];
    let cells = shapes.map(|shape| cell(Method::Flag, Kind::Latency, shape, 1, 1_000));
    assert_eq!(measure(1, &cells).skipped, []);
}

#[test]
fn what_carries_no_stream_says_so() {
    let _alone = alone();
    let methods = [Method::Flag, Method::AllocSocket].into_iter();
    for method in methods.filter(|one| has_two_cpus() || !one.needs_two_cpus()) {
        let run = measure(1, &[cell(method, Kind::Throughput, Shape::Sink, 1, 1_000)]);
        assert_eq!((run.study_cells.len(), run.skipped.len()), (0, 1), "{method}");
    }
}

#[test]
fn every_method_of_calls_carries_every_size_of_its_study() {
    let _alone = alone();
    for method in CALLS {
        let cells = [1, 1 << 10, 8 << 10, 64 << 10, 1 << 20].map(|bytes| call(method, bytes));
        for cell in &measure(2, &cells).study_cells {
            assert_eq!(cell.mechanism, method.name());
            // The first of each launch is in no count.
            assert_eq!(cell.count, 2 * (u64::from(EXCHANGES) - 1), "{method}");
            let pids = cell.pids[0];
            assert_ne!(pids[0], pids[1]);
        }
    }
}

#[test]
fn methods_of_calls_warm_up_and_echo_where_the_server_can() {
    let _alone = alone();
    for method in CALLS.into_iter().chain(SIGNALS) {
        let defaults = CellSpec { conditions: Conditions::default(), ..call(method, 64) };
        let mut cells = vec![defaults];
        // The servers of these tell nothing but that a call is complete.
        if !matches!(method, Method::AllocLoop | Method::AllocSignal) {
            cells.push(CellSpec { shape: Shape::Echo, ..call(method, 3_000) });
        }
        measure_for(&plan(2, Duration::from_millis(300)), &cells);
    }
}

#[test]
fn a_damaged_byte_fails_the_run_of_every_method() {
    let _alone = alone();
    let context = RunContext { fault: Fault::Corrupt, ..context() };
    let streamed = STREAMS.iter().flat_map(|&method| {
        [(Kind::Latency, Shape::Echo), (Kind::Throughput, Shape::Sink)]
            .map(|(kind, shape)| cell(method, kind, shape, 1_000, 50))
    });
    let called = CALLS.iter().chain(&SIGNALS).map(|&method| call(method, 1 << 10));
    for cell in streamed.chain(called) {
        let error = bench_specs(&plan(1, Duration::from_secs(60)), &[cell], &context).unwrap_err();
        assert!(matches!(error, BenchError::Corrupt { .. }), "{cell}: {error}");
        assert!(error.to_string().contains("checksum"), "{cell}: {error}");
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
        let mut cells = [1 << 10, 64 << 10, 1 << 20]
            .map(|bytes| {
                let (subject, shape) = (Subject::Call(route), Shape::Call);
                CellSpec { subject, shape, wait, ..call(Method::AllocLoop, bytes) }
            })
            .to_vec();
        cells.push(at(PinChoice::OneCpu, &cells[0]));
        cells.push(at(PinChoice::Unpinned, &cells[0]));
        for cell in &measure(2, &cells).study_cells {
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
    let counted = call(Method::AllocAlone, 8 << 10);
    let defaults = CellSpec { conditions: Conditions::default(), ..counted };
    let run = measure_for(&plan(2, Duration::from_millis(300)), &[counted, defaults]);
    for cell in run.study_cells.iter().chain(&run.parts) {
        assert!(cell.messages_per_sample > 1 && cell.rtt_ns.is_some());
    }
}
