//! Real launches beside real loads: what they achieve is stored, and nothing of them is left.

use std::time::Duration;

use nearcall_bench::bench_plan::{BenchPlan, RunOptions};
use nearcall_bench::experiment::{MATRIX, measure};
use nearcall_bench::launch::Fault;
use nearcall_bench::runner::RunContext;
use nearcall_bench::touch::Touch;
use nearcall_results::load::Load;
use nearcall_results::run::{Cell, Kind, LoadAchieved};

use crate::bench;
use crate::runner::{alone, context, no_children_are_left, plan};

fn beside(load: Load, budget_ms: u64) -> BenchPlan {
    let mut plan = plan(&["pipe"], &[Kind::Latency], &[8]);
    plan.options.load = load;
    plan.options.time_budget = Some(Duration::from_millis(budget_ms));
    plan
}

#[track_caller]
fn achieved(cell: &Cell) -> &LoadAchieved {
    cell.load_achieved.as_ref().unwrap()
}

#[test]
fn a_run_beside_stress_says_what_the_workers_did() {
    let _alone = alone();
    let run = bench(&beside(Load::STRESS, 300), &context()).unwrap();
    no_children_are_left();
    let cpus = nearcall_os::cpu::allowed().len();
    for cell in run.cells.iter().chain(&run.floors) {
        assert_eq!(cell.load, "cpu,memory,io");
        let found = achieved(cell);
        assert_eq!(found.cpu_percent.len(), cpus, "{found:?}");
        assert!(found.cpu_percent.iter().all(|&percent| percent > 1.0), "{found:?}");
        assert!(found.memory_bytes_per_s.unwrap() > 0.0, "{found:?}");
        assert!(found.observed_ns > 0 && found.io_bytes_per_s.is_some(), "{found:?}");
        let is_tagged = cell.tags.iter().any(|tag| tag == "load_not_reached");
        assert_eq!(is_tagged, !found.not_reached.is_empty(), "{found:?}");
        // The ends waited for their CPU all the time, and that is no noise.
        assert!(!cell.noise.iter().any(|text| text.contains("waiting for the CPU")));
        assert!(
            !cell.noise.iter().any(|text| text.contains("some task waited")),
            "{:?}",
            cell.noise
        );
    }
}

#[test]
fn a_duty_cycle_is_calibrated_and_kept() {
    let _alone = alone();
    let run = bench(&beside(Load::duty(35), 600), &context()).unwrap();
    no_children_are_left();
    let cpus: Vec<u32> =
        nearcall_os::cpu::allowed().into_iter().map(|cpu| u32::try_from(cpu).unwrap()).collect();
    for cell in &run.cells {
        let found = achieved(cell);
        assert_eq!((cell.load.as_str(), &found.cpus), ("35%", &cpus));
        assert_eq!(found.calibrated_percent.len(), cpus.len());
        // A machine that is busy with other tests gives less, and then says so.
        for &percent in &found.cpu_percent {
            assert!((1.0..60.0).contains(&percent), "{found:?}");
            let is_near = (percent - 35.0).abs() <= 10.0;
            assert!(is_near || !found.not_reached.is_empty(), "{found:?}");
        }
    }
}

#[test]
fn an_idle_run_has_no_load() {
    let _alone = alone();
    let run = bench(&beside(Load::default(), 300), &context()).unwrap();
    assert!(run.cells.iter().all(|cell| cell.load == "idle" && cell.load_achieved.is_none()));
}

#[test]
fn workers_are_gone_also_after_a_failed_and_an_interrupted_launch() {
    let _alone = alone();
    let failing = RunContext { fault: Fault::Die, ..context() };
    let run = bench(&beside(Load::STRESS, 300), &failing).unwrap();
    assert!(run.cells.is_empty());
    no_children_are_left();
    let begin = nearcall_os::clock::now();
    let interrupted = || begin.elapsed() > Duration::from_millis(300);
    let context = RunContext { interrupted: &interrupted, ..context() };
    let run = bench(&beside(Load::duty(50), 20_000), &context).unwrap();
    assert!(run.partial && begin.elapsed() < Duration::from_secs(10));
    no_children_are_left();
}

