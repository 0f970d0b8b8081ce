//! Made-up runs of traffic.

use nearcall_results::noise::Grade;
use nearcall_results::report::table::{details, table};
use nearcall_results::run::{
    BurstFacts, Cell, ClientsFacts, Definition, GapFacts, PaceFacts, RttNs, Run, StartFacts,
};

use crate::table::{PAGE, empty, latency, place};

fn cell(name: &str, wait: &str, ns: f64) -> Cell {
    let mut cell = latency(name, 8, wait, ns, None);
    place(&mut cell, wait, [ns * 0.8, ns * 1.1], Grade::B);
    cell
}

fn times(ns: f64) -> RttNs {
    RttNs {
        p50: Some(ns),
        p99: Some(ns * 2.5),
        p999: Some(ns * 4.0),
        p50_ci95: Some([ns * 0.9, ns * 1.1]),
        ..RttNs::default()
    }
}

fn run_of(cells: impl IntoIterator<Item = Cell>) -> Run {
    let mut run = empty();
    run.cells.extend(cells);
    run
}

pub(crate) fn pace() -> Run {
    let open = |name: &str, wait: &str, rate_per_s: u32, kept: bool| {
        let mut cell = cell(name, wait, if kept { 9_100.0 } else { 45e6 });
        cell.definition = Definition::FromIntended;
        cell.pace = Some(PaceFacts {
            rate_per_s,
            planned: 10_000,
            sent: if kept { 10_000 } else { 6_120 },
            achieved_per_s: Some(f64::from(rate_per_s) * if kept { 1.0 } else { 0.612 }),
            kept,
            service_ns: times(8_400.0),
            launch_service_medians_ns: vec![8_400.0; 2],
        });
        if !kept {
            cell.tags.push("behind".to_owned());
        }
        cell
    };
    run_of([
        cell("shm", "adaptive", 410.0),
        open("shm", "adaptive", 10_000, true),
        open("shm", "adaptive", 100_000, true),
        cell("tcp", "block", 14_200.0),
        open("tcp", "block", 10_000, true),
        open("tcp", "block", 100_000, false),
    ])
}

pub(crate) fn gap() -> Run {
    let after = |name: &str, gap_ns: u64, achieved: Option<f64>, idle: &str, ns: f64| {
        let mut cell = cell(name, "block", ns);
        cell.gap = Some(GapFacts { gap_ns, achieved_gap_ns: achieved, idle: idle.to_owned() });
        cell
    };
    run_of([
        after("pipe", 0, None, "nothing", 8_100.0),
        after("pipe", 10_000, Some(10_060.0), "spins", 9_300.0),
        after("pipe", 100_000_000, Some(100_071_000.0), "sleeps", 61_000.0),
        after("tcp", 0, None, "nothing", 14_000.0),
        after("tcp", 100_000_000, Some(100_068_000.0), "sleeps", 83_000.0),
    ])
}

pub(crate) fn burst() -> Run {
    let of = |name: &str, messages: u32, ns: f64| {
        let mut cell = cell(name, "block", ns);
        cell.shape = "sink".to_owned();
        cell.definition = Definition::WholeBurst;
        let per_message_ns = Some(ns / f64::from(messages));
        cell.burst = Some(BurstFacts { messages, per_message_ns, per_message_ns_ci95: None });
        cell
    };
    run_of([of("pipe", 1, 8_100.0), of("pipe", 512, 310_000.0), of("posix-mq", 1, 9_000.0)])
}

pub(crate) fn clients() -> Run {
    let of = |clients: u32, rate: f64, ns: f64, share: f64| {
        let mut cell = cell("unix-stream", "block/poll", ns);
        cell.shape = "call".to_owned();
        cell.message_bytes = 0;
        cell.clients = Some(ClientsFacts {
            clients,
            calls_per_s: Some(rate),
            calls_per_s_ci95: Some([rate * 0.9, rate * 1.1]),
            slowest_share: Some(share),
            ..ClientsFacts::default()
        });
        cell
    };
    run_of([of(1, 91_000.0, 10_800.0, 1.0), of(256, 143_000.0, 1_790_000.0, 0.94)])
}

pub(crate) fn threads() -> Run {
    let of = |clients: u32, loops: u32, rate: f64, ns: f64| {
        let mut cell = cell("shm", "adaptive", ns);
        cell.shape = "call".to_owned();
        cell.message_bytes = 0;
        cell.clients = Some(ClientsFacts {
            clients,
            loops: Some(loops),
            served: Some(123_456),
            calls_per_s: Some(rate),
            calls_per_s_ci95: Some([rate * 0.9, rate * 1.1]),
            slowest_share: Some(0.97),
            ..ClientsFacts::default()
        });
        cell
    };
    run_of([
        of(1, 1, 510_000.0, 1_900.0),
        of(8, 1, 830_000.0, 9_600.0),
        of(1, 2, 500_000.0, 1_950.0),
        of(8, 2, 1_310_000.0, 6_000.0),
    ])
}

pub(crate) fn start() -> Run {
    let of = |name: &str, wait: &str, ns: f64| {
        let mut cell = cell(name, wait, ns);
        cell.definition = Definition::SetUp;
        cell.start = Some(StartFacts {
            connects: 50,
            fresh_set_up_ns: times(ns * 2.0),
            fresh_first_message_ns: times(ns / 4.0),
            first_message_ns: times(ns / 9.0),
            close_ns: times(ns / 10.0),
            tear_down_ns: times(ns / 3.0),
            word_ns: Some(4_100.0),
        });
        cell
    };
    run_of([of("shm", "adaptive", 180_000.0), of("unix-seqpacket", "block", 150_000.0)])
}

#[test]
fn all_times_say_whether_their_loop_was_open_or_closed() {
    for run in [pace(), gap(), burst(), clients(), threads()] {
        assert!(
            table(&run, PAGE).contains("closed loop")
                && details(&run, PAGE).contains("closed loop")
        );
    }
    assert!(
        table(&pace(), PAGE).contains("open loop") && details(&pace(), PAGE).contains("open loop")
    );
}

#[test]
fn a_failed_cell_shows_no_time() {
    for text in [table(&pace(), PAGE), details(&pace(), PAGE)] {
        assert!(text.contains("failed") && !text.contains("45.0 ms"), "{text}");
    }
}
