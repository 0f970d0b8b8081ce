//! The whole run as one table: a row for each mechanism, a column for each size.
//!
//! What belongs to a size beside its figure (p99, ratio, CPU) is shown for as many sizes as the
//! page has room for, the smallest first. Always true: cells of one table have one definition of
//! latency, one placement and one load; a run that has several, or more sizes than fit, gives no
//! overview. Everything about every cell is in `details.rs`.

use std::collections::BTreeMap;

use super::cells::{OURS, figure, load_achieved, micros, place};
use super::grid::{Align, Grid, clean, clip};
use crate::noise::{self, Grade};
use crate::report::lines::{COLUMNS, Ink, Style, Writer};
use crate::report::number::{self, MISSING};
use crate::run::{Cell, Definition, Kind, Run};

/// Adds the overview. False, and nothing is added, if the run does not fit in one.
pub(super) fn print(out: &mut Writer, run: &Run) -> bool {
    let Some(first) = run.cells.first() else { return false };
    let all = || run.cells.iter().chain(&run.floors);
    let latencies = || run.cells.iter().filter(|cell| cell.kind == Kind::Latency);
    let definition = latencies().next().map(|cell| cell.definition);
    let alike = all().all(|cell| cell.placement == first.placement && cell.load == first.load)
        && all().all(|cell| cell.kind != Kind::Latency || Some(cell.definition) == definition);
    let Some(groups) = groups(run).filter(|_| alike || run.floors.is_empty()) else { return false };
    let mut keys: Vec<Key> = run.cells.iter().map(Key::of).collect();
    keys.sort_unstable();
    keys.dedup();
    let columns = fitting(&keys, &groups, out.style()).filter(|_| alike);
    let Some(columns) = columns else { return false };
    out.line(&format!("{}; load: {}.", place(&first.placement), clean(&first.load)));
    if let Some(text) = load_achieved(&all().collect::<Vec<_>>()) {
        out.wrap("", &text);
    }
    out.blank();
    print_rows(out, &columns, &groups);
    print_legend(out, run, &keys, Marks::of(&groups));
    true
}

/// What cells of one column have in common, in the order of columns.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kind: Kind,
    message_bytes: u64,
    /// Empty for throughput, which is one way whatever is stored.
    shape: String,
}

impl Key {
    fn of(cell: &Cell) -> Self {
        let shape = match cell.kind {
            Kind::Latency => cell.shape.clone(),
            Kind::Throughput => String::new(),
        };
        Self { kind: cell.kind, message_bytes: cell.message_bytes, shape }
    }
}

/// One row: a mechanism, and its cells by column.
struct Row<'a> {
    name: String,
    cells: BTreeMap<Key, &'a Cell>,
}

impl Row<'_> {
    /// The worst grade of its cells, and whether any has a tag.
    fn grade(&self, marks: Marks) -> String {
        let worst = noise::worst_of(self.cells.values().map(|cell| cell.grade));
        let worst = worst.map_or_else(|| MISSING.to_owned(), |grade| grade.to_string());
        if marks == Marks::Rows && self.is_marked() { format!("{worst} *") } else { worst }
    }

    fn is_marked(&self) -> bool {
        self.cells.values().any(|cell| !cell.tags.is_empty())
    }
}

/// Rows under a heading: how they wait, then the floors. `None` if two cells want one place.
fn groups(run: &Run) -> Option<Vec<(String, Vec<Row<'_>>)>> {
    let mut groups: Vec<(String, Vec<Row<'_>>)> = Vec::new();
    let waits = WAITS.iter().map(|(wait, heading)| (Some(*wait), *heading));
    for (wait, heading) in waits.chain([(None, "other"), (Some(""), FLOORS)]) {
        let (list, is_cell) =
            if wait == Some("") { (&run.floors, false) } else { (&run.cells, true) };
        let known = |name: &str| WAITS.iter().any(|(wait, _)| *wait == name);
        let of_group = list.iter().filter(|cell| match wait {
            _ if !is_cell => true,
            Some(wait) => cell.wait == wait,
            None => !known(&cell.wait),
        });
        let mut rows: BTreeMap<(&str, &str), Row<'_>> = BTreeMap::new();
        for cell in of_group {
            let name = clean(cell.mechanism.trim_start_matches("floor-"));
            let row = rows.entry((&cell.mechanism, &cell.wait)).or_insert_with(|| Row {
                name: clip(&name, NAME_COLUMNS_MAX),
                cells: BTreeMap::new(),
            });
            if row.cells.insert(Key::of(cell), cell).is_some() {
                return None;
            }
        }
        let mut rows: Vec<Row<'_>> = rows.into_values().collect();
        rows.sort_by(|a, b| {
            let ours = |row: &Row<'_>| row.name != OURS;
            ours(a).cmp(&ours(b)).then(cost(a).total_cmp(&cost(b)))
        });
        if !rows.is_empty() {
            groups.push((heading.to_owned(), rows));
        }
    }
    Some(groups)
}

/// What rows of a group are ordered by, after nearcall's own channel: the figure of the first
/// column that it has.
fn cost(row: &Row<'_>) -> f64 {
    row.cells.values().next().and_then(|cell| figure_of(cell)).unwrap_or(f64::INFINITY)
}

/// What one message takes.
fn figure_of(cell: &Cell) -> Option<f64> {
    match cell.kind {
        Kind::Latency => cell.rtt_ns.as_ref()?.p50,
        Kind::Throughput => Some(1e9 / cell.messages_per_s?),
    }
}

/// A column of the table.
struct Column<'a> {
    key: &'a Key,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Figure,
    P99,
    Ratio,
    Cpu,
}

