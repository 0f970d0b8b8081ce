//! Ratings of invented machines, of the paper's own figures, and of a stored run.

use std::path::Path;

use super::*;
use crate::load::Load;
use crate::report::hosts::hosts;
use crate::run::{Cell, Machine, RttNs, Run, Settings, StudyFacts};

fn run(cells: Vec<Cell>) -> Run {
    let mut run = Run::new(Machine::default(), Settings::default(), 1_795_230_660);
    let (of_studies, own) = cells.into_iter().partition(|cell| cell.study.is_some());
    (run.study_cells, run.cells) = (of_studies, own);
    run
}

fn latency(mechanism: &str, ns: f64, class: &str) -> Cell {
    let mut cell = Cell::new(Kind::Latency, mechanism, 8);
    cell.rtt_ns = Some(RttNs { p50: Some(ns), ..RttNs::default() });
    cell.placement.class = class.to_owned();
    cell.grade = Some(Grade::B);
    cell
}

/// As the study has measured it.
fn of_study(mut cell: Cell) -> Cell {
    let mechanism = cell.mechanism.clone();
    cell.study = Some(StudyFacts { study: ENEA.to_owned(), mechanism, ..Default::default() });
    cell
}

fn stressed(mut cell: Cell) -> Cell {
    cell.load = Load::STRESS.to_string();
    cell
}

fn throughput(mechanism: &str, bytes: u64, bytes_per_s: f64) -> Cell {
    let mut cell = Cell::new(Kind::Throughput, mechanism, bytes);
    cell.messages_per_s = Some(bytes_per_s / bytes as f64);
    cell.placement.class = "same_llc".to_owned();
    cell
}

/// The row of a machine with these cells.
fn row(cells: Vec<Cell>, property: &str) -> RatedProperty {
    let runs = [run(cells)];
    let hosts = hosts(&runs).unwrap();
    let found = recompute(&hosts[0]).properties;
    found.into_iter().find(|row| row.property == property).unwrap()
}

fn colours(row: &RatedProperty) -> [Option<Rating>; 4] {
    [0, 1, 2, 3].map(|index| row.fields[index].here)
}

use Rating::{Green, Red, Yellow};

#[test]
fn the_papers_own_latencies_across_cores_give_the_papers_colours() {
    // The medians of its table 1 across cores, in nanoseconds.
    let medians = [
        ("mempipe_lat(shm_flag_spin)", 550.0),
        ("pipe", 12_000.0),
        ("unix", 14_000.0),
        ("tcp", 26_000.0),
    ];
    let cells = medians.map(|(name, ns)| of_study(latency(name, ns, "same_llc")));
    let row = row(cells.to_vec(), "latency_different_cores");
    for field in &row.fields {
        assert_eq!(field.here, Some(field.paper), "{field:?}");
    }
}

#[test]
fn each_group_is_compared_with_the_best_by_its_best_member() {
    let cells = vec![
        latency("shm-futex", 9_000.0, "same_llc"),
        latency("shm-spin", 400.0, "same_llc"),
        latency("pipe", 700.0, "same_llc"),
        latency("unix-stream", 4_000.0, "same_llc"),
        latency("tcp", 40_000.0, "same_llc"),
        // Elsewhere, and no evidence here.
        latency("tcp", 1.0, "same_cpu"),
    ];
    let row = row(cells, "latency_different_cores");
    assert_eq!(colours(&row), [Some(Green), Some(Green), Some(Yellow), Some(Red)]);
    assert_eq!(row.fields[0].shown, "400 ns (shm-spin, 8 B), the best");
    assert_eq!(row.fields[3].shown, "40.0 µs (tcp, 8 B), 100× the best's time");
    assert_eq!((row.fields[3].unit.as_str(), row.fields[3].value), ("ns", Some(40_000.0)));
}

#[test]
fn rates_are_compared_at_one_size() {
    let cells = vec![
        throughput("shm", 64 << 10, 20e9),
        throughput("pipe", 64 << 10, 12e9),
        throughput("unix-stream", 64 << 10, 3e9),
        throughput("tcp", 64 << 10, 1e9),
        throughput("tcp", 1 << 20, 90e9),
        throughput("shm", 8, 1e9),
        throughput("pipe", 8, 2e9),
    ];
    let row_of = |property| row(cells.clone(), property);
    let large = row_of("throughput_larger_packets");
    assert_eq!(colours(&large), [Some(Green), Some(Green), Some(Yellow), Some(Red)]);
    let small = row_of("throughput_small_packets");
    assert_eq!(colours(&small), [Some(Green), Some(Green), None, None]);
    assert_eq!(small.fields[2].missing.as_ref().unwrap().command, "nearcall reproduce enea");
}

