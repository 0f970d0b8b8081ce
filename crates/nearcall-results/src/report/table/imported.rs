//! A run that another program measured: for each test a square of means, then the rates.
//!
//! Always true: means are called means; times of one definition stand under its heading, and
//! those of two never share a table. A row is the client's CPU, a column the server's.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::micros;
use super::grid::{Align, Grid, clean, clip};
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
    if cpus.len() > CPUS_MAX {
        out.line(&format!("    {} CPUs are too many for a square.", cpus.len()));
    }
    for columns in cpus.chunks(COLUMNS).filter(|_| cpus.len() <= CPUS_MAX) {
        let names: Vec<String> = columns.iter().map(u32::to_string).collect();
        let mut head = vec![("", Align::Right, 4)];
        head.extend(names.iter().map(|name| (name.as_str(), Align::Right, FIGURE_COLUMNS)));
        let mut grid = Grid::new(&head);
        for &client in &cpus {
            let figure = |&server: &u32| match placed.get(&(client, server)) {
                Some(cell) => micros(mean(cell)),
                None => MISSING.to_owned(),
            };
            let mut row = vec![client.to_string()];
            row.extend(columns.iter().map(figure));
            grid.row(row);
        }
        grid.print(out);
    }
    out.blank();
}

fn mean(cell: &Cell) -> Option<f64> {
    cell.rtt_ns.as_ref()?.mean
}

fn print_rates(out: &mut Writer, rates: &[&Cell]) {
    let (title, meaning) = Definition::OneWayThroughput.title_and_meaning();
    out.title(title);
    out.wrap("  ", meaning);
    out.blank();
    let mut grid = Grid::new(&[
        ("mechanism", Align::Left, 20),
        ("size", Align::Right, 7),
        ("from→to", Align::Left, 7),
        ("rate", Align::Right, 9),
        ("what it includes", Align::Text, 0),
    ]);
    let cpu = |cpu: Option<u32>| cpu.map_or_else(|| MISSING.to_owned(), |cpu| cpu.to_string());
    for cell in rates.iter().take(RATES_MAX) {
        let Cell { placement, .. } = cell;
        grid.row(vec![
            clip(&clean(&cell.mechanism), NAME_COLUMNS_MAX),
            number::size(cell.message_bytes),
            format!("{}→{}", cpu(placement.client_cpu), cpu(placement.server_cpu)),
            cell.bytes_per_s.map_or_else(|| MISSING.to_owned(), number::byte_rate),
            clean(cell.shape.trim_start_matches("sink+")).replace('+', " "),
        ]);
    }
    grid.print(out);
    if rates.len() > RATES_MAX {
        let text = format!("{} more: nearcall data export --csv FILE", rates.len() - RATES_MAX);
        out.line(&format!("  {text}"));
    }
    out.blank();
}

/// Fit on a page.
const COLUMNS: usize = 10;

/// Holds "99.9" with room.
const FIGURE_COLUMNS: usize = 6;

/// A larger square is for a program to read.
const CPUS_MAX: usize = 64;

/// Columns of a mechanism's name.
const NAME_COLUMNS_MAX: usize = 34;

/// A run that anybody could have written must not fill the terminal.
const TESTS_MAX: usize = 100;

/// As above.
const RATES_MAX: usize = 200;
