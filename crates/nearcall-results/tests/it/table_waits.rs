//! A made-up run of waits.

use nearcall_results::noise::Grade;
use nearcall_results::run::{
    AtRest, CallFacts, Cell, Definition, PaceFacts, Placement, RttNs, Run, WaitComparison,
    WaitRatio,
};

use crate::table::{empty, latency, place};

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

pub(crate) fn run() -> Run {
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
