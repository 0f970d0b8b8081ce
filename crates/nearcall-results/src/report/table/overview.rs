//! The whole run as one table: a row for each mechanism, a column for each size.
//!
//! Rows are ranked only as far as they differ: what cannot be told apart in the first column has
//! one letter and stands in the order of names. Figures have the digits that their intervals bear.
//! What belongs to a size beside its figure (p99, ratio, CPU) is left out where a terminal has no
//! room for it.
//!
//! **Invariants:** cells of one table have one definition of latency, one placement and one load; a
//! run that has several, or more sizes than fit, gives no overview.
//!
//! **Not here:** everything about every cell (`details.rs`).

use std::collections::BTreeMap;

use super::cells::{load_achieved, print_legend, print_place, print_restricted};
use super::grid::{Align, Grid, clean, clip};
use crate::noise::{self, Grade};
use crate::report::columns::{self, shown};
use crate::report::document::Document;
use crate::report::lines::Ink;
use crate::report::number::{self, MISSING};
use crate::run::fact::{self, Better, Fact};
use crate::run::{Cell, Definition, Kind, Run};
use crate::stats::ties::{self, Sample};

/// Adds the overview. False, and nothing is added, if the run does not fit in one.
pub(super) fn print(out: &mut Document, run: &Run) -> bool {
    let Some(first) = run.cells.first() else { return false };
    let all = || run.cells.iter().chain(&run.floors);
    let latencies = || run.cells.iter().filter(|cell| cell.kind == Kind::Latency);
    let definition = latencies().next().map(|cell| cell.definition);
    let alike = all().all(|cell| cell.placement == first.placement && cell.load == first.load)
        && all().all(|cell| cell.kind != Kind::Latency || Some(cell.definition) == definition);
    let mut keys: Vec<Key> = run.cells.iter().map(Key::of).collect();
    keys.sort_unstable();
    keys.dedup();
    if !alike || keys.len() > FIGURES_MAX {
        return false;
    }
    let Some(groups) = groups(run, &keys) else { return false };
    print_place(out, Some(first), "");
    if let Some(text) = load_achieved(&all().collect::<Vec<_>>()) {
        out.wrap("", text);
    }
    out.blank();
    let every_row = groups.iter().flat_map(|(_, rows)| rows).all(Row::is_marked);
    out.grid(grid(&keys, &groups, every_row));
    out.blank();
    print_notes(out, run, &keys, every_row);
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

    /// What is compared in the column: of large messages one way bytes, not messages.
    const fn fact(&self) -> &'static Fact {
        match self.kind {
            Kind::Latency => &fact::P50,
            Kind::Throughput if self.message_bytes < BYTE_RATE_BYTES_MIN => &fact::MESSAGES,
            Kind::Throughput => &fact::BYTES,
        }
    }

    fn head(&self) -> String {
        let what = match self.kind {
            Kind::Latency => clip(&clean(&self.shape), SHAPE_COLUMNS_MAX),
            Kind::Throughput => "one way".to_owned(),
        };
        format!("{}\n{what}", number::size(self.message_bytes))
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
    fn grade(&self, every_row: bool) -> String {
        let worst = |grade: fn(&Cell) -> Option<Grade>| {
            shown(noise::worst_of(self.cells.values().map(|cell| grade(cell))))
        };
        let mark = if self.is_marked() && !every_row { " *" } else { "" };
        format!("{}/{}{mark}", worst(Cell::median_grade), worst(|cell| cell.grade))
    }

    fn is_marked(&self) -> bool {
        self.cells.values().any(|cell| !cell.tags.is_empty())
    }
}

type Groups<'a> = Vec<(&'static str, Vec<Row<'a>>)>;

/// Rows under a heading: how they wait, then the floors. `None` if two cells want one place.
fn groups<'a>(run: &'a Run, keys: &[Key]) -> Option<Groups<'a>> {
    let mut groups: Groups<'_> = Vec::new();
    let other = WAITS.len();
    let wait_of = |cell: &Cell| WAITS.iter().position(|(wait, _)| *wait == cell.wait);
    let headings = WAITS.iter().map(|(_, heading)| *heading).chain(["other", FLOORS]);
    for (at, heading) in headings.enumerate() {
        let list = if heading == FLOORS { &run.floors } else { &run.cells };
        let is_in = |cell: &&Cell| heading == FLOORS || wait_of(cell).unwrap_or(other) == at;
        let mut rows: BTreeMap<(&str, &str), Row<'_>> = BTreeMap::new();
        for cell in list.iter().filter(is_in) {
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
            groups.push((heading, rows));
        }
    }
    for key in keys {
        let rows = groups.iter_mut().filter(|(heading, _)| *heading != FLOORS);
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
    let better = |(cell, _): &(&Cell, _)| cell.main_fact().better;
    let more_is_better = figures.iter().flatten().any(|one| better(one) == Better::More);
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

/// What stands in a column of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Figure,
    Interval,
    P99,
    Ratio,
    Cpu,
}

