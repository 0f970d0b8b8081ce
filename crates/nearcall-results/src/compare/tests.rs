//! Runs without a difference, runs with a known one, and runs that cannot be compared.

use std::path::Path;

use super::*;
use crate::run::{Definition, Kind, Machine, PaceFacts, RttNs, Settings};
use crate::stats::tests::launch_median;

/// A latency cell of this size with these launch medians.
fn cell(message_bytes: u64, launches: Vec<f64>) -> Cell {
    let mut cell = Cell::new(Kind::Latency, "pipe", message_bytes);
    let p50 = stats::median(&launches);
    cell.rtt_ns = Some(RttNs { p50, ..RttNs::default() });
    cell.launches = u32::try_from(launches.len()).unwrap();
    cell.launch_medians_ns = launches;
    cell.grade = Some(Grade::B);
    cell
}

/// A throughput cell with these launch rates.
fn rate(message_bytes: u64, launches: Vec<f64>) -> Cell {
    let mut cell = Cell::new(Kind::Throughput, "pipe", message_bytes);
    cell.messages_per_s = stats::harmonic_mean(&launches);
    cell.launches = u32::try_from(launches.len()).unwrap();
    cell.launch_messages_per_s = launches;
    cell.grade = Some(Grade::B);
    cell
}

fn run(cells: Vec<Cell>) -> Run {
    let machine = Machine { id: "one".to_owned(), ..Machine::default() };
    let mut run = Run::new(machine, Settings::default(), 1_795_230_660);
    run.cells = cells;
    run
}

/// The later of two runs: another moment, so never the same measurement.
fn later(cells: Vec<Cell>) -> Run {
    let mut run = run(cells);
    run.started_unix_s += 60;
    run
}

#[track_caller]
fn compared(before: &Run, after: &Run) -> Comparison {
    compare(before, after, &Rules::default()).unwrap()
}

/// Launches that agree.
const QUIET: [f64; 5] = [100.0, 101.0, 99.0, 100.0, 100.5];

/// Launches that do not.
const WIDE: [f64; 5] = [30.0, 250.0, 100.0, 60.0, 190.0];

/// What a simulated pair of runs is like.
#[derive(Clone, Copy)]
struct World {
    cells: u64,
    launches: usize,
    /// The spread between launches.
    spread: f64,
    /// The slowdown of the first `slowed` cells in the second run.
    slowdown: f64,
    slowed: u64,
}

/// Both runs of a world: each launch autocorrelated within and on a level of its own.
fn pair(world: World, seed: u64) -> [Run; 2] {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut cells = |slowdown: f64| -> Vec<Cell> {
        let one = |size: u64| {
            let slowdown = if size < world.slowed { slowdown } else { 1.0 };
            let truth = 500.0 * (size + 1) as f64 * slowdown;
            let launches =
                (0..world.launches).map(|_| launch_median(&mut rng, truth, world.spread));
            cell(size, launches.collect())
        };
        (0..world.cells).map(one).collect()
    };
    let before = run(cells(1.0));
    [before, later(cells(world.slowdown))]
}

/// The share of cells that are flagged, and the share of comparisons with any flagged.
fn flagged(world: World, comparisons: u32) -> [f64; 2] {
    let (mut cells, mut any) = (0_usize, 0_u32);
    for seed in 0..comparisons {
        let [before, after] = pair(world, u64::from(seed));
        let counts = compared(&before, &after).counts;
        cells += counts.slower + counts.faster;
        any += u32::from(counts.slower + counts.faster > 0);
    }
    let all = f64::from(comparisons) * world.cells as f64;
    [cells as f64 / all, f64::from(any) / f64::from(comparisons)]
}

