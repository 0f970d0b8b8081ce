//! Real launches with tiny budgets: this test program itself is both processes.

use std::cell::Cell as Flag;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearcall_bench::bench_plan::{BenchPlan, Placement, RunOptions};
use nearcall_bench::cell::{CellSpec, Conditions, Subject};
use nearcall_bench::experiment::{BUDGETS, CALLS, WAIT_POLICIES, measure};
use nearcall_bench::floor::Floor;
use nearcall_bench::launch::Fault;
use nearcall_bench::runner::{BenchError, Program, RunContext, bench_specs};
use nearcall_bench::{peer, timers};
use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::noise::Grade;
use nearcall_results::route::Caller;
use nearcall_results::run::{Cell, Definition, Kind, Run, Verdict};
use nearcall_results::shape::Shape;

use crate::bench;

/// What the runner starts: runs as a test that does nothing without a request.
#[test]
fn peer_process() {
    if std::env::var_os("NEARCALL_PADDING").is_some() {
        peer::run().unwrap();
    }
}

/// Spinning pairs of several tests at once would keep each other from running.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn context() -> RunContext<'static> {
    let args = ["--exact", "runner::peer_process", "--nocapture", "--test-threads=1"];
    let program = Program { path: "/proc/self/exe".into(), args: args.map(OsString::from).into() };
    let patience = Duration::from_secs(30);
    RunContext { patience, waits_for_quiet: false, ..RunContext::new(program) }
}

pub(crate) fn plan(names: &[&str], kinds: &[Kind], sizes: &[u64]) -> BenchPlan {
    let mechanisms = names.iter().map(|name| name.parse().unwrap()).collect();
    BenchPlan {
        kinds: kinds.to_vec(),
        mechanisms: Some(mechanisms),
        sizes_bytes: Some(sizes.to_vec()),
        options: run_options(2, Duration::from_millis(300)),
        ..BenchPlan::default()
    }
}

fn run_options(launches: u32, time: Duration) -> RunOptions {
    RunOptions { launches: Some(launches), time_budget: Some(time), ..RunOptions::default() }
}

/// The spinning mechanisms need a second CPU; without one the runner skips them.
pub(crate) fn has_two_cpus() -> bool {
    nearcall_os::cpu::allowed().len() > 1
}

pub(crate) fn no_children_are_left() {
    let tid = nearcall_os::process::tid();
    let children = std::fs::read_to_string(format!("/proc/self/task/{tid}/children"));
    assert_eq!(children.unwrap_or_default().trim(), "");
}

#[track_caller]
fn check_fields(run: &Run) {
    let json: serde_json::Value = serde_json::from_str(&run.to_json()).unwrap();
    for field in ["schema", "machine", "settings", "timers", "floors", "cells"] {
        assert!(json.get(field).is_some(), "{field}");
    }
    let cells = ["floors", "cells"].map(|list| json[list].as_array().unwrap().clone()).concat();
    assert!(!cells.is_empty());
    let mut environments = Vec::new();
    for cell in cells {
        for field in [
            "kind",
            "mechanism",
            "shape",
            "message_bytes",
            "wait",
            "placement",
            "load",
            "definition",
            "launches",
            "count",
            "cpu_ns_per_message",
            "floor",
            "ratio_to_floor",
            "grade",
            "histogram",
        ] {
            assert!(cell.get(field).is_some(), "{field} in {}", cell["mechanism"]);
        }
        let figure = match cell["kind"].as_str().unwrap() {
            "latency" => &cell["rtt_ns"]["p50"],
            _ => &cell["messages_per_s"],
        };
        assert!(figure.as_f64().unwrap() > 0.0, "{cell}");
        assert_eq!(cell["launches"], 2);
        let pids =
            cell["pids"].as_array().unwrap().iter().flat_map(|pair| pair.as_array().unwrap());
        let distinct: BTreeSet<u64> = pids.map(|pid| pid.as_u64().unwrap()).collect();
        assert_eq!(distinct.len(), 4, "new processes for each launch: {distinct:?}");
        assert_eq!(cell["order"].as_array().unwrap().len(), 2);
        let sizes = cell["environment_bytes"].as_array().unwrap().iter();
        environments.extend(sizes.flat_map(|pair| pair.as_array().unwrap().clone()));
    }
    // Rule R12: each process has an environment of another size.
    let distinct: BTreeSet<u64> = environments.iter().map(|size| size.as_u64().unwrap()).collect();
    assert!(distinct.len() >= 3, "{environments:?}");
    assert_eq!(json["settings"]["seed"], run.settings.seed);
}

