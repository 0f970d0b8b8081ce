//! The table of a made-up run, compared with the text in `tests/golden`.
//!
//! `UPDATE_EXPECT=1 cargo test -p nearcall-bench` rewrites the expected texts; review the
//! difference.

use std::path::Path;

use nearcall_results::noise::Grade;
use nearcall_results::report::lines::Style;
use nearcall_results::report::table::{details, table};
use nearcall_results::run::{
    Breakdown, CallFacts, Cell, Kind, Machine, Part, PerEnd, Placement, RttNs, Run, Settings,
    Skipped, Timer, Tool,
};

/// The form of the golden texts.
pub(crate) const PAGE: Style = Style::new(Some(100), false);

#[track_caller]
pub(crate) fn check(found: &str, golden: &str) {
    for line in found.lines() {
        assert!(line.chars().count() <= 100, "wider than 100 columns: {line}");
        assert_eq!(line.trim_end(), line, "blanks at the end");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(found == expected, "{golden} differs; UPDATE_EXPECT=1 rewrites it\n{found}");
}

fn machine() -> Machine {
    let text = |text: &str| text.to_owned();
    Machine {
        id: text("9f3a61c07be24d18"),
        cpu_model: text("AMD EPYC 7B13"),
        cpus: Some(2),
        topology: text("1 socket, 1 core, 2 threads"),
        caches: vec![text("L1d 32 KiB"), text("L2 512 KiB"), text("L3 32 MiB")],
        memory_bytes: Some(8_323_072 << 10),
        kernel: text("Linux 6.18.3"),
        clocksource: text("tsc"),
        huge_pages: text("madvise"),
        hypervisor: text("kvm"),
        allowed_cpus: text("0-1"),
        ..Machine::default()
    }
}

pub(crate) fn empty() -> Run {
    let settings =
        Settings { touch: "full".to_owned(), launches: 5, seed: 42, ..Settings::default() };
    let mut run = Run::new(machine(), settings, 1_795_230_660);
    run.tool = Tool { version: "0.1.0".into(), profile: "release".into(), ..Tool::default() };
    run.timers = vec![Timer {
        source: "tsc".to_owned(),
        overhead_ns: Some(11.3),
        granularity_ns: Some(0.5),
        used: true,
        unusable: None,
    }];
    run
}

pub(crate) fn place(cell: &mut Cell, wait: &str, cpu_ns: [f64; 2], grade: Grade) {
    wait.clone_into(&mut cell.wait);
    cell.placement =
        Placement { class: "same_llc".to_owned(), client_cpu: Some(0), server_cpu: Some(1) };
    cell.cpu_ns_per_message = PerEnd { client: Some(cpu_ns[0]), server: Some(cpu_ns[1]) };
    cell.grade = Some(grade);
}

pub(crate) fn latency(
    name: &str,
    bytes: u64,
    wait: &str,
    p50: f64,
    floor: Option<(&str, f64)>,
) -> Cell {
    let mut cell = Cell::new(Kind::Latency, name, bytes);
    place(&mut cell, wait, [p50 * 0.6, p50 * 0.4], Grade::B);
    cell.rtt_ns = Some(RttNs {
        p50: Some(p50),
        p99: Some(p50 * 2.3),
        p50_ci95: Some([p50 * 0.98, p50 * 1.03]),
        ..RttNs::default()
    });
    cell.floor = floor.map(|(name, _)| name.to_owned());
    cell.ratio_to_floor = floor.map(|(_, ratio)| ratio);
    cell
}

fn throughput(name: &str, bytes: u64, wait: &str, per_s: f64, ratio: f64) -> Cell {
    let mut cell = Cell::new(Kind::Throughput, name, bytes);
    place(&mut cell, wait, [1e9 / per_s, 0.9e9 / per_s], Grade::A);
    "sink".clone_into(&mut cell.shape);
    cell.messages_per_s = Some(per_s);
    cell.messages_per_s_ci95 = Some([per_s * 0.88, per_s * 1.11]);
    cell.bytes_per_s = Some(per_s * bytes as f64);
    cell.bytes_per_s_ci95 = cell.messages_per_s_ci95.map(|ci| ci.map(|end| end * bytes as f64));
    cell.bits_per_cpu_s = Some(per_s * bytes as f64 * 8.0 / 1.9);
    cell.floor = Some("floor-chunked-copy".to_owned());
    cell.ratio_to_floor = Some(ratio);
    cell
}

pub(crate) fn full() -> Run {
    let mut run = empty();
    run.floors = vec![
        latency("floor-futex", 8, "block", 9_120.0, None),
        latency("floor-spin", 8, "spin", 141.0, None),
        latency("floor-unix-epoll", 8, "poll", 13_700.0, None),
    ];
    run.cells = vec![
        latency("pipe", 8, "block", 9_840.0, Some(("floor-unix", 0.91))),
        latency("shm-spin", 8, "spin", 148.2, Some(("floor-spin", 1.05))),
        latency("shm-futex", 8, "block", 9_480.0, Some(("floor-futex", 1.04))),
        latency("shm-spin", 1 << 20, "spin", 183_000.0, Some(("floor-chunked-copy", 1.12))),
        latency("unix-seqpacket", 1 << 20, "block", 812_000.0, Some(("floor-chunked-copy", 4.97))),
        throughput("shm-spin", 8, "spin", 21.3e6, 1.22),
        throughput("pipe", 8, "block", 0.871e6, 31.0),
        throughput("vmsplice", 1 << 20, "block", 9_870.0, 1.41),
    ];
    let disturbed = &mut run.cells[0];
    disturbed.grade = Some(Grade::D);
    disturbed.noise = vec!["50 % of the CPU taken by gaps".to_owned()];
    disturbed.tags = vec!["migrated".to_owned(), "page_faults".to_owned()];
    run.cells[2].tags = vec!["page_faults".to_owned(), "something_new".to_owned()];
    let short = &mut run.cells[4];
    short.rtt_ns = Some(RttNs { p50: Some(812_000.0), ..RttNs::default() });
    short.cpu_ns_per_message = PerEnd::default();
    short.grade = None;
    let skipped = |mechanism: &str, reason: &str, bytes: Option<u64>| Skipped {
        mechanism: mechanism.to_owned(),
        reason: reason.to_owned(),
        unsupported: bytes.is_none(),
        kind: bytes.map(|_| Kind::Latency),
        message_bytes: bytes,
        shape: bytes.map(|_| "echo".to_owned()),
        wait: bytes.map(|_| "block".to_owned()),
    };
    run.skipped = vec![
        skipped("uring", "io_uring is switched off (kernel.io_uring_disabled = 2)", None),
        skipped("posix-mq", "the queue limit of this machine is 8 KiB", Some(1 << 20)),
    ];
    run.warnings = vec!["transparent huge pages are not set to never".to_owned()];
    run
}

#[test]
fn a_full_run_is_readable() {
    check(&table(&full(), PAGE), "table_full.txt");
    check(&details(&full(), PAGE), "details_full.txt");
}

#[test]
fn a_partial_run_without_cells_says_so() {
    let mut run = empty();
    run.mark_partial("interrupted");
    check(&table(&run, PAGE), "table_partial.txt");
}

#[test]
fn text_from_a_file_cannot_reach_the_terminal() {
    let mut run = full();
    run.machine.cpu_model = "\u{1b}[31mred\u{202e}".to_owned();
    run.cells[0].mechanism = "x\u{1b}".repeat(5_000);
    run.cells[0].tags = vec!["\r\u{7}".to_owned(); 100];
    run.cells[1].wait = "\n".repeat(50);
    run.skipped[0].reason = "\u{9b}2J".to_owned();
    let found = table(&run, PAGE) + &details(&run, PAGE);
    assert!(found.chars().all(|c| c == '\n' || !c.is_control()));
    assert!(!found.contains('\u{202e}'));
    assert!(found.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn definitions_never_share_a_table() {
    let mut run = full();
    run.cells[0].definition = nearcall_results::run::Definition::RttHalf;
    assert_eq!(table(&run, PAGE), details(&run, PAGE));
    let found = table(&run, PAGE);
    let halves = found.split("Half a round trip").nth(1).unwrap();
    assert!(halves.contains("pipe"));
    let whole = found.split("\nRound trip").nth(1).unwrap();
    assert!(!whole.split("Half a round trip").next().unwrap().contains("pipe"));
}

/// As many cells as the default run has, with the longest names and figures.
fn tour() -> Run {
    let mut run = empty();
    let names = ["unix-seqpacket", "shm-semaphore", "shm-spin", "pipe", "shm-posix-mq"];
    for (index, name) in names.into_iter().enumerate() {
        let wait = if name == "shm-spin" { "spin" } else { "block" };
        let ns = 123.0 * 4.0_f64.powi(i32::try_from(index).unwrap());
        for (bytes, shape) in [(8, "echo"), (1 << 16, "sink")] {
            let p50 = ns * (1.0 + bytes as f64 / 1e3);
            let mut cell =
                latency(name, bytes, wait, p50, Some(("floor-spin", 1.04 + index as f64 * 20.0)));
            shape.clone_into(&mut cell.shape);
            run.cells.push(cell);
        }
        run.cells.push(throughput(name, 8, wait, 1e9 / ns, 1.5));
        run.cells.push(throughput(name, 1 << 16, wait, 2e5 / (index + 1) as f64, 1.5));
    }
    run.floors = vec![
        latency("floor-spin", 8, "spin", 141.0, None),
        latency("floor-unix-epoll", 8, "poll", 13_700.0, None),
        throughput("floor-ring", 8, "spin", 41e6, 1.0),
    ];
    run
}

#[test]
fn a_tour_is_one_table() {
    let run = tour();
    check(&table(&run, PAGE), "table_tour.txt");
    assert_eq!(table(&run, PAGE).matches("\n  shm-spin ").count(), 1);
    assert!(["p99", "ratio", "CPU"].iter().all(|head| table(&run, PAGE).contains(head)));
}

/// The table in README.md is that of the stored run, shortened by whole paragraphs.
#[test]
fn the_sample_of_the_readme_is_what_is_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let run = Run::load(&root.join("docs/runs/epyc-2cpu-tour.json")).unwrap();
    let printed = table(&run, PAGE);
    let (_, rest) = readme.split_once("`nearcall show docs/runs/epyc-2cpu-tour.json`").unwrap();
    let (_, rest) = rest.split_once("```text\n").unwrap();
    let (sample, _) = rest.split_once("\n```\n").unwrap();
    let mut left = printed.as_str();
    assert!(sample.contains("adaptive") && sample.contains("Fastest for"), "{sample}");
    for paragraph in sample.split("\n\n") {
        let found = left.split_once(paragraph);
        left = found.unwrap_or_else(|| panic!("not printed:\n{paragraph}\n\nbut:\n{printed}")).1;
    }
}

#[test]
fn a_run_that_fits_in_no_single_table_shows_every_cell() {
    let mut run = full();
    run.cells[0].placement.client_cpu = Some(1);
    assert_eq!(table(&run, PAGE), details(&run, PAGE));
    let mut run = full();
    run.cells = (1..=20).map(|size| latency("pipe", size, "block", 9e3, None)).collect();
    assert_eq!(table(&run, PAGE), details(&run, PAGE));
}

fn call(mechanism: &str, caller: &str, [client, server]: [&str; 2], bytes: u64, ns: f64) -> Cell {
    let mut cell = Cell::new(Kind::Latency, mechanism, bytes);
    cell.shape = "call".to_owned();
    cell.wait = if client == server { client.to_owned() } else { format!("{client}/{server}") };
    cell.rtt_ns =
        Some(RttNs { p50: Some(ns), p50_ci95: Some([ns * 0.99, ns * 1.01]), ..RttNs::default() });
    cell.grade = Some(Grade::B);
    cell.placement =
        Placement { class: "same_llc".into(), client_cpu: Some(0), server_cpu: Some(1) };
    let bare_ns = (!client.is_empty()).then_some(ns / 1.125);
    cell.call = Some(CallFacts {
        caller: caller.to_owned(),
        client_wait: client.to_owned(),
        server_wait: server.to_owned(),
        bare_ns,
        ratio_to_bare: bare_ns.map(|_| 1.125),
        ratio_to_bare_ci95: bare_ns.map(|_| [1.1, 1.15]),
        ..CallFacts::default()
    });
    cell
}

pub(crate) fn of_calls() -> Run {
    let mut run = empty();
    for (bytes, factor) in [(0, 1.0), (64 << 10, 4.0)] {
        run.cells.push(call("shm-futex", "blocking", ["block"; 2], bytes, 13_200.0 * factor));
        run.cells.push(call(
            "unix-stream",
            "blocking",
            ["block", "poll"],
            bytes,
            14_100.0 * factor,
        ));
        run.cells.push(call("shm-spin", "loop", ["spin"; 2], bytes, 430.0 * factor));
    }
    let mut oneway = call("shm-spin", "loop", ["spin"; 2], 8, 200.0);
    (oneway.kind, oneway.rtt_ns, oneway.messages_per_s) = (Kind::Throughput, None, Some(5e6));
    oneway.shape = "one-way".to_owned();
    run.cells.push(oneway);
    run.cells.push(call("short-circuit", "typed", [""; 2], 0, 18.8));
    run.cells.push(call("short-circuit", "bytes", [""; 2], 0, 71.4));
    let mut floor = Cell::new(Kind::Latency, "floor-call", 8);
    floor.rtt_ns = Some(RttNs { p50: Some(2.4), ..RttNs::default() });
    run.floors.push(floor);
    let part = |name: &str, ns| Part { name: name.into(), how: "alone, warm".into(), ns: Some(ns) };
    run.breakdowns.push(Breakdown {
        mechanism: "unix-stream".into(),
        caller: "loop".into(),
        wait: "poll".into(),
        parts: vec![part("marshal", 2.5), part("away", 13_000.0), part("less", -20.0)],
        sum_ns: Some(12_982.5),
        whole_ns: Some(14_100.0),
        rest_ns: Some(1_117.5),
    });
    run
}

#[test]
fn every_call_of_a_run() {
    check(&details(&of_calls(), PAGE), "details_calls.txt");
}

#[test]
fn runs_that_were_stored_before_are_still_read() {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    let mut found = 0;
    for entry in std::fs::read_dir(stored).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let run = Run::load(&path).unwrap();
            assert!(table(&run, PAGE).lines().all(|line| line.chars().count() <= 100));
            let is_empty = run.cells.is_empty() && run.study_cells.is_empty();
            assert!(!is_empty, "{}", path.display());
            found += 1;
        }
    }
    assert!(found >= 2, "{found}");
}