#[test]
fn two_runs_of_the_same_are_not_told_apart() {
    for (launches, spread) in [(3, 0.03), (5, 0.0), (5, 0.15), (10, 0.05)] {
        let world = World { cells: 30, launches, spread, slowdown: 1.0, slowed: 0 };
        let [cells, any] = flagged(world, 20);
        assert!(cells <= 0.005, "{launches} launches, spread {spread}: {cells} of cells");
        // 5 % are promised; 20 comparisons may well show two of them.
        assert!(any <= 0.11, "{launches} launches, spread {spread}: {any} of comparisons");
    }
}

/// The share of slowed cells that are found slower.
fn power(world: World, comparisons: u32) -> f64 {
    let mut found = 0_usize;
    for seed in 0..comparisons {
        let [before, after] = pair(world, 1_000 + u64::from(seed));
        let comparison = compared(&before, &after);
        let slower = comparison.cells.iter().filter(|cell| cell.verdict == Verdict::Slower);
        found += slower.filter(|cell| cell.key.message_bytes < world.slowed).count();
    }
    found as f64 / (f64::from(comparisons) * world.slowed as f64)
}

#[test]
fn ten_percent_more_time_is_found() {
    let all = World { cells: 40, launches: 5, spread: 0.03, slowdown: 1.1, slowed: 40 };
    let found = power(all, 4);
    assert!(found > 0.95, "all of 40 cells, 5 launches, 3 % spread: {found}");
    // One among many must pass the whole correction.
    let one = World { launches: 10, slowed: 1, ..all };
    let found = power(one, 20);
    assert!(found > 0.9, "one of 40 cells, 10 launches, 3 % spread: {found}");
    let noisy = World { launches: 50, spread: 0.15, ..all };
    let found = power(noisy, 1);
    assert!(found > 0.7, "all of 40 cells, 50 launches, 15 % spread: {found}");
}

#[test]
fn no_difference_is_an_answer_where_launches_agree() {
    let quiet = [100.0, 100.4, 99.8, 100.1, 99.9];
    let before = run(vec![cell(8, quiet.to_vec()), rate(8, quiet.to_vec())]);
    let after = later(vec![
        cell(8, quiet.map(|ns| ns * 1.002).to_vec()),
        rate(8, quiet.map(|rate| rate * 1.002).to_vec()),
    ]);
    let found = compared(&before, &after);
    assert_eq!(found.overall, Overall::NoDifference);
    assert_eq!((found.counts.no_difference, found.counts.cells), (2, 2));
    assert!(found.summary[0].starts_with("No difference: all 2 cells are within 3 %"));
    // A significant difference that does not matter is none.
    let fine = Rules { min_effect: 0.001, ..Rules::default() };
    assert_ne!(compare(&before, &after, &fine).unwrap().overall, Overall::NoDifference);
}

#[test]
fn of_rates_less_is_slower_and_of_times_more() {
    let values = [100.0, 101.0, 99.0, 100.5, 99.5];
    let before = run(vec![cell(8, values.to_vec()), rate(8, values.to_vec())]);
    let doubled = values.map(|value| value * 2.0).to_vec();
    let found = compared(&before, &later(vec![cell(8, doubled.clone()), rate(8, doubled)]));
    assert_eq!(found.overall, Overall::Mixed);
    let [time, rate] = &found.cells[..] else { panic!("{:?}", found.cells) };
    assert_eq!((time.verdict, time.worse), (Verdict::Slower, Worse::Higher));
    assert_eq!((rate.verdict, rate.worse), (Verdict::Faster, Worse::Lower));
    assert!((rate.ratio.unwrap() - 2.0).abs() < 1e-9 && time.slowdown > Some(1.9));
    assert!((rate.slowdown.unwrap() - 0.5).abs() < 1e-9);
    let slower: Vec<&str> = found.slower_by(0.5).map(|cell| cell.unit.as_str()).collect();
    assert_eq!(slower, ["ns"]);
    assert_eq!(found.slower_by(1.5).count(), 0);
}

