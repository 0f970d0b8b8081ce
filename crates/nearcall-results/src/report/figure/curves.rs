//! From a group of cells to lines: one per mechanism, over sizes, gaps or rates.

use crate::report::chart::axis::{Axis, drawable, tame};
use crate::report::chart::lines::{Bound, Lines, Point, Series};
use crate::report::chart::mark::Look;
use crate::report::chart::text;
use crate::report::chart::unit::Unit;
use crate::report::hosts::Entry;

use super::choose::{Group, Set, is_disturbed, looks};
use super::{FigureTable, words};

/// What is drawn over what.
pub(super) struct Measure<'m> {
    /// The head of the column and the title of the axis of what varies.
    pub(super) x_head: &'m str,
    pub(super) x_unit: Unit,
    pub(super) x: fn(&Entry<'_>) -> f64,
    /// The same of what was found.
    pub(super) y_head: &'m str,
    pub(super) y_title: &'m str,
    pub(super) y_unit: Unit,
    pub(super) y: fn(&Entry<'_>) -> Option<Value>,
    /// How one point was made from times or rates, and its unit: a sentence.
    pub(super) statistic: &'m str,
    /// Whether more is better, as of rates.
    pub(super) more_is_better: bool,
}

/// A figure with its interval.
pub(super) type Value = (f64, Option<[f64; 2]>);

/// Lines that were found, still without axes.
#[derive(Default)]
pub(super) struct Curves {
    pub(super) series: Vec<Series>,
    pub(super) bounds: Vec<Bound>,
}

impl Measure<'_> {
    /// How to read the chart: points, bands, colours.
    pub(super) fn reading(&self, chart: &Lines) -> String {
        let mut points = chart.series.iter().flat_map(|series| &series.points);
        let bands = if points.any(|point| point.interval.is_some()) { BANDS } else { "" };
        format!("{} {bands} {COLOURS}", self.statistic).replace("  ", " ")
    }

    /// The lines of a group, and the table of their points.
    pub(super) fn curves(&self, group: &Group<'_>) -> (Curves, FigureTable) {
        let sets = group.series();
        let looks = looks(&sets, |set| self.rank(set, &sets));
        let mut table = FigureTable::new(&["mechanism", "waits by", self.x_head, self.y_head]);
        table.heads.extend(words::EVIDENCE.map(str::to_owned));
        let mut series = Vec::new();
        for (set, look) in sets.iter().zip(looks) {
            let found = self.series(set.name.clone(), look, &set.entries, Some(&mut table));
            series.push(found);
        }
        series.retain(|series| !series.points.is_empty());
        (Curves { series, bounds: Vec::new() }, table)
    }

    /// One line, its points added to the table.
    pub(super) fn series(
        &self,
        name: String,
        look: Look,
        entries: &[&Entry<'_>],
        mut table: Option<&mut FigureTable>,
    ) -> Series {
        let mut entries = entries.to_vec();
        entries.sort_by(|a, b| (self.x)(a).total_cmp(&(self.x)(b)));
        let mut points = Vec::new();
        for entry in entries {
            let x = (self.x)(entry);
            let Some((y, interval)) = (self.y)(entry).filter(|(y, _)| drawable(*y)) else {
                continue;
            };
            if let Some(table) = &mut table {
                let wait = text::clean(&entry.key.wait);
                let mut row = vec![name.clone(), wait, self.x_unit.tick(x), self.y_unit.value(y)];
                row.extend(words::evidence(self.y_unit, interval, entry));
                table.rows.push(row);
            }
            let value = words::label(self.y_unit, y, interval, entry);
            let label = format!("{}: {value}", self.x_unit.tick(x));
            points.push(Point { x, y, interval, hollow: is_disturbed(entry), label });
        }
        Series { name, look, marked: true, points }
    }

    /// The mean of the logarithms; a mechanism that lacks points comes after those that have them.
    fn rank(&self, set: &Set<'_>, sets: &[Set<'_>]) -> Option<f64> {
        let most = sets.iter().map(|set| set.entries.len()).max()?;
        let sound = set.entries.iter().filter(|entry| !is_disturbed(entry));
        let values = sound.filter_map(|entry| (self.y)(entry));
        let logs: Vec<f64> = values.map(|(y, _)| y).filter(|y| drawable(*y)).map(f64::ln).collect();
        if logs.is_empty() {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let lacking = most.saturating_sub(logs.len()) as f64 * LACKING;
        Some(lacking + if self.more_is_better { -mean } else { mean })
    }
}

impl Curves {
    /// Puts axes around the lines. `None` if there is nothing to draw.
    pub(super) fn chart(self, measure: &Measure<'_>, x_title: &str) -> Option<Lines> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let xs: Vec<f64> = points().map(|point| point.x).collect();
        let ys: Vec<f64> = points().map(|point| point.y).collect();
        // Grey series show no band, so theirs need no room.
        let singled = self.series.iter().filter(|series| series.look.is_singled_out());
        let ends = singled.flat_map(|s| &s.points).filter_map(|point| point.interval);
        let ends: Vec<f64> = ends.flat_map(|ends| tame(ends, &ys)).collect();
        let bounds = self.bounds.iter().map(|bound| bound.value);
        let ys = ys.into_iter().chain(ends).chain(bounds);
        let y = Axis::log(measure.y_unit, measure.y_title, ys)?;
        let x = Axis::log(measure.x_unit, x_title, xs.iter().copied())?.with_ticks(&xs);
        let bare = self.bounds.is_empty() && !self.series.iter().any(|s| s.look == Look::Floor);
        let remark = bare.then(|| words::NO_FLOORS.to_owned());
        Some(Lines { x, y, series: self.series, bounds: self.bounds, remark })
    }
}

/// The sizes, gaps or rates at which there is more than nothing.
pub(super) fn distinct(series: &[Series]) -> usize {
    let own = series.iter().filter(|series| series.look != Look::Floor);
    let mut xs: Vec<f64> = own.flat_map(|series| &series.points).map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    xs.len()
}

/// Who is fastest at either end of the lines; what is disturbed is nobody.
pub(super) fn describe(chart: &Lines, unit_x: Unit, unit_y: Unit, more_is_better: bool) -> String {
    let own = || chart.series.iter().filter(|series| series.look != Look::Floor);
    let best = |at: f64| {
        let here = own().filter_map(|series| {
            let point = series.points.iter().find(|point| point.x == at && !point.hollow)?;
            Some((series.name.as_str(), point.y))
        });
        let (name, y) = here.min_by(|a, b| match more_is_better {
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

/// What colours and grey lines are, for every chart of lines.
const COLOURS: &str = "In colour the best of each family, in grey the others. Dotted: \
    bounds, measured without nearcall.";

/// What bands are, where there are any.
const BANDS: &str = "Bands: where the figure of a typical launch lies with 95 % \
    confidence, cut where they are much wider than all values.";

/// More than the logarithm of any figure.
const LACKING: f64 = 100.0;
