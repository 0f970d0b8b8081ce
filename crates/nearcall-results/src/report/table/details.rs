//! All cells of a run, floors first, then by size, each with its interval and its marks.
//!
//! Cells of different definition, shape, placement or load never share a table. Within a size the
//! fastest stands first. The run in one table is in `overview.rs`.

use std::collections::BTreeMap;

use super::calls;
use super::cells::{load_achieved, place};
use super::grid::{clean, clip};
use super::notes::Notes;
use crate::report::columns::{self, Column, values};
use crate::report::lines::{Ink, Writer};
use crate::report::number;
use crate::run::{Cell, Definition, Kind, Placement, Rhythm, Run};

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
    rhythm: Rhythm,
    /// Who calls; empty where nobody does.
    caller: String,
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
            rhythm: cell.rhythm(),
            caller: cell.call.as_ref().map(|call| call.caller.clone()).unwrap_or_default(),
        }
    }

    fn print(&self, out: &mut Writer) {
        let (name, meaning) = self.definition.title_and_meaning();
        let rhythm = match self.rhythm {
            Rhythm::Steady => String::new(),
            rhythm => format!(", {rhythm}"),
        };
        let title = if self.is_cell {
            format!("{name}{}{rhythm}", self.shape)
        } else {
            format!("Floors: {}{}", name.to_lowercase(), self.shape)
        };
        out.title(&title);
        out.wrap("  ", &format!("{meaning}."));
        if let Some(caller) = calls::caller_words(&self.caller) {
            out.wrap("  ", &format!("{caller}."));
        }
        out.wrap("  ", &format!("{}; load: {}.", place(&self.placement), clean(&self.load)));
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
    let columns = match title.kind {
        Kind::Latency => &LATENCY[..],
        Kind::Throughput => &THROUGHPUT[..],
    };
    let mut grid = columns::grid(columns);
    let mut size = None;
    for cell in cells {
        if size != Some(cell.message_bytes) {
            grid.heading(number::size(cell.message_bytes));
        }
        let is_first = size.replace(cell.message_bytes) != Some(cell.message_bytes);
        let mut row = values(columns, cell);
        if let Some(grade) = row.last_mut() {
            *grade += &format!(" {}", notes.marks(cell));
        }
        grid.row(row);
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

/// The column of the median or the rate.
const FIGURE_COLUMN: usize = 2;

/// The widths are those that most runs need, so that the tables of a run stand under each other
/// alike.
const LATENCY: [Column<Cell>; 8] = [
    columns::NAME.wide(16),
    columns::WAIT.wide(5),
    columns::MEDIAN,
    columns::MEDIAN_SPREAD,
    columns::P99.wide(9),
    columns::CPU_OF_EACH,
    TO_FLOOR.wide(18),
    columns::GRADES,
];

const THROUGHPUT: [Column<Cell>; 9] = [
    columns::NAME,
    columns::WAIT.wide(5),
    columns::MESSAGES,
    columns::MESSAGES_SPREAD,
    columns::BYTES,
    columns::CPU_MICROS,
    columns::BITS_PER_CPU,
    TO_FLOOR,
    columns::GRADES,
];

/// The ratio and the name of its floor.
const TO_FLOOR: Column<Cell> = Column::words("ratio to floor", 12, |cell| {
    format!("{:>6} {}", (columns::TO_FLOOR.value)(cell), (columns::FLOOR.value)(cell))
});
