//! A run of switches: squares of all pairs of mechanisms, and the worst pairs in full.
//!
//! **Invariants:** a row is the mechanism that a connection comes from, a column the one that it
//! moves to; what was not measured is a dash.

use super::grid::{Align, Grid, clean, clip};
use super::notes::DISTURBED;
use crate::noise::Grade;
use crate::report::columns::{micros, time};
use crate::report::lines::Writer;
use crate::report::number::{self, MISSING};
use crate::run::{Cell, RttNs, Run, SwitchFacts};

/// Whether the run is one of switches.
pub(super) fn is_of_switches(run: &Run) -> bool {
    run.cells.iter().any(|cell| cell.switch.is_some())
}

/// Adds both squares, and the worst pairs.
pub(super) fn print(out: &mut Writer, run: &Run) {
    let pairs = pairs(run);
    let mut names: Vec<&str> = Vec::new();
    for (cell, facts) in &pairs {
        for name in [cell.mechanism.as_str(), facts.to.as_str()] {
            if !names.contains(&name) && names.len() < NAMES_MAX {
                names.push(name);
            }
        }
    }
    out.title("Pause, median, in µs: the longest time between the ends of two calls");
    print_square(out, &pairs, &names, |_, facts| facts.pause_ns.p50);
    out.title("Until both ends have moved, median, in µs");
    print_square(out, &pairs, &names, |cell, _| cell.rtt_ns.as_ref()?.p50);
    out.title("The longest pauses");
    print_worst(out, &pairs);
    out.note(LEGEND);
    if pairs.iter().any(|(cell, _)| cell.grade == Some(Grade::D)) {
        out.note(DISTURBED);
    }
    out.note("Every cell with its interval: nearcall show --all RUN.json");
}

/// The longest median of a pause, and how many are above the goal.
pub(super) fn answer(run: &Run) -> String {
    let mut pairs = pairs(run);
    pairs.retain(|(_, facts)| facts.pause_ns.p50.is_some());
    sort(&mut pairs);
    let Some((cell, facts)) = pairs.first() else {
        return "No switch was measured.".to_owned();
    };
    let pause = facts.pause_ns.p50.unwrap_or_default();
    let above = pairs.iter().filter(|(_, facts)| facts.pause_ns.p50 > Some(PAUSE_GOAL_NS)).count();
    let goal = number::time(PAUSE_GOAL_NS);
    let verdict = match above {
        0 => format!("all {} pairs pause for {goal} at most", pairs.len()),
        above => format!("{above} of {} pairs pause for more than {goal}", pairs.len()),
    };
    format!(
        "Longest median pause: {}, from {} to {}; {verdict}.",
        number::time(pause),
        name(&cell.mechanism),
        name(&facts.to)
    )
}

type Pair<'a> = (&'a Cell, &'a SwitchFacts);

fn pairs(run: &Run) -> Vec<Pair<'_>> {
    run.cells.iter().filter_map(|cell| Some((cell, cell.switch.as_ref()?))).collect()
}

