//! nearcall beside other libraries: a row for each way of using one, a column for each message.
//!
//! **Invariants:** only rows of one way to wait stand under one heading, and are compared.

use std::collections::BTreeSet;

use super::answer::{self, Better, Candidate};
use super::cells::place;
use super::grid::{Align, Grid, clean, clip};
use crate::report::columns::{self, Column, shown, values};
use crate::report::lines::Writer;
use crate::report::number::{self, MISSING, Measured};
use crate::run::{Cell, IdleServer, Kind, Library, Run};

/// Whether the run is one of libraries.
pub(super) fn is_of_libraries(run: &Run) -> bool {
    !run.libraries.is_empty()
}

/// Adds what was measured of each, what its idle server takes, and what failed.
pub(super) fn print(out: &mut Writer, run: &Run) {
    if let Some(first) = run.library_cells.first() {
        out.line(&format!("{}; load: {}.", place(&first.placement), clean(&first.load)));
    }
    out.blank();
    let beside = run.beside_nearcall();
    let parts: [(&str, &dyn Fn(usize) -> String); 3] = [
        ("Calls, the median, and messages one way", &|at| figure(&run.library_cells[at])),
        (
            "How many times better nearcall's first row of the same wait is",
            &|at| match beside[at] {
                Some((ratio, true)) => number::ratio(ratio),
                Some((ratio, false)) => format!("≈{}", number::ratio(ratio)),
                None => MISSING.to_owned(),
            },
        ),
        ("CPU time of both ends per message", &|at| (columns::CPU.value)(&run.library_cells[at])),
    ];
    for (title, text) in parts {
        out.title(title);
        print_part(out, run, text);
        out.blank();
    }
    print_idle(out, run);
    for library in &run.libraries {
        if let Some(failure) = &library.failure {
            out.wrap(&format!("  {}: ", name(library)), &clean(failure));
        }
    }
    out.note(LEGEND);
}

/// A row for each library, under how it waits.
fn print_part(out: &mut Writer, run: &Run, text: &dyn Fn(usize) -> String) {
    let keys: BTreeSet<Key<'_>> = run.library_cells.iter().map(Key::of).collect();
    let keys: Vec<Key<'_>> = keys.into_iter().take(COLUMNS_MAX).collect();
    let heads: Vec<String> = keys.iter().map(Key::head).collect();
    let mut head = vec![("", Align::Left, NAME)];
    head.extend(heads.iter().map(|head| (head.as_str(), Align::Right, 0)));
    let mut grid = Grid::new(&head).compact();
    for (wait, heading) in WAITS {
        let libraries = run.libraries.iter().filter(|library| library.wait == wait);
        let mut rows =
            libraries.take(ROWS_MAX).filter(|library| has_cells(run, library)).peekable();
        if rows.peek().is_some() {
            grid.heading(heading.to_owned());
        }
        for library in rows {
            let mut row = vec![name(library)];
            row.extend(keys.iter().map(|key| {
                let is_it = |cell: &Cell| cell.mechanism == library.name && Key::of(cell) == *key;
                let at = run.library_cells.iter().position(is_it);
                at.map_or_else(|| MISSING.to_owned(), text)
            }));
            grid.row(row);
        }
    }
    grid.print(out);
}

fn has_cells(run: &Run, library: &Library) -> bool {
    run.library_cells.iter().any(|cell| cell.mechanism == library.name)
}

/// What cells of one column have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a>(Kind, &'a str, u64);

impl<'a> Key<'a> {
    fn of(cell: &'a Cell) -> Self {
        // Empty replies come first.
        Self(cell.kind, if cell.shape == "sink" { "" } else { &cell.shape }, cell.message_bytes)
    }

    fn head(&self) -> String {
        let size = number::size(self.2);
        match self {
            Self(Kind::Throughput, ..) => format!("{size}\none way"),
            Self(_, "", _) => format!("{size}\ncall"),
            Self(_, shape, _) => format!("{size}\n{}", clip(&clean(shape), 8)),
        }
    }
}

fn figure(cell: &Cell) -> String {
    let Some(headline) = cell.headline() else { return MISSING.to_owned() };
    let measured = Measured { value: headline.value, ci95: headline.ci95 };
    let figure = match cell.kind {
        Kind::Latency => measured.time(),
        Kind::Throughput => measured.message_rate(),
    };
    format!("{figure} {}", measured.plus_minus())
}

fn print_idle(out: &mut Writer, run: &Run) {
    let rows = run.libraries.iter().filter(|library| library.idle_server.is_some());
    let mut rows = rows.take(ROWS_MAX).peekable();
    if rows.peek().is_none() {
        return;
    }
    out.title("A server with one client that is silent");
    let mut grid = columns::grid(&IDLE);
    rows.for_each(|library| grid.row(values(&IDLE, library)));
    grid.print(out);
    out.blank();
}

/// Which way of using a library is fastest in the first column, for each way to wait.
pub(super) fn answer(run: &Run) -> String {
    let Some(first) = run.library_cells.iter().map(Key::of).min() else { return String::new() };
    let parts = WAITS.iter().map(|(wait, heading)| {
        let cells = run.library_cells.iter().filter(|cell| cell.wait == *wait);
        let of = cells.filter(|cell| Key::of(cell) == first && cell.kind == Kind::Latency);
        let candidate = |cell: &Cell| {
            Some(Candidate { name: clean(&cell.mechanism), ..Candidate::median(cell)? })
        };
        let question = format!("Fastest call with {}, {heading}", number::size(first.2));
        answer::sentence(&question, of.filter_map(candidate).collect(), Better::Less, number::time)
    });
    answer::join(parts.collect())
}

fn name(library: &Library) -> String {
    clip(&clean(&library.name), NAME)
}

fn idle(library: &Library, of: fn(&IdleServer) -> String) -> String {
    shown(library.idle_server.as_ref().map(of))
}

const IDLE: [Column<Library>; 6] = [
    Column::words("", NAME, name),
    Column::figure("private", 9, |one| idle(one, |it| number::memory(it.private_bytes as f64))),
    Column::figure("of it written", 9, |one| {
        idle(one, |it| number::memory(it.private_dirty_bytes as f64))
    }),
    Column::figure("shared, its half", 9, |one| {
        idle(one, |it| number::memory(it.channel_bytes as f64))
    }),
    Column::figure("threads", 7, |one| idle(one, |it| it.threads.to_string())),
    Column::figure("CPU", 7, |one| {
        idle(one, |it| format!("{} %", number::three_digits(it.cpu_share * 100.0)))
    }),
];

/// How ends wait, and the headings.
const WAITS: [(&str, &str); 3] =
    [("spin", "polling"), ("block", "sleeping"), ("adaptive", "polling, then sleeping")];

const LEGEND: &str = "call: round trip with an empty reply, closed loop, not halved; echo: with \
                      the payload as the reply; one way: messages per second until the server has \
                      confirmed the last. ±: the interval of 95 %, from launch to launch; ≈: the \
                      intervals overlap. Payloads are written and read in full.";

/// Holds "nearcall-block-trusted".
const NAME: usize = 22;

/// There are fewer; a file may claim more.
const COLUMNS_MAX: usize = 40;
const ROWS_MAX: usize = 200;
