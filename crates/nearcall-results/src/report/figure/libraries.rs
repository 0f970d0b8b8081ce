//! nearcall beside other libraries: calls and messages of the same payloads in the same harness.

use std::collections::BTreeSet;

use crate::report::chart::Frame;
use crate::report::chart::axis::{Axis, drawable};
use crate::report::chart::mark::Look;
use crate::report::chart::rows::{Dot, Row, Rows, extent};
use crate::report::chart::text;
use crate::report::columns::{self, Column, shown, table};
use crate::report::hosts::Host;
use crate::report::number;
use crate::report::number::Unit;
use crate::report::table::class_words;
use crate::run::{Cell, Kind, Library, Run};

use super::{Figure, Place};

/// Calls of the smallest and of the largest argument, and messages one way, of the latest run.
pub(super) fn figures(host: &Host<'_>, place: &Place) -> Vec<Figure> {
    let Some(run) = host.runs.iter().find(|run| !run.library_cells.is_empty()) else {
        return Vec::new();
    };
    let sizes = |kind: Kind| -> BTreeSet<u64> {
        let plain = run.library_cells.iter().filter(|one| one.kind == kind && one.shape != "echo");
        plain.map(|cell| cell.message_bytes).collect()
    };
    let (calls, rates) = (sizes(Kind::Latency), sizes(Kind::Throughput));
    let largest = calls.last().filter(|size| Some(*size) != calls.first());
    let wanted = [
        ("libraries", Kind::Latency, calls.first()),
        ("libraries-large", Kind::Latency, largest),
        ("libraries-rate", Kind::Throughput, rates.first()),
    ];
    let drawn =
        wanted.into_iter().filter_map(|(id, kind, size)| one(host, place, run, (id, kind, *size?)));
    drawn.collect()
}

/// One way of using a library.
struct Line<'a> {
    library: &'a Library,
    cell: &'a Cell,
    /// How many times better nearcall is, and whether the intervals are apart.
    beside: Option<(f64, bool)>,
    value: f64,
}

fn one(
    host: &Host<'_>,
    place: &Place,
    run: &Run,
    (id, kind, bytes): (&str, Kind, u64),
) -> Option<Figure> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (cell, beside) in run.library_cells.iter().zip(run.beside_nearcall()) {
        let library = run.libraries.iter().find(|library| library.name == cell.mechanism);
        let value = cell.headline().map(|headline| headline.value).filter(|v| drawable(*v));
        let fits = (cell.kind, cell.message_bytes) == (kind, bytes) && cell.shape != "echo";
        if let (Some(library), Some(value), true) = (library, value, fits) {
            lines.push(Line { library, cell, beside, value });
        }
    }
    let (unit, what, axis) = match (kind, bytes) {
        (Kind::Latency, 0) => (Unit::Time, "An empty call".to_owned(), "round trip, logarithmic"),
        (Kind::Latency, bytes) => {
            let what = format!("A call with {} and an empty reply", number::size(bytes));
            (Unit::Time, what, "round trip, logarithmic")
        }
        (Kind::Throughput, bytes) => {
            let what = format!("Messages of {} one way", number::size(bytes));
            (Unit::MessageRate, what, "messages per second, logarithmic")
        }
    };
    lines.sort_by(|a, b| a.value.total_cmp(&b.value));
    if kind == Kind::Throughput {
        lines.reverse();
    }
    let rows: Vec<Row> = lines.iter().map(|line| row(line, unit)).collect();
    let axis = Axis::log(unit, axis, extent(&rows))?;
    let key = WAITS.map(|(wait, name)| (look(wait), false, name.to_owned())).to_vec();
    let chart = Rows { axis, rows, key, remark: String::new() };
    let (id, title) = (place.id(id), place.title(&format!("{what}, beside other libraries"), host));
    let failed = run.libraries.iter().filter_map(|library| {
        let reason = text::clean_to(library.failure.as_deref()?, 300);
        Some(format!("{}: {reason}", text::clean(&library.name)))
    });
    Some(Figure {
        svg: chart.draw(&Frame { id: &id, title: &title, desc: &describe(&lines, unit) }),
        id,
        title,
        caption: format!(
            "{} ways of using libraries, {} launches each, {}; only one way to wait is a fair \
             comparison.",
            lines.len(),
            run.settings.launches,
            class_words(&lines.first()?.cell.placement.class)
        ),
        about: format!("{ABOUT} Run of {}.", number::date(run.started_unix_s)),
        table: table(&columns(), &lines),
        notes: failed.take(FAILURES_MAX).collect(),
    })
}

/// nearcall full, the others hollow, in the colour of how they wait.
fn row(line: &Line<'_>, unit: Unit) -> Row {
    let (look, value) = (look(&line.library.wait), line.value);
    let interval = line.cell.headline().and_then(|headline| headline.ci95);
    let ends = interval.map(|ends| format!("95 % {}", unit.interval(ends)));
    let ends = ends.unwrap_or_else(|| "no interval".to_owned());
    let label = format!("{}, {ends}", unit.value(value));
    let dot = Dot { value, interval, look, hollow: !line.library.is_ours(), label };
    let text = match line.beside.filter(|_| !line.library.is_ours()) {
        Some((ratio, true)) => number::ratio(ratio),
        Some((ratio, false)) => format!("≈ {}", number::ratio(ratio)),
        None => String::new(),
    };
    let name = text::clean(&line.library.name);
    Row { name, look, dots: vec![dot], through: false, text }
}

fn look(wait: &str) -> Look {
    let at = WAITS.iter().position(|(name, _)| *name == wait);
    at.and_then(|at| u8::try_from(at).ok()).map_or(Look::Other, Look::Series)
}

fn columns<'a>() -> [Column<Line<'a>>; 9] {
    let of = |column: Column<Cell>| column.on(|line: &Line<'_>| line.cell);
    [
        Column::words("name", 0, |line| text::clean(&line.library.name)),
        Column::words("library", 0, |line| text::clean(&line.library.version)),
        Column::words("waits by", 0, |line| text::clean(&line.library.wait)),
        Column::figure("figure", 0, |line| line.cell.main_fact().unit.value(line.value)),
        of(columns::INTERVAL),
        of(columns::GRADE),
        of(columns::LAUNCHES),
        Column::figure("nearcall is better by", 0, |line| {
            columns::figure(line.beside.map(|(ratio, _)| ratio), number::ratio)
        }),
        Column::words("intervals are apart", 0, |line| {
            shown(line.beside.map(|(_, apart)| if apart { "yes" } else { "no" }))
        }),
    ]
}

fn describe(lines: &[Line<'_>], unit: Unit) -> String {
    let best = |ours: bool| {
        let line = lines.iter().find(|line| line.library.is_ours() == ours);
        let words = |line: &Line<'_>| {
            format!("{} with {}", text::clean(&line.library.name), unit.value(line.value))
        };
        line.map_or_else(|| "nothing".to_owned(), words)
    };
    format!("Best of nearcall: {}. Best of the others: {}.", best(true), best(false))
}

/// How ends wait, with the words of the key.
const WAITS: [(&str, &str); 3] =
    [("spin", "spinning"), ("block", "sleeping"), ("adaptive", "spinning, then sleeping")];

const ABOUT: &str = "All libraries run in one harness: the same payloads, written and read in \
    full, new processes for each launch, launches in random order. Full marks: nearcall; hollow: the \
    others. Dot: a typical launch; bar: its 95 % interval. At the right: how many times better \
    nearcall's first row of the same wait is; ≈: the intervals overlap.";

/// There are fewer; a file may claim more.
const FAILURES_MAX: usize = 30;
