//! Lines over sizes, gaps or rates: one per mechanism, of cells of the same circumstances.
//!
//! Which lines there are is a list of [`Curve`]: what is kept, what is drawn over what, and how a
//! point came about.

use crate::report::chart::Frame;
use crate::report::chart::axis::{Axis, drawable, tame};
use crate::report::chart::lines::{Bound, Lines, Point, Series};
use crate::report::chart::mark::Look;
use crate::report::columns::{self, Column, figure, shown};
use crate::report::hosts::{Entry, Host};
use crate::report::number::{self, Measured, Unit};
use crate::run::fact::{self, Better, Fact};
use crate::run::{Cell, CellKey, Definition, Kind, List, Rhythm};

use super::group::{Group, Set, groups, is_disturbed, looks, round_trip};
use super::{Figure, Place, words};

/// What is drawn over what.
pub(super) struct Curve {
    /// The anchor of the first figure.
    id: &'static str,
    title: &'static str,
    keep: fn(&CellKey) -> bool,
    over: Over,
    y_title: &'static str,
    /// What is drawn.
    fact: &'static Fact,
    /// How one point was made from times or rates, and its unit: a sentence.
    statistic: &'static str,
}

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
    /// Unit, axis in words, and the column.
    const fn axis(self) -> (Unit, &'static str, Column<Cell>) {
        match self {
            Self::Sizes => {
                let title = "bytes of one message, binary multiples, logarithmic";
                (Unit::Size, title, columns::SIZE)
            }
            Self::Gaps => (Unit::Time, "gap before an exchange, logarithmic", GAP),
            Self::Rates => {
                (Unit::MessageRate, "calls that should begin per second, logarithmic", RATE)
            }
        }
    }

    fn of(self, key: &CellKey) -> f64 {
        match (self, key.rhythm) {
            (Self::Sizes, _) => key.message_bytes as f64,
            (Self::Gaps, Rhythm::Gap(ns)) => ns as f64,
            (Self::Rates, Rhythm::Pace(rate)) => f64::from(rate),
            _ => f64::NAN,
        }
    }
}

const GAP: Column<Cell> = Column::figure("gap before an exchange", 0, |cell| {
    figure(cell.gap.as_ref().map(|gap| gap.gap_ns as f64), number::time)
});

const RATE: Column<Cell> = Column::figure("calls that should begin per second", 0, |cell| {
    shown(cell.pace.as_ref().map(|pace| pace.rate_per_s))
});

impl Curve {
    /// One figure for each of the circumstances that have several points.
    pub(super) fn figures(&self, host: &Host<'_>, place: &Place) -> Vec<Figure> {
        let keep = |entry: &Entry<'_>| {
            // A cell that fell behind its rate has no figure and is counted in a note instead.
            (self.keep)(&entry.key) && (entry.cell.is_behind() || self.value(entry).is_some())
        };
        let figures_max = if self.over == Over::Sizes { 1 } else { GROUPS_MAX };
        let (mut drawn, mut others) = (Vec::new(), Vec::new());
        for group in groups(host, keep) {
            let place_left = drawn.len() < figures_max;
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
        let (mut group, size) = match self.over {
            Over::Sizes => (group.clone(), String::new()),
            Over::Gaps | Over::Rates => {
                let (group, bytes) = group.smallest()?;
                (group, format!(", {}", number::size(bytes)))
            }
        };
        let x = |entry: &Entry<'_>| self.over.of(&entry.key);
        group.entries.sort_by(|a, b| {
            let names = |one: &Entry<'_>| (one.key.mechanism.clone(), one.key.wait.clone());
            names(a).cmp(&names(b)).then(x(a).total_cmp(&x(b)))
        });
        let sets = group.series();
        let looks = looks(&sets, |set| self.rank(set, &sets));
        let sets = sets.iter().zip(looks);
        let mut series: Vec<Series> =
            sets.map(|(set, look)| self.line(set.name.clone(), look, &set.entries)).collect();
        series.retain(|series| !series.points.is_empty());
        if distinct(&series) < 2 {
            return None;
        }
        let bounds = match self.fact.unit {
            Unit::ByteRate => memcpy_rate(host, &group.setting.class).into_iter().collect(),
            _ => word_bounds(&group, host),
        };
        if self.over == Over::Sizes {
            series.extend(self.floors(&group, host));
        }
        let chart = self.chart(series, bounds)?;
        let id = if index == 0 { self.id.to_owned() } else { format!("{}-{}", self.id, index + 1) };
        let title = format!("{}{size}{}", self.title, group.unusual());
        let (id, title) = (place.id(&id), place.title(&title, host));
        let (_, _, x_column) = self.over.axis();
        let columns = [
            columns::NAME.named("mechanism"),
            columns::WAIT.named("waits by"),
            x_column,
            Column::fact(self.fact),
            columns::INTERVAL,
            columns::GRADE,
            columns::LAUNCHES,
        ];
        let entries = || group.entries.iter().copied();
        let behind = entries().filter(|entry| entry.cell.is_behind()).count();
        let behind = (behind > 0).then(|| {
            format!("{behind} cells fell behind their rate, so they have no time and no point.")
        });
        Some(Figure {
            svg: chart.draw(&Frame { id: &id, title: &title, desc: &self.describe(&chart) }),
            id,
            title,
            caption: words::caption(&group),
            about: words::about(&format!("{} {READING}", self.statistic), &group),
            table: columns::table(&columns, entries().map(|entry| entry.cell)),
            notes: [behind, words::disturbed("hollow marks", entries())]
                .into_iter()
                .flatten()
                .collect(),
        })
    }

