//! Machines side by side: how many times the figure of the first one each other has.
//!
//! Always true: figures are divided, never averaged, and only where both machines measured the same
//! thing (equal keys).

use std::collections::{BTreeMap, BTreeSet};

use crate::report::chart::axis::{Axis, drawable};
use crate::report::chart::mark::Look;
use crate::report::chart::rows::{Dot, Row, Rows, extent};
use crate::report::chart::text;
use crate::report::chart::unit::Unit;
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::run::{CellKey, Definition, List, Rhythm};

use super::choose::{Setting, is_disturbed, round_trip};
use super::{Figure, FigureTable, Parts, Shown, figure, words};

/// One figure for each machine but the first; none for a single machine.
pub(super) fn shown(hosts: &[Host<'_>]) -> Vec<Shown> {
    let Some((first, others)) = hosts.split_first() else { return Vec::new() };
    let compare = |(index, other): (usize, &Host<'_>)| {
        let id = if index == 0 { "machines".to_owned() } else { format!("machines-{}", index + 1) };
        one(first, other, &id).map_or_else(
            || Shown::Missing {
                id,
                title: format!("{} beside {}", words::machine(other), words::machine(first)),
                reason: "these machines have no round trip in common".to_owned(),
                command: "nearcall bench --out run.json (on each machine)".to_owned(),
            },
            Shown::Figure,
        )
    };
    let mut shown: Vec<Shown> = others.iter().take(OTHERS_MAX).enumerate().map(compare).collect();
    if let (Some(Shown::Figure(figure)), true) = (shown.last_mut(), others.len() > OTHERS_MAX) {
        let more = others.len() - OTHERS_MAX;
        figure.notes.push(format!("{more} more machines are not compared with the first."));
    }
    shown
}

/// The same thing on the first machine and on the other.
type Pair<'a> = (&'a Entry<'a>, &'a Entry<'a>);

fn one(first: &Host<'_>, other: &Host<'_>, id: &str) -> Option<Figure> {
    let (setting, pairs) = common(first, other)?;
    let sizes: BTreeSet<u64> = pairs.iter().map(|(entry, _)| entry.key.message_bytes).collect();
    let drawn: Vec<u64> = spread_out(&sizes);
    let rows = rows(&pairs, &drawn);
    let title = "median, to that of the first machine, logarithmic";
    let axis = Axis::log(Unit::Ratio, title, extent(&rows).into_iter().chain([1.0]))?;
    let looks = drawn.iter().enumerate();
    let key = looks.map(|(index, bytes)| (look(index), false, number::size(*bytes))).collect();
    let remark = "The line at 1: as fast as the first machine. Bounds of each machine stand in its \
        own figures.";
    let chart = Rows { axis, rows, rule: Some(1.0), key, remark: Some(remark.to_owned()) };
    let names = [words::machine(other), words::machine(first)];
    let (word, meaning) = setting.definition.title_and_meaning();
    let both = pairs.iter().flat_map(|(a, b)| [*a, *b]);
    let cut = (sizes.len() > drawn.len())
        .then(|| format!("{} of {} sizes are drawn; the table has all.", drawn.len(), sizes.len()));
    // One mark for both.
    let marks = pairs.iter().filter(|(entry, _)| drawn.contains(&entry.key.message_bytes));
    let hollow = marks.map(|(a, b)| if is_disturbed(a) { *a } else { *b });
    let parts = Parts {
        id: id.to_owned(),
        title: format!("{} beside {}{}", names[0], names[1], setting.unusual()),
        desc: describe(&pairs, &names),
        caption: format!(
            "How many times the median of the first machine: {setting}. {} measurements of both.",
            pairs.len()
        ),
        about: format!(
            "{word}: {meaning}. Dot: the median on {} divided by that on {}; below 1 it is faster. \
             Bar: the widest ratio that both 95 % intervals allow. Nothing is averaged. Measured: \
             {setting}. {}",
            names[0],
            names[1],
            words::source(both)
        ),
        table: table(&pairs),
        notes: [cut, words::disturbed(hollow)].into_iter().flatten().collect(),
    };
    Some(figure(parts, |frame| chart.draw(frame)))
}

/// The circumstances in which most was measured on both machines; an idle machine and two CPUs
/// where there is anything.
fn common<'a>(first: &'a Host<'a>, other: &'a Host<'a>) -> Option<(Setting, Vec<Pair<'a>>)> {
    let by_key: BTreeMap<&CellKey, &Entry<'_>> =
        first.entries.iter().map(|entry| (&entry.key, entry)).collect();
    let mut found: BTreeMap<Setting, Vec<Pair<'_>>> = BTreeMap::new();
    for entry in &other.entries {
        let key = &entry.key;
        let fits = key.list == List::Cells
            && key.study.is_none()
            && key.definition == Definition::Rtt
            && key.rhythm == Rhythm::Steady;
        let twin = by_key.get(key).filter(|twin| fits && round_trip(twin).is_some());
        if let (Some(twin), Some(_)) = (twin, round_trip(entry)) {
            found.entry(Setting::of(entry)).or_default().push((twin, entry));
        }
    }
    // Of equal ones the first, which is the last of the other way round.
    found.into_iter().rev().max_by_key(|(setting, pairs)| (setting.usual(), pairs.len()))
}

