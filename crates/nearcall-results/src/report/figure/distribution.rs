//! Whole distributions: every percentile that the stored times allow.

use std::collections::BTreeSet;

use crate::histogram::{Histogram, quantile_allowed};
use crate::report::chart::axis::Axis;
use crate::report::chart::lines::{Lines, Point, Series};
use crate::report::chart::unit::Unit;
use crate::report::columns::time;
use crate::report::hosts::{Entry, Host};
use crate::report::number;

use super::choose::{Group, Set, looks};
use super::overview::smallest_exchange;
use super::{Figure, FigureTable, Parts, Place, figure, words};

/// The percentile plot of the smallest exchange.
pub(super) fn figures(host: &Host<'_>, place: &Place) -> Vec<Figure> {
    let found = smallest_exchange(host, "echo").or_else(|| smallest_exchange(host, "call"));
    found.and_then(|(group, _)| one(host, place, &group)).into_iter().collect()
}

fn one(host: &Host<'_>, place: &Place, group: &Group<'_>) -> Option<Figure> {
    let sets = group.series();
    let times: Vec<Option<Histogram>> = sets.iter().map(histogram).collect();
    let looks = looks(&sets, |set| Some(set.entries.first()?.cell.headline()?.value));
    let share_max = times.iter().flatten().map(share_max).fold(0.0, f64::max);
    let mut series = Vec::new();
    let mut table = FigureTable::new(&[
        "mechanism",
        "min",
        "50 %",
        "90 %",
        "99 %",
        "99.9 %",
        "99.99 %",
        "max",
        "times",
        "grade",
        "launches",
    ]);
    for ((set, times), look) in sets.iter().zip(&times).zip(looks) {
        let Some(times) = times else { continue };
        table.rows.extend(table_row(set, times));
        let points = curve(times);
        series.push(Series { name: set.name.clone(), look, marked: false, points });
    }
    let values = series.iter().flat_map(|series| &series.points).map(|point| point.y);
    let y = Axis::log(Unit::Time, "Round trip, logarithmic", values)?;
    let x = Axis::nines("share of all round trips that were at most that long", share_max);
    let floor = super::curves::word_bounds(group, host);
    let remark = floor.is_empty().then(|| words::NO_FLOORS.to_owned());
    let chart = Lines {
        x,
        y: y.holding(floor.iter().map(|bound| bound.value)),
        series,
        bounds: floor,
        remark,
    };
    let size = group.sizes().first().copied().unwrap_or_default();
    let what = match group.setting.shape.as_str() {
        "call" => "calls",
        _ => "messages",
    };
    let unusual = group.setting.unusual();
    let title = format!("Whole distributions, {what} of {}{unusual}", number::size(size));
    let statistic = "Each line: the percentiles of all times of all launches, none left out; it \
        ends at the last nine with ten times above. In colour the fastest of each family by its \
        median, in grey the others. There is no band: the median's interval stands in the first \
        figure.";
    let parts = Parts {
        id: place.id(ID),
        title: place.title(&title, host),
        desc: format!(
            "{} lines from the shortest time at the left to the longest tail at the right, each \
             nine as wide as the one before.",
            chart.series.len()
        ),
        caption: words::caption(group),
        about: words::about(statistic, group),
        table,
        notes: batches(&sets).into_iter().collect(),
    };
    Some(figure(parts, |frame| chart.draw(frame)))
}

/// The times of a set's only cell. What was damaged in the file counts as missing.
fn histogram(set: &Set<'_>) -> Option<Histogram> {
    let [entry] = set.entries[..] else { return None };
    let times = entry.cell.histogram.as_ref()?.to_histogram().ok()?;
    quantile_allowed(times.count(), 0.5).then_some(times)
}

/// The highest share that says something.
fn share_max(times: &Histogram) -> f64 {
    let allowed = |share: &&f64| quantile_allowed(times.count(), **share);
    SHARES_MAX.iter().filter(allowed).copied().fold(0.5, f64::max)
}

/// Places that are evenly spread over the axis.
fn curve(times: &Histogram) -> Vec<Point> {
    let end = share_max(times);
    let point = |step: u32| {
        let share = 1.0 - 10_f64.powf(-f64::from(step) / STEPS_PER_NINE);
        if share > end + 1e-12 {
            return None;
        }
        let y = times.quantile_ns(share)?;
        Some(Point { x: share, y, interval: None, hollow: false, label: String::new() })
    };
    (0..=60).map_while(point).collect()
}

fn table_row(set: &Set<'_>, times: &Histogram) -> Option<Vec<String>> {
    let entry: &Entry<'_> = set.entries.first()?;
    let whole = |ns: Option<u64>| time(ns.map(|ns| ns as f64));
    let mut row = vec![set.name.clone(), whole(times.min_ns())];
    row.extend([0.5, 0.9, 0.99, 0.999, 0.9999].map(|share| time(times.quantile_ns(share))));
    row.push(whole(times.max_ns()));
    row.push(times.count().to_string());
    row.push(words::grade(entry));
    row.push(entry.cell.launches.to_string());
    Some(row)
}

/// Where a time is the mean of several messages, tails are shorter than they are.
fn batches(sets: &[Set<'_>]) -> Option<String> {
    let batched = sets
        .iter()
        .filter(|set| set.entries.iter().any(|entry| entry.cell.messages_per_sample > 1));
    let names: BTreeSet<&str> = batched.map(|set| set.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().take(8).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Faster than the clock can tell apart: each time of {} is the mean of several \
             messages, so its tail is flatter than that of single messages.",
            names.join(", ")
        )
    })
}

const ID: &str = "distribution";
/// Points of a curve from one nine to the next.
const STEPS_PER_NINE: f64 = 12.0;
/// Where an axis may end.
const SHARES_MAX: [f64; 5] = [0.9, 0.99, 0.999, 0.9999, 0.99999];