#[test]
fn load_is_judged_by_what_it_costs() {
    let pair = |name: &str, idle: f64, loaded: f64| {
        [latency(name, idle, "same_llc"), stressed(latency(name, loaded, "same_llc"))]
    };
    let cells = [
        pair("shm", 400.0, 440.0),
        pair("pipe", 9_000.0, 9_900.0),
        pair("unix-stream", 9_000.0, 18_000.0),
        pair("tcp", 9_000.0, 90_000.0),
    ];
    let row = row(cells.concat(), "latency_sensitivity_to_load");
    assert_eq!(colours(&row), [Some(Green), Some(Green), Some(Yellow), Some(Red)]);
    assert!(row.fields[2].shown.starts_with("2.00× the time under load (unix-stream, 8 B), 1.82×"));
}

#[test]
fn what_is_not_there_or_too_noisy_has_no_colour_and_a_command() {
    let runs = [run(Vec::new())];
    let hosts = hosts(&runs).unwrap();
    let found = recompute(&hosts[0]);
    assert_eq!((found.fields, found.rated), (32, 8), "only what needs no measuring");
    for row in found.properties.iter().filter(|row| row.measured) {
        for field in &row.fields {
            let missing = field.missing.as_ref().unwrap();
            assert!(field.here.is_none() && missing.command.starts_with("nearcall "), "{field:?}");
        }
    }
    let mut noisy = latency("tcp", 9_000.0, "same_llc");
    noisy.grade = Some(Grade::D);
    let cells = vec![latency("shm", 1.0, "same_llc"), latency("pipe", 1.0, "same_llc"), noisy];
    let row = row(cells, "latency_different_cores");
    assert!(row.fields[3].missing.as_ref().unwrap().reason.contains("grade D"));
    assert!(row.fields[2].missing.as_ref().unwrap().reason.contains("not measured"));
}

#[test]
fn what_times_cannot_tell_is_judged_by_the_mechanism() {
    let of = |property| colours(&row(Vec::new(), property));
    assert_eq!(of("data_integrity"), [Some(Yellow), Some(Green), Some(Green), Some(Yellow)]);
    assert_eq!(of("monitoring"), [Some(Red), Some(Yellow), Some(Yellow), Some(Green)]);
}

#[test]
fn every_field_of_the_paper_is_there_once() {
    let runs = [run(Vec::new())];
    let hosts = hosts(&runs).unwrap();
    let found = recompute(&hosts[0]);
    assert_eq!(found.fields, paper::ratings().len());
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Ratings>(&text).unwrap(), found);
}

#[test]
fn the_stored_studies_give_all_but_what_they_did_not_measure() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs/epyc-2cpu-studies.json");
    let runs = [Run::load(&path).unwrap()];
    let hosts = hosts(&runs).unwrap();
    let found = recompute(&hosts[0]);
    let row = |name: &str| found.properties.iter().find(|row| row.property == name).unwrap();
    let cross = colours(row("latency_different_cores"));
    assert_eq!(cross, [Some(Green), Some(Red), Some(Red), Some(Red)]);
    let large = colours(row("throughput_larger_packets"));
    assert_eq!(large, [Some(Green), Some(Red), Some(Yellow), Some(Yellow)]);
    let one_cpu = row("latency_same_core");
    assert!(one_cpu.fields[0].missing.as_ref().unwrap().reason.contains("NA"));
    // Every cell of unix under load has grade D, on both pairs.
    let unix = &row("latency_sensitivity_to_load").fields[2];
    assert!(unix.missing.as_ref().unwrap().reason.contains("grade D"), "{unix:?}");
    assert_eq!((found.rated, found.fields), (30, 32), "{found:#?}");
}

#[test]
fn figures_of_many_pairs_of_cpus_take_no_time() {
    let mut cells = Vec::new();
    for (client, server) in (0..60).flat_map(|client| (0..60).map(move |s| (client, s))) {
        for (mechanism, ns) in [("shm-spin", 400.0), ("pipe", 700.0)] {
            let mut cell = of_study(latency(mechanism, ns, "same_llc"));
            cell.placement.client_cpu = Some(client);
            cell.placement.server_cpu = Some(server);
            cells.push(cell);
        }
    }
    // Compared one by one these would be 50 million pairs.
    let row = row(cells, "latency_different_cores");
    assert_eq!(colours(&row)[..2], [Some(Green), Some(Green)]);
}