impl Column<'_> {
    fn head(&self) -> [String; 2] {
        let size = number::size(self.key.message_bytes);
        match self.what {
            What::Figure if self.key.kind == Kind::Throughput => [size, "one way".to_owned()],
            What::Figure => [size, clip(&clean(&self.key.shape), SHAPE_COLUMNS_MAX)],
            What::P99 => [String::new(), "p99".to_owned()],
            What::Ratio => [String::new(), "ratio".to_owned()],
            What::Cpu => [String::new(), "CPU".to_owned()],
        }
    }

    fn text(&self, row: &Row<'_>) -> String {
        let Some(cell) = row.cells.get(self.key) else { return MISSING.to_owned() };
        let rtt = cell.rtt_ns.as_ref();
        match (self.what, cell.kind) {
            (What::Figure, Kind::Latency) => figure(rtt.and_then(|rtt| rtt.p50), number::time),
            (What::Figure, Kind::Throughput) if cell.message_bytes < BYTE_RATE_BYTES_MIN => {
                figure(cell.messages_per_s, number::message_rate)
            }
            (What::Figure, Kind::Throughput) => figure(cell.bytes_per_s, number::byte_rate),
            (What::P99, _) => figure(rtt.and_then(|rtt| rtt.p99), number::time),
            (What::Ratio, _) => figure(cell.ratio_to_floor, number::ratio),
            (What::Cpu, _) => {
                let cpu = cell.cpu_ns_per_message;
                let both = cpu.client.map(|client| client + cpu.server.unwrap_or(0.0));
                micros(both)
            }
        }
    }

    /// Whether no other mechanism has a better figure for it.
    fn is_best(&self, row: &Row<'_>, groups: &[(String, Vec<Row<'_>>)]) -> bool {
        let value = |row: &Row<'_>| {
            let cell = row.cells.get(self.key).filter(|cell| cell.grade != Some(Grade::D))?;
            figure_of(cell)
        };
        let Some(own) = value(row).filter(|_| self.what == What::Figure) else { return false };
        let cells = groups.iter().filter(|(heading, _)| heading != FLOORS);
        let mut others = cells.flat_map(|(_, rows)| rows).filter_map(value);
        let is_cell = groups.iter().any(|(heading, rows)| {
            heading != FLOORS && rows.iter().any(|other| std::ptr::eq(other, row))
        });
        is_cell && others.all(|other| own <= other)
    }

    /// Blanks before it: what belongs to a figure stands nearer to it.
    fn gap(&self) -> usize {
        if self.what == What::Figure { 2 } else { 1 }
    }

    fn width(&self, groups: &[(String, Vec<Row<'_>>)]) -> usize {
        let texts = groups.iter().flat_map(|(_, rows)| rows).map(|row| self.text(row));
        texts.chain(self.head()).map(|text| text.chars().count()).max().unwrap_or(0)
    }
}

/// The columns that fit on a page. `None` if not even the figures do.
fn fitting<'a>(
    keys: &'a [Key],
    groups: &[(String, Vec<Row<'_>>)],
    style: Style,
) -> Option<Vec<Column<'a>>> {
    let mut chosen: Vec<Column<'_>> =
        keys.iter().map(|key| Column { key, what: What::Figure }).collect();
    let used = |columns: &[Column<'_>]| {
        let widths = columns.iter().map(|column| column.gap() + column.width(groups));
        NAME_INDENT + NAME_COLUMNS_MAX + GRADE_COLUMNS + widths.sum::<usize>()
    };
    // On a narrower terminal the same figures stand in several blocks.
    if used(&chosen) > COLUMNS {
        return None;
    }
    // First everything about the smallest latency, then about the largest, then the rest.
    let latencies: Vec<&Key> = keys.iter().filter(|key| key.kind == Kind::Latency).collect();
    let ends = [latencies.first(), latencies.last()].into_iter().flatten().copied();
    let mut wanted: Vec<&Key> = ends.collect();
    wanted.extend(keys.iter().filter(|key| key.kind == Kind::Throughput));
    wanted.extend(latencies);
    for key in wanted {
        for what in [What::P99, What::Ratio, What::Cpu] {
            let is_there = |one: &Column<'_>| one.key == key && one.what == what;
            let is_void = what == What::P99 && key.kind == Kind::Throughput;
            if is_void || chosen.iter().any(is_there) {
                continue;
            }
            chosen.push(Column { key, what });
            if used(&chosen) > style.table_columns() {
                chosen.pop();
            }
        }
    }
    chosen.sort_by(|a, b| (a.key, a.what).cmp(&(b.key, b.what)));
    Some(chosen)
}

fn print_rows(out: &mut Writer, columns: &[Column<'_>], groups: &[(String, Vec<Row<'_>>)]) {
    let heads: Vec<String> = columns.iter().map(|column| column.head().join("\n")).collect();
    let mut head = vec![("", Align::Left, NAME_COLUMNS_MAX)];
    head.extend(columns.iter().zip(&heads).map(|(column, head)| {
        let align = if column.what == What::Figure { Align::Right } else { Align::Near };
        (head.as_str(), align, 0)
    }));
    head.push(("grade", Align::Grade, 0));
    let mut grid = Grid::new(&head).compact();
    let marks = Marks::of(groups);
    for (heading, rows) in groups {
        grid.heading(heading.clone());
        for row in rows {
            let mut cells = vec![row.name.clone()];
            cells.extend(columns.iter().map(|column| column.text(row)));
            cells.push(row.grade(marks));
            grid.row(cells);
            for (at, column) in columns.iter().enumerate() {
                if column.is_best(row, groups) {
                    grid.paint(at + 1, Ink::Good);
                }
            }
        }
    }
    grid.print(out);
}

