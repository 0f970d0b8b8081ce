//! A run that another program measured: for each test a square of means, then the rates.
//!
//! Always true: means are called means; times of one definition stand under its heading, and
//! those of two never share a table. A row is the client's CPU, a column the server's.

use std::collections::{BTreeMap, BTreeSet};

use super::grid::{Align, clean, clip};
use super::matrix;
use crate::report::columns::{self, Column, micros, shown, values};
use crate::report::lines::Writer;
use crate::report::number::{self, MISSING};
use crate::run::{Cell, Definition, Kind, Run};

/// Whether the run is one of another program.
pub(super) fn is_of_import(run: &Run) -> bool {
    run.imported.is_some() && !run.cells.is_empty()
}

/// Adds all times and rates.
pub(super) fn print(out: &mut Writer, run: &Run) {
    let mut tests: BTreeMap<(Definition, &str, u64), Vec<&Cell>> = BTreeMap::new();
    let mut rates: Vec<&Cell> = Vec::new();
    for cell in &run.cells {
        let key = (cell.definition, cell.mechanism.as_str(), cell.message_bytes);
        match cell.kind {
            Kind::Latency => tests.entry(key).or_default().push(cell),
            Kind::Throughput => rates.push(cell),
        }
    }
    let mut last = None;
    for ((definition, mechanism, bytes), cells) in tests.into_iter().take(TESTS_MAX) {
        if last.replace(definition) != Some(definition) {
            let (title, meaning) = definition.title_and_meaning();
            out.title(title);
            out.wrap("  ", &format!("{meaning}; means"));
            out.blank();
        }
        let name = clip(&clean(mechanism), NAME_COLUMNS_MAX);
        out.line(&format!("  {name}, {}, mean in µs", number::size(bytes)));
        print_square(out, &cells);
    }
    if !rates.is_empty() {
        print_rates(out, &rates);
    }
}

fn print_square(out: &mut Writer, cells: &[&Cell]) {
    let placed: BTreeMap<(u32, u32), &Cell> = cells
        .iter()
        .filter_map(|cell| Some(((cell.placement.client_cpu?, cell.placement.server_cpu?), *cell)))
        .collect();
    for cell in cells.iter().filter(|cell| cell.placement.client_cpu.is_none()).take(TESTS_MAX) {
        out.line(&format!("    CPUs not told: {}", micros(mean(cell))));
    }
    let cpus: BTreeSet<u32> =
        placed.keys().flat_map(|&(client, server)| [client, server]).collect();
    let cpus: Vec<u32> = cpus.into_iter().collect();
    matrix::print_square(out, "", &cpus, |client, server| {
        placed.get(&(client, server)).map_or_else(|| MISSING.to_owned(), |cell| micros(mean(cell)))
    });
}

fn mean(cell: &Cell) -> Option<f64> {
    cell.rtt_ns.as_ref()?.mean
}

fn print_rates(out: &mut Writer, rates: &[&Cell]) {
    let (title, meaning) = Definition::OneWayThroughput.title_and_meaning();
    out.title(title);
    out.wrap("  ", meaning);
    out.blank();
    let mut grid = columns::grid(&RATES);
    for cell in rates.iter().take(RATES_MAX) {
        grid.row(values(&RATES, *cell));
    }
    grid.print(out);
    if rates.len() > RATES_MAX {
        let text = format!("{} more: nearcall data export --csv FILE", rates.len() - RATES_MAX);
        out.line(&format!("  {text}"));
    }
    out.blank();
}

const RATES: [Column<Cell>; 5] = [
    Column::words("mechanism", 20, |cell| clip(&clean(&cell.mechanism), NAME_COLUMNS_MAX)),
    columns::SIZE,
    Column::words("from→to", 7, |cell| {
        let place = &cell.placement;
        format!("{}→{}", shown(place.client_cpu), shown(place.server_cpu))
    }),
    columns::BYTES.named("rate"),
    Column {
        align: Align::Text,
        ..Column::words("what it includes", 0, |cell| {
            clean(cell.shape.trim_start_matches("sink+")).replace('+', " ")
        })
    },
];

/// Columns of a mechanism's name.
const NAME_COLUMNS_MAX: usize = 34;

/// A run that anybody could have written must not fill the terminal.
const TESTS_MAX: usize = 100;

/// As above.
const RATES_MAX: usize = 200;