    fn value(&self, entry: &Entry<'_>) -> Option<Measured> {
        self.fact.valid(entry.cell).filter(|found| drawable(found.value))
    }

    fn line(&self, name: String, look: Look, entries: &[&Entry<'_>]) -> Series {
        let (unit, ..) = self.over.axis();
        let point = |entry: &&Entry<'_>| {
            let x = self.over.of(&entry.key);
            let Measured { value: y, ci95: interval } = self.value(entry)?;
            // Of a grey line the table has interval and grade.
            let value = match look {
                Look::Other => self.fact.unit.value(y),
                _ => words::label(self.fact.unit, y, interval, entry),
            };
            let label = format!("{}: {value}", unit.tick(x));
            Some(Point { x, y, interval, hollow: is_disturbed(entry), label })
        };
        let points = entries.iter().filter_map(point).collect();
        Series { name, look, marked: true, points }
    }

    /// Bounds on the same placement that depend on the size.
    fn floors(&self, group: &Group<'_>, host: &Host<'_>) -> Vec<Series> {
        let sizes = group.sizes();
        let floors = group.floors(host);
        let of = |name: &str, shape: &str| -> Vec<&Entry<'_>> {
            let fits = |entry: &&&Entry<'_>| {
                let key = &entry.key;
                let inside = (sizes.first()..=sizes.last()).contains(&Some(&key.message_bytes));
                inside && key.mechanism == name && key.shape == shape
            };
            floors.iter().filter(fits).copied().collect()
        };
        let line = |name: &str| {
            // One line has points of one shape.
            let own = of(name, &group.setting.shape);
            let entries = if own.is_empty() { of(name, "sink") } else { own };
            let line = || self.line(words::floor(name), Look::Floor, &entries);
            (!entries.is_empty()).then(line)
        };
        ["floor-memcpy", "floor-chunked-copy"].into_iter().filter_map(line).collect()
    }

    /// The mean of the logarithms; a mechanism that lacks points comes after those that have them.
    fn rank(&self, set: &Set<'_>, sets: &[Set<'_>]) -> Option<f64> {
        let most = sets.iter().map(|set| set.entries.len()).max()?;
        let sound = set.entries.iter().filter(|entry| !is_disturbed(entry));
        let logs: Vec<f64> =
            sound.filter_map(|entry| self.value(entry)).map(|found| found.value.ln()).collect();
        if logs.is_empty() {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let lacking = most.saturating_sub(logs.len()) as f64 * LACKING;
        Some(lacking + if self.fact.better == Better::More { -mean } else { mean })
    }

    /// Puts axes around the lines. `None` if there is nothing to draw.
    fn chart(&self, series: Vec<Series>, bounds: Vec<Bound>) -> Option<Lines> {
        let points = || series.iter().flat_map(|series| &series.points);
        let xs: Vec<f64> = points().map(|point| point.x).collect();
        let ys: Vec<f64> = points().map(|point| point.y).collect();
        // Grey series show no band, so theirs need no room.
        let singled = series.iter().filter(|series| series.look.is_singled_out());
        let ends = singled.flat_map(|s| &s.points).filter_map(|point| point.interval);
        let ends: Vec<f64> = ends.flat_map(|ends| tame(ends, &ys)).collect();
        let ys = ys.into_iter().chain(ends).chain(bounds.iter().map(|bound| bound.value));
        let y = Axis::log(self.fact.unit, self.y_title, ys)?;
        let (x_unit, x_title, _) = self.over.axis();
        let mut x = Axis::log(x_unit, x_title, xs.iter().copied())?.with_ticks(&xs);
        // No gap at all has a place of its own.
        if self.over == Over::Gaps && xs.contains(&0.0) {
            x = x.with_zero();
        }
        let bare = bounds.is_empty() && !series.iter().any(|s| s.look == Look::Floor);
        Some(Lines { x, y, series, bounds, remark: words::no_floors(bare) })
    }

    /// The best series at either end of the lines; disturbed ones do not count.
    fn describe(&self, chart: &Lines) -> String {
        let own = || chart.series.iter().filter(|series| series.look != Look::Floor);
        let points = own().flat_map(|series| series.points.iter().map(move |p| (p, &series.name)));
        let sound: Vec<(&Point, &String)> = points.filter(|(point, _)| !point.hollow).collect();
        let sign = if self.fact.better == Better::More { -1.0 } else { 1.0 };
        let best = |x: f64| {
            let here = sound.iter().filter(|(point, _)| point.x == x);
            let (point, name) =
                here.min_by(|(a, _), (b, _)| (a.y * sign).total_cmp(&(b.y * sign)))?;
            let (unit, ..) = self.over.axis();
            let (x, y) = (unit.tick(point.x), self.fact.unit.value(point.y));
            Some(format!("at {x} {name} is best with {y}"))
        };
        let xs = || sound.iter().map(|(point, _)| point.x);
        let ends = [xs().reduce(f64::min), xs().reduce(f64::max)];
        let found: Vec<String> = ends.into_iter().flatten().filter_map(best).collect();
        let found = if found.is_empty() { "all disturbed".to_owned() } else { found.join("; ") };
        format!("{} lines on logarithmic axes; {found}.", own().count())
    }
}

