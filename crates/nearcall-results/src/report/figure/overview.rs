//! What one small exchange costs, for every mechanism: the picture to begin with.

use crate::report::chart::axis::Axis;
use crate::report::chart::mark::Look;
use crate::report::chart::rows::{Dot, Row, Rows, extent};
use crate::report::chart::text;
use crate::report::chart::unit::Unit;
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::run::{Definition, Rhythm};

use super::choose::{Group, groups, is_disturbed, round_trip};
use super::family::{Family, key};
use super::{Figure, FigureTable, Parts, Place, figure, words};

/// One figure for plain messages and one for calls, each where there is one.
pub(super) fn figures(host: &Host<'_>, place: &Place) -> Vec<Figure> {
    let kinds = [("echo", "overview", "message"), ("call", "overview-calls", "call")];
    let drawn = kinds.into_iter().filter_map(|(shape, name, what)| {
        let (group, others) = smallest_exchange(host, shape)?;
        one(host, place, (name, what), &group, &others)
    });
    drawn.collect()
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
) -> Option<Figure> {
    let size = group.sizes().first().copied().unwrap_or_default();
    let floors: Vec<&Entry<'_>> = small_floors(group, host, size);
    let mut table = FigureTable::new(&["mechanism", "waits by", "median"]);
    table.heads.extend(words::EVIDENCE.map(str::to_owned));
    let cells = group.entries.iter().map(|e| (*e, group.name(e), Family::of(&e.key).look()));
    let bounds = floors.iter().map(|e| (*e, words::floor(&e.key.mechanism), Look::Floor));
    let found =
        cells.chain(bounds).filter_map(|(e, name, look)| Some((round_trip(e)?, e, name, look)));
    let mut found: Vec<_> = found.collect();
    found.sort_by(|a, b| a.0.value.total_cmp(&b.0.value));
    let mut rows: Vec<Row> = Vec::new();
    for (headline, entry, name, look) in found {
        let (value, ci95) = (headline.value, headline.ci95);
        let shown = if look == Look::Floor { format!("bound: {name}") } else { name.clone() };
        let mut cells = vec![shown, text::clean(&entry.key.wait), Unit::Time.value(value)];
        cells.extend(words::evidence(Unit::Time, ci95, entry));
        table.rows.push(cells);
        rows.push(row(entry, name, look, value, ci95));
    }
    let title = format!("{}, logarithmic", words::axis(&group.setting));
    let axis = Axis::log(Unit::Time, &title, extent(&rows))?;
    let remark = floors.is_empty().then(|| words::NO_FLOORS.to_owned());
    let mut legend = key(group.entries.iter().map(|entry| Family::of(&entry.key)));
    if !floors.is_empty() {
        legend.push((Look::Floor, false, "bound (not nearcall)".to_owned()));
    }
    let chart = Rows { axis, rows, rule: None, key: legend, remark };
    let title = format!(
        "One {what} of {} there and back, every mechanism{}",
        number::size(size),
        group.setting.unusual()
    );
    let statistic = "Dot: the median of a typical launch. Bar: where the median of a typical \
        launch lies with 95 % confidence. Vertical lines: the same exchange without nearcall.";
    let parts = Parts {
        id: place.id(name),
        title: place.title(&title, host),
        desc: describe(&chart),
        caption: words::caption(group),
        about: words::about(statistic, group),
        table,
        notes: [words::others(others), words::disturbed(group.entries.iter().copied())]
            .into_iter()
            .flatten()
            .collect(),
    };
    Some(figure(parts, |frame| chart.draw(frame)))
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

fn row(entry: &Entry<'_>, name: String, look: Look, value: f64, interval: Option<[f64; 2]>) -> Row {
    let label = words::label(Unit::Time, value, interval, entry);
    let dot = Dot { value, interval, look, hollow: is_disturbed(entry), label };
    // What is fastest with and without sleeping bounds all; the others are for comparison.
    let through = ["floor-spin", "floor-futex"].contains(&entry.key.mechanism.as_str());
    Row { name, look, dots: vec![dot], through, text: Unit::Time.value(value) }
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
