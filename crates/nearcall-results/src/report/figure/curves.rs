//! Lines over sizes, gaps or rates: one per mechanism, of cells of the same circumstances.
//!
//! Which lines there are is a list of [`Curve`]: what is kept, what is drawn over what, and how a
//! point came about.

use crate::report::chart::axis::{Axis, drawable, tame};
use crate::report::chart::lines::{Bound, Lines, Point, Series};
use crate::report::chart::mark::Look;
use crate::report::chart::text;
use crate::report::chart::unit::Unit;
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::run::{CellKey, Definition, Kind, List, Rhythm};

use super::choose::{Group, Set, groups, is_disturbed, looks, round_trip};
use super::{Figure, FigureTable, Parts, Place, figure, words};

/// What is drawn over what.
pub(super) struct Curve {
    /// The anchor of the first figure.
    id: &'static str,
    title: &'static str,
    keep: fn(&CellKey) -> bool,
    over: Over,
    /// The head of the column of what was found.
    y_head: &'static str,
    y_title: &'static str,
    y_unit: Unit,
    y: fn(&Entry<'_>) -> Option<Value>,
    /// How one point was made from times or rates, and its unit: a sentence.
    statistic: &'static str,
    /// What else the reader should know.
    note: Option<&'static str>,
}

/// A figure with its interval.
type Value = (f64, Option<[f64; 2]>);

/// What varies from left to right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    /// The size of a message: one figure of the circumstances with most cells.
    Sizes,
    /// The gap before an exchange, of the smallest size: a figure for each of some circumstances.
    Gaps,
    /// The rate that was asked for, likewise.
    Rates,
}

impl Over {
    const fn unit(self) -> Unit {
        match self {
            Self::Sizes => Unit::Size,
            Self::Gaps => Unit::Time,
            Self::Rates => Unit::MessageRate,
        }
    }

    /// The head of the column, and the axis in words.
    const fn head_and_title(self) -> [&'static str; 2] {
        match self {
            Self::Sizes => ["size", "bytes of one message, binary multiples, logarithmic"],
            Self::Gaps => ["gap before an exchange", "gap before an exchange, logarithmic"],
            Self::Rates => [
                "calls that should begin per second",
                "calls that should begin per second, logarithmic",
            ],
        }
    }

    fn of(self, entry: &Entry<'_>) -> f64 {
        match (self, entry.key.rhythm) {
            (Self::Sizes, _) => entry.key.message_bytes as f64,
            (Self::Gaps, Rhythm::Gap(ns)) => ns as f64,
            (Self::Rates, Rhythm::Pace(rate)) => f64::from(rate),
            _ => f64::NAN,
        }
    }

    const fn figures_max(self) -> usize {
        if matches!(self, Self::Sizes) { 1 } else { GROUPS_MAX }
    }
}

