//! The same exchange on an idle machine and beside load.

use std::collections::BTreeMap;

use crate::report::chart::Frame;
use crate::report::chart::axis::Axis;
use crate::report::chart::mark::Look;
use crate::report::chart::rows::{Dot, Row, Rows, extent};
use crate::report::chart::text;
use crate::report::columns::{Column, figure, shown, table};
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::report::number::Unit;
use crate::report::table::load_achieved;
use crate::run::{Cell, CellKey, Definition, Rhythm};

use super::group::{Group, family, groups, is_disturbed, key, round_trip};
use super::{Figure, Place, words};

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
    let mut drawn: Vec<Figure> = Vec::new();
    let mut loads: Vec<String> = Vec::new();
    let mut others: Vec<Group<'_>> = Vec::new();
    for whole in groups(host, keep) {
        let load = &whole.setting.load;
        let group = whole.smallest().filter(|(group, _)| group.entries.len() >= PAIRS_MIN);
        let Some((group, bytes)) = group.filter(|_| !loads.contains(load)) else {
            others.push(whole);
            continue;
        };
        if loads.len() == LOADS_MAX {
            break;
        }
        loads.push(load.clone());
        let id = if loads.len() == 1 { "load".to_owned() } else { format!("load-{}", loads.len()) };
        let pairs = group.entries.iter().filter_map(|&entry| Some(Pair(twin(entry)?, entry)));
        drawn.extend(one(host, place, &id, (&group, bytes), pairs.collect()));
    }
    if let Some(first) = drawn.first_mut() {
        first.notes.extend(words::others(&others));
    }
    drawn
}

/// Idle and loaded.
struct Pair<'a>(&'a Entry<'a>, &'a Entry<'a>);

impl Pair<'_> {
    /// How many times the idle median the loaded one is.
    fn ratio(&self) -> Option<f64> {
        Some(round_trip(self.1)?.value / round_trip(self.0)?.value)
    }
}

fn one(
    host: &Host<'_>,
    place: &Place,
    id: &str,
    (group, bytes): (&Group<'_>, u64),
    mut pairs: Vec<Pair<'_>>,
) -> Option<Figure> {
    let value = |entry: &Entry<'_>| round_trip(entry).map_or(f64::INFINITY, |h| h.value);
    pairs.sort_by(|a, b| value(a.0).total_cmp(&value(b.0)));
    let floors = group.floors(host);
    let of = |name: &&str| floors.iter().find(|e| e.key.mechanism == *name).copied();
    let bounds = ["floor-spin", "floor-futex"].iter().filter_map(of).filter_map(bound);
    let mut rows: Vec<Row> = bounds.collect();
    let remark = words::no_floors(rows.is_empty());
    rows.extend(pairs.iter().filter_map(|pair| row(group, pair)));
    let mut legend = vec![
        (Look::Other, true, "idle".to_owned()),
        (Look::Other, false, "beside load".to_owned()),
    ];
    legend.extend(key(pairs.iter().map(|pair| pair.0)));
    let axis = Axis::log(Unit::Time, words::axis(group), extent(&rows))?;
    let chart = Rows { axis, rows, key: legend, remark };
    let load = text::clean(&group.setting.load);
    let unusual = group.unusual_place();
    let title = format!("Idle and beside {load}, {}{unusual}", number::size(bytes));
    let (id, title) = (place.id(id), place.title(&title, host));
    let drawn = pairs.iter().flat_map(|pair| [pair.0, pair.1]);
    let loaded: Vec<_> = pairs.iter().map(|pair| pair.1.cell).collect();
    Some(Figure {
        svg: chart.draw(&Frame { id: &id, title: &title, desc: &describe(&pairs) }),
        id,
        title,
        caption: words::caption(group),
        about: words::about(STATISTIC, group),
        table: table(&columns(), &pairs),
        notes: [load_achieved(&loaded), words::disturbed("values", drawn)]
            .into_iter()
            .flatten()
            .collect(),
    })
}

fn row(group: &Group<'_>, pair: &Pair<'_>) -> Option<Row> {
    let look = Look::Series(family(&pair.0.key));
    let dot = |entry: &Entry<'_>, hollow: bool, word: &str| {
        let found = round_trip(entry)?;
        let value = words::label(Unit::Time, found.value, found.ci95, entry);
        let label = format!("{word}: {value}");
        Some(Dot { value: found.value, interval: found.ci95, look, hollow, label })
    };
    let dots = vec![dot(pair.0, true, "idle")?, dot(pair.1, false, "beside load")?];
    let text = figure(pair.ratio(), number::ratio);
    Some(Row { name: group.name(pair.1), look, dots, through: false, text })
}

fn bound(entry: &Entry<'_>) -> Option<Row> {
    let found = round_trip(entry)?;
    let label = words::label(Unit::Time, found.value, found.ci95, entry);
    let (value, look) = (found.value, Look::Floor);
    let dot = Dot { value, interval: None, look, hollow: is_disturbed(entry), label };
    let name = words::floor(&entry.key.mechanism);
    Some(Row { name, look, dots: vec![dot], through: true, text: Unit::Time.value(value) })
}

fn columns<'a>() -> [Column<Pair<'a>>; 9] {
    use crate::report::columns::{INTERVAL, MEDIAN, NAME, WAIT};
    let idle = |column: Column<Cell>| column.on(|pair: &Pair<'_>| pair.0.cell);
    let loaded = |column: Column<Cell>| column.on(|pair: &Pair<'_>| pair.1.cell);
    [
        loaded(NAME).named("mechanism"),
        loaded(WAIT).named("waits by"),
        idle(MEDIAN).named("idle, median"),
        idle(INTERVAL).named("95 % interval, idle"),
        loaded(MEDIAN).named("loaded, median"),
        loaded(INTERVAL).named("95 % interval, loaded"),
        Column::figure("loaded to idle", 0, |pair| figure(pair.ratio(), number::ratio)),
        Column::words("grades", 0, |pair| {
            format!("{}, {}", shown(pair.0.cell.grade), shown(pair.1.cell.grade))
        }),
        Column::figure("launches", 0, |pair| {
            format!("{}, {}", pair.0.cell.launches, pair.1.cell.launches)
        }),
    ]
}

fn describe(pairs: &[Pair<'_>]) -> String {
    let sound = pairs.iter().filter(|pair| !is_disturbed(pair.0) && !is_disturbed(pair.1));
    let ratios: Vec<f64> = sound.filter_map(Pair::ratio).collect();
    let slower = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    format!("{slower} of {} undisturbed mechanisms are slower beside the load.", ratios.len())
}

const STATISTIC: &str = "Hollow: idle; full: beside the load; at the right: how many times the \
    idle median that is. Bars: 95 % confidence intervals over launches. What the workers really \
    did stands in the notes. Bounds are of the idle machine.";

/// One pair alone is no picture.
const PAIRS_MIN: usize = 3;
/// More kinds of load are not drawn.
const LOADS_MAX: usize = 3;
