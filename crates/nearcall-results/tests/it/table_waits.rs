//! The table of a made-up run of waits, compared with the text in `tests/golden`.

use nearcall_results::noise::Grade;
use nearcall_results::report::table::{details, table};
use nearcall_results::run::{
    AtRest, CallFacts, Cell, Definition, PaceFacts, Placement, RttNs, Run, WaitComparison,
    WaitRatio,
};

use crate::table::{PAGE, check, empty, latency, place};

fn paced(name: &str, wait: &str, one_cpu: bool, rate_per_s: u32, ns: f64) -> Cell {
    let mut cell = latency(name, 0, wait, ns, None);
    place(&mut cell, wait, [ns * 0.8, ns * 1.1], Grade::B);
    if one_cpu {
        let class = "same_cpu".to_owned();
        cell.placement = Placement { class, client_cpu: Some(1), server_cpu: Some(1) };
    }
    cell.shape = "call".to_owned();
    cell.definition = Definition::FromIntended;
    cell.call = Some(CallFacts { client_wait: wait.to_owned(), ..CallFacts::default() });
    cell.pace = Some(PaceFacts {
        rate_per_s,
        achieved_per_s: Some(f64::from(rate_per_s)),
        kept: true,
        planned: 1_000,
        sent: 1_000,
        service_ns: RttNs { p50: Some(ns * 0.95), ..RttNs::default() },
        launch_service_medians_ns: vec![ns * 0.95; 2],
    });
    cell
}

fn rest(wait: &str, cpu_ns: u64, voluntary_switches: u64) -> AtRest {
    AtRest {
        mechanism: "shm".to_owned(),
        wait: wait.to_owned(),
        launches: 3,
        observed_ns: 3_000_000_000,
        cpu_ns: Some(cpu_ns),
        voluntary_switches: Some(voluntary_switches),
        threads: Some(1),
        private_bytes: Some(912_384.0),
        ..AtRest::default()
    }
}

fn run() -> Run {
    let mut run = empty();
    let mut behind = paced("unix-stream", "block", false, 100_000, 45e6);
    if let Some(pace) = &mut behind.pace {
        (pace.kept, pace.achieved_per_s) = (false, Some(61_200.0));
    }
    run.cells = vec![
        paced("shm", "adaptive", true, 10, 31_000.0),
        paced("shm", "adaptive", false, 10, 62_000.0),
        paced("unix-stream", "block", false, 10, 71_000.0),
        paced("shm", "spin", false, 10, 2_100.0),
        paced("shm", "block", false, 10, 58_000.0),
        behind,
        paced("shm", "adaptive", false, 100_000, 470.0),
        paced("shm", "spin", false, 100_000, 440.0),
    ];
    let compared = |rate_per_s, better: &str, latency_ratio| WaitComparison {
        mechanism: "shm".to_owned(),
        class: "same_llc".to_owned(),
        rate_per_s,
        better: better.to_owned(),
        latency_ratio: Some(latency_ratio),
        latency_ratio_ci95: Some([latency_ratio * 0.9, latency_ratio * 1.1]),
        cheaper: "block".to_owned(),
        cpu_ratio: Some(1.02),
        others: vec![
            WaitRatio {
                wait: "spin".to_owned(),
                latency_ratio: Some(latency_ratio),
                cpu_ratio: Some(0.01),
            },
            WaitRatio { wait: "block".to_owned(), latency_ratio: None, cpu_ratio: Some(1.02) },
        ],
    };
    run.waits = vec![compared(10, "spin", 29.5), compared(100_000, "spin", 1.07)];
    run.at_rest = vec![rest("spin", 2_994_000_000, 0), rest("adaptive", 0, 1)];
    run
}

#[test]
fn waits_in_one_table() {
    check(&table(&run(), PAGE), "table_waits.txt");
}

#[test]
fn every_cell_of_the_waits() {
    check(&details(&run(), PAGE), "details_waits.txt");
}

#[test]
fn the_waits_of_a_stored_run_are_the_same_again() {
    let again = Run::parse(&run().to_json()).unwrap();
    assert_eq!(table(&again, PAGE), table(&run(), PAGE));
}

#[test]
fn waits_from_a_file_cannot_harm_the_terminal() {
    let mut run = run();
    run.cells[0].mechanism = "\u{1b}[2J".repeat(1_000);
    run.cells[1].placement.class = "\u{202e}".repeat(100);
    run.at_rest[0].wait = "\r\n".to_owned();
    run.at_rest[1].observed_ns = 0;
    run.at_rest.extend(vec![run.at_rest[0].clone(); 10_000]);
    let found = table(&run, PAGE);
    assert!(found.chars().all(|c| c == '\n' || !c.is_control()));
    assert!(found.lines().all(|line| line.chars().count() <= 100));
    assert!(found.lines().count() < 1_000);
}