/// At most so many sizes as can be told apart, the smallest and the largest among them.
fn spread_out(sizes: &BTreeSet<u64>) -> Vec<u64> {
    let sizes: Vec<u64> = sizes.iter().copied().collect();
    let count = sizes.len().min(SIZES_MAX);
    (0..count).map(|index| sizes[index * (sizes.len() - 1) / (count - 1).max(1)]).collect()
}

const fn look(index: usize) -> Look {
    Look::Series([0, 1, 2, 3][index % SIZES_MAX])
}

/// Ratio and the widest interval that both intervals allow.
fn ratio((first, other): Pair<'_>) -> Option<(f64, Option<[f64; 2]>)> {
    let (one, two) = (round_trip(first)?, round_trip(other)?);
    let ci95 = one.ci95.zip(two.ci95).map(|(one, two)| [two[0] / one[1], two[1] / one[0]]);
    Some((two.value / one.value, ci95.filter(|ends| ends.iter().all(|end| drawable(*end)))))
}

fn name(entry: &Entry<'_>, pairs: &[Pair<'_>]) -> String {
    let same = |key: &CellKey| key.mechanism == entry.key.mechanism && key.wait != entry.key.wait;
    let mechanism = text::clean(&entry.key.mechanism);
    match pairs.iter().any(|(other, _)| same(&other.key)) {
        true => format!("{mechanism} {}", text::clean(&entry.key.wait)),
        false => mechanism,
    }
}

fn rows(pairs: &[Pair<'_>], sizes: &[u64]) -> Vec<Row> {
    let mut found: BTreeMap<String, Vec<Dot>> = BTreeMap::new();
    for &(first, other) in pairs {
        let bytes = first.key.message_bytes;
        let Some(index) = sizes.iter().position(|size| *size == bytes) else { continue };
        let Some((value, interval)) = ratio((first, other)) else { continue };
        let times = [first, other].map(|e| round_trip(e).map_or(f64::NAN, |h| h.value));
        let label = format!(
            "{}: {}, {} to {}, grades {} and {}",
            number::size(bytes),
            number::ratio(value),
            number::time(times[1]),
            number::time(times[0]),
            words::grade(other),
            words::grade(first)
        );
        let hollow = is_disturbed(first) || is_disturbed(other);
        let dot = Dot { value, interval, look: look(index), hollow, label };
        found.entry(name(first, pairs)).or_default().push(dot);
    }
    let row = |(name, dots): (String, Vec<Dot>)| {
        let first = dots.first().map(|dot| number::ratio(dot.value)).unwrap_or_default();
        let text = if dots.len() == 1 { first } else { String::new() };
        Row { name, look: Look::Other, dots, through: false, text }
    };
    let mut rows: Vec<Row> = found.into_iter().map(row).collect();
    let first = |row: &Row| row.dots.first().map_or(f64::INFINITY, |dot| dot.value);
    rows.sort_by(|a, b| first(a).total_cmp(&first(b)));
    rows
}

fn table(pairs: &[Pair<'_>]) -> FigureTable {
    let mut table = FigureTable::new(&[
        "mechanism",
        "waits by",
        "size",
        "median, first machine",
        "median, other machine",
        "ratio",
        "widest ratio",
        "grades",
        "launches",
    ]);
    for &(first, other) in pairs {
        let (Some(one), Some(two), Some((value, ci95))) =
            (round_trip(first), round_trip(other), ratio((first, other)))
        else {
            continue;
        };
        let ends = ci95.map_or_else(|| number::MISSING.to_owned(), |e| Unit::Ratio.interval(e));
        table.rows.push(vec![
            name(first, pairs),
            text::clean(&first.key.wait),
            number::size(first.key.message_bytes),
            number::time(one.value),
            number::time(two.value),
            number::ratio(value),
            ends,
            format!("{}, {}", words::grade(first), words::grade(other)),
            format!("{}, {}", first.cell.launches, other.cell.launches),
        ]);
    }
    table
}

fn describe(pairs: &[Pair<'_>], names: &[String; 2]) -> String {
    let sound = pairs.iter().filter(|(a, b)| !is_disturbed(a) && !is_disturbed(b));
    let ratios: Vec<f64> = sound.filter_map(|pair| Some(ratio(*pair)?.0)).collect();
    let faster = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    format!(
        "{} has the shorter median in {faster} of {} undisturbed cells than {}.",
        names[0],
        ratios.len(),
        names[1]
    )
}

/// More machines than these are not compared with the first.
const OTHERS_MAX: usize = 6;
/// Sizes that are told apart by marks.
const SIZES_MAX: usize = 4;
