//! The tables of comparisons of made-up runs, compared with the texts in `tests/golden`.

use nearcall_results::compare::{Comparison, Rules, compare};
use nearcall_results::noise::Grade;
use nearcall_results::report::table::compare::{markdown, table};
use nearcall_results::run::{Cell, Kind, RttNs, Run};

use crate::table::{PAGE, check, empty, place};

/// A cell whose launches lie around `ns`, as far apart as `spread` says.
fn cell(name: &str, bytes: u64, ns: f64, spread: f64) -> Cell {
    let mut cell = Cell::new(Kind::Latency, name, bytes);
    place(&mut cell, "block", [ns * 0.5, ns * 0.4], Grade::B);
    cell.launches = 5;
    cell.launch_medians_ns = SHAPE.map(|step| ns * (step * spread).exp()).to_vec();
    cell.rtt_ns = Some(RttNs { p50: Some(ns), ..RttNs::default() });
    cell
}

fn rate(name: &str, bytes: u64, per_s: f64, spread: f64) -> Cell {
    let mut cell = Cell::new(Kind::Throughput, name, bytes);
    "sink".clone_into(&mut cell.shape);
    place(&mut cell, "block", [100.0, 80.0], Grade::B);
    cell.launches = 5;
    cell.launch_messages_per_s = SHAPE.map(|step| per_s * (step * spread).exp()).to_vec();
    cell.messages_per_s = Some(per_s);
    cell
}

/// Five launches around their middle.
const SHAPE: [f64; 5] = [0.3, -1.1, 0.9, -0.6, 0.5];

fn before() -> Run {
    let mut run = empty();
    run.floors = vec![cell("floor-pipe", 8, 8_100.0, 0.01)];
    run.cells = vec![
        cell("pipe", 8, 9_840.0, 0.01),
        cell("pipe", 65_536, 31_000.0, 0.01),
        cell("shm-futex", 8, 4_100.0, 0.2),
        cell("tcp", 8, 14_200.0, 0.01),
        rate("unix-stream", 65_536, 152_000.0, 0.01),
        cell("posix-mq", 8, 12_300.0, 0.01),
        cell("fifo", 8, 9_900.0, 0.01),
    ];
    run
}

fn after() -> Run {
    let mut run = before();
    run.started_unix_s += 3_600;
    run.tool.version = "0.2.0".to_owned();
    run.settings.launches = 10;
    let scale = |cell: &mut Cell, factor: f64| {
        let launches = cell.launch_medians_ns.iter_mut().chain(&mut cell.launch_messages_per_s);
        launches.for_each(|value| *value *= factor);
    };
    let factors = [1.24, 0.8, 1.1, 1.004, 0.7, 1.0];
    run.cells.iter_mut().zip(factors).for_each(|(cell, factor)| scale(cell, factor));
    run.cells[5].grade = Some(Grade::D);
    run.cells[6] = cell("fifo", 1_024, 9_900.0, 0.01);
    run
}

fn comparison() -> Comparison {
    compare(&before(), &after(), &Rules::default()).unwrap()
}

#[test]
fn a_comparison_shows_what_differs_and_counts_the_rest() {
    check(&table(&comparison(), false, PAGE), "compare.txt");
}

#[test]
fn a_comparison_with_all_shows_every_cell() {
    check(&table(&comparison(), true, PAGE), "compare_all.txt");
}

#[test]
fn a_comparison_as_markdown_fits_a_comment() {
    let found = markdown(&comparison(), false);
    assert!(found.lines().filter(|line| line.starts_with('|')).count() == 5, "{found}");
    assert!(found.contains("| slower | pipe echo 8 B block, same\\_llc | "), "{found}");
    assert!(found.len() < 4_000);
}

#[test]
fn two_machines_and_builds_are_told_before_any_figure() {
    let mut second = after();
    second.machine.id = "0123456789abcdef".to_owned();
    second.machine.kernel = "Linux 6.12.0".to_owned();
    second.machine.caches[1] = "L2 1 MiB".to_owned();
    second.tool.profile = "debug".to_owned();
    let found = compare(&before(), &second, &Rules::default()).unwrap();
    check(&table(&found, false, PAGE), "compare_machines.txt");
}

#[test]
fn text_from_a_run_makes_no_control_characters_and_no_markup() {
    let mut first = before();
    first.cells[0].mechanism = "evil\u{1b}[31m | @someone <b> `x`".to_owned();
    let mut second = after();
    second.cells[0].mechanism = first.cells[0].mechanism.clone();
    second.settings.placement = "\u{202e}\u{7}![x](y)".to_owned();
    let found = compare(&first, &second, &Rules::default()).unwrap();
    let text = table(&found, true, PAGE);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}'));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let text = markdown(&found, true);
    assert!(!text.contains("<b>") && !text.contains("@someone") && !text.contains('\u{1b}'));
    assert!(text.contains("\\| &#64;someone &lt;b&gt; \\`x\\`"), "{text}");
}
