//! Real launches of traffic with tiny budgets; this test program itself is both processes.

use std::time::Duration;

use nearcall_bench::bench_plan::{BenchPlan, Placement, RunOptions};
use nearcall_bench::experiment::{BURST, CLIENTS, CONNECT, IDLE_GAP, OPEN_LOOP, THREADS, measure};
use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::run::{Cell, Definition};

use crate::runner::{alone, context, no_children_are_left};

fn plan(mechanism: Mechanism, time: Duration) -> BenchPlan {
    BenchPlan {
        mechanisms: Some(vec![mechanism]),
        waits: Some(vec![mechanism.waits()[0]]),
        options: RunOptions { launches: Some(1), time_budget: Some(time), ..RunOptions::default() },
        ..BenchPlan::default()
    }
}

/// Exchanges per second of a test that is to be told nothing by what else the machine does: twenty
/// of them are made in a second, however little time there was for more.
const SLOWLY: u32 = 20;

/// Six exchanges are due meanwhile.
const STALL: Duration = Duration::from_millis(300);

#[test]
fn a_stall_of_the_receiver_shows_in_the_open_loop_and_not_in_the_closed_one() {
    let _alone = alone();
    let of_shm = plan(Mechanism::Shm, Duration::from_secs(5));
    let stall_ns = u64::try_from(STALL.as_nanos()).unwrap();
    let plan = BenchPlan { rates_per_s: Some(vec![SLOWLY]), stall_ns: Some(stall_ns), ..of_shm };
    let run = measure(&OPEN_LOOP, &plan, &context()).unwrap();
    no_children_are_left();
    assert!(run.warnings.iter().any(|text| text.contains("sleeps for 300 ms")));
    let of = |is_open| run.cells.iter().find(|cell| cell.pace.is_some() == is_open).unwrap();
    let closed = of(false).rtt_ns.as_ref().unwrap();
    let pace = of(true).pace.as_ref().unwrap();
    // The same exchanges, from when they were due and from when they began.
    let (from_due, from_begin) = (of(true).rtt_ns.as_ref().unwrap(), &pace.service_ns);
    let times = format!("{from_due:?} {from_begin:?} {closed:?}");
    // One has met the stall. Counted from its beginning, it alone has waited.
    assert!(from_begin.max.unwrap() >= stall_ns, "{times}");
    // Those that were due meanwhile have waited for 250, 200 ... 50 ms at least: nothing that is
    // due begins before the one has ended. Or the last would have begun too late, and are not made.
    let waited_ns = (from_due.mean.unwrap() - from_begin.mean.unwrap()) * pace.sent as f64;
    let is_behind = pace.sent < pace.planned;
    assert!(waited_ns > 2.0 * STALL.as_nanos() as f64 || is_behind, "{times} {pace:?}");
    assert!(closed.p50.unwrap() < STALL.as_nanos() as f64, "{times}");
}

#[test]
fn who_cannot_keep_the_pace_has_failed_and_says_how_far_it_got() {
    let _alone = alone();
    let of_tcp = plan(Mechanism::Tcp, Duration::from_secs(1));
    let plan = BenchPlan { rates_per_s: Some(vec![1_000_000]), ..of_tcp };
    let run = measure(&OPEN_LOOP, &plan, &context()).unwrap();
    let of_pace = |cell: &&Cell| cell.pace.is_some();
    let cell = run.cells.iter().find(of_pace).unwrap();
    let pace = cell.pace.as_ref().unwrap();
    assert!(!pace.kept && pace.sent < pace.planned && pace.sent > 0, "{pace:?}");
    assert!(pace.achieved_per_s.unwrap() < 1e6 && pace.service_ns.p50.is_some());
    assert_eq!(cell.definition, Definition::FromIntended);
    assert!(cell.tags.iter().any(|tag| tag == "behind"));
    let row = |text: &str| {
        let from = text.find("1000000 per second").unwrap();
        text[from..].lines().find(|line| line.contains("tcp")).unwrap().to_owned()
    };
    let (short, full) = (
        nearcall_results::report::table::table(&run, crate::PAGE),
        nearcall_results::report::table::details(&run, crate::PAGE),
    );
    for text in [short, full] {
        assert!(row(&text).contains("failed"), "{text}");
        assert!(text.contains("closed loop") && text.contains("open loop"), "{text}");
    }
}

