//! Calls of the runtime, each beside its bare exchange.
//!
//! A row is a mechanism, or a short circuit, under the heading of who calls; a column is what is
//! called.
//!
//! **Invariants:** a ratio is shown with its interval, or with a dash where there is none.

use std::collections::BTreeMap;

use super::answer;
use super::cells::{OURS, print_legend, print_place};
use super::grid::{Align, Grid, clean, clip};
use crate::noise;
use crate::report::columns::{self, Column, shown, values};
use crate::report::document::Document;
use crate::report::number::{self, MISSING};
use crate::run::{Breakdown, Cell, Kind, Run, fact};
use crate::shape::Shape;
use crate::stats;

/// Adds the calls in one table, with the ratios of all but the empty call only; `details.rs` has
/// the others.
pub(super) fn print(out: &mut Document, run: &Run, full: bool) {
    print_place(out, run.cells.first(), "");
    let mut others: Vec<Key> = run.cells.iter().map(Key::of).filter(|&key| key != EMPTY).collect();
    others.sort_unstable();
    others.dedup();
    let first = [columns::NAME, WAIT].into_iter().chain(FIGURES);
    let mut head: Vec<_> = first.map(|one| (one.head, one.align, one.least)).collect();
    let names: Vec<String> = others.iter().map(|key| key.name()).collect();
    head.extend(names.iter().map(|name| (name.as_str(), Align::Right, 5)));
    head.push(("grade", Align::Grade, 5));
    // What does not fit is in the details.
    let spare = if full { 0 } else { others.len().saturating_sub(1) };
    let last = head.len() - 1;
    let mut grid = Grid::new(&head).without((last - spare..last).rev().collect());
    for (caller, meaning) in CALLERS {
        let rows = rows(run, caller);
        if !rows.is_empty() {
            grid.heading((*meaning).to_owned());
        }
        for cells in rows {
            let Some(first) = cells.values().next() else { continue };
            let mut row = values(&[columns::NAME, WAIT], *first);
            let empty = cells.get(&EMPTY).copied();
            row.extend(FIGURES.iter().map(|column| text_or_dash(column, empty)));
            let ratio = Column::fact(&fact::TO_BARE);
            row.extend(others.iter().map(|key| text_or_dash(&ratio, cells.get(key).copied())));
            row.push(shown(noise::worst_of(cells.values().map(|cell| cell.grade))));
            grid.row(row);
        }
    }
    out.grid(grid);
    out.blank();
    print_floors(out, run);
    run.breakdowns.iter().for_each(|breakdown| print_breakdown(out, breakdown));
    if !run.breakdowns.is_empty() {
        out.blank();
    }
    print_legend(out, LEGEND, run.cells.iter().chain(&run.bare).chain(&run.floors));
}

/// What an empty call costs, awake and asleep, and what of it is the runtime's.
pub(super) fn answer(run: &Run) -> String {
    let empty = |caller: &str| -> Vec<&Cell> {
        let is_of = |cell: &&Cell| {
            Key::of(cell) == EMPTY && cell.call.as_ref().is_some_and(|call| call.caller == caller)
        };
        run.cells.iter().filter(is_of).collect()
    };
    let callers = CALLERS.iter().filter(|(caller, _)| REMOTE.contains(caller));
    let cells = callers.map(|(caller, _)| empty(caller)).find(|cells| !cells.is_empty());
    let cells = cells.unwrap_or_default();
    let mut parts = Vec::new();
    if let Some(first) = cells.first() {
        parts.extend(answer::both_ways("Fastest", &cells, first));
    }
    let ratios: Vec<f64> =
        cells.iter().filter_map(|cell| cell.call.as_ref()?.ratio_to_bare).collect();
    if let Some(ratio) = stats::median(&ratios) {
        let ratio = number::ratio(ratio);
        parts.push(format!("A call costs {ratio} its bare exchange (median of the mechanisms)."));
    }
    let typed = empty("typed").first().and_then(|cell| ns(cell));
    let local = |ns| format!("In one event loop, without a mechanism: {}.", number::time(ns));
    parts.extend(typed.map(local));
    answer::join(parts)
}

/// What is called: a call, a one-way call or an item as a number, then the argument's size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u8, u64);

impl Key {
    fn of(cell: &Cell) -> Self {
        let what = match cell.kind {
            Kind::Latency => 0,
            Kind::Throughput if cell.shape == Shape::Stream.name() => 2,
            Kind::Throughput => 1,
        };
        Self(what, cell.message_bytes)
    }

    fn name(self) -> String {
        match self {
            Self(0, bytes) => number::size(bytes),
            Self(1, ONEWAY_BYTES) => "1-way".to_owned(),
            Self(1, bytes) => format!("1-way {}", number::size(bytes)),
            Self(_, bytes) => format!("item {}", number::size(bytes)),
        }
    }
}

/// The empty call.
const EMPTY: Key = Key(0, 0);

