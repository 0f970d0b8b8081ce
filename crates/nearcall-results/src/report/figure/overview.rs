//! What one small exchange costs, for every mechanism: the picture to begin with.

use crate::report::chart::axis::{Axis, drawable};
use crate::report::chart::mark::Look;
use crate::report::chart::rows::{Dot, Row, Rows, extent};
use crate::report::chart::unit::Unit;
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::run::{Definition, Rhythm};

use super::choose::{Group, groups, is_disturbed};
use super::family::{Family, key};
use super::{FigureTable, Parts, Place, Shown, figure, words};

/// One figure for plain messages and one for calls, each where there is one.
pub(super) fn shown(host: &Host<'_>, place: &Place) -> Vec<Shown> {
    let mut shown = Vec::new();
    for (shape, name, what) in [("echo", "overview", "message"), ("call", "overview-calls", "call")]
    {
        let found = smallest_exchange(host, shape);
        shown.extend(found.map(|(group, others)| one(host, place, (name, what), &group, &others)));
    }
    if shown.is_empty() {
        shown.push(Shown::Missing {
            id: place.id("overview"),
            title: place.title("One small message there and back", host),
            reason: "no round trip of a plain message or call was measured".to_owned(),
            command: "nearcall bench --out run.json".to_owned(),
        });
    }
    shown
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
            && entry.cell.headline().is_some_and(|headline| drawable(headline.value))
    };
    let mut found = groups(host, keep);
    if found.is_empty() {
        return None;
    }
    let first = found.remove(0);
    let smallest = first.smallest()?;
    Some((first.of_size(smallest), found))
}

fn one(
    host: &Host<'_>,
    place: &Place,
    (name, what): (&str, &str),
    group: &Group<'_>,
    others: &[Group<'_>],
) -> Shown {
    let size = group.sizes().first().copied().unwrap_or_default();
    let floors: Vec<&Entry<'_>> = small_floors(group, host, size);
    let mut rows: Vec<(f64, Row)> = Vec::new();
    let mut families = Vec::new();
    let mut table = FigureTable::new(&["mechanism", "waits by", "median"]);
    table.heads.extend(words::EVIDENCE.map(str::to_owned));
    let cells = group.entries.iter().map(|e| (*e, group.name(e), Family::of(&e.key).look()));
    let bounds = floors.iter().map(|e| (*e, words::floor(&e.key.mechanism), Look::Floor));
    for (entry, name, look) in cells.chain(bounds) {
        let Some(headline) = entry.cell.headline().filter(|h| drawable(h.value)) else { continue };
        if look != Look::Floor {
            families.push(Family::of(&entry.key));
        }
        rows.push((headline.value, row(entry, name, look, headline.value, headline.ci95)));
    }
    rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    for entry in sorted(group.entries.iter().copied().chain(floors.iter().copied())) {
        table.rows.extend(table_row(group, entry));
    }
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    let title = format!("{}, logarithmic", words::axis(&group.setting));
    let Some(axis) = Axis::log(Unit::Time, &title, extent(&rows)) else {
        return nothing(host, place);
    };
    let remark = floors.is_empty().then(|| words::NO_FLOORS.to_owned());
    let mut legend = key(families);
    if !floors.is_empty() {
        legend.push((Look::Floor, false, "bound (not nearcall)".to_owned()));
    }
    let chart = Rows { axis, rows, rule: None, key: legend, remark };
    let title = format!(
        "One {what} of {} there and back, every mechanism{}",
        number::size(size),
        group.setting.unusual()
    );
    let statistic = "Dot: the median of all round trips. Bar: where the median of a typical \
        launch lies with 95 % confidence. Vertical lines: the same exchange without nearcall.";
    let parts = Parts {
        id: place.id(name),
        title: place.title(&title, host),
        desc: describe(&chart),
        about: words::about(statistic, group),
        table,
        notes: [words::others(others), words::disturbed(group.entries.iter().copied())]
            .into_iter()
            .flatten()
            .collect(),
    };
    figure(parts, |frame, width| chart.draw(frame, width))
}

/// One cell of each floor, of the size that comes closest. A call within one process would only
/// stretch the axis.
fn small_floors<'a>(group: &Group<'a>, host: &'a Host<'a>, size: u64) -> Vec<&'a Entry<'a>> {
    let mut floors = group.floors(host);
    let small = |e: &&Entry<'_>| e.key.message_bytes <= 64 && e.key.mechanism != "floor-call";
    floors.retain(small);
    floors.sort_by_key(|e| (e.key.mechanism.clone(), e.key.message_bytes.abs_diff(size)));
    floors.dedup_by(|a, b| a.key.mechanism == b.key.mechanism);
    floors
}

fn nothing(host: &Host<'_>, place: &Place) -> Shown {
    Shown::Missing {
        id: place.id("overview"),
        title: place.title("One small message there and back", host),
        reason: "no median of it can be drawn".to_owned(),
        command: "nearcall bench --out run.json".to_owned(),
    }
}

fn row(entry: &Entry<'_>, name: String, look: Look, value: f64, interval: Option<[f64; 2]>) -> Row {
    let label = words::label(Unit::Time, value, interval, entry);
    let dot = Dot { value, interval, look, hollow: is_disturbed(entry), label };
    // What is fastest with and without sleeping bounds all; the others are for comparison.
    let through = ["floor-spin", "floor-futex"].contains(&entry.key.mechanism.as_str());
    Row { name, look, dots: vec![dot], through, text: Unit::Time.value(value) }
}

fn table_row(group: &Group<'_>, entry: &Entry<'_>) -> Option<Vec<String>> {
    let headline = entry.cell.headline().filter(|h| drawable(h.value))?;
    let name = match Family::of(&entry.key) {
        _ if entry.key.mechanism.starts_with("floor-") => {
            format!("bound: {}", words::floor(&entry.key.mechanism))
        }
        _ => group.name(entry),
    };
    let wait = crate::report::chart::text::clean(&entry.key.wait);
    let mut row = vec![name, wait, Unit::Time.value(headline.value)];
    row.extend(words::evidence(Unit::Time, headline.ci95, entry));
    Some(row)
}

/// By their figure, the least first.
fn sorted<'a>(entries: impl Iterator<Item = &'a Entry<'a>>) -> Vec<&'a Entry<'a>> {
    let mut entries: Vec<&Entry<'_>> = entries.collect();
    let value = |e: &Entry<'_>| e.cell.headline().map_or(f64::INFINITY, |h| h.value);
    entries.sort_by(|a, b| value(a).total_cmp(&value(b)));
    entries
}

/// Which is fastest and which slowest, of those that are not disturbed.
fn describe(chart: &Rows) -> String {
    let sound = |row: &&Row| row.look != Look::Floor && row.dots.iter().any(|dot| !dot.hollow);
    let mut cells = chart.rows.iter().filter(sound);
    match (cells.next(), cells.next_back()) {
        (Some(first), Some(last)) => format!(
            "{} mechanisms on a logarithmic axis of time, sorted. Fastest: {} with {}; slowest: \
             {} with {}.",
            chart.rows.iter().filter(|row| row.look != Look::Floor).count(),
            first.name,
            first.text,
            last.name,
            last.text
        ),
        (Some(only), None) => format!("{}: {}.", only.name, only.text),
        _ => "Nothing that is undisturbed.".to_owned(),
    }
}
