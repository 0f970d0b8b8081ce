//! Runs whose cells form squares: from CPU to CPU, and from one mechanism to another.
//!
//! **Invariants:** a row is the CPU of the client, or the mechanism that a connection comes from, a
//! column that of the server, or the mechanism that it moves to; what was not measured is a dash.

use std::collections::BTreeMap;

use super::answer;
use super::cells::{CLASSES, load_achieved, print_legend};
use super::grid::{Align, Grid, clean, clip};
use crate::noise::Grade;
use crate::report::columns::{Column, micros, shown, spread, time};
use crate::report::document::Document;
use crate::report::number::{self, MISSING};
use crate::run::{Cell, RttNs, Run, SwitchFacts};
use crate::stats;

/// A square of figures: each of `rows` has its label cells, and a figure for each of `names`.
fn square(
    heads: &[(&str, Align, usize)],
    rows: Vec<Vec<String>>,
    names: &[String],
    figure: impl Fn(usize, usize) -> String,
) -> Grid {
    let columns = names.iter().map(|name| (name.as_str(), Align::Right, FIGURE_COLUMNS));
    let mut grid = Grid::new(&heads.iter().copied().chain(columns).collect::<Vec<_>>());
    for (at, mut row) in rows.into_iter().enumerate() {
        row.extend((0..names.len()).map(|to| figure(at, to)));
        grid.row(row);
    }
    grid
}

/// A square of the cells of these CPUs.
fn print_cpus(
    out: &mut Document,
    corner: &str,
    cpus: &[u32],
    cells: &[&Cell],
    text: fn(&Cell) -> String,
) {
    if cpus.len() > CPUS_MAX {
        return out.line(format!("    {} CPUs are too many for a square.", cpus.len()));
    }
    let pair = |cell: &Cell| (cell.placement.client_cpu, cell.placement.server_cpu);
    let placed: BTreeMap<_, &Cell> = cells.iter().rev().map(|cell| (pair(cell), *cell)).collect();
    let names: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let rows = names.iter().map(|name| vec![name.clone()]).collect();
    out.grid(square(&[(corner, Align::Right, 4)], rows, &names, |client, server| {
        let cell = placed.get(&(Some(cpus[client]), Some(cpus[server])));
        cell.map_or_else(|| MISSING.to_owned(), |cell| text(cell))
    }));
    out.blank();
}

/// Adds all mechanisms of a run from CPU to CPU.
pub(super) fn print_matrix(out: &mut Document, run: &Run) {
    let Some(matrix) = &run.matrix else { return };
    for (key, cells) in exchanges(run) {
        out.title(format!(
            "{} {}, {} of {}; load: {}",
            clean(key.0),
            clean(key.1),
            clean(key.2),
            number::size(key.3),
            clean(key.4),
        ));
        if let Some(text) = load_achieved(&cells) {
            out.wrap("  ", text);
        }
        out.blank();
        print_cpus(out, "µs", &matrix.cpus, &cells, |cell| {
            let mark = if is_disturbed(cell) { "D" } else { "" };
            format!("{}{mark}", micros(p50(cell)))
        });
        out.grid(classes(&cells));
        out.blank();
    }
    if matrix.left_out > 0 {
        out.wrap("  ", format!("{} of {} pairs were left out.", matrix.left_out, matrix.pairs));
    }
    print_legend(out, MATRIX_LEGEND, &run.cells);
}

/// What the cells of one square have in common: mechanism, wait, shape, size, load.
type Exchange<'a> = (&'a str, &'a str, &'a str, u64, &'a str);