/// The columns: of each key the figure and its interval, and what belongs to it.
fn grid(keys: &[Key], groups: &Groups<'_>, every_row: bool) -> Grid {
    use What::{Cpu, Figure, Interval, P99, Ratio};
    let columns: Vec<(&Key, What)> = keys
        .iter()
        .flat_map(|key| [Figure, Interval, P99, Ratio, Cpu].map(|what| (key, what)))
        .filter(|(key, what)| *what != P99 || key.kind == Kind::Latency)
        .collect();
    let names: Vec<String> = columns
        .iter()
        .map(|(key, what)| match what {
            Figure => key.head(),
            Interval => String::new(),
            P99 => "p99".to_owned(),
            Ratio => "ratio".to_owned(),
            Cpu => "CPU".to_owned(),
        })
        .collect();
    let mut head = vec![("", Align::Left, NAME_COLUMNS_MAX)];
    head.extend(columns.iter().zip(&names).map(|((_, what), name)| {
        (name.as_str(), if *what == Figure { Align::Right } else { Align::Near }, 0)
    }));
    head.push(("grade", Align::Grade, 0));
    let mut grid = Grid::new(&head).compact().without(spare(keys, &columns));
    for (heading, rows) in groups {
        grid.heading((*heading).to_owned());
        for row in rows {
            let texts = columns.iter().map(|&(key, what)| text(row, key, what, keys.first()));
            let name = std::iter::once(row.name.clone());
            grid.row(name.chain(texts).chain([row.grade(every_row)]).collect());
            for (at, (key, what)) in columns.iter().enumerate() {
                if *what == Figure && row.best.contains(key) {
                    grid.paint(at + 1, Ink::Good);
                }
            }
        }
    }
    grid
}

/// What a narrow terminal does without: last what belongs to the smallest latency, before that what
/// belongs to the largest.
fn spare(keys: &[Key], columns: &[(&Key, What)]) -> Vec<usize> {
    let latencies = || keys.iter().filter(|key| key.kind == Kind::Latency);
    let rank = |key: &Key| match key {
        key if Some(key) == latencies().next() => 3,
        key if Some(key) == latencies().next_back() => 2,
        key => u8::from(key.kind == Kind::Throughput),
    };
    let is_spare = |what: What| !matches!(what, What::Figure | What::Interval);
    let mut spare: Vec<usize> = (0..columns.len()).filter(|&at| is_spare(columns[at].1)).collect();
    // The first column of the grid is the name.
    spare.sort_by_key(|&at| (rank(columns[at].0), std::cmp::Reverse(at)));
    spare.into_iter().map(|at| at + 1).collect()
}

/// The text of a row in a column. The letter of those that cannot be told apart stands before the
/// figure in the column `first`.
fn text(row: &Row<'_>, key: &Key, what: What, first: Option<&Key>) -> String {
    let Some(cell) = row.cells.get(key) else {
        return if what == What::Interval { String::new() } else { MISSING.to_owned() };
    };
    let found = (key.fact().of)(cell);
    match what {
        What::Figure => {
            let figure = columns::measured(found, key.fact().unit);
            match row.letter.filter(|_| Some(key) == first) {
                Some(letter) => format!("{letter} {figure}"),
                None => figure,
            }
        }
        What::Interval => found
            .filter(|found| found.ci95.is_some())
            .map_or_else(String::new, |found| found.plus_minus()),
        What::P99 => columns::P99.text(cell),
        What::Ratio => columns::TO_FLOOR.text(cell),
        What::Cpu => columns::CPU_MICROS.text(cell),
    }
}

/// What the columns and marks mean, and what is never advised.
fn print_notes(out: &mut Document, run: &Run, keys: &[Key], every_row: bool) {
    let halved = run.cells.iter().any(|cell| cell.definition == Definition::RttHalf);
    let has = |kind| keys.iter().any(|key| key.kind == kind);
    let what = if halved { "half the median round trip" } else { "median round trip, not halved" };
    let latency = format!(
        "echo: {what}, with the same size back; sink: with an empty reply; closed loop. ±: the \
         interval of 95 %, from launch to launch; ×÷3: up to 3 times more or less. "
    );
    let parts = [
        if has(Kind::Latency) { latency.as_str() } else { "" },
        if has(Kind::Throughput) { LEGEND_THROUGHPUT } else { "" },
        LEGEND,
    ];
    print_restricted(out, run);
    let all = || run.cells.iter().chain(&run.floors);
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
        let whose = match every_row {
            true => "Cells with marks, some in every row",
            false => "* Cells with marks",
        };
        out.note(format!("{whose}: {}.", tags.join(", ")));
    }
    print_legend(out, &parts.concat(), all());
}

/// How ends wait, the fastest first.
const WAITS: [(&str, &str); 4] = [
    ("adaptive", "adaptive (spins while that pays, then sleeps)"),
    ("spin", "spin"),
    ("block", "block"),
    ("poll", "poll (in epoll)"),
];

const FLOORS: &str = "floors: the same exchange without nearcall";

const LEGEND_THROUGHPUT: &str = "one way: the rate that the consumer has confirmed. ";

const LEGEND: &str = "A letter: rows that have the same one cannot be told apart in that column \
                      (at 5 %, corrected for the number of rows), and stand in the order of names. \
                      p99, ratio to the floor in the same round, and CPU (µs of both ends per message) \
                      belong to the size on their left. grade: the worst in the row, of medians by \
                      their interval (A ±2 %, B ±5 %, C ±25 %, D more) / of tails by what was seen \
                      around them (A undisturbed to D). –: no figure, or too few data for it.";

/// Below this messages per second are the point, from here on bytes per second.
const BYTE_RATE_BYTES_MIN: u64 = 4 << 10;

/// Holds "unix-seqpacket".
const NAME_COLUMNS_MAX: usize = 14;

/// More figures are read one by one, in the details.
const FIGURES_MAX: usize = 8;

/// Holds "echo" and "sink".
const SHAPE_COLUMNS_MAX: usize = 8;

/// Holds "warmup_capped".
const TAG_COLUMNS_MAX: usize = 20;

/// There are fewer kinds of tags; a file may claim more.
const TAGS_MAX: usize = 12;