#[test]
fn a_run_has_every_field_that_others_rely_on() {
    let _alone = alone();
    let kinds = [Kind::Latency, Kind::Throughput];
    let run = bench(&plan(&["shm-futex", "shm-spin"], &kinds, &[8, 65_537]), &context()).unwrap();
    check_fields(&run);
    let expected = if has_two_cpus() { 8 } else { 4 };
    assert_eq!(run.cells.len(), expected, "{:?} {:?}", run.skipped, run.warnings);
    for cell in &run.cells {
        assert!(cell.floor.is_some(), "{}", cell.mechanism);
        assert_eq!(cell.ratio_to_floor.is_some(), has_two_cpus() || cell.wait != "spin");
        assert!(cell.set_up_ns.unwrap() > 0.0 && !cell.sizes.is_empty());
        assert!(cell.cpu_ns_per_message.server.is_some());
    }
    assert!(run.timers.iter().any(|timer| timer.used));
    no_children_are_left();
}

#[test]
fn both_ends_on_one_cpu_are_measured_and_spinning_is_skipped() {
    let _alone = alone();
    let mut plan = plan(&["shm-futex", "shm-spin"], &[Kind::Latency], &[8]);
    plan.options.placement = Placement::Same;
    let run = bench(&plan, &context()).unwrap();
    let found: Vec<&str> = run.cells.iter().map(|cell| cell.placement.class.as_str()).collect();
    assert_eq!(found, ["same_cpu"]);
    let spin = run.skipped.iter().find(|one| one.mechanism == "shm-spin").unwrap();
    assert!(spin.reason.contains("spin"), "{}", spin.reason);
}

#[test]
fn every_size_gets_through() {
    let _alone = alone();
    let sizes = [1, 7, 63, 65, 4_095, 65_537, 4 << 20];
    let run = bench(&plan(&["shm-futex"], &[Kind::Latency], &sizes), &context()).unwrap();
    assert_eq!(run.cells.len(), sizes.len(), "{:?}", run.skipped);
}

/// What works here and can wait as it does by default.
fn usable() -> Vec<&'static str> {
    let is_usable = |mechanism: &Mechanism| {
        let spins = mechanism.waits()[0] == WaitPolicy::Spin;
        mechanism.supported().is_ok() && (!spins || has_two_cpus())
    };
    Mechanism::all().filter(is_usable).map(Mechanism::name).collect()
}

/// Rule R18: nothing is rounded up, and what hangs would be a failed cell.
#[test]
fn every_mechanism_is_measured_with_odd_sizes() {
    let _alone = alone();
    let names = usable();
    // One byte at a time fills a buffer too slowly to be asked for throughput here.
    let all = [
        (Kind::Latency, &[1, 63, 65, 4_095, 65_537][..]),
        (Kind::Throughput, &[4_095, 65_537][..]),
    ];
    for (kind, sizes) in all {
        let mut plan = plan(&names, &[kind], sizes);
        plan.options.launches = Some(1);
        let run = bench(&plan, &context()).unwrap();
        let failed: Vec<_> = run.skipped.iter().filter(|one| !one.unsupported).collect();
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!(run.cells.len(), names.len() * sizes.len(), "{:?}", run.skipped);
    }
    no_children_are_left();
}

/// Rule R5, for every mechanism.
#[test]
fn a_damaged_byte_fails_the_run_of_every_mechanism() {
    let _alone = alone();
    let context = RunContext { fault: Fault::Corrupt, ..context() };
    for name in usable() {
        let mut plan = plan(&[name], &[Kind::Latency], &[1_024]);
        plan.options.launches = Some(1);
        let error = bench(&plan, &context).unwrap_err();
        assert!(matches!(error, BenchError::Corrupt { .. }), "{name}: {error}");
    }
    no_children_are_left();
}

