//! Latency and throughput against the size of messages.

use crate::report::chart::axis::drawable;
use crate::report::chart::lines::Bound;
use crate::report::chart::mark::Look;
use crate::report::chart::unit::Unit;
use crate::report::hosts::{Entry, Host};
use crate::run::{Definition, Kind, List, Rhythm};

use super::choose::{Group, groups};
use super::curves::{Curves, Measure, describe, distinct};
use super::{Parts, Place, Shown, figure, words};

/// One figure for each shape of exchange of which there are several sizes.
pub(super) fn latency(host: &Host<'_>, place: &Place) -> Vec<Shown> {
    let mut shown = Vec::new();
    for (shape, id, title) in SHAPES {
        let keep = |entry: &Entry<'_>| {
            let key = &entry.key;
            key.definition == Definition::Rtt
                && key.rhythm == Rhythm::Steady
                && key.shape == shape
                && LATENCY.found(entry)
        };
        shown.extend(one(host, place, &LATENCY, (id, title), &groups(host, keep)));
    }
    if shown.is_empty() {
        shown.push(missing(place, host, "latency-echo", "Latency against size", "latency"));
    }
    shown
}

/// Messages per second, and the same as bytes per second.
pub(super) fn throughput(host: &Host<'_>, place: &Place) -> Vec<Shown> {
    let mut shown = Vec::new();
    let panels = [
        (&MESSAGES, "throughput-messages", "Messages per second against size"),
        (&BYTES, "throughput-bytes", "Bytes per second against size"),
    ];
    for (measure, id, title) in panels {
        let keep = |entry: &Entry<'_>| {
            let key = &entry.key;
            key.kind == Kind::Throughput && key.rhythm == Rhythm::Steady && measure.found(entry)
        };
        let found = one(host, place, measure, (id, title), &groups(host, keep));
        shown.push(found.unwrap_or_else(|| missing(place, host, id, title, "throughput")));
    }
    shown
}

fn missing(place: &Place, host: &Host<'_>, id: &str, title: &str, kind: &str) -> Shown {
    Shown::Missing {
        id: place.id(id),
        title: place.title(title, host),
        reason: "no circumstances of which several sizes were measured".to_owned(),
        command: format!("nearcall bench {kind} --size 8,512,4KiB,32KiB,256KiB --out run.json"),
    }
}

impl Measure<'_> {
    fn found(&self, entry: &Entry<'_>) -> bool {
        (self.y)(entry).is_some_and(|(y, _)| drawable(y))
    }
}

/// The first group of several sizes, if there is one.
fn one(
    host: &Host<'_>,
    place: &Place,
    measure: &Measure<'_>,
    (id, title): (&str, &str),
    groups: &[Group<'_>],
) -> Option<Shown> {
    let index = groups.iter().position(|group| group.sizes().len() > 1)?;
    let group = &groups[index];
    let (mut curves, table) = measure.curves(group);
    if distinct(&curves.series) < 2 {
        return None;
    }
    add_bounds(&mut curves, measure, group, host);
    let chart = curves.chart(measure, "bytes of one message, binary multiples, logarithmic")?;
    let others: Vec<Group<'_>> = groups
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != index)
        .map(|(_, group)| group.clone())
        .collect();
    let disturbed = words::disturbed(group.entries.iter().copied());
    let derived = (measure.y_unit == Unit::ByteRate).then(|| MEMCPY.to_owned());
    let parts = Parts {
        id: place.id(id),
        title: place.title(&format!("{title}{}", group.setting.unusual()), host),
        desc: describe(&chart, Unit::Size, measure.y_unit, measure.more_is_better),
        about: words::about(&measure.reading(&chart), group),
        table,
        notes: [derived, words::others(&others), disturbed].into_iter().flatten().collect(),
    };
    Some(figure(parts, |frame, width| chart.draw(frame, width)))
}

