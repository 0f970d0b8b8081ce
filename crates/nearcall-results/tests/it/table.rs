//! The tables of stored and made-up runs, compared with the texts in `tests/golden`; harmless where
//! a file says what no measurement would.
//!
//! The made-up runs are in `tests/data/runs`. `UPDATE_EXPECT=1 cargo test -p nearcall-results`
//! rewrites the expected texts; review the difference.

use std::path::Path;

use nearcall_results::compare::{Rules, compare};
use nearcall_results::noise::Grade;
use nearcall_results::report::lines::Style;
use nearcall_results::report::table::{details, table};
use nearcall_results::run::{
    Cell, Definition, Kind, LoadAchieved, Matrix, PerEnd, Placement, RttNs, Run,
};

/// The form of the golden texts.
pub(crate) const PAGE: Style = Style::new(Some(100), false);

#[track_caller]
pub(crate) fn check(found: &str, golden: &str) {
    for line in found.lines() {
        assert!(line.chars().count() <= 100, "wider than 100 columns: {line}");
        assert_eq!(line.trim_end(), line, "blanks at the end");
    }
    check_golden(found, golden);
}

#[track_caller]
pub(crate) fn check_golden(found: &str, golden: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(found == expected, "{golden} differs; UPDATE_EXPECT=1 rewrites it\n{found}");
}

/// A run of `tests/data/runs`.
pub(crate) fn made_up(name: &str) -> Run {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs");
    Run::load(&runs.join(name).with_extension("json")).unwrap()
}

/// A stored measurement below `docs`.
pub(crate) fn stored(name: &str) -> Run {
    Run::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

pub(crate) fn full() -> Run {
    made_up("full")
}

pub(crate) fn empty() -> Run {
    Run {
        floors: Vec::new(),
        cells: Vec::new(),
        skipped: Vec::new(),
        warnings: Vec::new(),
        ..full()
    }
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

#[test]
fn every_cell_of_a_run_is_readable() {
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
    run.cells[0].definition = Definition::RttHalf;
    assert_eq!(table(&run, PAGE), details(&run, PAGE));
    let found = table(&run, PAGE);
    let halves = found.split("Half a round trip").nth(1).unwrap();
    assert!(halves.contains("pipe"));
    let whole = found.split("\nRound trip").nth(1).unwrap();
    assert!(!whole.split("Half a round trip").next().unwrap().contains("pipe"));
}

#[test]
fn a_tour_is_one_table() {
    let run = made_up("tour");
    check(&table(&run, PAGE), "table_tour.txt");
    assert_eq!(table(&run, PAGE).matches("\n  shm-spin ").count(), 1);
    assert!(["p99", "ratio", "CPU"].iter().all(|head| table(&run, PAGE).contains(head)));
}

/// The table in the book's guides/bench.md is that of the stored run, shortened by paragraphs.
#[test]
fn the_sample_of_the_document_is_what_is_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("docs/book/src/guides/bench.md")).unwrap();
    let run = stored("runs/epyc-2cpu-tour.json");
    let printed = table(&run, PAGE);
    let (_, rest) = document.split_once("`nearcall show docs/runs/epyc-2cpu-tour.json`").unwrap();
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

#[test]
fn every_call_of_a_run() {
    check(&details(&made_up("calls"), PAGE), "details_calls.txt");
}

/// Each kind of run.
fn all() -> impl Iterator<Item = (&'static str, Run)> {
    let made_up = KINDS.iter().map(|&name| (name, made_up(name)));
    made_up.chain([("matrix", matrix()), ("libraries", stored("rivals/epyc-2cpu.json"))])
}

const KINDS: [&str; 12] = [
    "full", "calls", "waits", "budgets", "studies", "pace", "gap", "burst", "clients", "threads",
    "start", "tour",
];

#[test]
fn each_kind_of_run_has_its_table() {
    for (name, run) in all() {
        check(&table(&run, PAGE), &format!("table_{name}.txt"));
    }
}

#[test]
fn a_stored_run_is_the_same_again() {
    for (name, run) in all() {
        let again = Run::parse(&run.to_json()).unwrap();
        assert_eq!(table(&again, PAGE), table(&run, PAGE), "{name}");
        assert_eq!(details(&again, PAGE), details(&run, PAGE), "{name}");
    }
}

/// The run with hostile texts, absurd figures, and a thousand of everything.
fn hostile(mut run: Run) -> Run {
    let cells = run.cells.len();
    if let Some(last) = run.cells.last().cloned() {
        let many = (0..1_000_u32).map(|number| {
            let mut cell = Cell { mechanism: format!("m{number}"), ..last.clone() };
            if let Some(pace) = &mut cell.pace {
                pace.rate_per_s = number;
            }
            if let Some(gap) = &mut cell.gap {
                gap.gap_ns = u64::MAX - u64::from(number);
            }
            cell
        });
        // Those tables have a row or a square for each mechanism, whatever there is.
        let many: Vec<Cell> = if run.matrix.is_some() { Vec::new() } else { many.collect() };
        run.cells.extend(many);
    }
    if cells > 0 {
        run.cells[0].mechanism = "\u{1b}[2J".repeat(1_000);
        run.cells[0].placement.class = "\r\n".to_owned();
        run.cells[cells - 1].wait = "\u{202e}".repeat(100);
    }
    if let Some(rest) = run.at_rest.first_mut() {
        (rest.wait, rest.observed_ns) = ("\r\n".to_owned(), 0);
        run.at_rest.extend(vec![run.at_rest[0].clone(); 10_000]);
    }
    if let Some(budget) = run.budgets.first_mut() {
        budget.what = "\u{1b}[31m".repeat(1_000);
        budget.against = "\r\n".repeat(1_000);
        budget.unit = "\u{9b}".to_owned();
        (budget.measured, budget.short_by) = (Some(f64::MAX), Some(f64::MAX));
        run.budgets[2].launch_values = vec![1e300; 100_000];
        run.budgets.extend(vec![run.budgets[1].clone(); 10_000]);
    }
    run
}

#[test]
fn a_run_from_a_file_cannot_harm_the_terminal() {
    for (name, run) in all() {
        // These show every cell.
        let is_whole = ["full", "calls", "tour"].contains(&name);
        let found = table(&hostile(run), PAGE);
        assert!(found.chars().all(|c| c == '\n' || !c.is_control()), "{name}");
        assert!(!found.contains('\u{202e}'), "{name}");
        assert!(found.lines().all(|line| line.chars().count() <= 100), "{name}");
        let lines = found.lines().count();
        assert!(lines < 1_000 || is_whole, "{name}: {lines} lines");
    }
}

/// Two cores of two threads each on one cache, and two more on another node.
fn class(a: u32, b: u32) -> &'static str {
    match (a / 2 == b / 2, a / 4 == b / 4) {
        _ if a == b => "same_cpu",
        (true, _) => "smt",
        (false, true) => "same_llc",
        (false, false) => "cross_node",
    }
}

