//! Whole distributions: every percentile that the stored times allow.

use std::collections::BTreeSet;

use crate::histogram::{Histogram, quantile_allowed};
use crate::report::chart::Frame;
use crate::report::chart::axis::Axis;
use crate::report::chart::lines::{Lines, Point, Series};
use crate::report::chart::text;
use crate::report::columns::{Column, table, time};
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::report::number::Unit;
use crate::run::Cell;

use super::curves::word_bounds;
use super::group::{Group, looks};
use super::overview::smallest_exchange;
use super::{Figure, Place, words};

/// The percentile plot of the smallest exchange.
pub(super) fn figures(host: &Host<'_>, place: &Place) -> Vec<Figure> {
    let found = smallest_exchange(host, "echo").or_else(|| smallest_exchange(host, "call"));
    found.and_then(|(group, _)| one(host, place, &group)).into_iter().collect()
}

fn one(host: &Host<'_>, place: &Place, group: &Group<'_>) -> Option<Figure> {
    let sets = group.series();
    let looks = looks(&sets, |set| Some(set.entries.first()?.cell.headline()?.value));
    let (mut series, mut rows, mut share_most) = (Vec::new(), Vec::new(), 0.0_f64);
    for (set, look) in sets.iter().zip(looks) {
        let [entry] = set.entries[..] else { continue };
        let Some(times) = histogram(entry) else { continue };
        share_most = share_most.max(share_max(&times));
        series.push(Series { name: set.name.clone(), look, marked: false, points: curve(&times) });
        rows.push((entry.cell, times));
    }
    if rows.is_empty() {
        return None;
    }
    let bounds = word_bounds(group, host);
    let values = series.iter().flat_map(|series| &series.points).map(|point| point.y);
    let values = values.chain(bounds.iter().map(|bound| bound.value));
    let y = Axis::log(Unit::Time, "Round trip, logarithmic", values)?;
    let x = Axis::nines("share of all round trips that were at most that long", share_most);
    let desc = format!(
        "{} lines from the shortest time at the left to the longest tail at the right, each nine \
         as wide as the one before.",
        series.len()
    );
    let remark = words::no_floors(bounds.is_empty());
    let chart = Lines { x, y, series, bounds, remark };
    let size = number::size(group.sizes().first().copied().unwrap_or_default());
    let what = if group.setting.shape == "call" { "calls" } else { "messages" };
    let title = format!("Whole distributions, {what} of {size}{}", group.unusual());
    let (id, title) = (place.id("distribution"), place.title(&title, host));
    Some(Figure {
        svg: chart.draw(&Frame { id: &id, title: &title, desc: &desc }),
        id,
        title,
        caption: words::caption(group),
        about: words::about(STATISTIC, group),
        table: table(&columns(), &rows),
        notes: batches(rows.iter().map(|(cell, _)| *cell)).into_iter().collect(),
    })
}

/// The times of a cell. What was damaged in the file counts as missing.
fn histogram(entry: &Entry<'_>) -> Option<Histogram> {
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

/// A cell with its times.
type Times<'a> = (&'a Cell, Histogram);

fn columns<'a>() -> [Column<Times<'a>>; 11] {
    use crate::report::columns::{GRADE, LAUNCHES, NAME, WAIT};
    let of = |column: Column<Cell>| column.on(|times: &Times<'_>| times.0);
    [
        of(NAME).named("mechanism"),
        of(WAIT).named("waits by"),
        Column::figure("min", 0, |(_, times)| time(times.min_ns().map(|ns| ns as f64))),
        Column::figure("50 %", 0, |(_, times)| time(times.quantile_ns(0.5))),
        Column::figure("90 %", 0, |(_, times)| time(times.quantile_ns(0.9))),
        Column::figure("99 %", 0, |(_, times)| time(times.quantile_ns(0.99))),
        Column::figure("99.9 %", 0, |(_, times)| time(times.quantile_ns(0.999))),
        Column::figure("max", 0, |(_, times)| time(times.max_ns().map(|ns| ns as f64))),
        Column::figure("times", 0, |(_, times)| times.count().to_string()),
        of(GRADE),
        of(LAUNCHES),
    ]
}

/// Where a time is the mean of several messages, tails are shorter than they are.
fn batches<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<String> {
    let batched = cells.filter(|cell| cell.messages_per_sample > 1);
    let names: BTreeSet<String> = batched.map(|cell| text::clean(&cell.mechanism)).collect();
    let names: Vec<String> = names.into_iter().take(8).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Faster than the clock can tell apart: each time of {} is the mean of several \
             messages, so its tail is flatter than that of single messages.",
            names.join(", ")
        )
    })
}

const STATISTIC: &str = "Each line: the percentiles of all times of all launches, none left out; \
    it ends at the last nine with ten times above. In colour the fastest of each family by its \
    median, in grey the others. There is no band: the median's interval stands in the first figure.";

/// Points of a curve from one nine to the next.
const STEPS_PER_NINE: f64 = 12.0;
/// Where an axis may end.
const SHARES_MAX: [f64; 5] = [0.9, 0.99, 0.999, 0.9999, 0.99999];
