//! The table of a run for a person at a terminal: 100 columns, floors first, then sizes.
//!
//! Cells of different definition, shape, placement or load never share a table. Within a size the
//! fastest stands first. Text from the run file is made harmless before it is shown. Printing is
//! left to the caller.

mod grid;
mod head;
mod notes;

use std::collections::BTreeMap;

use self::grid::{Align, Grid, clean, clip, print_line, print_wrapped};
use self::notes::Notes;
use super::number::{self, MISSING};
use crate::run::{Cell, Definition, Kind, Run};

/// Renders the table of a run. Ends with a line break.
#[must_use]
pub fn table(run: &Run) -> String {
    let mut out = String::new();
    head::print(&mut out, run);
    let mut notes = Notes::default();
    for (title, cells) in sections(run) {
        out.push('\n');
        print_section(&mut out, &title, cells, &mut notes);
    }
    if run.cells.is_empty() && run.floors.is_empty() {
        out.push_str("\nNothing was measured.\n");
    } else {
        notes.print(&mut out);
    }
    print_skipped(&mut out, run);
    out
}

/// What one table has in common, in the order of tables.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Title {
    is_cell: bool,
    kind: Kind,
    definition: Definition,
    shape: String,
    class: String,
    client_cpu: Option<u32>,
    server_cpu: Option<u32>,
    load: String,
}

impl Title {
    fn of(cell: &Cell, is_cell: bool) -> Self {
        Self {
            is_cell,
            kind: cell.kind,
            definition: cell.definition,
            shape: cell.shape.clone(),
            class: cell.placement.class.clone(),
            client_cpu: cell.placement.client_cpu,
            server_cpu: cell.placement.server_cpu,
            load: cell.load.clone(),
        }
    }

    fn print(&self, out: &mut String) {
        let (name, meaning) = match self.definition {
            Definition::Rtt => (
                "Round trip",
                "closed_loop (one exchange at a time); from sending until the reply is there, \
                 not halved",
            ),
            Definition::RttHalf => (
                "Half a round trip",
                "closed_loop (one exchange at a time); the round trip divided by two",
            ),
            Definition::OneWayThroughput => {
                ("Throughput", "one way; the clock stops when the consumer confirms the last byte")
            }
        };
        let shape = clip(&clean(&self.shape), 20);
        let title = if self.is_cell {
            format!("{name}, {shape}")
        } else {
            format!("Floors: {}, {shape}", name.to_lowercase())
        };
        print_line(out, &title);
        print_wrapped(out, "  ", &format!("{meaning}."));
        print_wrapped(out, "  ", &format!("{}; load: {}.", self.place(), clean(&self.load)));
    }

    fn place(&self) -> String {
        let class = clean(&self.class);
        match (self.client_cpu, self.server_cpu) {
            (Some(client), Some(server)) => {
                format!("Client on CPU {client}, server on CPU {server} ({class})")
            }
            _ => format!("Ends not pinned ({class})"),
        }
    }
}

fn sections(run: &Run) -> BTreeMap<Title, Vec<&Cell>> {
    let mut sections: BTreeMap<Title, Vec<&Cell>> = BTreeMap::new();
    for (list, is_cell) in [(&run.floors, false), (&run.cells, true)] {
        for cell in list {
            sections.entry(Title::of(cell, is_cell)).or_default().push(cell);
        }
    }
    sections
}

fn print_section(out: &mut String, title: &Title, mut cells: Vec<&Cell>, notes: &mut Notes) {
    title.print(out);
    out.push('\n');
    cells.sort_by(|a, b| {
        let by_cost = cost(a).total_cmp(&cost(b));
        (a.message_bytes.cmp(&b.message_bytes)).then(by_cost).then(a.mechanism.cmp(&b.mechanism))
    });
    let mut grid = match title.kind {
        Kind::Latency => Grid::new(&LATENCY_HEAD),
        Kind::Throughput => Grid::new(&THROUGHPUT_HEAD),
    };
    let mut size = None;
    for cell in cells {
        if size != Some(cell.message_bytes) {
            grid.heading(number::size(cell.message_bytes));
            size = Some(cell.message_bytes);
        }
        grid.row(match title.kind {
            Kind::Latency => latency_row(cell, notes),
            Kind::Throughput => throughput_row(cell, notes),
        });
    }
    grid.print(out);
}

/// What cells of one size are ordered by: cheaper first, unknown last.
fn cost(cell: &Cell) -> f64 {
    let cost = match cell.kind {
        Kind::Latency => cell.rtt_ns.as_ref().and_then(|rtt| rtt.p50),
        Kind::Throughput => cell.messages_per_s.map(|rate| -rate),
    };
    cost.unwrap_or(f64::INFINITY)
}