fn between(name: &str, wait: &str, client: u32, server: u32, ns: f64) -> Cell {
    let mut cell = latency(name, 8, wait, ns, None);
    place(&mut cell, wait, [ns, ns], Grade::B);
    cell.placement = Placement {
        class: class(client, server).to_owned(),
        client_cpu: Some(client),
        server_cpu: Some(server),
    };
    cell
}

/// Of each CPU to every other.
fn matrix() -> Run {
    let mut run = empty();
    let cpus: Vec<u32> = (0..8).collect();
    run.matrix = Some(Matrix { cpus: cpus.clone(), pairs: 64, left_out: 0 });
    for &client in &cpus {
        for &server in &cpus {
            let way_ns = match class(client, server) {
                "same_cpu" => 0.0,
                "smt" => 90.0,
                "same_llc" => 240.0,
                _ => 610.0,
            };
            let ns = way_ns + f64::from(client) * 3.0 + f64::from(server);
            if client != server {
                run.cells.push(between("shm", "spin", client, server, ns));
            }
            run.cells.push(between("pipe", "block", client, server, ns + 5_000.0));
        }
    }
    run
}

#[test]
fn pairs_that_were_left_out_and_disturbed_ones_are_told() {
    let mut run = matrix();
    run.matrix = Some(Matrix { cpus: (0..12).collect(), pairs: 144, left_out: 80 });
    run.cells.retain(|cell| cell.mechanism == "pipe");
    run.cells[1].grade = Some(Grade::D);
    for cell in &mut run.cells {
        cell.load = "cpu,memory,io".to_owned();
        cell.load_achieved = Some(LoadAchieved {
            workers: 4,
            cpu_percent: vec![61.0, 58.5],
            memory_bytes_per_s: Some(2.1e9),
            io_bytes_per_s: Some(9.4e7),
            ..LoadAchieved::default()
        });
    }
    run.cells[5].load_achieved.as_mut().unwrap().not_reached =
        vec!["the io worker: cannot write in /tmp: read-only file system".to_owned()];
    check(&table(&run, PAGE), "table_matrix_loaded.txt");
}

#[test]
fn what_failed_is_named_with_its_reason() {
    let mut run = stored("rivals/epyc-2cpu.json");
    let ttrpc = run.libraries.iter_mut().find(|library| library.name.starts_with("ttrpc")).unwrap();
    ttrpc.failure = Some("the server ended with \u{1b}[2J exit code 1".to_owned());
    let name = ttrpc.name.clone();
    run.library_cells.retain(|cell| cell.mechanism != name);
    let text = table(&run, PAGE);
    assert!(text.contains(&format!("{name}: the server ended with")), "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn two_comparisons_of_libraries_are_compared_cell_by_cell() {
    let (before, mut after) = (stored("rivals/epyc-2cpu.json"), stored("rivals/epyc-2cpu.json"));
    after.started_unix_s += 60;
    let found = compare(&before, &after, &Rules::default()).unwrap();
    assert_eq!(found.cells.len(), 133);
    assert!(found.cells.iter().all(|cell| cell.name.starts_with("library: ")));
}

#[test]
fn all_times_say_whether_their_loop_was_open_or_closed() {
    for run in ["pace", "gap", "burst", "clients", "threads"].map(made_up) {
        assert!(
            table(&run, PAGE).contains("closed loop")
                && details(&run, PAGE).contains("closed loop")
        );
    }
    assert!(
        table(&made_up("pace"), PAGE).contains("open loop")
            && details(&made_up("pace"), PAGE).contains("open loop")
    );
}

#[test]
fn a_failed_cell_shows_no_time() {
    for text in [table(&made_up("pace"), PAGE), details(&made_up("pace"), PAGE)] {
        assert!(text.contains("failed") && !text.contains("45.0 ms"), "{text}");
    }
}

#[test]
fn pictures_are_told_in_full() {
    let pictures = |text: String| text.contains("pictures: round trip, mean");
    assert!(
        pictures(details(&made_up("studies"), PAGE)) && !pictures(table(&made_up("studies"), PAGE))
    );
}
