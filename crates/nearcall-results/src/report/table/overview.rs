//! The whole run as one table: a row for each mechanism, a column for each size.
//!
//! Rows are ranked only as far as they differ: what cannot be told apart in the first column has
//! one letter and stands in the order of names. Figures have the digits that their intervals bear.
//! What belongs to a size beside its figure (p99, ratio, CPU) is shown for as many sizes as the
//! page has room for, the smallest first. Always true: cells of one table have one definition of
//! latency, one placement and one load; a run that has several, or more sizes than fit, gives no
//! overview. Everything about every cell is in `details.rs`.

use std::collections::BTreeMap;

use super::cells::{load_achieved, place};
use super::grid::{Align, Grid, clean, clip};
use crate::noise::{self, Grade};
use crate::report::columns;
use crate::report::lines::{Ink, Style, Writer};
use crate::report::number::{self, MISSING, Measured};
use crate::run::{Cell, Definition, Kind, Run};
use crate::stats::ties::{self, Sample};

/// Adds the overview. False, and nothing is added, if the run does not fit in one.
pub(super) fn print(out: &mut Writer, run: &Run) -> bool {
    let Some(first) = run.cells.first() else { return false };
    let all = || run.cells.iter().chain(&run.floors);
    let latencies = || run.cells.iter().filter(|cell| cell.kind == Kind::Latency);
    let definition = latencies().next().map(|cell| cell.definition);
    let alike = all().all(|cell| cell.placement == first.placement && cell.load == first.load)
        && all().all(|cell| cell.kind != Kind::Latency || Some(cell.definition) == definition);
    let mut keys: Vec<Key> = run.cells.iter().map(Key::of).collect();
    keys.sort_unstable();
    keys.dedup();
    let groups = groups(run, &keys).filter(|_| alike || run.floors.is_empty());
    let Some(groups) = groups else { return false };
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
    /// What it shares with the rows that cannot be told from it in the first column.
    letter: Option<char>,
    /// Where no other mechanism is certain to be better.
    best: Vec<Key>,
}

impl Row<'_> {
    /// The worst grades of its cells, of medians and of tails, and whether any has a tag.
    fn grade(&self, marks: Marks) -> String {
        let words = |grade: Option<Grade>| grade.map_or(MISSING.to_owned(), |it| it.to_string());
        let tails = noise::worst_of(self.cells.values().map(|cell| cell.grade));
        let medians = noise::worst_of(self.cells.values().map(|cell| cell.median_grade()));
        let worst = format!("{}/{}", words(medians), words(tails));
        if marks == Marks::Rows && self.is_marked() { format!("{worst} *") } else { worst }
    }

    fn is_marked(&self) -> bool {
        self.cells.values().any(|cell| !cell.tags.is_empty())
    }
}

/// Rows under a heading: how they wait, then the floors. `None` if two cells want one place.
fn groups<'a>(run: &'a Run, keys: &[Key]) -> Option<Vec<(String, Vec<Row<'a>>)>> {
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
                letter: None,
                best: Vec::new(),
            });
            if row.cells.insert(Key::of(cell), cell).is_some() {
                return None;
            }
        }
        let mut rows: Vec<Row<'_>> = rows.into_values().collect();
        order(&mut rows, keys.first());
        if !rows.is_empty() {
            groups.push((heading.to_owned(), rows));
        }
    }
    for key in keys {
        let rows = groups.iter_mut().filter(|(heading, _)| heading != FLOORS);
        let mut rows: Vec<&mut Row<'_>> = rows.flat_map(|(_, rows)| rows).collect();
        let tiers = tiers(&rows.iter().map(|row| row.cells.get(key).copied()).collect::<Vec<_>>());
        for (row, _) in rows.iter_mut().zip(tiers).filter(|(_, tier)| *tier == Some(0)) {
            row.best.push(key.clone());
        }
    }
    Some(groups)
}