#[test]
fn gaps_are_kept_and_say_what_the_client_does_in_them() {
    let _alone = alone();
    let gaps = [(0, "nothing"), (10_000, "spins"), (1_000_000, "sleeps")];
    let gaps_ns = Some(gaps.map(|(ns, _)| ns).to_vec());
    let plan = BenchPlan { gaps_ns, ..plan(Mechanism::Pipe, Duration::from_secs(1)) };
    let run = measure(&IDLE_GAP, &plan, &context()).unwrap();
    no_children_are_left();
    assert_eq!((run.cells.len(), &run.warnings[..]), (3, &[][..]), "{:?}", run.skipped);
    for (cell, (gap_ns, idle)) in run.cells.iter().zip(gaps) {
        let gap = cell.gap.as_ref().unwrap();
        assert_eq!((gap.gap_ns, gap.idle.as_str()), (gap_ns, idle));
        let is_long_enough = |achieved: f64| achieved >= gap_ns as f64 * 0.99;
        assert_eq!(gap.achieved_gap_ns.map(is_long_enough), (gap_ns > 0).then_some(true));
        assert!(cell.rtt_ns.as_ref().unwrap().p50.unwrap() > 0.0 && cell.pace.is_none());
        // What passes in a gap belongs to no exchange.
        assert!(cell.rtt_ns.as_ref().unwrap().min.unwrap() < 900_000);
    }
    assert!(nearcall_results::report::table::table(&run, crate::PAGE).contains("closed loop"));
}

#[test]
fn a_burst_may_be_longer_than_the_channel_has_room_for() {
    let _alone = alone();
    // The queue holds ten messages, the pipe sixteen of these.
    for (mechanism, message_bytes) in [(Mechanism::PosixMq, 8), (Mechanism::Pipe, 4_096)] {
        let plan = BenchPlan {
            sizes_bytes: Some(vec![message_bytes]),
            burst_messages: Some(vec![1, 512]),
            ..plan(mechanism, Duration::from_secs(1))
        };
        let run = measure(&BURST, &plan, &context()).unwrap();
        no_children_are_left();
        if run.skipped.iter().any(|one| one.unsupported) {
            continue;
        }
        assert_eq!(run.cells.len(), 2, "{:?}", run.skipped);
        for cell in &run.cells {
            let burst = cell.burst.as_ref().unwrap();
            assert_eq!((cell.definition, cell.shape.as_str()), (Definition::WholeBurst, "sink"));
            assert!(cell.count.is_multiple_of(burst.messages.into()) && cell.count > 0);
            let whole = cell.rtt_ns.as_ref().unwrap().p50.unwrap();
            let each = whole / f64::from(burst.messages);
            assert!((burst.per_message_ns.unwrap() - each).abs() < 1.0);
        }
    }
}

#[test]
fn many_clients_are_counted_together_and_each_by_itself() {
    let _alone = alone();
    let clients = Some(vec![1, 16]);
    let of_socket = plan(Mechanism::UnixStream, Duration::from_secs(1));
    let plan = BenchPlan { waits: None, clients, ..of_socket };
    let run = measure(&CLIENTS, &plan, &context()).unwrap();
    no_children_are_left();
    assert_eq!((run.cells.len(), &run.warnings[..]), (2, &[][..]), "{:?}", run.skipped);
    for (cell, clients) in run.cells.iter().zip([1, 16]) {
        let facts = cell.clients.as_ref().unwrap();
        assert_eq!(facts.clients, clients);
        assert!(cell.count >= u64::from(clients) && facts.calls_per_s.unwrap() > 0.0);
        let share = facts.slowest_share.unwrap();
        assert!(share > 0.0 && share <= 1.0 && (clients > 1 || share == 1.0), "{share}");
        assert!(facts.descriptors_max.unwrap() > 0);
        let cpu = cell.cpu_ns_per_message;
        assert!(cpu.client.unwrap() > 0.0 && cpu.server.unwrap() > 0.0);
        assert_eq!(cell.call.as_ref().unwrap().caller, "blocking");
    }
}