#[test]
fn a_damaged_byte_fails_the_run() {
    let _alone = alone();
    let context = RunContext { fault: Fault::Corrupt, ..context() };
    for shape in Shape::ALL {
        let plan = BenchPlan {
            shapes: Some(vec![shape]),
            ..plan(&["shm-futex"], &[Kind::Latency], &[1_024])
        };
        let error = bench(&plan, &context).unwrap_err();
        assert!(matches!(error, BenchError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("checksum"), "{error}");
    }
    no_children_are_left();
}

#[test]
fn a_slow_start_does_not_move_the_median() {
    let _alone = alone();
    // Spinning needs two CPUs; with one the runner skips it and says so, which is tested above.
    if nearcall_os::cpu::allowed().len() < 2 {
        return;
    }
    // By spinning, since a busy machine delays wake-ups by more than any slow start here.
    let mut plan = plan(&["shm-spin"], &[Kind::Latency], &[8]);
    plan.options.time_budget = Some(Duration::from_secs(3));
    let p50 = |cell: &Cell| cell.rtt_ns.as_ref().unwrap().p50.unwrap();
    let defaults = bench(&plan, &context()).unwrap();
    let slow = bench(&plan, &RunContext { fault: Fault::SlowStart, ..context() }).unwrap();
    let (defaults, slow) = (&defaults.cells[0], &slow.cells[0]);
    // Each slow exchange takes 20 µs longer: so does the first, and the median does not, unless the
    // run itself says that something else had its CPUs, and that its medians are of no use. Then
    // two ends that spin meet when the scheduler has them meet. That no slow exchange is measured,
    // whatever the load, is tested with a clock of its own (`exchange/client.rs`).
    assert!(slow.first_message_ns.unwrap() >= 20_000.0);
    // Rule R11: none of them is measured, unless the time for warming up was over, which is told.
    let is_capped = slow.tags.iter().any(|tag| tag == "warmup_capped");
    assert!(slow.warmup_samples >= 500 || is_capped, "warm after {}", slow.warmup_samples);
    let is_of_use = |cell: &Cell| cell.grade != Some(Grade::D);
    if is_of_use(defaults) && is_of_use(slow) {
        assert!(p50(slow) < p50(defaults) + 10_000.0, "{} and {}", p50(slow), p50(defaults));
    }
}

/// What is compared is measured in turn, in one pair of processes for each launch.
#[test]
fn the_cells_of_a_plain_run_share_their_launches_with_their_floors() {
    let _alone = alone();
    let both = [Kind::Latency, Kind::Throughput];
    let run = bench(&plan(&["pipe", "unix-stream", "shm-futex"], &both, &[8]), &context()).unwrap();
    assert_eq!((run.skipped.len(), run.cells.len()), (0, 6), "{:?}", run.skipped);
    for cell in run.cells.iter().chain(&run.floors) {
        assert_eq!(cell.pids, run.cells[0].pids, "{}", cell.mechanism);
    }
    for cell in &run.cells {
        let [low, high] = cell.ratio_to_floor_ci95.unwrap();
        let ratio = cell.ratio_to_floor.unwrap();
        assert!(low <= ratio && ratio <= high, "{}: {low} {ratio} {high}", cell.mechanism);
    }
    no_children_are_left();
}

/// Also what stays within one process has its slices.
#[test]
fn a_tour_has_every_floor() {
    let _alone = alone();
    let options = run_options(1, Duration::from_millis(300));
    let run = bench(
        &BenchPlan { kinds: vec![Kind::Latency], options, ..BenchPlan::default() },
        &context(),
    );
    let run = run.unwrap();
    let unsupported =
        |name: &str| run.skipped.iter().any(|one| one.mechanism == name && one.unsupported);
    for floor in Floor::ALL.into_iter().filter(|floor| *floor != Floor::Ring) {
        let cell = run.floors.iter().find(|cell| cell.mechanism == floor.name());
        let is_there = cell.is_some_and(|cell| cell.rtt_ns.as_ref().unwrap().p50.is_some());
        let needs = floor.needs_two_cpus() && !has_two_cpus();
        assert!(is_there || needs, "{floor}: {:?}", run.skipped);
    }
    assert!(run.skipped.iter().all(|one| unsupported(&one.mechanism) || !has_two_cpus()));
    no_children_are_left();
}

#[test]
fn a_process_that_dies_is_a_failed_cell() {
    let _alone = alone();
    let context = RunContext { fault: Fault::Die, ..context() };
    let run = bench(&plan(&["shm-futex"], &[Kind::Latency], &[8]), &context).unwrap();
    assert_eq!(run.cells, []);
    let failed = run.skipped.iter().find(|one| one.mechanism == "shm-futex").unwrap();
    assert!(!failed.unsupported && failed.reason.contains("go"), "{}", failed.reason);
    no_children_are_left();
}

#[test]
fn a_process_that_hangs_is_killed_and_a_failed_cell() {
    let _alone = alone();
    let context =
        RunContext { fault: Fault::Hang, patience: Duration::from_millis(500), ..context() };
    let started = nearcall_os::clock::now();
    let run = bench(&plan(&["shm-futex"], &[Kind::Latency], &[8]), &context).unwrap();
    assert!(started.elapsed() < Duration::from_secs(20));
    let failed = run.skipped.iter().find(|one| one.mechanism == "shm-futex").unwrap();
    assert!(failed.reason.contains("no result in time"), "{}", failed.reason);
    no_children_are_left();
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_says_so() {
    let _alone = alone();
    let launches = Flag::new(0);
    let context = context();
    let progress = |done: usize, _: usize, _: &str| launches.set(done);
    let interrupted = || launches.get() >= 2;
    let context = RunContext { progress: &progress, interrupted: &interrupted, ..context };
    let run = bench(&plan(&["shm-futex"], &[Kind::Latency], &[8]), &context).unwrap();
    assert!(run.partial && run.partial_reason.as_deref() == Some("interrupted"));
    assert_eq!(run.cells.len() + run.floors.len(), 2, "{:?}", run.skipped);
    no_children_are_left();
}

#[test]
fn the_time_ends_the_launches_and_the_cells_say_so() {
    let _alone = alone();
    let mut plan = plan(&["shm-futex"], &[Kind::Latency], &[8]);
    plan.options = run_options(1_000, Duration::from_secs(1));
    let started = nearcall_os::clock::now();
    let run = bench(&plan, &context()).unwrap();
    assert!(started.elapsed() < Duration::from_secs(20), "all thousand?");
    let cell = &run.cells[0];
    assert!(cell.launches >= 2 && cell.tags.iter().any(|tag| tag == "few_launches"));
    assert!(!run.partial && run.warnings.iter().any(|text| text.contains("time was over")));
}

#[test]
fn what_cannot_be_measured_is_an_error_that_says_why() {
    let plan = BenchPlan {
        waits: Some(vec![WaitPolicy::Poll]),
        ..plan(&["shm-futex"], &[Kind::Latency], &[8])
    };
    let error = bench(&plan, &context()).unwrap_err().to_string();
    assert!(error.contains("shm-futex: cannot wait by poll"), "{error}");
}

#[test]
fn polled_mechanisms_are_measured_where_there_are_any() {
    let _alone = alone();
    let polled = |mechanism: &Mechanism| mechanism.waits().contains(&WaitPolicy::Poll);
    let names: Vec<&str> = Mechanism::all().filter(polled).map(Mechanism::name).collect();
    let mut plan = plan(&names, &[Kind::Latency, Kind::Throughput], &[8, 65_537]);
    plan.waits = Some(vec![WaitPolicy::Poll]);
    plan.options.launches = Some(1);
    let run = bench(&plan, &context()).unwrap();
    let failed: Vec<_> = run.skipped.iter().filter(|one| !one.unsupported).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert!(run.cells.len().is_multiple_of(4));
}

/// Rule R2: the processor's counter and the kernel's clock, around the same exchanges.
#[test]
fn both_clocks_tell_the_same_time_of_the_same_exchanges() {
    let _alone = alone();
    let subject = Subject::Mechanism(Mechanism::Pipe);
    let cell = CellSpec {
        conditions: Conditions { exchanges: 1_000, two_clocks: true, ..Conditions::default() },
        // Long, so that reading the clocks is a small part of it.
        ..CellSpec::latency(subject, Shape::Echo, 16_384, WaitPolicy::Block)
    };
    let plan =
        BenchPlan { options: run_options(3, Duration::from_secs(10)), ..BenchPlan::default() };
    let run = bench_specs(&plan, &[cell], &context()).unwrap();
    let [cell] = &run.study_cells[..] else { panic!("{:?}", run.skipped) };
    let by_clock_ns = &cell.study.as_ref().unwrap().launch_clock_medians_ns;
    assert_eq!((by_clock_ns.len(), cell.launch_medians_ns.len()), (3, 3));
    for (by_counter_ns, by_clock_ns) in cell.launch_medians_ns.iter().zip(by_clock_ns) {
        let apart = (by_counter_ns - by_clock_ns).abs() / by_clock_ns;
        assert!(apart <= 0.01, "{by_counter_ns} and {by_clock_ns} ns");
    }
}

#[test]
fn a_coarse_clock_allows_no_short_time() {
    let coarse = nearcall_results::run::Timer {
        source: "synthetic".to_owned(),
        granularity_ns: Some(1_000.0),
        ..Default::default()
    };
    assert!(!timers::allowed(9_000.0, &coarse) && timers::allowed(10_000.0, &coarse));
}

fn calls_plan(names: &[&str], callers: &[Caller]) -> BenchPlan {
    BenchPlan {
        mechanisms: Some(names.iter().map(|name| name.parse().unwrap()).collect()),
        callers: Some(callers.to_vec()),
        sizes_bytes: Some(vec![1_000]),
        options: run_options(2, Duration::from_millis(300)),
        ..BenchPlan::default()
    }
}

#[test]
fn calls_stand_beside_their_bare_exchange() {
    let _alone = alone();
    let plan = calls_plan(&["unix-stream", "shm-futex"], &Caller::ALL);
    let run = measure(&CALLS, &plan, &context()).unwrap();
    assert_eq!(run.warnings, [""; 0], "{:?}", run.skipped);
    // Two mechanisms, two callers, three calls; one of them as futures, and in one loop; two short
    // circuits.
    assert_eq!(run.cells.len(), 12 + 3 + 2 + 4, "{:?}", run.skipped);
    assert_eq!(run.bare.len(), 12 + 3 + 2);
    for cell in &run.cells {
        let call = cell.call.as_ref().unwrap();
        let is_remote = !call.client_wait.is_empty();
        assert_eq!(call.ratio_to_bare.is_some(), is_remote, "{call:?}");
        assert_eq!(call.ratio_to_bare_ci95.is_some(), is_remote, "{call:?}");
        assert_eq!(call.frame_bytes > cell.message_bytes, is_remote, "{call:?}");
        let one_process = ["same-loop", "typed", "bytes"].contains(&call.caller.as_str());
        assert_eq!(cell.cpu_ns_per_message.server.is_none(), one_process);
    }
    let waits = |caller: &str, mechanism: &str| {
        let of = |cell: &&Cell| {
            cell.mechanism == mechanism && cell.call.as_ref().unwrap().caller == caller
        };
        run.cells.iter().find(of).unwrap().wait.clone()
    };
    assert_eq!(waits("blocking", "unix-stream"), "block/poll");
    assert_eq!(waits("loop", "unix-stream"), "poll");
    assert_eq!(waits("loop", "shm-futex"), "block");
    let read = Run::parse(&run.to_json()).unwrap();
    assert_eq!((read.cells.len(), read.bare.len()), (run.cells.len(), run.bare.len()));
    assert!(read.cells.iter().all(|cell| cell.call.is_some()));
    no_children_are_left();
}

#[test]
fn a_breakdown_has_parts_a_sum_and_a_rest() {
    let _alone = alone();
    let plan = BenchPlan { breakdown: true, ..calls_plan(&["unix-stream"], &[Caller::Blocking]) };
    let run = measure(&CALLS, &plan, &context()).unwrap();
    let [breakdown] = &run.breakdowns[..] else { panic!("{:?}", run.breakdowns) };
    let sum: f64 = breakdown.parts.iter().map(|part| part.ns.unwrap()).sum();
    assert!((sum - breakdown.sum_ns.unwrap()).abs() < 1.0);
    let rest = breakdown.whole_ns.unwrap() - breakdown.sum_ns.unwrap();
    assert!((rest - breakdown.rest_ns.unwrap()).abs() < 1.0);
    assert_eq!(breakdown.parts.len(), 7);
    no_children_are_left();
}

#[test]
fn a_damaged_argument_fails_the_run() {
    let _alone = alone();
    let context = RunContext { fault: Fault::Corrupt, ..context() };
    let error = measure(&CALLS, &calls_plan(&["shm-futex"], &[Caller::Blocking]), &context);
    assert!(matches!(error, Err(BenchError::Corrupt { .. })), "{error:?}");
}

#[test]
fn a_server_of_calls_that_goes_away_or_hangs_skips_its_calls_and_keeps_the_rest() {
    let _alone = alone();
    for fault in [Fault::Die, Fault::Hang] {
        let context = RunContext { fault, patience: Duration::from_secs(2), ..context() };
        let plan = calls_plan(&["unix-stream"], &[Caller::Blocking, Caller::Typed]);
        let run = measure(&CALLS, &plan, &context).unwrap();
        let left: Vec<&str> = run.cells.iter().map(|cell| cell.mechanism.as_str()).collect();
        assert_eq!(left, ["short-circuit", "short-circuit"], "{:?}", run.skipped);
        assert!(run.skipped.iter().any(|one| one.mechanism == "unix-stream"));
    }
    no_children_are_left();
}

#[test]
fn budgets_stand_beside_their_floors() {
    let _alone = alone();
    let quick = RunOptions { quick: true, ..run_options(2, Duration::from_secs(1)) };
    let run = measure(&BUDGETS, &BenchPlan { options: quick, ..BenchPlan::default() }, &context())
        .unwrap();
    no_children_are_left();
    check_fields(&run);
    assert_eq!(run.warnings, [""; 0]);
    for budget in &run.budgets {
        let needs = !has_two_cpus() && run.skipped.iter().any(|one| one.mechanism == budget.what);
        assert!(budget.value.is_some() || needs, "{budget:?} {:?}", run.skipped);
        assert_eq!(budget.verdict == Verdict::Unmeasured, budget.value.is_none());
        assert_eq!(budget.floor.is_some(), budget.floor_value.is_some() || needs);
    }
    let beside: Vec<&Cell> =
        run.cells.iter().filter(|cell| cell.load == "100 idle connections").collect();
    assert_eq!(beside.len(), if has_two_cpus() { 2 } else { 0 });
    let shared = |cell: &&Cell| cell.placement.class == "same_cpu";
    assert!(run.cells.iter().any(|cell| shared(&cell)) && run.floors.iter().any(|c| shared(&c)));
    let [rest] = &run.at_rest[..] else { panic!("{:?}", run.at_rest) };
    assert_eq!((rest.idle_connections, rest.launches), (100, 2));
}

#[test]
fn waits_have_a_pace_and_count_from_when_a_call_was_due() {
    let _alone = alone();
    let plan = BenchPlan {
        waits: Some(vec![WaitPolicy::Block]),
        options: RunOptions { quick: true, ..run_options(1, Duration::from_secs(1)) },
        ..BenchPlan::default()
    };
    let run = measure(&WAIT_POLICIES, &plan, &context()).unwrap();
    no_children_are_left();
    assert!(!run.cells.is_empty() && run.warnings.is_empty(), "{:?}", run.warnings);
    for cell in &run.cells {
        let pace = cell.pace.as_ref().unwrap();
        assert_eq!((cell.definition, pace.rate_per_s >= 100), (Definition::FromIntended, true));
        assert!(pace.achieved_per_s.unwrap() > 0.0 && pace.service_ns.p50.unwrap() > 0.0);
        let both = cell.cpu_ns_per_message;
        assert!(both.client.unwrap() > 0.0 && both.server.unwrap() > 0.0, "{both:?}");
    }
    let same = run.cells.iter().filter(|cell| cell.placement.class == "same_cpu").count();
    assert_eq!(same, if has_two_cpus() { run.cells.len() / 2 } else { run.cells.len() });
    assert!(run.at_rest.iter().all(|rest| rest.idle_connections == 0 && rest.observed_ns > 0));
}
