//! Exchanges that do not follow right after each other: after a gap, and at a set pace.

use crate::report::chart::axis::{Axis, drawable};
use crate::report::chart::lines::Lines;
use crate::report::chart::text;
use crate::report::chart::unit::Unit;
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::run::{Kind, Rhythm};

use super::choose::{Group, groups};
use super::curves::{Measure, describe, distinct};
use super::{FigureTable, Parts, Place, Shown, figure, words};

/// Latency against the gap before an exchange.
pub(super) fn gaps(host: &Host<'_>, place: &Place) -> Vec<Shown> {
    let keep = |entry: &Entry<'_>| {
        matches!(entry.key.rhythm, Rhythm::Gap(_)) && entry.key.kind == Kind::Latency
    };
    let missing = Shown::Missing {
        id: place.id("gap"),
        title: place.title("Latency after idle gaps", host),
        reason: "no exchange was measured after several gaps".to_owned(),
        command: "nearcall bench idle-gap --out gap.json".to_owned(),
    };
    let title = "Latency after an idle gap";
    several(host, place, &GAP, ("gap", title), &groups(host, keep), Some(missing))
}

/// Response time against the rate at which exchanges should begin.
pub(super) fn paces(host: &Host<'_>, place: &Place) -> Vec<Shown> {
    let keep = |entry: &Entry<'_>| matches!(entry.key.rhythm, Rhythm::Pace(_));
    let missing = Shown::Missing {
        id: place.id("pace"),
        title: place.title("Response time against rate", host),
        reason: "nothing was measured at several constant rates (open loop)".to_owned(),
        command: "nearcall bench open-loop --rate 100,1000,10000,100000 --out pace.json".to_owned(),
    };
    let (title, tails) = ("Response time at constant rates", "99th percentile at constant rates");
    let groups = groups(host, keep);
    let mut shown = several(host, place, &PACE, ("pace", title), &groups, Some(missing));
    shown.extend(several(host, place, &PACE_P99, ("pace-p99", tails), &groups, None));
    shown
}

fn several(
    host: &Host<'_>,
    place: &Place,
    measure: &Measure<'_>,
    (id, title): (&str, &str),
    groups: &[Group<'_>],
    missing: Option<Shown>,
) -> Vec<Shown> {
    let mut shown = Vec::new();
    for group in groups {
        if shown.len() == GROUPS_MAX {
            break;
        }
        let id = match shown.len() {
            0 => id.to_owned(),
            count => format!("{id}-{}", count + 1),
        };
        let Some(bytes) = group.smallest() else { continue };
        let group = group.of_size(bytes);
        let title = format!("{title}, {}", number::size(bytes));
        shown.extend(one(host, place, measure, (&id, &title), &group));
    }
    let rest = groups.get(GROUPS_MAX..).and_then(words::others);
    if let Some(Shown::Figure(figure)) = shown.last_mut() {
        figure.notes.extend(rest);
    }
    if shown.is_empty() {
        shown.extend(missing);
    }
    shown
}

fn one(
    host: &Host<'_>,
    place: &Place,
    measure: &Measure<'_>,
    (id, title): (&str, &str),
    group: &Group<'_>,
) -> Option<Shown> {
    let (mut curves, mut table) = measure.curves(group);
    if distinct(&curves.series) < 2 {
        return None;
    }
    curves.bounds = super::sizes::word_bounds(group, host);
    let chart = curves.chart(measure, &format!("{}, logarithmic", measure.x_head))?;
    let chart = with_zero(chart, group);
    let behind = behind(group, &mut table);
    let load = match group.setting.load.as_str() {
        "idle" => String::new(),
        load => format!(", beside {}", text::clean(load)),
    };
    let title = format!("{title}, {}{load}", text::clean(&group.setting.class));
    let statistic = measure.reading(&chart);
    let parts = Parts {
        id: place.id(id),
        title: place.title(&title, host),
        desc: describe(&chart, measure.x_unit, measure.y_unit, false),
        about: words::about(&statistic, group),
        table,
        notes: [behind, words::disturbed(group.entries.iter().copied())]
            .into_iter()
            .flatten()
            .collect(),
    };
    Some(figure(parts, |frame, width| chart.draw(frame, width)))
}

/// No gap at all has a place of its own.
fn with_zero(chart: Lines, group: &Group<'_>) -> Lines {
    let none = group.entries.iter().any(|entry| entry.key.rhythm == Rhythm::Gap(0));
    let x: Axis = if none { chart.x.with_zero() } else { chart.x };
    Lines { x, ..chart }
}

/// Cells that did not keep their pace say nothing of the mechanism: they are told, not drawn.
fn behind(group: &Group<'_>, table: &mut FigureTable) -> Option<String> {
    let mut names = Vec::new();
    for entry in &group.entries {
        let Some(pace) = entry.cell.pace.as_ref().filter(|pace| !pace.kept) else { continue };
        let (name, rate) = (group.name(entry), number::message_rate(f64::from(pace.rate_per_s)));
        names.push(format!("{name} at {rate}"));
        let wait = text::clean(&entry.key.wait);
        let mut row = vec![name, wait, rate, "fell behind".to_owned()];
        row.extend(words::evidence(Unit::Time, None, entry));
        table.rows.push(row);
    }
    (!names.is_empty()).then(|| {
        names.truncate(12);
        format!("Fell behind, so that no time tells about the mechanism: {}.", names.join(", "))
    })
}

const GAP: Measure<'static> = Measure {
    x_head: "gap before an exchange",
    x_unit: Unit::Time,
    x: |entry| entry.cell.gap.as_ref().map_or(f64::NAN, |gap| gap.gap_ns as f64),
    y_head: "median",
    y_title: "Round trip, median, logarithmic",
    y_unit: Unit::Time,
    y: |entry| entry.cell.headline().filter(|h| h.unit == "ns").map(|h| (h.value, h.ci95)),
    statistic: "Each point is the median of all times after gaps of that length.",
    more_is_better: false,
};

const PACE: Measure<'static> = Measure {
    x_head: "calls that should begin per second",
    x_unit: Unit::MessageRate,
    x: |entry| entry.cell.pace.as_ref().map_or(f64::NAN, |pace| f64::from(pace.rate_per_s)),
    y_head: "median",
    y_title: "Response time, median, logarithmic",
    y_unit: Unit::Time,
    y: |entry| {
        let kept = entry.cell.pace.as_ref().is_some_and(|pace| pace.kept);
        let headline =
            entry.cell.headline().filter(|h| kept && h.unit == "ns" && drawable(h.value));
        headline.map(|h| (h.value, h.ci95))
    },
    statistic: "Each point is the median of all response times at that rate.",
    more_is_better: false,
};

const PACE_P99: Measure<'static> = Measure {
    y_head: "99 %",
    y_title: "Response time, 99th percentile, logarithmic",
    y: |entry| {
        let kept = entry.cell.pace.as_ref().is_some_and(|pace| pace.kept);
        let p99 = entry.cell.rtt_ns.as_ref()?.p99.filter(|ns| kept && drawable(*ns))?;
        Some((p99, None))
    },
    statistic: "Each point is the time that 99 % of the responses at that rate took at most; it \
        has no interval.",
    ..PACE
};

/// More circumstances are named only.
const GROUPS_MAX: usize = 3;