#[test]
fn wide_launches_cannot_tell_and_say_how_many_would() {
    let before = run(vec![cell(8, vec![100.0, 130.0, 80.0, 95.0, 120.0])]);
    let after = later(vec![cell(8, vec![110.0, 85.0, 125.0, 140.0, 90.0])]);
    let found = compared(&before, &after);
    assert_eq!(found.cells[0].verdict, Verdict::CannotTell);
    assert!(found.cells[0].launches_needed > Some(100), "{:?}", found.cells[0]);
    assert_eq!(found.overall, Overall::NoneFound);
    assert!(found.summary[0].starts_with("No difference found"), "{:?}", found.summary);
}

#[test]
fn what_is_unfit_is_not_judged_and_alone_says_nothing() {
    let quiet = || vec![100.0, 101.0, 99.0];
    let mut disturbed = cell(1, quiet());
    disturbed.grade = Some(Grade::D);
    let mut behind = cell(2, quiet());
    behind.pace = Some(PaceFacts { rate_per_s: 1_000, kept: false, ..PaceFacts::default() });
    let cells = vec![disturbed, behind, cell(3, vec![100.0]), cell(4, vec![0.0, 1.0])];
    let found = compared(&run(cells.clone()), &later(cells));
    let verdicts: Vec<Verdict> = found.cells.iter().map(|cell| cell.verdict).collect();
    use Verdict::{Incomplete, TooNoisy};
    assert_eq!(verdicts, [TooNoisy, TooNoisy, Incomplete, Incomplete]);
    assert_eq!(found.overall, Overall::Unknown);
    let why = &found.summary[0];
    assert!(why.contains("1 grade D in both runs"), "{why}");
    assert!(why.contains("1 fewer than two launches in both runs"), "{why}");
}

#[test]
fn launches_that_agree_on_nothing_say_nothing() {
    let before = run(vec![cell(8, vec![100.0, 900.0, 300.0])]);
    let found = compared(&before, &later(vec![cell(8, vec![200.0, 50.0, 1_000.0])]));
    assert_eq!(found.overall, Overall::Unknown);
    assert!(found.summary[0].contains("vary so much"), "{:?}", found.summary);
}

#[test]
fn two_machines_are_compared_as_machines() {
    let fast = vec![100.0, 101.0, 99.0, 100.0, 100.5];
    let before = run(vec![cell(8, fast.clone())]);
    let mut after = later(vec![cell(8, fast.iter().map(|ns| ns * 3.0).collect())]);
    after.machine.id = "two".to_owned();
    after.machine.kernel = "Linux 7.0".to_owned();
    after.machine.mitigations = vec!["retbleed: on".to_owned()];
    let found = compared(&before, &after);
    assert!(!found.same_machine);
    let what: Vec<&str> = found.machine.iter().map(|fact| fact.what.as_str()).collect();
    assert_eq!(what, ["kernel", "mitigations"]);
    assert_eq!((&*found.machine[1].before, &*found.machine[1].after), ("-", "retbleed: on"));
    assert!(found.warnings[0].contains("two machines"), "{:?}", found.warnings);
    assert!(found.summary[0].contains("slower, none is faster on the second machine"));
    assert!(!serde_json::to_string(&found).unwrap().contains("regression"));
}

#[test]
fn runs_that_mean_different_things_are_refused() {
    let before = run(vec![cell(8, vec![1.0, 1.0])]);
    let mut halved = before.clone();
    halved.cells[0].definition = Definition::RttHalf;
    let refused = |after: &Run| compare(&before, after, &Rules::default()).unwrap_err().to_string();
    let text = refused(&halved);
    assert!(text.contains("as rtt in the first run and as rtt_half in the second"), "{text}");
    let mut untouched = before.clone();
    untouched.settings.touch = "none".to_owned();
    let text = refused(&untouched);
    assert!(text.contains("\"full\" in the first run and \"none\" in the second"), "{text}");
    assert!(refused(&run(Vec::new())).contains("the second run has no cells"));
    assert!(refused(&run(vec![cell(9, vec![1.0])])).contains("measure different things"));
}

