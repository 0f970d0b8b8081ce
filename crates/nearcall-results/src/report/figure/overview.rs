//! What one small exchange costs, for every mechanism: in time, and in CPU time beside it.

use crate::report::chart::Frame;
use crate::report::chart::axis::{Axis, drawable};
use crate::report::chart::mark::Look;
use crate::report::chart::rows::{Dot, Row, Rows, extent};
use crate::report::columns::{self, Column};
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::report::number::Unit;
use crate::run::fact::{self, Fact};
use crate::run::{Cell, Definition, Rhythm};

use super::group::{Group, family, groups, is_disturbed, key, round_trip};
use super::{Figure, Place, words};

/// One figure for plain messages and one for calls, each where there is one.
pub(super) fn figures(host: &Host<'_>, place: &Place) -> Vec<Figure> {
    let kinds = [("echo", "overview", "message"), ("call", "overview-calls", "call")];
    let drawn = kinds.into_iter().filter_map(|(shape, name, what)| {
        let (group, others) = smallest_exchange(host, shape)?;
        let size = number::size(group.sizes().first().copied().unwrap_or_default());
        let title = format!("One {what} of {size} there and back, every mechanism");
        let mut figure = draw(host, place, (name, title), &group, &MEDIANS)?;
        figure.notes.extend(words::others(&others));
        Some(figure)
    });
    drawn.collect()
}

/// The CPU time of the smallest exchange beside its median.
pub(super) fn costs(host: &Host<'_>, place: &Place) -> Vec<Figure> {
    let found = smallest_exchange(host, "echo").or_else(|| smallest_exchange(host, "call"));
    let Some((mut group, _)) = found else { return Vec::new() };
    group.entries.retain(|entry| entry.cell.cpu_ns().is_some_and(drawable));
    let size = number::size(group.sizes().first().copied().unwrap_or_default());
    let title = format!("CPU time beside latency, {size}");
    draw(host, place, ("cpu-latency", title), &group, &COSTS).into_iter().collect()
}

/// The largest group of this shape, reduced to its smallest size, and the groups besides.
pub(super) fn smallest_exchange<'a>(
    host: &'a Host<'a>,
    shape: &str,
) -> Option<(Group<'a>, Vec<Group<'a>>)> {
    let keep = |entry: &Entry<'_>| {
        let key = &entry.key;
        key.definition == Definition::Rtt
            && key.rhythm == Rhythm::Steady
            && key.shape == shape
            && round_trip(entry).is_some()
    };
    let mut found = groups(host, keep);
    if found.is_empty() {
        return None;
    }
    let (smallest, _) = found.remove(0).smallest()?;
    Some((smallest, found))
}

/// What is drawn of each row.
struct Form {
    /// A second value in nanoseconds.
    second: Option<&'static Fact>,
    /// What stands at the right of the row.
    text: Column<Cell>,
    key: &'static [(Look, bool, &'static str)],
    statistic: &'static str,
    columns: &'static [Column<Cell>],
}

fn draw(
    host: &Host<'_>,
    place: &Place,
    (id, title): (&str, String),
    group: &Group<'_>,
    form: &Form,
) -> Option<Figure> {
    if group.entries.is_empty() {
        return None;
    }
    let (id, title) = (place.id(id), title + &group.unusual());
    let cells = group.entries.iter().map(|&e| (e, group.name(e), Look::Series(family(&e.key))));
    let floors = small_floors(group, host);
    let bounds = floors.iter().map(|&e| (e, words::floor(&e.key.mechanism), Look::Floor));
    let mut found: Vec<_> = cells.chain(bounds).collect();
    let cost = |entry: &Entry<'_>| round_trip(entry).map_or(f64::INFINITY, |found| found.value);
    found.sort_by(|a, b| cost(a.0).total_cmp(&cost(b.0)));
    let sorted = found.iter().map(|(entry, ..)| entry.cell);
    let table = columns::table(form.columns, sorted);
    let rows: Vec<Row> =
        found.into_iter().filter_map(|(entry, name, look)| row(entry, name, look, form)).collect();
    let axis = Axis::log(Unit::Time, words::axis(group), extent(&rows))?;
    let mut legend = key(group.entries.iter().copied());
    legend.extend(form.key.iter().map(|&(look, hollow, name)| (look, hollow, name.to_owned())));
    if !floors.is_empty() {
        legend.push((Look::Floor, false, "bound (not nearcall)".to_owned()));
    }
    let remark = words::no_floors(floors.is_empty());
    let chart = Rows { axis, rows, key: legend, remark };
    let title = place.title(&title, host);
    Some(Figure {
        svg: chart.draw(&Frame { id: &id, title: &title, desc: &describe(&chart) }),
        id,
        title,
        caption: words::caption(group),
        about: words::about(form.statistic, group),
        table,
        notes: words::disturbed("hollow marks", group.entries.iter().copied())
            .into_iter()
            .collect(),
    })
}