/// Where the mark of cells with tags stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marks {
    /// On the rows that have such cells.
    Rows,
    /// Nowhere, as every row has some.
    Every,
}

impl Marks {
    fn of(groups: &[(String, Vec<Row<'_>>)]) -> Self {
        let mut rows = groups.iter().flat_map(|(_, rows)| rows);
        if rows.all(Row::is_marked) { Self::Every } else { Self::Rows }
    }
}

fn print_legend(out: &mut Writer, run: &Run, keys: &[Key], marks: Marks) {
    out.blank();
    let halved = run.cells.iter().any(|cell| cell.definition == Definition::RttHalf);
    let has = |kind| keys.iter().any(|key| key.kind == kind);
    let latency = if halved { LEGEND_HALF } else { LEGEND_LATENCY };
    let parts = [
        has(Kind::Latency).then_some(latency),
        has(Kind::Throughput).then_some(LEGEND_THROUGHPUT),
        Some(LEGEND),
    ];
    out.note(&parts.into_iter().flatten().collect::<Vec<_>>().join(" "));
    let all = || run.cells.iter().chain(&run.floors);
    if all().any(|cell| cell.grade == Some(Grade::D)) {
        out.note(super::notes::DISTURBED);
    }
    let mut tags: BTreeMap<&str, usize> = BTreeMap::new();
    all().flat_map(|cell| &cell.tags).for_each(|tag| *tags.entry(tag).or_default() += 1);
    let tags: Vec<String> = tags
        .iter()
        .take(TAGS_MAX)
        .map(|(tag, cells)| {
            format!("{} {cells}", clip(&clean(tag), TAG_COLUMNS_MAX).replace('_', " "))
        })
        .collect();
    if !tags.is_empty() {
        let whose = match marks {
            Marks::Every => "Cells with marks, some in every row",
            Marks::Rows => "* Cells with marks",
        };
        out.note(&format!("{whose}: {}.", tags.join(", ")));
    }
    out.note("Every cell with its interval: nearcall show --all RUN.json");
}

/// How ends wait, the fastest first.
const WAITS: [(&str, &str); 4] = [
    ("adaptive", "adaptive (spins while that pays, then sleeps)"),
    ("spin", "spin"),
    ("block", "block"),
    ("poll", "poll (in epoll)"),
];

const FLOORS: &str = "floors: the same exchange without nearcall";

const LEGEND_LATENCY: &str = "echo: median round trip with the same size back; sink: with an empty \
                              reply; not halved, closed loop.";

const LEGEND_HALF: &str = "echo: half the median round trip with the same size back; sink: with an \
                           empty reply; closed loop.";

const LEGEND_THROUGHPUT: &str = "one way: the rate that the consumer has confirmed.";

const LEGEND: &str = "p99, ratio to the floor, and CPU (µs of both ends per message) belong to the \
                      size on their left. grade: the worst in the row, from A undisturbed to D do \
                      not use. –: no figure, or too few data for it.";

/// Below this messages per second are the point, from here on bytes per second.
const BYTE_RATE_BYTES_MIN: u64 = 4 << 10;

const NAME_INDENT: usize = 2;

/// Holds "unix-seqpacket".
const NAME_COLUMNS_MAX: usize = 14;

/// Two blanks and "grade".
const GRADE_COLUMNS: usize = 7;

/// Holds "echo" and "sink".
const SHAPE_COLUMNS_MAX: usize = 8;

/// Holds "warmup_capped".
const TAG_COLUMNS_MAX: usize = 20;

/// There are fewer kinds of tags; a file may claim more.
const TAGS_MAX: usize = 12;