#[test]
fn what_else_differs_is_told() {
    let quiet = vec![100.0, 101.0, 99.0, 100.0];
    let mut before = run(vec![cell(8, quiet.clone()), cell(9, quiet.clone())]);
    before.tool.profile = "release".to_owned();
    let mut after = run(vec![cell(8, quiet.clone()), cell(10, quiet.clone())]);
    after.started_unix_s -= 60;
    after.tool.profile = "debug".to_owned();
    after.settings.launches = 4;
    after.cells[0].placement.client_cpu = Some(3);
    after.cells.push(cell(8, quiet));
    after.mark_partial("interrupted");
    let found = compared(&before, &after);
    let said = found.warnings.join("\n");
    assert!(said.starts_with("a release build is compared with a debug build"), "{said}");
    assert!(said.contains("may be swapped") && said.contains("the second run was cut short"));
    assert!(said.contains("1 cells stand twice"), "{said}");
    let what: Vec<&str> = found.settings.iter().map(|fact| fact.what.as_str()).collect();
    assert_eq!(what, ["launches", "CPUs of 1 of 1 cells"]);
    assert_eq!((found.only_before.len(), found.only_after.len()), (1, 1));
}

#[test]
fn what_moved_no_further_than_the_floors_is_not_told_to_differ() {
    let slow = |factor: f64| QUIET.map(|ns| ns * factor).to_vec();
    let mut before = run((0..2).map(|size| cell(size, slow(1.0))).collect());
    let mut after = later(vec![cell(0, slow(1.5)), cell(1, slow(2.0))]);
    before.floors = (0..3).map(|size| cell(size, slow(1.0))).collect();
    after.floors = (0..3).map(|size| cell(size, slow(1.5))).collect();
    let found = compared(&before, &after);
    let floors = found.floors.unwrap();
    assert_eq!((floors.floors, floors.flagged), (3, 3));
    assert_eq!((found.counts.cells, found.tested()), (2, 5));
    assert!((floors.slowdown - 1.5).abs() < 1e-9);
    assert!(found.summary.last().unwrap().contains("the machine itself changed"));
    // A check judges what is nearcall.
    let sizes: Vec<u64> = found.slower_by(0.05).map(|cell| cell.key.message_bytes).collect();
    assert_eq!(sizes, [1]);
    let reason = found.cells.iter().find_map(|cell| cell.reason.as_deref());
    assert_eq!(reason, Some("the floors moved about as much"));
    // Of two machines every difference is shown.
    after.machine.id = "two".to_owned();
    let found = compared(&before, &after);
    assert_eq!((found.counts.slower, found.floors.unwrap().flagged), (2, 3));
}

#[test]
fn cells_that_moved_with_the_floors_are_not_told_to_be_without_difference() {
    let cells = |factor: f64| -> Vec<Cell> {
        (0..3).map(|size| cell(size, QUIET.map(|ns| ns * factor).to_vec())).collect()
    };
    let (mut before, mut after) = (run(cells(1.0)), later(cells(1.5)));
    (before.floors, after.floors) = (cells(1.0), cells(1.5));
    let found = compared(&before, &after);
    let text = found.summary.join(" ");
    assert!(text.starts_with("3 of 3 cells moved about as much as the floors"), "{text}");
    assert!(text.contains("of 0 this cannot be told") && !text.contains("0 launches"), "{text}");
    assert!(!text.contains("No difference"), "{text}");
}

#[test]
fn floors_that_prove_nothing_hide_nothing() {
    let times = |of: [f64; 5], factor: f64| of.map(|ns| ns * factor).to_vec();
    let mut before = run(vec![cell(0, times(QUIET, 1.0))]);
    let mut after = later(vec![cell(0, times(QUIET, 1.4))]);
    before.floors = (0..3).map(|size| cell(size, times(WIDE, 1.0))).collect();
    // Their median is 1.5, by chance.
    after.floors = [0.5, 1.5, 2.5]
        .into_iter()
        .zip(0..)
        .map(|(factor, size)| cell(size, times(WIDE, factor)))
        .collect();
    let found = compared(&before, &after);
    assert_eq!((found.floors.unwrap().flagged, found.counts.slower), (0, 1), "{found:?}");
}

