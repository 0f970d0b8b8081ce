//! Lines over sizes: one per mechanism, of cells of the same circumstances.
//!
//! Which lines there are is a list of [`Curve`]: what is kept, what is drawn, and how a point came
//! about.

use crate::report::chart::Frame;
use crate::report::chart::axis::{Axis, drawable, tame};
use crate::report::chart::lines::{Bound, Lines, Point, Series};
use crate::report::chart::mark::Look;
use crate::report::columns::{self, Column};
use crate::report::hosts::{Entry, Host};
use crate::report::number::{self, Measured, Unit};
use crate::run::fact::{self, Better, Fact};
use crate::run::{CellKey, Definition, Kind, List, Rhythm};

use super::group::{Group, Set, groups, is_disturbed, looks};
use super::{Figure, words};

/// What is drawn over sizes.
pub(super) struct Curve {
    id: &'static str,
    title: &'static str,
    keep: fn(&CellKey) -> bool,
    y_title: &'static str,
    fact: &'static Fact,
    /// How one point was made from times or rates: a sentence.
    statistic: &'static str,
}

impl Curve {
    /// The circumstances with most cells, of those of which several sizes were measured.
    pub(super) fn figure(&self, host: &Host<'_>) -> Option<Figure> {
        let keep = |entry: &Entry<'_>| (self.keep)(&entry.key) && self.value(entry).is_some();
        groups(host, keep).into_iter().find_map(|group| self.one(host, group))
    }

    /// `None` where there is but one size.
    fn one(&self, host: &Host<'_>, mut group: Group<'_>) -> Option<Figure> {
        if group.sizes().len() < 2 {
            return None;
        }
        group.entries.sort_by(|a, b| {
            let names = |one: &Entry<'_>| (one.key.mechanism.clone(), one.key.wait.clone());
            names(a).cmp(&names(b)).then(a.key.message_bytes.cmp(&b.key.message_bytes))
        });
        let sets = group.series();
        let looks = looks(&sets, |set| self.rank(set, &sets));
        let series = sets.iter().zip(looks).map(|(set, look)| self.line(set, look)).collect();
        let bounds = match self.fact.unit {
            Unit::ByteRate => memcpy_rate(host, &group.setting.class).into_iter().collect(),
            _ => word_bounds(&group, host),
        };
        let chart = self.chart(series, bounds)?;
        let title = format!("{}{}", self.title, group.unusual());
        let table_columns = [
            columns::NAME.named("mechanism"),
            columns::WAIT.named("waits by"),
            columns::SIZE,
            Column::fact(self.fact),
            columns::INTERVAL,
            columns::GRADE,
            columns::LAUNCHES,
        ];
        Some(Figure {
            svg: chart.draw(&Frame { id: self.id, title: &title, desc: &self.describe(&chart) }),
            id: self.id.to_owned(),
            title,
            caption: words::caption(&format!("{} {READING}", self.statistic), &group),
            table: columns::table(&table_columns, group.entries.iter().map(|entry| entry.cell)),
            notes: words::disturbed(&group).into_iter().collect(),
        })
    }

    fn value(&self, entry: &Entry<'_>) -> Option<Measured> {
        self.fact.valid(entry.cell).filter(|found| drawable(found.value))
    }

    fn line(&self, set: &Set<'_>, look: Look) -> Series {
        let point = |entry: &&Entry<'_>| {
            let x = entry.key.message_bytes as f64;
            let Measured { value: y, ci95: interval } = self.value(entry)?;
            // Of a grey line the table has interval and grade.
            let value = match look {
                Look::Other => self.fact.unit.value(y),
                _ => words::label(self.fact.unit, y, interval, entry),
            };
            let label = format!("{}: {value}", Unit::Size.tick(x));
            Some(Point { x, y, interval, hollow: is_disturbed(entry), label })
        };
        let points = set.entries.iter().filter_map(point).collect();
        Series { name: set.name.clone(), look, points }
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
        let title = "bytes of one message, binary multiples, logarithmic";
        let x = Axis::log(Unit::Size, title, xs.iter().copied())?.with_ticks(&xs);
        Some(Lines { x, y, series, bounds })
    }

    /// The best series at either end of the lines; disturbed ones do not count.
    fn describe(&self, chart: &Lines) -> String {
        let points = chart
            .series
            .iter()
            .flat_map(|series| series.points.iter().map(move |p| (p, &series.name)));
        let sound: Vec<(&Point, &String)> = points.filter(|(point, _)| !point.hollow).collect();
        let sign = if self.fact.better == Better::More { -1.0 } else { 1.0 };
        let best = |x: f64| {
            let here = sound.iter().filter(|(point, _)| point.x == x);
            let (point, name) =
                here.min_by(|(a, _), (b, _)| (a.y * sign).total_cmp(&(b.y * sign)))?;
            let (x, y) = (Unit::Size.tick(point.x), self.fact.unit.value(point.y));
            Some(format!("at {x} {name} is best with {y}"))
        };
        let xs = || sound.iter().map(|(point, _)| point.x);
        let ends = [xs().reduce(f64::min), xs().reduce(f64::max)];
        let found: Vec<String> = ends.into_iter().flatten().filter_map(best).collect();
        let found = if found.is_empty() { "all disturbed".to_owned() } else { found.join("; ") };
        format!("{} lines on logarithmic axes; {found}.", chart.series.len())
    }
}

/// Bounds of exchanges of one word on the same placement: nothing is faster at any size.
fn word_bounds(group: &Group<'_>, host: &Host<'_>) -> Vec<Bound> {
    let floors = group.floors(host);
    let bound = |name: &str| {
        let of_it = floors.iter().filter(|entry| entry.key.mechanism == name);
        let smallest = of_it.min_by_key(|entry| entry.key.message_bytes)?;
        let value = fact::P50.valid(smallest.cell)?.value;
        let name = format!("{}: {}", words::floor(name), number::time(value));
        drawable(value).then_some(Bound { name, value })
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
    let ns = fact::P50.valid(largest.cell)?.value;
    let value = largest.key.message_bytes as f64 / ns * 1e9;
    let name = format!("memcpy, one process: {}", Unit::ByteRate.value(value));
    drawable(value).then_some(Bound { name, value })
}

/// Round trips against size.
pub(super) const LATENCY: Curve = Curve {
    id: "latency",
    title: "Latency by size, there and back",
    keep: |key| {
        let shape = matches!(key.shape.as_str(), "echo" | "call");
        key.definition == Definition::Rtt && key.rhythm == Rhythm::Steady && shape
    },
    y_title: "Round trip, median, logarithmic",
    fact: &fact::P50,
    statistic: "Each point is the median of a typical launch.",
};

/// Bytes per second against size.
pub(super) const RATE: Curve = Curve {
    id: "rate",
    title: "Rate by size, one way",
    keep: |key| key.kind == Kind::Throughput && key.rhythm == Rhythm::Steady,
    y_title: "Payload bytes per second (MB = 10^6, GB = 10^9 bytes), logarithmic",
    fact: &fact::BYTES,
    statistic: "Each point is the payload alone; the intervals in the table are of messages.",
};

/// What colours, bands and grey lines are.
const READING: &str = "Bands or bars: 95 % confidence. In colour the best of each family, in grey \
    the others. Dotted: bounds, measured without nearcall.";

/// More than the logarithm of any figure.
const LACKING: f64 = 100.0;