impl Curve {
    /// One figure for each of the circumstances that have several points.
    pub(super) fn figures(&self, host: &Host<'_>, place: &Place) -> Vec<Figure> {
        let keep = |entry: &Entry<'_>| {
            // What did not keep its pace has no figure, and is told.
            let behind = entry.cell.pace.as_ref().is_some_and(|pace| !pace.kept);
            (self.keep)(&entry.key) && (behind || self.value(entry).is_some())
        };
        let (mut drawn, mut others) = (Vec::new(), Vec::new());
        for group in groups(host, keep) {
            let place_left = drawn.len() < self.over.figures_max();
            let figure = place_left.then(|| self.one(host, place, drawn.len(), &group)).flatten();
            match figure {
                Some(figure) => drawn.push(figure),
                None => others.push(group),
            }
        }
        if let Some(last) = drawn.last_mut() {
            last.notes.extend(words::others(&others));
        }
        drawn
    }

    /// The `index`th figure; `None` where there is but one point to a line.
    fn one(
        &self,
        host: &Host<'_>,
        place: &Place,
        index: usize,
        group: &Group<'_>,
    ) -> Option<Figure> {
        let (group, size) = match self.over {
            Over::Sizes => (group.clone(), String::new()),
            Over::Gaps | Over::Rates => {
                let bytes = group.smallest()?;
                (group.of_size(bytes), format!(", {}", number::size(bytes)))
            }
        };
        let (mut series, mut table) = self.series(&group);
        if distinct(&series) < 2 {
            return None;
        }
        let bounds = match self.y_unit {
            Unit::ByteRate => memcpy_rate(host, &group.setting.class).into_iter().collect(),
            _ => word_bounds(&group, host),
        };
        if self.over == Over::Sizes {
            series.extend(self.floors(&group, host));
        }
        let chart = self.chart(series, bounds, &group)?;
        let behind = self.behind(&group, &mut table);
        let id = if index == 0 { self.id.to_owned() } else { format!("{}-{}", self.id, index + 1) };
        let title = format!("{}{size}{}", self.title, group.setting.unusual());
        let parts = Parts {
            id: place.id(&id),
            title: place.title(&title, host),
            desc: describe(&chart, self.over.unit(), self.y_unit),
            caption: words::caption(&group),
            about: words::about(&self.reading(&chart), &group),
            table,
            notes: [
                self.note.map(str::to_owned),
                behind,
                words::disturbed(group.entries.iter().copied()),
            ]
            .into_iter()
            .flatten()
            .collect(),
        };
        Some(figure(parts, |frame| chart.draw(frame)))
    }

    fn value(&self, entry: &Entry<'_>) -> Option<Value> {
        (self.y)(entry).filter(|(y, _)| drawable(*y))
    }

    /// How to read the chart: points, bands, colours.
    fn reading(&self, chart: &Lines) -> String {
        let mut points = chart.series.iter().flat_map(|series| &series.points);
        let bands = if points.any(|point| point.interval.is_some()) { BANDS } else { "" };
        format!("{} {bands} {COLOURS}", self.statistic).replace("  ", " ")
    }

    /// The lines of a group, and the table of their points.
    fn series(&self, group: &Group<'_>) -> (Vec<Series>, FigureTable) {
        let sets = group.series();
        let looks = looks(&sets, |set| self.rank(set, &sets));
        let [x_head, _] = self.over.head_and_title();
        let mut table = FigureTable::new(&["mechanism", "waits by", x_head, self.y_head]);
        table.heads.extend(words::EVIDENCE.map(str::to_owned));
        let mut series = Vec::new();
        for (set, look) in sets.iter().zip(looks) {
            series.push(self.line(set.name.clone(), look, &set.entries, Some(&mut table)));
        }
        series.retain(|series| !series.points.is_empty());
        (series, table)
    }

    /// One line, its points added to the table.
    fn line(
        &self,
        name: String,
        look: Look,
        entries: &[&Entry<'_>],
        mut table: Option<&mut FigureTable>,
    ) -> Series {
        let mut entries = entries.to_vec();
        entries.sort_by(|a, b| self.over.of(a).total_cmp(&self.over.of(b)));
        let unit = self.over.unit();
        let mut points = Vec::new();
        for entry in entries {
            let x = self.over.of(entry);
            let Some((y, interval)) = self.value(entry) else { continue };
            if let Some(table) = &mut table {
                let wait = text::clean(&entry.key.wait);
                let mut row = vec![name.clone(), wait, unit.tick(x), self.y_unit.value(y)];
                row.extend(words::evidence(self.y_unit, interval, entry));
                table.rows.push(row);
            }
            // Of a grey line the table has interval and grade.
            let value = match look {
                Look::Other => self.y_unit.value(y),
                _ => words::label(self.y_unit, y, interval, entry),
            };
            let label = format!("{}: {value}", unit.tick(x));
            points.push(Point { x, y, interval, hollow: is_disturbed(entry), label });
        }
        Series { name, look, marked: true, points }
    }

    /// Bounds on the same placement that depend on the size.
    fn floors(&self, group: &Group<'_>, host: &Host<'_>) -> Vec<Series> {
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
        let line = |name: &str| {
            // One line has points of one shape.
            let own = of(name, &group.setting.shape);
            let entries = if own.is_empty() { of(name, "sink") } else { own };
            let line = || self.line(words::floor(name), Look::Floor, &entries, None);
            (!entries.is_empty()).then(line)
        };
        ["floor-memcpy", "floor-chunked-copy"].into_iter().filter_map(line).collect()
    }

    /// The mean of the logarithms; a mechanism that lacks points comes after those that have them.
    fn rank(&self, set: &Set<'_>, sets: &[Set<'_>]) -> Option<f64> {
        let most = sets.iter().map(|set| set.entries.len()).max()?;
        let sound = set.entries.iter().filter(|entry| !is_disturbed(entry));
        let logs: Vec<f64> =
            sound.filter_map(|entry| self.value(entry)).map(|(y, _)| y.ln()).collect();
        if logs.is_empty() {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let lacking = most.saturating_sub(logs.len()) as f64 * LACKING;
        Some(lacking + if more_is_better(self.y_unit) { -mean } else { mean })
    }

    /// Puts axes around the lines. `None` if there is nothing to draw.
    fn chart(&self, series: Vec<Series>, bounds: Vec<Bound>, group: &Group<'_>) -> Option<Lines> {
        let points = || series.iter().flat_map(|series| &series.points);
        let xs: Vec<f64> = points().map(|point| point.x).collect();
        let ys: Vec<f64> = points().map(|point| point.y).collect();
        // Grey series show no band, so theirs need no room.
        let singled = series.iter().filter(|series| series.look.is_singled_out());
        let ends = singled.flat_map(|s| &s.points).filter_map(|point| point.interval);
        let ends: Vec<f64> = ends.flat_map(|ends| tame(ends, &ys)).collect();
        let ys = ys.into_iter().chain(ends).chain(bounds.iter().map(|bound| bound.value));
        let y = Axis::log(self.y_unit, self.y_title, ys)?;
        let [_, x_title] = self.over.head_and_title();
        let mut x = Axis::log(self.over.unit(), x_title, xs.iter().copied())?.with_ticks(&xs);
        // No gap at all has a place of its own.
        if group.entries.iter().any(|entry| entry.key.rhythm == Rhythm::Gap(0)) {
            x = x.with_zero();
        }
        let bare = bounds.is_empty() && !series.iter().any(|s| s.look == Look::Floor);
        let remark = bare.then(|| words::NO_FLOORS.to_owned());
        Some(Lines { x, y, series, bounds, remark })
    }

    /// Cells that did not keep their pace have no figure of the mechanism: they are only named.
    fn behind(&self, group: &Group<'_>, table: &mut FigureTable) -> Option<String> {
        let mut names = Vec::new();
        for entry in &group.entries {
            let Some(pace) = entry.cell.pace.as_ref().filter(|pace| !pace.kept) else { continue };
            let (name, rate) =
                (group.name(entry), number::message_rate(f64::from(pace.rate_per_s)));
            names.push(format!("{name} at {rate}"));
            let wait = text::clean(&entry.key.wait);
            let mut row = vec![name, wait, rate, "fell behind".to_owned()];
            row.extend(words::evidence(self.y_unit, None, entry));
            table.rows.push(row);
        }
        (!names.is_empty()).then(|| {
            names.truncate(12);
            let names = names.join(", ");
            format!("Fell behind, so that no time tells about the mechanism: {names}.")
        })
    }
}

