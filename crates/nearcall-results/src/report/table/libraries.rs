//! nearcall beside other libraries: a row for each way of using one, a column for each message.
//!
//! **Invariants:** only rows of one way to wait stand under one heading, and are compared.

use std::collections::BTreeSet;

use super::answer::{self, Candidate};
use super::cells::print_place;
use super::grid::{Align, Grid, clean, clip};
use crate::report::columns::{self, Column, shown};
use crate::report::document::Document;
use crate::report::number::{self, MISSING};
use crate::run::{Cell, IdleServer, Kind, Library, Run, fact};

/// Adds what was measured of each, what its idle server takes, and what failed.
pub(super) fn print(out: &mut Document, run: &Run) {
    print_place(out, run.library_cells.first(), "");
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
        ("CPU time of both ends per message", &|at| columns::CPU.text(&run.library_cells[at])),
    ];
    for (title, text) in parts {
        out.title(title);
        print_part(out, run, text);
        out.blank();
    }
    let idle = || run.libraries.iter().filter(|library| library.idle_server.is_some());
    if idle().next().is_some() {
        out.title("A server with one client that is silent");
        out.table(&IDLE, idle().take(ROWS_MAX));
        out.blank();
    }
    for library in &run.libraries {
        if let Some(failure) = &library.failure {
            out.wrap(&format!("  {}: ", name(library)), clean(failure));
        }
    }
    out.note(LEGEND);
}

/// A row for each library, under how it waits.
fn print_part(out: &mut Document, run: &Run, text: &dyn Fn(usize) -> String) {
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
    out.grid(grid);
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
    let fact = cell.main_fact();
    match fact.valid(cell) {
        Some(found) => format!("{} {}", found.text(fact.unit), found.plus_minus()),
        None => MISSING.to_owned(),
    }
}

/// Which way of using a library is fastest in the first column, for each way to wait.
pub(super) fn answer(run: &Run) -> String {
    let Some(first) = run.library_cells.iter().map(Key::of).min() else { return String::new() };
    let parts = WAITS.iter().map(|(wait, heading)| {
        let cells = run.library_cells.iter().filter(|cell| cell.wait == *wait);
        let of = cells.filter(|cell| Key::of(cell) == first && cell.kind == Kind::Latency);
        let candidate = |cell: &Cell| {
            Some(Candidate { name: clean(&cell.mechanism), ..Candidate::of(cell, &fact::P50)? })
        };
        let question = format!("Fastest call with {}, {heading}", number::size(first.2));
        answer::sentence(&question, of.filter_map(candidate).collect(), &fact::P50)
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
        idle(one, |it| number::in_unit(it.cpu_share * 100.0, "percent"))
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