/// The sizes, gaps or rates at which there is more than nothing.
fn distinct(series: &[Series]) -> usize {
    let mut xs: Vec<f64> =
        series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    xs.len()
}

/// Bounds of exchanges of one word on the same placement: nothing is faster at any size.
pub(super) fn word_bounds(group: &Group<'_>, host: &Host<'_>) -> Vec<Bound> {
    let floors = group.floors(host);
    let bound = |name: &str| {
        let of_it = floors.iter().filter(|entry| entry.key.mechanism == name);
        let smallest = of_it.min_by_key(|entry| entry.key.message_bytes)?;
        let value = round_trip(smallest)?.value;
        let name = format!("{}: {}", words::floor(name), number::time(value));
        Some(Bound { name, value })
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
    let value = largest.key.message_bytes as f64 / round_trip(largest)?.value * 1e9;
    let name = format!("memcpy, one process: {}", Unit::ByteRate.value(value));
    drawable(value).then_some(Bound { name, value })
}

fn is_steady_round_trip(key: &CellKey, shape: &str) -> bool {
    key.definition == Definition::Rtt && key.rhythm == Rhythm::Steady && key.shape == shape
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
    y_title: "Round trip, median, logarithmic",
    fact: &fact::P50,
    statistic: "Each point is the median of a typical launch.",
};

/// Bytes per second against size.
pub(super) const BYTES: [Curve; 1] = [Curve {
    id: "throughput-bytes",
    title: "Bytes per second against size",
    keep: |key| key.kind == Kind::Throughput && key.rhythm == Rhythm::Steady,
    y_title: "Payload bytes per second (MB = 10^6, GB = 10^9 bytes), logarithmic",
    fact: &fact::BYTES,
    statistic: "Each point is the payload alone; kB, MB and GB are 10^3, 10^6 and 10^9 bytes, \
        while KiB and MiB of a size are 2^10 and 2^20; the intervals in the table are of messages. \
        The bound of memcpy is the largest payload divided by the median time in which one process \
        makes, copies and reads it.",
    ..ECHO
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
        y_title: "Response time, 99th percentile, logarithmic",
        fact: &fact::P99,
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

/// What colours, bands and grey lines are, for every chart of lines.
const READING: &str = "Bands, or bars where bands would cover each other: where the figure of a \
    typical launch lies with 95 % confidence, cut where that is much wider than all values. In \
    colour the best of each family, in grey the others. Dotted: bounds, measured without nearcall.";

/// More than the logarithm of any figure.
const LACKING: f64 = 100.0;

/// More circumstances are named only.
const GROUPS_MAX: usize = 3;