fn latency_row(cell: &Cell, notes: &mut Notes) -> Vec<String> {
    let rtt = cell.rtt_ns.clone().unwrap_or_default();
    let [name, wait] = names(cell);
    let mut row = vec![
        name,
        wait,
        figure(rtt.p50, number::time),
        spread(rtt.p50, rtt.p50_ci95),
        figure(rtt.p99, number::time),
    ];
    row.extend(common_columns(cell, notes));
    row
}

fn throughput_row(cell: &Cell, notes: &mut Notes) -> Vec<String> {
    let [name, wait] = names(cell);
    let mut row = vec![
        name,
        wait,
        figure(cell.messages_per_s, number::message_rate),
        spread(cell.messages_per_s, cell.messages_per_s_ci95),
        figure(cell.bytes_per_s, number::byte_rate),
    ];
    row.extend(common_columns(cell, notes));
    row
}

fn names(cell: &Cell) -> [String; 2] {
    [clip(&clean(&cell.mechanism), NAME_COLUMNS_MAX), clip(&clean(&cell.wait), WAIT_COLUMNS_MAX)]
}

/// CPU of both ends, ratio, floor, and grade with the marks of footnotes.
fn common_columns(cell: &Cell, notes: &mut Notes) -> [String; 4] {
    let cpu = cell.cpu_ns_per_message;
    let micros = |ns: Option<f64>| figure(ns.map(|ns| ns / 1e3), number::three_digits);
    let cpu = match (cpu.client, cpu.server) {
        (None, None) => MISSING.to_owned(),
        (client, server) => format!("{}+{}", micros(client), micros(server)),
    };
    let floor = cell.floor.as_deref().unwrap_or_default();
    let grade = cell.grade.map_or_else(|| MISSING.to_owned(), |grade| grade.to_string());
    [
        cpu,
        figure(cell.ratio_to_floor, number::ratio),
        clip(&clean(floor.trim_start_matches("floor-")), FLOOR_COLUMNS_MAX),
        format!("{grade} {}", notes.marks(cell)),
    ]
}

fn figure(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| MISSING.to_owned(), format)
}

/// Half the width of the interval, relative to the figure.
fn spread(value: Option<f64>, ci95: Option<[f64; 2]>) -> String {
    let (Some(value), Some([low, high])) = (value, ci95) else {
        return MISSING.to_owned();
    };
    match (high - low) / 2.0 / value * 100.0 {
        percent if !percent.is_finite() => MISSING.to_owned(),
        percent if percent > 999.0 => ">999 %".to_owned(),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

fn print_skipped(out: &mut String, run: &Run) {
    if run.skipped.is_empty() {
        return;
    }
    out.push_str("\nNot measured\n");
    for skipped in &run.skipped {
        let mut what = Vec::new();
        if let Some(kind) = skipped.kind {
            what.push(if kind == Kind::Latency { "latency" } else { "throughput" }.to_owned());
        }
        what.extend(skipped.message_bytes.map(number::size));
        if skipped.unsupported {
            what.push("unsupported".to_owned());
        }
        let what = if what.is_empty() { String::new() } else { what.join(", ") + ": " };
        let name = clip(&clean(&skipped.mechanism), NAME_COLUMNS_MAX);
        let label = format!("    {name:<NAME_COLUMNS_MAX$}  ");
        print_wrapped(out, &label, &format!("{what}{}", clean(&skipped.reason)));
    }
}

/// Names, alignment and least width of the columns. The widths are those that most runs need, so
/// that the tables of a run stand under each other alike.
const LATENCY_HEAD: [(&str, Align, usize); 9] = [
    ("", Align::Left, 16),
    ("wait", Align::Left, 5),
    ("median", Align::Right, 8),
    ("± 95 %", Align::Right, 6),
    ("p99", Align::Right, 9),
    ("CPU µs/msg", Align::Right, 11),
    ("ratio", Align::Right, 5),
    ("to floor", Align::Left, 12),
    ("grade", Align::Left, 5),
];

const THROUGHPUT_HEAD: [(&str, Align, usize); 9] = [
    ("", Align::Left, 16),
    ("wait", Align::Left, 5),
    ("messages", Align::Right, 8),
    ("± 95 %", Align::Right, 6),
    ("bytes", Align::Right, 9),
    ("CPU µs/msg", Align::Right, 11),
    ("ratio", Align::Right, 5),
    ("to floor", Align::Left, 12),
    ("grade", Align::Left, 5),
];

/// Holds "floor-chunked-copy". A longer name is not one of ours.
const NAME_COLUMNS_MAX: usize = 18;

/// Holds "adaptive".
const WAIT_COLUMNS_MAX: usize = 8;

/// Holds "chunked-copy".
const FLOOR_COLUMNS_MAX: usize = 12;