const fn more_is_better(unit: Unit) -> bool {
    matches!(unit, Unit::MessageRate | Unit::ByteRate)
}

/// The sizes, gaps or rates at which there is more than nothing.
fn distinct(series: &[Series]) -> usize {
    let own = series.iter().filter(|series| series.look != Look::Floor);
    let mut xs: Vec<f64> = own.flat_map(|series| &series.points).map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    xs.len()
}

/// Who is fastest at either end of the lines; what is disturbed is nobody.
fn describe(chart: &Lines, unit_x: Unit, unit_y: Unit) -> String {
    let own = || chart.series.iter().filter(|series| series.look != Look::Floor);
    let best = |at: f64| {
        let here = own().filter_map(|series| {
            let point = series.points.iter().find(|point| point.x == at && !point.hollow)?;
            Some((series.name.as_str(), point.y))
        });
        let (name, y) = here.min_by(|a, b| match more_is_better(unit_y) {
            true => b.1.total_cmp(&a.1),
            false => a.1.total_cmp(&b.1),
        })?;
        Some(format!("at {} {name} is best with {}", unit_x.tick(at), unit_y.value(y)))
    };
    let sound = || own().flat_map(|series| &series.points).filter(|point| !point.hollow);
    let xs = || sound().map(|point| point.x);
    let (low, high) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    let mut found: Vec<String> = [best(low), best(high)].into_iter().flatten().collect();
    found.dedup();
    if found.is_empty() {
        found.push("all disturbed".to_owned());
    }
    format!("{} lines on logarithmic axes; {}.", own().count(), found.join("; "))
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

/// The median, unless the cell did not keep its pace.
fn median(entry: &Entry<'_>) -> Option<Value> {
    let kept = entry.cell.pace.as_ref().is_none_or(|pace| pace.kept);
    round_trip(entry).filter(|_| kept).map(|found| (found.value, found.ci95))
}

fn is_steady_round_trip(key: &CellKey, shape: &str) -> bool {
    key.definition == Definition::Rtt && key.rhythm == Rhythm::Steady && key.shape == shape
}

fn is_steady_throughput(key: &CellKey) -> bool {
    key.kind == Kind::Throughput && key.rhythm == Rhythm::Steady
}

/// Latency against size, for each shape of exchange.
pub(super) const LATENCY: [Curve; 3] = [
    ECHO,
    Curve {
        id: "latency-sink",
        title: "Latency against size, an empty reply",
        keep: |key| is_steady_round_trip(key, "sink"),
        ..ECHO
    },
    Curve {
        id: "latency-call",
        title: "Latency of calls against the size of their argument",
        keep: |key| is_steady_round_trip(key, "call"),
        ..ECHO
    },
];

const ECHO: Curve = Curve {
    id: "latency-echo",
    title: "Latency against size, the same size back",
    keep: |key| is_steady_round_trip(key, "echo"),
    over: Over::Sizes,
    y_head: "median",
    y_title: "Round trip, median, logarithmic",
    y_unit: Unit::Time,
    y: median,
    statistic: "Each point is the median of a typical launch.",
    note: None,
};

/// Messages per second against size.
pub(super) const MESSAGES: [Curve; 1] = [Curve {
    id: "throughput-messages",
    title: "Messages per second against size",
    keep: is_steady_throughput,
    over: Over::Sizes,
    y_head: "messages per second",
    y_title: "Messages per second (M = 10^6), harmonic mean over launches, logarithmic",
    y_unit: Unit::MessageRate,
    y: |entry| Some((entry.cell.messages_per_s?, entry.cell.messages_per_s_ci95)),
    statistic: "Each point is the harmonic mean of the launches' rates; M is 10^6.",
    note: None,
}];

/// The same as bytes per second.
pub(super) const BYTES: [Curve; 1] = [Curve {
    id: "throughput-bytes",
    title: "Bytes per second against size",
    keep: is_steady_throughput,
    over: Over::Sizes,
    y_head: "bytes per second",
    y_title: "Payload bytes per second (MB = 10^6, GB = 10^9 bytes), logarithmic",
    y_unit: Unit::ByteRate,
    y: |entry| Some((entry.cell.bytes_per_s?, entry.cell.bytes_per_s_ci95)),
    statistic: "Each point is the payload alone; kB, MB and GB are 10^3, 10^6 and 10^9 bytes, \
        while KiB and MiB of a size are 2^10 and 2^20.",
    note: Some(
        "The bound of memcpy is the largest payload divided by the median time in which one \
         process makes, copies and reads it.",
    ),
}];

/// Latency against the gap before an exchange.
pub(super) const GAPS: [Curve; 1] = [Curve {
    id: "gap",
    title: "Latency after an idle gap",
    keep: |key| matches!(key.rhythm, Rhythm::Gap(_)) && key.kind == Kind::Latency,
    over: Over::Gaps,
    statistic: "Each point is the median after gaps of that length.",
    ..ECHO
}];

/// Response time against the rate at which exchanges should begin.
pub(super) const PACES: [Curve; 2] = [
    PACE,
    Curve {
        id: "pace-p99",
        title: "99th percentile at constant rates",
        y_head: "99 %",
        y_title: "Response time, 99th percentile, logarithmic",
        y: |entry| {
            let kept = entry.cell.pace.as_ref().is_some_and(|pace| pace.kept);
            let p99 = entry.cell.rtt_ns.as_ref()?.p99.filter(|_| kept)?;
            Some((p99, None))
        },
        statistic: "Each point is the time that 99 % of the responses at that rate took at most; \
            it has no interval.",
        ..PACE
    },
];

const PACE: Curve = Curve {
    id: "pace",
    title: "Response time at constant rates",
    keep: |key| matches!(key.rhythm, Rhythm::Pace(_)),
    over: Over::Rates,
    y_title: "Response time, median, logarithmic",
    statistic: "Each point is the median of the response times at that rate.",
    ..ECHO
};

/// What colours and grey lines are, for every chart of lines.
const COLOURS: &str = "In colour the best of each family, in grey the others. Dotted: \
    bounds, measured without nearcall.";

/// What bands are, where there are any.
const BANDS: &str = "Bands, or bars where bands would cover each other: where the figure of a \
    typical launch lies with 95 % confidence, cut where that is much wider than all values.";

/// More than the logarithm of any figure.
const LACKING: f64 = 100.0;

/// More circumstances are named only.
const GROUPS_MAX: usize = 3;
