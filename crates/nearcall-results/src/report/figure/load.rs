//! The same exchange on an idle machine and beside load.

use std::collections::BTreeMap;

use crate::report::chart::axis::Axis;
use crate::report::chart::mark::Look;
use crate::report::chart::rows::{Dot, Row, Rows, extent};
use crate::report::chart::text;
use crate::report::chart::unit::Unit;
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::run::{CellKey, Definition, Rhythm};

use super::choose::{Group, groups, is_disturbed, round_trip};
use super::family::{Family, key};
use super::{Figure, FigureTable, Parts, Place, figure, words};

/// One figure for each kind of load, of the circumstances of which most was measured twice.
pub(super) fn figures(host: &Host<'_>, place: &Place) -> Vec<Figure> {
    let idle: BTreeMap<&CellKey, &Entry<'_>> = host
        .entries
        .iter()
        .filter(|entry| entry.key.load == "idle" && round_trip(entry).is_some())
        .map(|entry| (&entry.key, entry))
        .collect();
    let twin = |entry: &Entry<'_>| {
        idle.get(&CellKey { load: "idle".to_owned(), ..entry.key.clone() }).copied()
    };
    let keep = |entry: &Entry<'_>| {
        entry.key.load != "idle"
            && entry.key.definition == Definition::Rtt
            && entry.key.rhythm == Rhythm::Steady
            && round_trip(entry).is_some()
            && twin(entry).is_some()
    };
    let mut shown = Vec::new();
    let mut loads: Vec<String> = Vec::new();
    let mut found = groups(host, keep);
    found.retain(|group| group.entries.len() >= PAIRS_MIN);
    for (index, group) in found.iter().enumerate() {
        if loads.contains(&group.setting.load) || loads.len() == LOADS_MAX {
            continue;
        }
        let first = loads.is_empty();
        loads.push(group.setting.load.clone());
        let id = if first { "load".to_owned() } else { format!("load-{}", loads.len()) };
        let others: Vec<Group<'_>> = if first { found[index + 1..].to_vec() } else { Vec::new() };
        let Some(group) = group.smallest().map(|bytes| group.of_size(bytes)) else { continue };
        let loaded = group.entries.iter().copied();
        let pairs = loaded.filter_map(|entry| Some((twin(entry)?, entry))).collect();
        shown.extend(one(host, place, &id, &group, pairs, &others));
    }
    shown
}

/// Idle and loaded.
type Pair<'a> = (&'a Entry<'a>, &'a Entry<'a>);

fn one(
    host: &Host<'_>,
    place: &Place,
    id: &str,
    group: &Group<'_>,
    mut pairs: Vec<Pair<'_>>,
    others: &[Group<'_>],
) -> Option<Figure> {
    let value = |entry: &Entry<'_>| round_trip(entry).map_or(f64::INFINITY, |h| h.value);
    pairs.sort_by(|(a, _), (b, _)| value(a).total_cmp(&value(b)));
    let rows: Vec<Row> = pairs.iter().filter_map(|pair| row(group, *pair)).collect();
    let title = format!("{}, logarithmic", words::axis(&group.setting));
    let axis = Axis::log(Unit::Time, &title, extent(&rows))?;
    let mut legend = vec![
        (Look::Other, true, "idle".to_owned()),
        (Look::Other, false, "beside load".to_owned()),
    ];
    legend.extend(key(pairs.iter().map(|(idle, _)| Family::of(&idle.key))));
    let mut bounds: Vec<Row> = Vec::new();
    for name in ["floor-spin", "floor-futex"] {
        let floors = group.floors(host);
        let floor = floors.iter().find(|e| e.key.mechanism == name && e.key.load == "idle");
        bounds.extend(floor.and_then(|entry| bound(entry)));
    }
    let remark = bounds.is_empty().then(|| words::NO_FLOORS.to_owned());
    let ends = bounds.iter().flat_map(|row| &row.dots).map(|dot| dot.value);
    let axis = axis.holding(ends);
    bounds.extend(rows);
    let chart = Rows { axis, rows: bounds, rule: None, key: legend, remark };
    let load = text::clean(&group.setting.load);
    let size = pairs.first().map(|(idle, _)| idle.key.message_bytes).unwrap_or_default();
    let statistic = "Hollow: idle; full: beside the load; at the right: how \
        many times the idle median that is. Bars: 95 % confidence intervals over \
        launches. What the workers really did stands in the notes. Bounds are of the idle machine.";
    let drawn = || pairs.iter().flat_map(|(idle, loaded)| [*idle, *loaded]);
    // Hollow means idle here.
    let disturbed = words::disturbed(drawn()).map(|text| text.replace("hollow marks", "values"));
    let unusual = group.setting.unusual_place();
    let title = format!("Idle and beside {load}, {}{unusual}", number::size(size));
    let parts = Parts {
        id: place.id(id),
        title: place.title(&title, host),
        desc: describe(&pairs),
        caption: words::caption(group),
        about: format!("{} In all: {}", words::about(statistic, group), words::source(drawn())),
        table: table(group, &pairs),
        notes: [achieved(&pairs), words::others(others), disturbed].into_iter().flatten().collect(),
    };
    Some(figure(parts, |frame| chart.draw(frame)))
}

fn row(group: &Group<'_>, (idle, loaded): Pair<'_>) -> Option<Row> {
    let look = Family::of(&idle.key).look();
    let dot = |entry: &Entry<'_>, hollow: bool, word: &str| {
        let found = round_trip(entry)?;
        let value = words::label(Unit::Time, found.value, found.ci95, entry);
        let label = format!("{word}: {value}");
        Some(Dot { value: found.value, interval: found.ci95, look, hollow, label })
    };
    let dots = vec![dot(idle, true, "idle")?, dot(loaded, false, "beside load")?];
    let text = number::ratio(dots[1].value / dots[0].value);
    Some(Row { name: group.name(loaded), look, dots, through: false, text })
}