#[test]
fn a_payload_that_is_not_touched_is_labelled_and_still_arrives() {
    let _alone = alone();
    for touch in [Touch::Header, Touch::None] {
        let kinds = [Kind::Latency, Kind::Throughput];
        let mut plan = plan(&["shm", "pipe"], &kinds, &[8, 4_095, 1 << 20]);
        plan.touch = touch;
        plan.options.launches = Some(1);
        let run = bench(&plan, &context()).unwrap();
        assert_eq!(run.settings.touch, touch.name());
        assert_eq!(run.cells.len(), 12, "{:?}", run.skipped);
        let tag = format!("touch_{touch}");
        assert!(run.cells.iter().all(|cell| cell.tags.contains(&tag)));
    }
    no_children_are_left();
}

#[test]
fn whether_memory_was_locked_stands_in_the_settings() {
    let _alone = alone();
    let run = bench(&beside(Load::default(), 300), &context()).unwrap();
    let words = run.settings.memory.as_str();
    // Root and processes without a limit may lock what they like: there it has to be locked.
    let may_lock = nearcall_os::procfs_memory::lock_limit_bytes().is_none();
    let refused = !may_lock && words.starts_with("not locked: the limit is");
    assert!(words == "locked, both ends" || refused, "{words:?}");
    assert_eq!(run.settings.sleep_states, "");
}

#[test]
fn sleep_states_are_kept_off_or_the_reason_is_told() {
    let _alone = alone();
    let mut plan = beside(Load::default(), 300);
    plan.options.awake = true;
    let run = bench(&plan, &context()).unwrap();
    let words = run.settings.sleep_states.as_str();
    let held = run.machine.state.idle_held.unwrap();
    assert_eq!(held, words == "kept off", "{words:?}");
    assert!(held || words.starts_with("not kept off: /dev/cpu_dma_latency"), "{words:?}");
}

#[test]
fn a_buffer_that_is_not_given_fails_its_cell_unless_allowed() {
    let _alone = alone();
    // A socket's buffer is twice what it is told.
    let asked = BenchPlan {
        buffer_bytes: Some(65_536),
        ..plan(&["pipe", "unix-stream"], &[Kind::Latency], &[8])
    };
    let run = bench(&asked, &context()).unwrap();
    let names: Vec<&str> = run.cells.iter().map(|cell| cell.mechanism.as_str()).collect();
    assert_eq!(names, ["pipe"], "{:?}", run.skipped);
    let refused = run.skipped.iter().find(|one| one.mechanism == "unix-stream").unwrap();
    assert!(refused.reason.contains("--allow-buffer-mismatch"), "{}", refused.reason);
    let run = bench(&BenchPlan { allow_different_sizes: true, ..asked }, &context()).unwrap();
    let socket = run.cells.iter().find(|cell| cell.mechanism == "unix-stream").unwrap();
    assert!(socket.tags.iter().any(|tag| tag == "size_changed"), "{:?}", socket.sizes);
}

/// Rule R7: both directions, and where each end really ran.
#[test]
fn a_matrix_has_both_directions_and_each_cpu_with_itself() {
    let _alone = alone();
    let plan = BenchPlan {
        mechanisms: Some(vec!["pipe".parse().unwrap()]),
        options: RunOptions {
            launches: Some(2),
            time_budget: Some(Duration::from_secs(1)),
            ..RunOptions::default()
        },
        ..BenchPlan::default()
    };
    let run = measure(&MATRIX, &plan, &context()).unwrap();
    no_children_are_left();
    let facts = run.matrix.as_ref().unwrap();
    let cpus = facts.cpus.len() as u64;
    assert_eq!(facts.pairs, cpus * cpus);
    let pairs: Vec<_> = run
        .cells
        .iter()
        .map(|cell| (cell.placement.client_cpu.unwrap(), cell.placement.server_cpu.unwrap()))
        .collect();
    assert_eq!(pairs.len() as u64 + facts.left_out, facts.pairs, "{:?}", run.skipped);
    for &(client, server) in &pairs {
        assert!(pairs.contains(&(server, client)), "{pairs:?}");
    }
    for cell in &run.cells {
        assert!(!cell.tags.iter().any(|tag| tag == "migrated"), "{:?}", cell.placement);
    }
}