/// One cell of each floor, of the size that comes closest. A call within one process would only
/// stretch the axis.
fn small_floors<'a>(group: &Group<'a>, host: &'a Host<'a>) -> Vec<&'a Entry<'a>> {
    let size = group.sizes().first().copied().unwrap_or_default();
    let mut floors = group.floors(host);
    let small = |e: &&Entry<'_>| {
        e.key.message_bytes <= 64 && e.key.mechanism != "floor-call" && round_trip(e).is_some()
    };
    floors.retain(small);
    floors.sort_by_key(|e| (e.key.mechanism.clone(), e.key.message_bytes.abs_diff(size)));
    floors.dedup_by(|a, b| a.key.mechanism == b.key.mechanism);
    floors
}

fn row(entry: &Entry<'_>, name: String, look: Look, form: &Form) -> Option<Row> {
    let found = round_trip(entry)?;
    let (value, interval) = (found.value, found.ci95);
    let label = words::label(Unit::Time, value, interval, entry);
    let mut dots = vec![Dot { value, interval, look, hollow: is_disturbed(entry), label }];
    let second = form.second.and_then(|fact| (fact.of)(entry.cell)).map(|found| found.value);
    if let Some(value) = second.filter(|value| drawable(*value)) {
        let label = format!("CPU time of both ends: {}", Unit::Time.value(value));
        dots.push(Dot { value, interval: None, look: Look::Other, hollow: false, label });
    }
    // What is fastest with and without sleeping bounds all; the others are for comparison.
    let through = ["floor-spin", "floor-futex"].contains(&entry.key.mechanism.as_str());
    Some(Row { name, look, dots, through, text: form.text.text(entry.cell) })
}

/// Which is fastest and which slowest, of those that are not disturbed.
fn describe(chart: &Rows) -> String {
    let sound = |row: &&Row| row.look != Look::Floor && !row.dots[0].hollow;
    let mut cells = chart.rows.iter().filter(sound);
    let words = |row: &Row| format!("{} with {}", row.name, Unit::Time.value(row.dots[0].value));
    match (cells.next(), cells.next_back()) {
        (Some(first), Some(last)) => format!(
            "{} mechanisms on a logarithmic axis of time, sorted. Fastest: {}; slowest: {}.",
            chart.rows.iter().filter(|row| row.look != Look::Floor).count(),
            words(first),
            words(last)
        ),
        (Some(only), None) => format!("{}.", words(only)),
        _ => "Nothing that is undisturbed.".to_owned(),
    }
}

const MEDIANS: Form = Form {
    second: None,
    text: Column::figure("", 0, |cell| columns::time(cell.headline().map(|found| found.value))),
    key: &[],
    statistic: "Dot: the median of a typical launch. Bar: where the median of a typical launch \
        lies with 95 % confidence. Vertical lines: the same exchange without nearcall.",
    columns: &[
        columns::NAME.named("mechanism"),
        columns::WAIT.named("waits by"),
        columns::MEDIAN,
        columns::INTERVAL,
        columns::GRADE,
        columns::LAUNCHES,
    ],
};

const COSTS: Form = Form {
    second: Some(&fact::CPU),
    text: columns::CPU,
    key: &[(Look::Other, false, "CPU time of both ends")],
    statistic: "Coloured: the median of a typical launch with its interval of 95 %. Grey, and at \
        the right: user and system time of client and server, divided by the round trips, so a \
        mean, of which disturbances are a part.",
    columns: &[
        columns::NAME.named("mechanism"),
        columns::WAIT.named("waits by"),
        columns::MEDIAN,
        columns::INTERVAL,
        Column::fact(&fact::CPU_CLIENT).named("CPU time, client"),
        Column::fact(&fact::CPU_SERVER).named("CPU time, server"),
        columns::CPU.named("CPU time, both"),
        columns::GRADE,
        columns::LAUNCHES,
    ],
};