/// Orders rows by what they cost in the column of `key`, as far as that can be told, then by name.
fn order(rows: &mut Vec<Row<'_>>, key: Option<&Key>) {
    let Some(key) = key else { return };
    let tiers = tiers(&rows.iter().map(|row| row.cells.get(key).copied()).collect::<Vec<_>>());
    let shared = |tier: usize| tiers.iter().filter(|one| **one == Some(tier)).count() > 1;
    let mut letters = ('a'..='z').chain(std::iter::repeat('+'));
    let letters: BTreeMap<usize, char> =
        (0..rows.len()).filter(|&tier| shared(tier)).zip(&mut letters).collect();
    let unsorted = rows.drain(..).zip(tiers);
    let mut ranked: Vec<(usize, Row<'_>)> = unsorted
        .map(|(row, tier)| {
            let letter = tier.and_then(|tier| letters.get(&tier).copied());
            (tier.unwrap_or(usize::MAX), Row { letter, ..row })
        })
        .collect();
    ranked.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    rows.extend(ranked.into_iter().map(|(_, row)| row));
}

/// How many groups that can be told apart are better than each cell's; `None` where there is no
/// figure.
fn tiers(cells: &[Option<&Cell>]) -> Vec<Option<usize>> {
    let figures: Vec<_> =
        cells.iter().map(|cell| cell.and_then(|cell| Some((cell, cell.headline()?)))).collect();
    let more_is_better = figures.iter().flatten().any(|(_, figure)| figure.unit != "ns");
    let samples: Vec<Sample<'_>> = figures
        .iter()
        .flatten()
        .map(|(cell, one)| Sample {
            value: one.value,
            launches: one.launches,
            processes: &cell.pids,
            ci95: one.ci95,
        })
        .collect();
    let mut found = ties::groups(&samples, more_is_better).into_iter();
    figures.iter().map(|figure| figure.as_ref().and_then(|_| found.next())).collect()
}

/// A column of the table.
struct Column<'a> {
    key: &'a Key,
    what: What,
    /// Whether rows are ranked by it.
    is_first: bool,
}

/// The widths of the parts of a column's figures.
#[derive(Clone, Copy)]
struct Widths {
    figure: usize,
    interval: usize,
    has_letters: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Figure,
    P99,
    Ratio,
    Cpu,
}

