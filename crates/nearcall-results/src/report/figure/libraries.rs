//! nearcall beside other libraries: calls and messages of the same payloads in the same harness.

use std::collections::BTreeSet;

use crate::report::chart::axis::{Axis, drawable};
use crate::report::chart::mark::Look;
use crate::report::chart::rows::{Dot, Row, Rows, extent};
use crate::report::chart::text;
use crate::report::chart::unit::Unit;
use crate::report::hosts::Host;
use crate::report::number;
use crate::report::table::class_words;
use crate::run::{Cell, Kind, Library, Run};

use super::{Figure, FigureTable, Parts, Place, figure, words};

/// Calls of the smallest and of the largest argument, and messages one way, of the latest run.
pub(super) fn figures(host: &Host<'_>, place: &Place) -> Vec<Figure> {
    let Some(run) = host.runs.iter().find(|run| !run.library_cells.is_empty()) else {
        return Vec::new();
    };
    let calls: BTreeSet<u64> = sizes(run, Kind::Latency);
    let rates: BTreeSet<u64> = sizes(run, Kind::Throughput);
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

/// The sizes of one kind with an empty reply.
fn sizes(run: &Run, kind: Kind) -> BTreeSet<u64> {
    let plain = run.library_cells.iter().filter(|cell| cell.kind == kind && cell.shape != "echo");
    plain.map(|cell| cell.message_bytes).collect()
}

/// One way of using a library, its cell, and how many times better nearcall is.
type Line<'a> = (&'a Library, &'a Cell, Option<(f64, bool)>);

fn one(
    host: &Host<'_>,
    place: &Place,
    run: &Run,
    (id, kind, bytes): (&str, Kind, u64),
) -> Option<Figure> {
    let beside = run.beside_nearcall();
    let line = |(cell, beside)| {
        let cell: &Cell = cell;
        let library = run.libraries.iter().find(|library| library.name == cell.mechanism)?;
        let fits = (cell.kind, cell.message_bytes) == (kind, bytes) && cell.shape != "echo";
        fits.then_some((library, cell, beside))
    };
    let mut lines: Vec<Line<'_>> = run.library_cells.iter().zip(beside).filter_map(line).collect();
    let value = |line: &Line<'_>| line.1.headline().map_or(f64::NAN, |headline| headline.value);
    lines.retain(|line| drawable(value(line)));
    lines.sort_by(|a, b| match kind {
        Kind::Latency => value(a).total_cmp(&value(b)),
        Kind::Throughput => value(b).total_cmp(&value(a)),
    });
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
    let rows: Vec<Row> = lines.iter().filter_map(|line| row(line, unit)).collect();
    let axis = Axis::log(unit, axis, extent(&rows))?;
    let key = WAITS.map(|(wait, name)| (look(wait), false, name.to_owned()));
    let chart = Rows { axis, rows, rule: None, key: key.to_vec(), remark: None };
    let cells = lines.len();
    let launches = run.settings.launches;
    let (_, first, _) = lines.first()?;
    let class = class_words(&first.placement.class);
    let parts = Parts {
        id: place.id(id),
        title: place.title(&format!("{what}, beside other libraries"), host),
        desc: describe(&lines, unit),
        caption: format!(
            "{cells} ways of using libraries, {launches} launches each, {class}; only one way to \
             wait is a fair comparison."
        ),
        about: format!("{ABOUT} Run of {}.", number::date(run.started_unix_s)),
        table: table(&lines, unit),
        notes: failures(run),
    };
    Some(figure(parts, |frame| chart.draw(frame)))
}

/// nearcall full, the others hollow, in the colour of how they wait.
fn row((library, cell, beside): &Line<'_>, unit: Unit) -> Option<Row> {
    let headline = cell.headline()?;
    let look = look(&library.wait);
    let label = format!("{}, {}", unit.value(headline.value), interval(cell, unit));
    let (value, interval, hollow) = (headline.value, headline.ci95, !library.is_ours());
    let dot = Dot { value, interval, look, hollow, label };
    let text = match beside {
        Some((ratio, apart)) if !library.is_ours() => {
            format!("{}{}", if *apart { "" } else { "≈ " }, number::ratio(*ratio))
        }
        _ => String::new(),
    };
    Some(Row { name: text::clean(&library.name), look, dots: vec![dot], through: false, text })
}

fn interval(cell: &Cell, unit: Unit) -> String {
    let ends = cell.headline().and_then(|headline| headline.ci95);
    ends.map_or_else(|| "no interval".to_owned(), |ends| format!("95 % {}", unit.interval(ends)))
}

fn look(wait: &str) -> Look {
    match wait {
        "spin" => Look::Series(0),
        "block" => Look::Series(1),
        "adaptive" => Look::Series(2),
        _ => Look::Other,
    }
}

fn table(lines: &[Line<'_>], unit: Unit) -> FigureTable {
    let mut table = FigureTable::new(&["name", "library", "waits by", "figure"]);
    table.heads.extend(words::EVIDENCE.map(str::to_owned));
    table.heads.extend(["nearcall is better by", "intervals are apart"].map(str::to_owned));
    for (library, cell, beside) in lines {
        let headline = cell.headline();
        let missing = || number::MISSING.to_owned();
        let grade = cell.grade.map_or_else(missing, |grade| grade.to_string());
        let ends = headline.as_ref().and_then(|headline| headline.ci95);
        table.rows.push(vec![
            text::clean(&library.name),
            text::clean(&library.version),
            text::clean(&library.wait),
            headline.map_or_else(missing, |headline| unit.value(headline.value)),
            ends.map_or_else(missing, |ends| unit.interval(ends)),
            grade,
            cell.launches.to_string(),
            beside.map_or_else(missing, |(ratio, _)| number::ratio(ratio)),
            beside.map_or_else(missing, |(_, apart)| if apart { "yes" } else { "no" }.to_owned()),
        ]);
    }
    table
}

fn describe(lines: &[Line<'_>], unit: Unit) -> String {
    let of = |ours: bool| lines.iter().find(|(library, ..)| library.is_ours() == ours);
    let words = |line: Option<&Line<'_>>| {
        let headline = line.and_then(|(_, cell, _)| cell.headline());
        let name = line.map(|(library, ..)| text::clean(&library.name)).unwrap_or_default();
        headline.map_or_else(
            || "nothing".to_owned(),
            |headline| format!("{name} with {}", unit.value(headline.value)),
        )
    };
    format!("Best of nearcall: {}. Best of the others: {}.", words(of(true)), words(of(false)))
}

fn failures(run: &Run) -> Vec<String> {
    let failed = run.libraries.iter().filter_map(|library| {
        let reason = text::clean_to(library.failure.as_deref()?, 300);
        Some(format!("{}: {reason}", text::clean(&library.name)))
    });
    failed.take(FAILURES_MAX).collect()
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