#[test]
fn threads_of_one_caller_lose_no_call_to_any_loop() {
    let _alone = alone();
    let plan = BenchPlan {
        threads: Some(vec![1, 8]),
        loops: Some(vec![1, 2]),
        waits: Some(vec![WaitPolicy::Adaptive]),
        ..plan(Mechanism::Shm, Duration::from_secs(2))
    };
    let run = measure(&THREADS, &plan, &context()).unwrap();
    no_children_are_left();
    assert_eq!(run.cells.len(), 4, "{:?}", run.skipped);
    for (cell, expected) in run.cells.iter().zip([(1, 1), (8, 1), (1, 2), (8, 2)]) {
        let facts = cell.clients.as_ref().unwrap();
        assert_eq!((facts.clients, facts.loops.unwrap()), expected);
        assert_eq!(facts.served, Some(cell.count), "every call was served once");
        assert_eq!(cell.placement.class, "unpinned");
        assert!(facts.calls_per_s.unwrap() > 0.0);
    }
}

#[test]
fn a_start_tells_new_processes_from_old_ones_and_when_the_server_noticed() {
    let _alone = alone();
    let names = [Mechanism::Shm, Mechanism::UnixStream, Mechanism::SysvMq];
    let plan = BenchPlan {
        mechanisms: Some(names.to_vec()),
        options: RunOptions {
            launches: Some(2),
            time_budget: Some(Duration::from_secs(2)),
            ..RunOptions::default()
        },
        ..BenchPlan::default()
    };
    let run = measure(&CONNECT, &plan, &context()).unwrap();
    no_children_are_left();
    let failed: Vec<_> = run.skipped.iter().filter(|one| !one.unsupported).collect();
    assert!(failed.is_empty() && run.warnings.is_empty(), "{failed:?} {:?}", run.warnings);
    for cell in &run.cells {
        let start = cell.start.as_ref().unwrap();
        assert_eq!(cell.definition, Definition::SetUp);
        assert!(start.connects >= 22 && cell.count >= 44, "{start:?}");
        let fresh = [&start.fresh_set_up_ns, &start.fresh_first_message_ns];
        assert!(fresh.iter().all(|times| times.p50.unwrap() > 0.0 && times.p50_ci95.is_some()));
        assert!(cell.rtt_ns.as_ref().unwrap().p50.unwrap() > 0.0);
        let [close, gone] = [&start.close_ns, &start.tear_down_ns].map(|times| times.p50.unwrap());
        assert!(close > 0.0 && gone > 0.0 && start.first_message_ns.p50.unwrap() > 0.0);
        assert!(start.word_ns.unwrap() > 0.0);
    }
}

#[test]
fn on_one_cpu_all_traffic_is_measured_and_spinning_is_skipped() {
    let _alone = alone();
    let mut plan = BenchPlan {
        rates_per_s: Some(vec![1_000]),
        gaps_ns: Some(vec![0]),
        burst_messages: Some(vec![8]),
        clients: Some(vec![4]),
        waits: Some(vec![WaitPolicy::Spin, WaitPolicy::Block]),
        ..plan(Mechanism::Shm, Duration::from_secs(1))
    };
    plan.options.placement = Placement::Same;
    for experiment in [&OPEN_LOOP, &IDLE_GAP, &BURST, &CLIENTS, &CONNECT] {
        let run = measure(experiment, &plan, &context()).unwrap();
        let classes: Vec<&str> = run.cells.iter().map(|one| one.placement.class.as_str()).collect();
        assert!(
            !classes.is_empty() && classes.iter().all(|class| *class == "same_cpu"),
            "{experiment:?}"
        );
        let spin = run.skipped.iter().find(|one| one.mechanism == "shm").unwrap();
        assert!(spin.reason.contains("spin on it"), "{}", spin.reason);
    }
    no_children_are_left();
}