/// Bounds on the same placement: what depends on the size as lines, the rest from edge to edge.
fn add_bounds(curves: &mut Curves, measure: &Measure<'_>, group: &Group<'_>, host: &Host<'_>) {
    let sizes: Vec<u64> = group.sizes();
    let floors = group.floors(host);
    let of = |name: &str, shape: &str| -> Vec<&Entry<'_>> {
        let fits = |entry: &&&Entry<'_>| {
            let bytes = entry.key.message_bytes;
            entry.key.mechanism == name
                && (sizes.first()..=sizes.last()).contains(&Some(&bytes))
                && entry.key.shape == shape
        };
        floors.iter().filter(fits).copied().collect()
    };
    for name in ["floor-memcpy", "floor-chunked-copy"] {
        // One line has points of one shape.
        let own = of(name, &group.setting.shape);
        let entries = if own.is_empty() { of(name, "sink") } else { own };
        if !entries.is_empty() {
            let found = measure.series(words::floor(name), Look::Floor, &entries, None);
            curves.series.push(found);
        }
    }
    match measure.y_unit {
        Unit::ByteRate => curves.bounds.extend(memcpy_rate(host, &group.setting.class)),
        _ => curves.bounds.extend(word_bounds(group, host)),
    }
}

/// Bounds of exchanges of one word on the same placement: nothing is faster at any size.
pub(super) fn word_bounds(group: &Group<'_>, host: &Host<'_>) -> Vec<Bound> {
    let floors = group.floors(host);
    let bound = |name: &str| {
        let of_it = floors.iter().filter(|entry| entry.key.mechanism == name);
        let smallest = of_it.min_by_key(|entry| entry.key.message_bytes)?;
        let headline = smallest.cell.headline().filter(|headline| drawable(headline.value))?;
        let unit = if headline.unit == "ns" { Unit::Time } else { Unit::MessageRate };
        let text = format!("{}: {}", words::floor(name), unit.value(headline.value));
        Some(Bound { name: text, value: headline.value })
    };
    ["floor-spin", "floor-futex", "floor-ring"].into_iter().filter_map(bound).collect()
}

/// How fast one process makes and reads a payload, from the largest that was timed.
fn memcpy_rate(host: &Host<'_>, class: &str) -> Option<Bound> {
    let fits = |entry: &&Entry<'_>| {
        let key = &entry.key;
        key.list == List::Floors
            && key.load == "idle"
            && key.mechanism == "floor-memcpy"
            && key.class == class
    };
    let largest = host.entries.iter().filter(fits).max_by_key(|e| e.key.message_bytes)?;
    let ns = largest.cell.headline().filter(|h| h.unit == "ns" && drawable(h.value))?.value;
    let value = largest.key.message_bytes as f64 / ns * 1e9;
    let name = format!("memcpy, one process: {}", Unit::ByteRate.value(value));
    drawable(value).then_some(Bound { name, value })
}

const LATENCY: Measure<'static> = Measure {
    x_head: "size",
    x_unit: Unit::Size,
    x: |entry| entry.key.message_bytes as f64,
    y_head: "median",
    y_title: "Round trip, median, logarithmic",
    y_unit: Unit::Time,
    y: |entry| entry.cell.headline().filter(|h| h.unit == "ns").map(|h| (h.value, h.ci95)),
    statistic: "Each point is the median of all times.",
    more_is_better: false,
};

const MESSAGES: Measure<'static> = Measure {
    x_head: "size",
    x_unit: Unit::Size,
    x: |entry| entry.key.message_bytes as f64,
    y_head: "messages per second",
    y_title: "Messages per second (M = 10^6), harmonic mean over launches, logarithmic",
    y_unit: Unit::MessageRate,
    y: |entry| Some((entry.cell.messages_per_s?, entry.cell.messages_per_s_ci95)),
    statistic: "Each point is the harmonic mean of the launches' rates; M is 10^6.",
    more_is_better: true,
};

const BYTES: Measure<'static> = Measure {
    x_head: "size",
    x_unit: Unit::Size,
    x: |entry| entry.key.message_bytes as f64,
    y_head: "bytes per second",
    y_title: "Payload bytes per second (MB = 10^6, GB = 10^9 bytes), logarithmic",
    y_unit: Unit::ByteRate,
    y: |entry| Some((entry.cell.bytes_per_s?, entry.cell.bytes_per_s_ci95)),
    statistic: "Each point is the payload alone; kB, MB and GB are 10^3, 10^6 and 10^9 bytes, \
        while KiB and MiB of a size are 2^10 and 2^20.",
    more_is_better: true,
};

const SHAPES: [(&str, &str, &str); 3] = [
    ("echo", "latency-echo", "Latency against size, the same size back"),
    ("sink", "latency-sink", "Latency against size, an empty reply"),
    ("call", "latency-call", "Latency of calls against the size of their argument"),
];

const MEMCPY: &str = "The bound of memcpy is the largest payload divided by the median time in \
    which one process makes, copies and reads it.";