/// The cells by exchange, in the order of the first of each.
fn exchanges(run: &Run) -> Vec<(Exchange<'_>, Vec<&Cell>)> {
    let mut found: Vec<(Exchange<'_>, Vec<&Cell>)> = Vec::new();
    for cell in &run.cells {
        let key = (&*cell.mechanism, &*cell.wait, &*cell.shape, cell.message_bytes, &*cell.load);
        match found.iter().position(|(known, _)| *known == key) {
            Some(at) => found[at].1.push(cell),
            None if found.len() < KEYS_MAX => found.push((key, vec![cell])),
            None => {}
        }
    }
    found
}

/// The cells with a median, the shortest first.
fn by_median<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<(f64, &'a Cell)> {
    let mut found: Vec<(f64, &Cell)> = cells.filter_map(|cell| Some((p50(cell)?, cell))).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found
}

/// The nearest and the farthest pair of CPUs, for each exchange.
pub(super) fn answer_matrix(run: &Run) -> String {
    let parts = exchanges(run).into_iter().take(ANSWERS_MAX).map(|(key, cells)| {
        let disturbed = cells.iter().filter(|cell| is_disturbed(cell)).count();
        let disturbed = match disturbed {
            0 => String::new(),
            count => format!("; left out: {count} of grade D"),
        };
        let pairs = by_median(cells.into_iter().filter(|cell| !is_disturbed(cell)));
        let name = answer::name(key.0, key.1);
        match pairs[..] {
            [] => format!("{name}: every pair is of grade D; measure again."),
            [only] => format!("{name}: {}, the only pair{disturbed}.", at_pair(only)),
            [low, .., high] => format!(
                "{name}: from {} to {}, {} as much{disturbed}.",
                at_pair(low),
                at_pair(high),
                number::ratio(high.0 / low.0)
            ),
        }
    });
    answer::join(parts.collect())
}

/// The middle and the ends of each class.
pub(in crate::report) fn classes(cells: &[&Cell]) -> Grid {
    let mut grid = Grid::new(&[
        ("class", Align::Left, 17),
        ("pairs", Align::Right, 5),
        ("median", Align::Right, 7),
        ("lowest", Align::Right, 14),
        ("highest", Align::Right, 14),
        ("± 95 %", Align::Right, 6),
    ]);
    for (class, meaning) in CLASSES {
        let of_class = cells.iter().copied().filter(|cell| cell.placement.class == class);
        let found = by_median(of_class);
        let times: Vec<f64> = found.iter().map(|(ns, _)| *ns).collect();
        let (Some(low), Some(high)) = (found.first(), found.last()) else { continue };
        let widest = found.iter().filter_map(|(_, cell)| width(cell)).reduce(f64::max);
        grid.row(vec![
            meaning.to_owned(),
            found.len().to_string(),
            time(stats::median(&times)),
            at_pair(*low),
            at_pair(*high),
            spread(Some(1.0), widest.map(|half| [1.0 - half, 1.0 + half])),
        ]);
    }
    grid
}

/// Half the confidence interval, relative to the figure.
fn width(cell: &Cell) -> Option<f64> {
    let [low, high] = cell.rtt_ns.as_ref()?.p50_ci95?;
    Some((high - low) / 2.0 / p50(cell)?)
}

fn at_pair((ns, cell): (f64, &Cell)) -> String {
    let place = &cell.placement;
    format!("{} ({}→{})", number::time(ns), shown(place.client_cpu), shown(place.server_cpu))
}

fn p50(cell: &Cell) -> Option<f64> {
    cell.rtt_ns.as_ref()?.p50
}

fn is_disturbed(cell: &Cell) -> bool {
    cell.grade == Some(Grade::D)
}

/// Adds both squares of a run of switches, and the worst pairs.
pub(super) fn print_switches(out: &mut Document, run: &Run) {
    let pairs = pairs(run);
    let mut names: Vec<&str> = Vec::new();
    for cell in &run.cells {
        let Some(switch) = &cell.switch else { continue };
        for name in [cell.mechanism.as_str(), switch.to.as_str()] {
            if !names.contains(&name) && names.len() < NAMES_MAX {
                names.push(name);
            }
        }
    }
    let numbers: Vec<String> = (1..=names.len()).map(|number| number.to_string()).collect();
    let squares: [(&str, Figure); 2] = [
        ("Pause, median, in µs: the longest time between the ends of two calls", |pair| {
            pair.1.pause_ns.p50
        }),
        ("Until both ends have moved, median, in µs", |pair| p50(pair.0)),
    ];
    for (title, figure) in squares {
        out.title(title);
        let heads = [("", Align::Right, 2), ("from, to", Align::Left, NAME_COLUMNS)];
        let rows =
            numbers.iter().zip(&names).map(|(number, from)| vec![number.clone(), name(from)]);
        out.grid(square(&heads, rows.collect(), &numbers, |from, to| {
            let is_it =
                |pair: &&Pair<'_>| pair.0.mechanism == names[from] && pair.1.to == names[to];
            let found = pairs.iter().find(is_it).map(figure);
            found.map_or_else(|| MISSING.to_owned(), micros)
        }));
        out.blank();
    }
    out.title("The longest pauses");
    out.table(&worst_columns(), pairs.iter().take(WORST));
    out.blank();
    print_legend(out, SWITCHES_LEGEND, pairs.iter().map(|pair| pair.0));
}

/// The longest median of a pause, and how many are above the goal.
pub(super) fn answer_switches(run: &Run) -> String {
    let mut pairs = pairs(run);
    pairs.retain(|(_, facts)| facts.pause_ns.p50.is_some());
    let Some((cell, facts)) = pairs.first() else {
        return "No switch was measured.".to_owned();
    };
    let above = pairs.iter().filter(|(_, facts)| facts.pause_ns.p50 > Some(PAUSE_GOAL_NS)).count();
    let goal = number::time(PAUSE_GOAL_NS);
    let verdict = match above {
        0 => format!("all {} pairs pause for {goal} at most", pairs.len()),
        above => format!("{above} of {} pairs pause for more than {goal}", pairs.len()),
    };
    format!(
        "Longest median pause: {}, from {} to {}; {verdict}.",
        time(facts.pause_ns.p50),
        name(&cell.mechanism),
        name(&facts.to)
    )
}

type Pair<'a> = (&'a Cell, &'a SwitchFacts);

/// A figure of a pair.
type Figure = fn(&Pair<'_>) -> Option<f64>;

/// The pairs of mechanisms, that with the longest pause first.
fn pairs(run: &Run) -> Vec<Pair<'_>> {
    let mut pairs: Vec<Pair<'_>> =
        run.cells.iter().filter_map(|cell| Some((cell, cell.switch.as_ref()?))).collect();
    let pause = |pair: &Pair<'_>| pair.1.pause_ns.p50.unwrap_or_default();
    pairs.sort_by(|a, b| pause(b).total_cmp(&pause(a)));
    pairs
}

fn name(mechanism: &str) -> String {
    clip(&clean(mechanism), NAME_COLUMNS)
}

fn worst_columns<'a>() -> [Column<Pair<'a>>; 9] {
    fn longest(times: &RttNs) -> String {
        time(times.max.map(|ns| ns as f64))
    }
    [
        Column::words("from", NAME_COLUMNS, |pair| name(&pair.0.mechanism)),
        Column::words("to", NAME_COLUMNS, |pair| name(&pair.1.to)),
        Column::figure("pause", 7, |pair| time(pair.1.pause_ns.p50)),
        Column::figure("longest", 7, |pair| longest(&pair.1.pause_ns)),
        Column::figure("moved", 7, |pair| time(p50(pair.0))),
        Column::figure("p99", 7, |pair| time(pair.1.call_ns.p99)),
        Column::figure("still", 7, |pair| time(pair.1.undisturbed_ns.p50)),
        Column::figure("p99", 7, |pair| time(pair.1.undisturbed_ns.p99)),
        Column::figure("longest", 7, |pair| longest(&pair.1.undisturbed_ns)),
    ]
}