/// The longest pause first.
fn sort(pairs: &mut [Pair<'_>]) {
    let pause = |pair: &Pair<'_>| pair.1.pause_ns.p50.unwrap_or_default();
    pairs.sort_by(|a, b| pause(b).total_cmp(&pause(a)));
}

fn name(mechanism: &str) -> String {
    clip(&clean(mechanism), NAME_COLUMNS)
}

fn print_square(
    out: &mut Writer,
    pairs: &[Pair<'_>],
    names: &[&str],
    figure: impl Fn(&Cell, &SwitchFacts) -> Option<f64>,
) {
    let numbers: Vec<String> = (1..=names.len()).map(|number| number.to_string()).collect();
    let all: Vec<(&&str, &String)> = names.iter().zip(&numbers).collect();
    for columns in all.chunks(COLUMNS) {
        let mut head = vec![("", Align::Right, 2), ("from, to", Align::Left, NAME_COLUMNS)];
        head.extend(columns.iter().map(|(_, number)| (number.as_str(), Align::Right, FIGURE)));
        let mut grid = Grid::new(&head);
        for (from, number) in &all {
            let mut row = vec![(*number).clone(), name(from)];
            row.extend(columns.iter().map(|(to, _)| {
                let is_it =
                    |(cell, facts): &&Pair<'_>| cell.mechanism == **from && facts.to == **to;
                let found = pairs.iter().find(is_it).map(|(cell, facts)| figure(cell, facts));
                found.map_or_else(|| MISSING.to_owned(), micros)
            }));
            grid.row(row);
        }
        grid.print(out);
        out.blank();
    }
}

fn print_worst(out: &mut Writer, pairs: &[Pair<'_>]) {
    let mut worst = pairs.to_vec();
    sort(&mut worst);
    let mut grid = Grid::new(&WORST_HEAD);
    for (cell, facts) in worst.into_iter().take(WORST) {
        let longest = |times: &RttNs| time(times.max.map(|ns| ns as f64));
        let moved = cell.rtt_ns.clone().unwrap_or_default();
        grid.row(vec![
            name(&cell.mechanism),
            name(&facts.to),
            time(facts.pause_ns.p50),
            longest(&facts.pause_ns),
            time(moved.p50),
            time(facts.call_ns.p99),
            time(facts.undisturbed_ns.p50),
            time(facts.undisturbed_ns.p99),
            longest(&facts.undisturbed_ns),
        ]);
    }
    grid.print(out);
    out.blank();
}

const WORST_HEAD: [(&str, Align, usize); 9] = [
    ("from", Align::Left, NAME_COLUMNS),
    ("to", Align::Left, NAME_COLUMNS),
    ("pause", Align::Right, 7),
    ("longest", Align::Right, 7),
    ("moved", Align::Right, 7),
    ("p99", Align::Right, 7),
    ("still", Align::Right, 7),
    ("p99", Align::Right, 7),
    ("longest", Align::Right, 7),
];

const LEGEND: &str = "closed loop: a client in a loop makes empty calls one right after the other, \
                      also while its connection moves. pause: of each switch, the longest time \
                      between the ends of two calls that overlaps it; the median and the longest \
                      of all switches. moved: from when it was \
                      asked for until both ends use the other mechanism; a client without a loop \
                      pauses for that long. p99: of the calls during switches. still: calls over \
                      another connection of the same processes that stays on the first mechanism.";

/// What a switch may hold up calls for: a frame of animation has 16 ms, and several parts.
const PAUSE_GOAL_NS: f64 = 2_000_000.0;

/// Pairs that are shown in full.
const WORST: usize = 10;

/// The longest name of a mechanism has as many.
const NAME_COLUMNS: usize = 14;

/// Holds "1234" with room.
const FIGURE: usize = 6;

/// Fit on a page beside the names.
const COLUMNS: usize = 9;

/// A run that anybody could have written must not fill the terminal.
const NAMES_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::lines::Style;
    use crate::run::Kind;

    fn cell(from: &str, to: &str, pause_ns: f64) -> Cell {
        let pause_ns = RttNs { p50: Some(pause_ns), ..RttNs::default() };
        let switch = SwitchFacts { to: to.to_owned(), pause_ns, ..SwitchFacts::default() };
        Cell { switch: Some(switch), ..Cell::new(Kind::Latency, from, 0) }
    }

    #[test]
    fn the_longest_pause_is_named_and_those_above_the_goal_are_counted() {
        let cells = vec![cell("shm", "pipe", 90_000.0), cell("pipe", "shm", 2_100_000.0)];
        let run = Run { cells, ..Run::default() };
        let text = answer(&run);
        assert!(text.contains("2.10 ms, from pipe to shm; 1 of 2 pairs"), "{text}");
        let mut out = Writer::new(Style::PLAIN);
        print(&mut out, &run);
        let text = out.finish();
        assert!(text.contains("1  shm ") && text.contains("90.0"), "{text}");
        let none = Run::default();
        assert!(!is_of_switches(&none) && answer(&none).starts_with("No switch"));
    }
}