fn bound(entry: &Entry<'_>) -> Option<Row> {
    let found = round_trip(entry)?;
    let label = words::label(Unit::Time, found.value, found.ci95, entry);
    let (value, look) = (found.value, Look::Floor);
    let dot = Dot { value, interval: None, look, hollow: is_disturbed(entry), label };
    let name = words::floor(&entry.key.mechanism);
    Some(Row { name, look, dots: vec![dot], through: true, text: Unit::Time.value(value) })
}

fn table(group: &Group<'_>, pairs: &[Pair<'_>]) -> FigureTable {
    let mut table = FigureTable::new(&[
        "mechanism",
        "waits by",
        "idle, median",
        "95 % interval, idle",
        "loaded, median",
        "95 % interval, loaded",
        "loaded to idle",
        "grades",
        "launches",
    ]);
    for (idle, loaded) in pairs {
        let (Some(one), Some(two)) = (round_trip(idle), round_trip(loaded)) else { continue };
        let [ci95_idle, grade_idle, launches_idle] = words::evidence(Unit::Time, one.ci95, idle);
        let [ci95, grade, launches] = words::evidence(Unit::Time, two.ci95, loaded);
        table.rows.push(vec![
            group.name(loaded),
            text::clean(&loaded.key.wait),
            number::time(one.value),
            ci95_idle,
            number::time(two.value),
            ci95,
            number::ratio(two.value / one.value),
            format!("{grade_idle}, {grade}"),
            format!("{launches_idle}, {launches}"),
        ]);
    }
    table
}

fn describe(pairs: &[Pair<'_>]) -> String {
    let sound = |(idle, loaded): &&Pair<'_>| !is_disturbed(idle) && !is_disturbed(loaded);
    let slower = pairs.iter().filter(sound).filter(|(idle, loaded)| {
        matches!((round_trip(idle), round_trip(loaded)), (Some(a), Some(b)) if b.value > a.value)
    });
    let (slower, all) = (slower.count(), pairs.iter().filter(sound).count());
    format!("{slower} of {all} undisturbed mechanisms are slower beside the load.")
}

/// What the workers of the load really did.
fn achieved(pairs: &[Pair<'_>]) -> Option<String> {
    let facts = pairs.iter().find_map(|(_, loaded)| loaded.cell.load_achieved.as_ref())?;
    let mut words = vec![format!("{} workers", facts.workers)];
    let busy: Vec<f64> = facts.cpu_percent.iter().copied().filter(|p| p.is_finite()).collect();
    if let (Some(low), Some(high)) =
        (busy.iter().copied().reduce(f64::min), busy.iter().copied().reduce(f64::max))
    {
        words.push(format!("computing {low:.0} to {high:.0} % of a CPU each"));
    }
    if let Some(rate) = facts.memory_bytes_per_s {
        words.push(format!("memory written: {}", number::byte_rate(rate)));
    }
    if let Some(rate) = facts.io_bytes_per_s {
        words.push(format!("file written: {}", number::byte_rate(rate)));
    }
    words.extend(facts.not_reached.iter().take(2).map(|reason| text::clean(reason)));
    Some(format!("The load, as it was for one of the cells: {}.", words.join(", ")))
}

/// One pair alone is no picture.
const PAIRS_MIN: usize = 3;
/// More kinds of load are not drawn.
const LOADS_MAX: usize = 3;