#[test]
fn floors_do_not_count_in_what_is_told_of_cells() {
    let cells = || vec![cell(0, QUIET.to_vec())];
    let (mut before, mut after) = (run(cells()), later(cells()));
    let mut disturbed = cell(9, WIDE.to_vec());
    disturbed.grade = Some(Grade::D);
    for run in [&mut before, &mut after] {
        run.floors = (0..4).map(|size| cell(size, WIDE.to_vec())).collect();
        run.floors.push(disturbed.clone());
    }
    let found = compared(&before, &after);
    assert_eq!(found.overall, Overall::NoDifference);
    assert!(found.typical_detectable.unwrap() < 0.02, "{:?}", found.typical_detectable);
    assert!(!found.summary.join(" ").contains("grade D"), "{:?}", found.summary);
}

#[test]
fn a_run_and_its_published_copy_are_the_same_run() {
    let mut before = run(vec![cell(8, vec![100.0, 101.0, 99.0])]);
    before.machine.state.host_name = "alice-laptop".to_owned();
    before.settings.arguments = vec!["--out".to_owned(), "/srv/alice/a.json".to_owned()];
    let mut after = before.clone();
    after.machine.state.host_name = crate::run::UNKNOWN.to_owned();
    after.settings.arguments[1] = "a.json".to_owned();
    assert!(compared(&before, &after).same_run);
    after.cells[0].launch_medians_ns[0] = 100.5;
    assert!(!compared(&before, &after).same_run);
}

fn stored(name: &str) -> Run {
    Run::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs").join(name)).unwrap()
}

#[test]
fn a_stored_run_compared_with_itself_has_no_difference() {
    for name in ["epyc-2cpu-tour.json", "epyc-2cpu-studies.json", "epyc-2cpu-waits.json"] {
        let run = stored(name);
        let found = compared(&run, &run);
        assert_eq!((found.overall, found.same_run), (Overall::NoDifference, true), "{name}");
        assert_eq!(found.counts.no_difference, found.counts.cells, "{name}");
        assert!(found.cells.iter().all(|cell| cell.verdict == Verdict::NoDifference), "{name}");
        assert!(found.warnings.iter().any(|text| text.contains("the same run")), "{name}");
        let text = serde_json::to_string(&found).unwrap();
        let read: Comparison = serde_json::from_str(&text).unwrap();
        assert_eq!((read.counts, &read.summary), (found.counts, &found.summary), "{name}");
    }
}

/// The run as it would be if every exchange of nearcall took `factor` times as long.
fn slowed(mut run: Run, factor: f64) -> Run {
    run.started_unix_s += 60;
    for cell in run.cells.iter_mut().chain(&mut run.bare) {
        cell.launch_medians_ns.iter_mut().for_each(|ns| *ns *= factor);
        cell.launch_messages_per_s.iter_mut().for_each(|rate| *rate /= factor);
    }
    run
}

#[test]
fn a_stored_run_made_slower_is_slower_wherever_its_launches_allow_to_tell() {
    let before = stored("epyc-2cpu-calls.json");
    let found = compared(&before, &slowed(before.clone(), 1.1));
    assert_eq!(found.counts.faster, 0);
    for cell in found.cells.iter().filter(|cell| cell.key.list != List::Floors) {
        let slowdown = cell.slowdown.unwrap();
        assert!((slowdown - 1.1).abs() < 1e-9, "{}: {slowdown}", cell.name);
        let [low, high] = cell.ratio_ci95.unwrap();
        let ratio = cell.ratio.unwrap();
        assert!(low < ratio && ratio < high, "{}", cell.name);
    }
    let found = compared(&before, &slowed(before.clone(), 2.0));
    assert!(found.counts.slower > found.counts.cells * 9 / 10, "{:?}", found.counts);
}
