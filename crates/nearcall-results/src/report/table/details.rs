//! All cells of a run, floors first, then by size, each with its interval and its marks.
//!
//! Cells of different definition, shape, placement or load never share a table. Within a size the
//! fastest stands first. The run in one table is in `overview.rs`.

use std::collections::BTreeMap;

use super::cells::{
    NAME_COLUMNS_MAX, WAIT_COLUMNS_MAX, figure, load_achieved, micros, place, ratio_to_floor,
};
use super::grid::{Align, Grid, clean, clip};
use super::notes::Notes;
use crate::noise::Grade;
use crate::report::lines::{Ink, Writer};
use crate::report::number::{self, MISSING, Measured};
use crate::run::{Cell, Definition, Kind, Placement, Run};

/// Adds a table for each kind of cells, and the footnotes.
pub(super) fn print(out: &mut Writer, run: &Run) {
    let mut notes = Notes::of(run.floors.iter().chain(&run.cells));
    for (index, (title, cells)) in sections(run).into_iter().enumerate() {
        if index > 0 {
            out.blank();
        }
        print_section(out, &title, cells, &mut notes);
    }
    notes.print(out);
}

/// What one table has in common, in the order of tables.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Title {
    is_cell: bool,
    kind: Kind,
    definition: Definition,
    /// Empty for throughput.
    shape: String,
    placement: Placement,
    load: String,
    /// Calls per second at set times.
    rate_per_s: Option<u32>,
    /// A number that orders other traffic, and its words.
    traffic: (u64, String),
}

impl Title {
    fn of(cell: &Cell, is_cell: bool) -> Self {
        Self {
            is_cell,
            kind: cell.kind,
            definition: cell.definition,
            // One way whatever is stored.
            shape: match cell.kind {
                Kind::Latency => format!(", {}", clip(&clean(&cell.shape), 20)),
                Kind::Throughput => String::new(),
            },
            placement: cell.placement.clone(),
            load: cell.load.clone(),
            rate_per_s: cell.pace.as_ref().map(|pace| pace.rate_per_s),
            traffic: traffic(cell),
        }
    }

    fn print(&self, out: &mut Writer) {
        let (name, meaning) = self.definition.title_and_meaning();
        let pace = self.rate_per_s.map(|rate| format!(", {rate} per second")).unwrap_or_default();
        let title = if self.is_cell {
            format!("{name}{}{pace}{}", self.shape, self.traffic.1)
        } else {
            format!("Floors: {}{}", name.to_lowercase(), self.shape)
        };
        out.title(&title);
        out.wrap("  ", &format!("{meaning}."));
        out.wrap("  ", &format!("{}; load: {}.", place(&self.placement), clean(&self.load)));
    }
}

fn traffic(cell: &Cell) -> (u64, String) {
    if let Some(gap) = &cell.gap {
        return (gap.gap_ns, format!(", gaps of {}", number::time(gap.gap_ns as f64)));
    }
    if let Some(burst) = &cell.burst {
        return (burst.messages.into(), format!(", {} messages each", burst.messages));
    }
    if let Some(facts) = &cell.clients {
        return (facts.clients.into(), format!(", {} clients", facts.clients));
    }
    (0, String::new())
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

fn print_section(out: &mut Writer, title: &Title, mut cells: Vec<&Cell>, notes: &mut Notes) {
    title.print(out);
    if let Some(text) = load_achieved(&cells) {
        out.wrap("  ", &text);
    }
    out.blank();
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
        }
        let is_first = size.replace(cell.message_bytes) != Some(cell.message_bytes);
        grid.row(match title.kind {
            Kind::Latency => latency_row(cell, notes),
            Kind::Throughput => throughput_row(cell, notes),
        });
        if title.is_cell && is_first {
            grid.paint(FIGURE_COLUMN, Ink::Good);
        }
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
    if cell.pace.as_ref().is_some_and(|pace| !pace.kept) {
        let missing = || MISSING.to_owned();
        let mut row = vec![name, wait, FAILED.to_owned(), missing(), missing()];
        row.extend(common_columns(cell, notes));
        return row;
    }
    let mut row = vec![
        name,
        wait,
        figure(rtt.p50, |value| Measured { value, ci95: rtt.p50_ci95 }.time()),
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
        figure(cell.messages_per_s, |value| {
            Measured { value, ci95: cell.messages_per_s_ci95 }.message_rate()
        }),
        spread(cell.messages_per_s, cell.messages_per_s_ci95),
        figure(cell.bytes_per_s, |value| {
            Measured { value, ci95: cell.bytes_per_s_ci95 }.byte_rate()
        }),
    ];
    let [_, floor, grade] = common_columns(cell, notes);
    let cpu = cell.cpu_ns_per_message;
    let both = cpu.client.map(|client| client + cpu.server.unwrap_or(0.0));
    let bits = figure(cell.bits_per_cpu_s, number::bits);
    row.extend([micros(both), bits, floor, grade]);
    row
}

fn names(cell: &Cell) -> [String; 2] {
    [clip(&clean(&cell.mechanism), NAME_COLUMNS_MAX), clip(&clean(&cell.wait), WAIT_COLUMNS_MAX)]
}

/// CPU of both ends, ratio and floor, and grade with the marks of footnotes.
fn common_columns(cell: &Cell, notes: &mut Notes) -> [String; 3] {
    let cpu = cell.cpu_ns_per_message;
    let cpu = match (cpu.client, cpu.server) {
        (None, None) => MISSING.to_owned(),
        (client, server) => format!("{}+{}", micros(client), micros(server)),
    };
    let floor = cell.floor.as_deref().unwrap_or_default();
    let ratio = format!("{:>6} ", ratio_to_floor(cell));
    let words = |grade: Option<Grade>| grade.map_or(MISSING.to_owned(), |grade| grade.to_string());
    let grade = format!("{}/{}", words(cell.median_grade()), words(cell.grade));
    [
        cpu,
        ratio + &clip(&clean(floor.trim_start_matches("floor-")), FLOOR_COLUMNS_MAX),
        format!("{grade} {}", notes.marks(cell)),
    ]
}

/// Half the width of the interval, relative to the figure.
pub(super) fn spread(value: Option<f64>, ci95: Option<[f64; 2]>) -> String {
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

/// In place of the times of a cell that did not keep its pace.
pub(super) const FAILED: &str = "failed";

/// The column of the median or the rate.
const FIGURE_COLUMN: usize = 2;

/// Names, alignment and least width of the columns. The widths are those that most runs need, so
/// that the tables of a run stand under each other alike.
const LATENCY_HEAD: [(&str, Align, usize); 8] = [
    ("", Align::Left, 16),
    ("wait", Align::Left, 5),
    ("median", Align::Right, 8),
    ("± 95 %", Align::Right, 6),
    ("p99", Align::Right, 9),
    ("CPU µs/msg", Align::Right, 11),
    ("ratio to floor", Align::Left, 18),
    ("grade", Align::Grade, 5),
];

const THROUGHPUT_HEAD: [(&str, Align, usize); 9] = [
    ("", Align::Left, 14),
    ("wait", Align::Left, 5),
    ("messages", Align::Right, 8),
    ("± 95 %", Align::Right, 6),
    ("bytes", Align::Right, 9),
    ("CPU µs", Align::Right, 6),
    ("b/CPU-s", Align::Right, 7),
    ("ratio to floor", Align::Left, 12),
    ("grade", Align::Grade, 5),
];

/// Holds "chunked-copy".
const FLOOR_COLUMNS_MAX: usize = 12;