/// The figure of a cell with the digits that its interval bears, and the interval.
fn figure_and_interval(cell: &Cell) -> [String; 2] {
    let (value, ci95) = match (cell.kind, cell.rtt_ns.as_ref()) {
        (Kind::Latency, rtt) => (rtt.and_then(|rtt| rtt.p50), rtt.and_then(|rtt| rtt.p50_ci95)),
        (Kind::Throughput, _) if cell.message_bytes < BYTE_RATE_BYTES_MIN => {
            (cell.messages_per_s, cell.messages_per_s_ci95)
        }
        (Kind::Throughput, _) => (cell.bytes_per_s, cell.bytes_per_s_ci95),
    };
    let Some(value) = value else { return [MISSING.to_owned(), String::new()] };
    let measured = Measured { value, ci95 };
    let figure = match cell.kind {
        Kind::Latency => measured.time(),
        Kind::Throughput if cell.message_bytes < BYTE_RATE_BYTES_MIN => measured.message_rate(),
        Kind::Throughput => measured.byte_rate(),
    };
    [figure, ci95.map_or_else(String::new, |_| measured.plus_minus())]
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

    /// The figure and how far it may be off. The letter of those that cannot be told apart stands
    /// before it in the column `first`.
    fn text(&self, row: &Row<'_>, widths: Widths) -> String {
        let Some(cell) = row.cells.get(self.key) else { return MISSING.to_owned() };
        match (self.what, cell.kind) {
            (What::Figure, _) => {
                let [figure, interval] = figure_and_interval(cell);
                let letter = match (widths.has_letters, row.letter) {
                    (false, _) => String::new(),
                    (true, letter) => format!("{} ", letter.unwrap_or(' ')),
                };
                let [wide, far] = [widths.figure, widths.interval];
                format!("{letter}{figure:>wide$} {interval:>far$}")
            }
            (What::P99, _) => (columns::P99.value)(cell),
            (What::Ratio, _) => (columns::TO_FLOOR.value)(cell),
            (What::Cpu, _) => (columns::CPU_MICROS.value)(cell),
        }
    }

    /// Whether no other mechanism is certain to be better.
    fn is_best(&self, row: &Row<'_>) -> bool {
        self.what == What::Figure && row.best.contains(self.key)
    }

    /// The widths of the parts of its figures.
    fn widths(&self, groups: &[(String, Vec<Row<'_>>)]) -> Widths {
        let rows = || groups.iter().flat_map(|(_, rows)| rows);
        let cells = rows().filter_map(|row| row.cells.get(self.key));
        let parts = cells.map(|cell| figure_and_interval(cell).map(|part| part.chars().count()));
        let [figure, interval] =
            parts.fold([0; 2], |most, part| [0, 1].map(|at| most[at].max(part[at])));
        Widths {
            figure,
            interval,
            has_letters: self.is_first && rows().any(|row| row.letter.is_some()),
        }
    }

    /// Blanks before it: what belongs to a figure stands nearer to it.
    fn gap(&self) -> usize {
        if self.what == What::Figure { 2 } else { 1 }
    }

    fn width(&self, groups: &[(String, Vec<Row<'_>>)]) -> usize {
        let widths = self.widths(groups);
        let texts = groups.iter().flat_map(|(_, rows)| rows).map(|row| self.text(row, widths));
        texts.chain(self.head()).map(|text| text.chars().count()).max().unwrap_or(0)
    }
}

/// The columns that fit on a page. `None` if not even the figures do.
fn fitting<'a>(
    keys: &'a [Key],
    groups: &[(String, Vec<Row<'_>>)],
    style: Style,
) -> Option<Vec<Column<'a>>> {
    let mut chosen: Vec<Column<'_>> = keys
        .iter()
        .map(|key| Column { key, what: What::Figure, is_first: Some(key) == keys.first() })
        .collect();
    let used = |columns: &[Column<'_>]| {
        let widths = columns.iter().map(|column| column.gap() + column.width(groups));
        NAME_INDENT + NAME_COLUMNS_MAX + GRADE_COLUMNS + widths.sum::<usize>()
    };
    // On a narrower terminal the same figures stand in several blocks.
    if chosen.len() > FIGURES_MAX {
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
            chosen.push(Column { key, what, is_first: false });
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
    let widths: Vec<Widths> = columns.iter().map(|column| column.widths(groups)).collect();
    let marks = Marks::of(groups);
    for (heading, rows) in groups {
        grid.heading(heading.clone());
        for row in rows {
            let mut cells = vec![row.name.clone()];
            let texts = columns.iter().zip(&widths);
            cells.extend(texts.map(|(column, &widths)| column.text(row, widths)));
            cells.push(row.grade(marks));
            grid.row(cells);
            for (at, column) in columns.iter().enumerate() {
                if column.is_best(row) {
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
    super::cells::print_restricted(out, run);
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
                              reply; not halved, closed loop. ±: the interval of 95 %, from launch \
                              to launch; ×÷3: up to 3 times more or less.";

const LEGEND_HALF: &str = "echo: half the median round trip with the same size back; sink: with an \
                           empty reply; closed loop. ±: the interval of 95 %, from launch to \
                           launch; ×÷3: up to 3 times more or less.";

const LEGEND_THROUGHPUT: &str = "one way: the rate that the consumer has confirmed.";

const LEGEND: &str = "A letter: rows that have the same one cannot be told apart in that column \
                      (at 5 %, corrected for the number of rows), and stand in the order of names. \
                      p99, ratio to the floor in the same round, and CPU (µs of both ends per message) \
                      belong to the size on their left. grade: the worst in the row, of medians by \
                      their interval (A ±2 %, B ±5 %, C ±25 %, D more) / of tails by what was seen \
                      around them (A undisturbed to D). –: no figure, or too few data for it.";

/// Below this messages per second are the point, from here on bytes per second.
const BYTE_RATE_BYTES_MIN: u64 = 4 << 10;

const NAME_INDENT: usize = 2;

/// Holds "unix-seqpacket".
const NAME_COLUMNS_MAX: usize = 14;

/// Two blanks and "grade".
const GRADE_COLUMNS: usize = 7;

/// More figures make a table that nobody reads.
const FIGURES_MAX: usize = 8;

/// Holds "echo" and "sink".
const SHAPE_COLUMNS_MAX: usize = 8;

/// Holds "warmup_capped".
const TAG_COLUMNS_MAX: usize = 20;

/// There are fewer kinds of tags; a file may claim more.
const TAGS_MAX: usize = 12;