/// The calls of one kind of caller, a row for each mechanism and way to wait: nearcall's own
/// channel, then the fastest first.
fn rows<'a>(run: &'a Run, caller: &str) -> Vec<BTreeMap<Key, &'a Cell>> {
    let mut rows: BTreeMap<(&str, &str), BTreeMap<Key, &Cell>> = BTreeMap::new();
    for cell in &run.cells {
        if cell.call.as_ref().is_some_and(|call| call.caller == caller) {
            rows.entry((&cell.mechanism, &cell.wait)).or_default().insert(Key::of(cell), cell);
        }
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    let cost = |row: &BTreeMap<Key, &Cell>| {
        row.values().next().and_then(|cell| ns(cell)).unwrap_or(f64::INFINITY)
    };
    let ours =
        |row: &BTreeMap<Key, &Cell>| row.values().next().is_none_or(|cell| cell.mechanism != OURS);
    rows.sort_by(|a, b| ours(a).cmp(&ours(b)).then(cost(a).total_cmp(&cost(b))));
    rows
}

/// The time of one call.
fn ns(cell: &Cell) -> Option<f64> {
    fact::PER_MESSAGE.valid(cell).map(|found| found.value)
}

/// Call, bare exchange, ratio, interval.
const FIGURES: [Column<Cell>; 4] = [
    Column::fact(&fact::PER_MESSAGE),
    Column::fact(&fact::BARE),
    Column::fact(&fact::TO_BARE),
    Column::spread(&fact::TO_BARE),
];

/// How both ends wait; a dash for a call without a mechanism.
const WAIT: Column<Cell> = Column::words("wait", 10, |cell| {
    let none = cell.call.as_ref().is_some_and(|call| call.client_wait.is_empty());
    if none { MISSING.to_owned() } else { columns::WAIT.text(cell) }
});

fn text_or_dash(column: &Column<Cell>, cell: Option<&Cell>) -> String {
    cell.map_or_else(|| MISSING.to_owned(), |cell| column.text(cell))
}

fn print_floors(out: &mut Document, run: &Run) {
    let text = |floor: &Cell| {
        let name = clean(floor.mechanism.trim_start_matches("floor-"));
        let size = number::size(floor.message_bytes);
        format!("{name} {size} {}", columns::MEDIAN.text(floor))
    };
    let floors: Vec<String> = run.floors.iter().map(text).collect();
    if !floors.is_empty() {
        out.wrap("  ", format!("floors, without nearcall: {}.", floors.join(", ")));
    }
}

fn print_breakdown(out: &mut Document, breakdown: &Breakdown) {
    out.part(format!(
        "Where one empty call over {} goes ({})",
        clean(&breakdown.mechanism),
        clean(&breakdown.wait)
    ));
    out.note(caller_words(&breakdown.caller).unwrap_or_default());
    let mut grid = Grid::new(&[("", Align::Left, 20), ("", Align::Right, 8), ("", Align::Text, 0)]);
    let parts = breakdown.parts.iter().map(|part| (&*part.name, part.ns, &*part.how));
    let whole = [
        ("sum", breakdown.sum_ns, "of the parts, not scaled"),
        ("whole call", breakdown.whole_ns, "measured by itself"),
        ("rest", breakdown.rest_ns, "event loop, buffers, caches; and what overlaps"),
    ];
    for (name, ns, how) in parts.chain(whole) {
        let name = clip(&clean(name), PART_COLUMNS_MAX);
        grid.row(vec![name, number::optional(ns, "ns"), clean(how)]);
    }
    out.grid(grid);
}

/// A kind of caller in words.
pub(super) fn caller_words(caller: &str) -> Option<&'static str> {
    CALLERS.iter().find(|(name, _)| *name == caller).map(|(_, meaning)| *meaning)
}

/// The kinds of callers, in the order of the tables.
const CALLERS: &[(&str, &str)] = &[
    ("blocking", "client without a loop; server in its event loop"),
    ("loop", "client in an event loop; server in its event loop"),
    ("async", "client of futures in a tokio runtime of one thread; server in its event loop"),
    ("same-loop", "client and server in one event loop, over the mechanism"),
    ("typed", "short circuit, typed"),
    ("bytes", "short circuit, through bytes: client of another build"),
];

/// Callers whose server is another process.
const REMOTE: [&str; 3] = ["blocking", "loop", "async"];

const LEGEND: &str = "call: median, closed loop, the server does no work; bare: the same bytes \
                      (header and argument there, header back) by the same mechanism, each end waiting the same \
                      way, in the same processes; ratio: call to bare, of the same launch; wait: \
                      client/server where they differ; 1-way, item and sizes: the ratio for one-way calls, \
                      items of a stream, and arguments of that size.";

/// The one-way call that is measured beside calls.
const ONEWAY_BYTES: u64 = 8;

/// Holds the names of parts with room.
const PART_COLUMNS_MAX: usize = 40;