const MATRIX_LEGEND: &str = "median round trip, not halved, closed loop; row: the client's CPU, \
    column: the server's. – was not measured: an end that spins cannot share a CPU. D: grade D. \
    Classes: the median of their pairs, the pairs at both ends, the widest interval of a pair.";

const SWITCHES_LEGEND: &str = "closed loop: a client in a loop makes empty calls one right after \
    the other, also while its connection moves. pause: of each switch, the longest time between \
    the ends of two calls that overlaps it; the median and the longest of all switches. moved: \
    from when it was asked for until both ends use the other mechanism; a client without a loop \
    pauses for that long. p99: of the calls during switches. still: calls over another connection \
    of the same processes that stays on the first mechanism.";

/// What a switch may hold up calls for: a frame of animation has 16 ms, and several parts.
const PAUSE_GOAL_NS: f64 = 2_000_000.0;

/// Pairs of mechanisms that are shown in full.
const WORST: usize = 10;

/// The longest name of a mechanism has as many.
const NAME_COLUMNS: usize = 14;

/// Holds "99.9D" with room.
const FIGURE_COLUMNS: usize = 6;

/// A larger square is for a program to read.
pub(in crate::report) const CPUS_MAX: usize = 64;

/// More exchanges in the answer would be a table again.
const ANSWERS_MAX: usize = 4;

/// An untrusted run must not fill the terminal.
const KEYS_MAX: usize = 100;

/// There are fewer mechanisms; a file may claim more.
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
        let text = answer_switches(&run);
        assert!(text.contains("2.10 ms, from pipe to shm; 1 of 2 pairs"), "{text}");
        let mut out = Document::default();
        print_switches(&mut out, &run);
        let text = out.text(Style::PLAIN);
        assert!(text.contains("1  shm ") && text.contains("90.0"), "{text}");
        assert!(answer_switches(&Run::default()).starts_with("No switch"));
    }
}
