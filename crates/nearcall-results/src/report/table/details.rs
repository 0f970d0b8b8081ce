//! All cells of a run, floors first, then by size, each with its interval and its marks.
//!
//! Cells of different definition, shape, placement or load never share a table. Within a size the
//! fastest stands first. The run in one table is in `overview.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::calls;
use super::cells::{DISTURBED, load_achieved, place};
use super::grid::{Align, Grid, clean, clip};
use crate::noise::Grade;
use crate::report::columns::{self, Column, values};
use crate::report::document::Document;
use crate::report::lines::Ink;
use crate::report::number;
use crate::run::fact::{self, Better};
use crate::run::{Cell, Definition, Kind, Placement, Rhythm, Run};

/// Adds a table for each kind of cells, and what their marks mean.
pub(super) fn print(out: &mut Document, run: &Run) {
    let all = || run.floors.iter().chain(&run.cells);
    for (index, (title, cells)) in sections(run).into_iter().enumerate() {
        if index > 0 {
            out.blank();
        }
        print_section(out, &title, cells);
    }
    out.blank();
    out.note(LEGEND);
    if all().any(|cell| cell.grade == Some(Grade::D)) {
        out.note(DISTURBED);
    }
    let tags: BTreeSet<&str> = all().flat_map(|cell| &cell.tags).map(String::as_str).collect();
    for tag in tags.into_iter().take(TAGS_MAX) {
        if let Some(meaning) = meaning(tag) {
            out.note(format!("{}: {meaning}", words(tag)));
        }
    }
}

/// The tags that every cell of a table has, which its rows need not repeat. A single cell is marked
/// as any other.
fn common_tags<'a>(cells: impl Iterator<Item = &'a Cell> + Clone) -> Vec<&'a str> {
    let Some(first) = cells.clone().next().filter(|_| cells.clone().nth(1).is_some()) else {
        return Vec::new();
    };
    let is_common = |tag: &&String| cells.clone().all(|cell| cell.tags.contains(*tag));
    first.tags.iter().filter(is_common).map(String::as_str).collect()
}

/// The remarks on a cell beside its figures.
fn marks(cell: &Cell, common: &[&str]) -> String {
    let own = cell.tags.iter().map(String::as_str).filter(|tag| !common.contains(tag));
    let mut marks: Vec<String> = own.take(MARKS_MAX).map(words).collect();
    if let (Some(Grade::D), Some(reason)) = (cell.grade, cell.noise.first()) {
        marks.push(format!("tails: {}", clean(reason)));
    }
    marks.join(", ")
}

fn words(tag: &str) -> String {
    clip(&clean(tag), TAG_COLUMNS_MAX).replace('_', " ")
}

/// The meaning of a tag.
fn meaning(tag: &str) -> Option<&'static str> {
    Some(match tag {
        "migrated" => "an end moved to another CPU while it was measured",
        "page_faults" => "pages were mapped or read while it was measured",
        "clock_drift" => "the CPU's speed changed by more than 2 %",
        "warmup_capped" => "it had not settled when warm-up had to end",
        "two_modes" => {
            "its launches fall into two groups, which no single figure describes: show --json \
             has them"
        }
        "few_launches" => "fewer launches than asked for, as time ran out",
        "batched" => "times are means of batches, as one exchange is too short for the clock",
        "size_changed" => "the kernel gave another buffer or queue size than asked for",
        "touch_header" => "only the first 64 bytes of the payload were written and read",
        "touch_none" => "nothing of the payload was written and read",
        "load_not_reached" => "less ran beside it than was asked for; the run says what and why",
        "behind" => "failed: fewer than 99.9 % of the planned exchanges began in time",
        "same_cpu" => "both ends share one CPU",
        _ => return None,
    })
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
    /// The kind of caller; empty where there is no call.
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

    fn print(&self, out: &mut Document) {
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
        out.title(title);
        out.wrap("  ", format!("{meaning}."));
        if let Some(caller) = calls::caller_words(&self.caller) {
            out.wrap("  ", format!("{caller}."));
        }
        out.wrap("  ", format!("{}; load: {}.", place(&self.placement), clean(&self.load)));
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

fn print_section(out: &mut Document, title: &Title, mut cells: Vec<&Cell>) {
    title.print(out);
    if let Some(text) = load_achieved(&cells) {
        out.wrap("  ", text);
    }
    let common = common_tags(cells.iter().copied());
    if !common.is_empty() {
        let words: Vec<String> = common.iter().copied().map(words).collect();
        out.wrap("  ", format!("Marks of every row: {}.", words.join(", ")));
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
    let head = columns.iter().map(|column| (column.head, column.align, column.least));
    let mut grid = Grid::new(&head.chain([("", Align::Text, 0)]).collect::<Vec<_>>());
    let mut size = None;
    for cell in cells {
        let is_first = size.replace(cell.message_bytes) != Some(cell.message_bytes);
        if is_first {
            grid.heading(number::size(cell.message_bytes));
        }
        let mut row = values(columns, cell);
        row.push(marks(cell, &common));
        grid.row(row);
        if title.is_cell && is_first {
            grid.paint(FIGURE_COLUMN, Ink::Good);
        }
    }
    out.grid(grid);
}

/// What cells of one size are ordered by: better first, unknown last.
fn cost(cell: &Cell) -> f64 {
    let fact = if cell.kind == Kind::Latency { &fact::P50 } else { &fact::MESSAGES };
    let sign = if fact.better == Better::Less { 1.0 } else { -1.0 };
    (fact.of)(cell).map_or(f64::INFINITY, |found| found.value * sign)
}

/// The column of the median or the rate.
const FIGURE_COLUMN: usize = 2;

/// The widths are those that most runs need, so that the tables of a run stand under each other
/// alike.
const LATENCY: [Column<Cell>; 8] = [
    columns::NAME.wide(16),
    columns::WAIT.wide(5),
    columns::MEDIAN,
    Column::spread(&fact::P50),
    columns::P99.wide(9),
    columns::CPU_OF_EACH,
    TO_FLOOR.wide(18),
    columns::GRADES,
];

const THROUGHPUT: [Column<Cell>; 10] = [
    columns::NAME,
    columns::WAIT.wide(5),
    Column::fact(&fact::MESSAGES),
    Column::spread(&fact::MESSAGES),
    Column::fact(&fact::BYTES),
    columns::CPU_MICROS,
    Column::fact(&fact::SLEEPS),
    Column::fact(&fact::BITS_PER_CPU),
    TO_FLOOR,
    columns::GRADES,
];

/// The ratio and the name of its floor.
const TO_FLOOR: Column<Cell> = Column::words("ratio to floor", 12, |cell| {
    format!("{:>6} {}", columns::TO_FLOOR.text(cell), columns::FLOOR.text(cell))
});

const LEGEND: &str = "median of a typical launch, p99 of all launches; ± 95 %: half the confidence \
                      interval, from launch to launch; CPU: client + server, user and system; \
                      sleeps: of both ends, per message; b/CPU-s: payload bits per second of \
                      CPU time of both; ratio 1× is the floor itself; – means not enough data; grade of the median by its interval (A \
                      ±2 %, B ±5 %, C ±25 %, D more) / of tails by what was seen around them (A \
                      undisturbed to D).";

/// Holds "load_not_reached".
const TAG_COLUMNS_MAX: usize = 20;

/// There are fewer kinds of tags, and fewer of one cell; a file may claim more.
const TAGS_MAX: usize = 26;
const MARKS_MAX: usize = 8;
