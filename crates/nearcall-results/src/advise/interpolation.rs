//! From the sizes that were measured to the one that is wanted.
//!
//! Between two measured sizes figures lie on a straight line of logarithms; the size counts with
//! the cache line that every message takes. Beyond the measured sizes there is an estimate only up
//! to a factor of [`BEYOND_MAX`]. Each doubling away from a measured size widens the interval.

use crate::run::Cell;

/// A figure of one candidate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) value: f64,
    /// Natural logarithms of the ends of its interval over the figure: below zero, above zero.
    pub(super) spread: Option<[f64; 2]>,
    /// One per launch, in the order of launches.
    pub(super) launches: Vec<f64>,
}

impl Value {
    /// Converts times into rates, or rates into times.
    pub(super) fn inverted(&self, unit: f64) -> Self {
        Self {
            value: unit / self.value,
            spread: self.spread.map(|[below, above]| [-above, -below]),
            launches: self.launches.iter().map(|one| unit / one).collect(),
        }
    }
}

/// A measured size of one candidate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point<'a> {
    /// Bytes that cross, both ways together.
    pub(super) total: u64,
    pub(super) cell: &'a Cell,
}

/// Points by size; of several with one size the first.
pub(super) fn in_order(mut points: Vec<Point<'_>>) -> Vec<Point<'_>> {
    points.sort_by_key(|point| point.total);
    points.dedup_by_key(|point| point.total);
    points
}

/// A figure at one size from those of one or two measured sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeInterpolation<'a> {
    /// The measured size next to the one that is wanted, or that itself.
    near: Point<'a>,
    /// The one on the other side, or the next one on the same side.
    far: Option<Point<'a>>,
    at: f64,
    beyond: bool,
}

impl<'a> SizeInterpolation<'a> {
    /// `None` if no measured size is near enough. `points` are in order.
    pub(super) fn over(points: &[Point<'a>], total: u64) -> Option<Self> {
        let at = place(total);
        let above = points.iter().position(|point| point.total >= total);
        let (near, far, beyond) = match above {
            Some(exact) if points[exact].total == total => (points[exact], None, false),
            Some(0) => (points[0], points.get(1).copied(), true),
            None => {
                let last = points.len().checked_sub(1)?;
                (points[last], last.checked_sub(1).map(|index| points[index]), true)
            }
            Some(above) => {
                let (low, high) = (points[above - 1], points[above]);
                match at - place(low.total) <= place(high.total) - at {
                    true => (low, Some(high), false),
                    false => (high, Some(low), false),
                }
            }
        };
        let found = Self { near, far, at, beyond };
        let away_max = if beyond { BEYOND_MAX.log2() } else { BETWEEN_DOUBLINGS_MAX };
        (found.distance() <= away_max).then_some(found)
    }

    /// Doublings from the next measured size.
    pub(super) fn distance(&self) -> f64 {
        (self.at - place(self.near.total)).abs() / std::f64::consts::LN_2
    }

    /// The cells that it rests on.
    pub(super) fn cells(&self) -> Vec<&'a Cell> {
        let far = self.far.filter(|_| !self.beyond && self.distance() > 0.0);
        std::iter::once(self.near.cell).chain(far.map(|point| point.cell)).collect()
    }

    /// A figure at the size that is wanted. `rate`: it falls as messages grow, where times rise.
    pub(super) fn value(
        &self,
        figure: &dyn Fn(&Cell) -> Option<Value>,
        rate: bool,
        widened: f64,
    ) -> Option<Value> {
        let near = figure(self.near.cell)?;
        let wider =
            widened + self.distance() * if self.beyond { BEYOND_WIDER } else { BETWEEN_WIDER };
        let widen = |spread: [f64; 2]| [spread[0] - wider, spread[1] + wider];
        let far = match self.far.filter(|_| self.distance() > 0.0) {
            // The next one on the same side only gives the slope.
            Some(far) => figure(far.cell).map(|value| (far, value)),
            None => None,
        };
        let Some((far, other)) = far else {
            return Some(Value { spread: near.spread.map(widen), ..near });
        };
        let run = place(far.total) - place(self.near.total);
        let step = self.at - place(self.near.total);
        let join = |near: f64, far: f64| {
            let slope = (far / near).ln() / run;
            let slope = match (self.beyond, rate) {
                (false, _) => slope,
                (true, false) => slope.clamp(0.0, 1.0),
                (true, true) => slope.clamp(-1.0, 0.0),
            };
            near * (slope * step).exp()
        };
        let share = if self.beyond { 0.0 } else { step / run };
        let spread = near.spread.zip(other.spread).map(|(near, far)| {
            widen([0, 1].map(|end| near[end] * (1.0 - share) + far[end] * share))
        });
        let launches = match near.launches.len() == other.launches.len() {
            true => {
                let both = near.launches.iter().zip(&other.launches);
                both.map(|(&a, &b)| join(a, b)).collect()
            }
            false => Vec::new(),
        };
        Some(Value { value: join(near.value, other.value), spread, launches })
    }
}

/// Where a size stands on the logarithmic axis.
fn place(total: u64) -> f64 {
    (total as f64 + LINE_BYTES).ln()
}

/// What a message takes at least.
const LINE_BYTES: f64 = 64.0;

/// How far beyond a measured size there is an estimate: empty calls just reach one cache line.
pub(super) const BEYOND_MAX: f64 = 2.05;

/// Between two measured sizes 64 KiB apart there are caches.
const BETWEEN_DOUBLINGS_MAX: f64 = 5.0;

/// Per doubling, on the logarithmic scale.
const BETWEEN_WIDER: f64 = 0.04;
const BEYOND_WIDER: f64 = 0.15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Kind, RttNs};

    fn cell(bytes: u64, ns: f64) -> Cell {
        let mut cell = Cell::new(Kind::Latency, "pipe", bytes);
        let p50_ci95 = Some([ns * 0.9, ns * 1.1]);
        cell.rtt_ns = Some(RttNs { p50: Some(ns), p50_ci95, ..RttNs::default() });
        cell.launch_medians_ns = vec![ns, ns];
        cell
    }

    fn figure(cell: &Cell) -> Option<Value> {
        let headline = cell.headline()?;
        let spread = Some([-0.1, 0.1]);
        Some(Value { value: headline.value, spread, launches: headline.launches.to_vec() })
    }

    fn at(cells: &[Cell], total: u64) -> Option<Value> {
        let points = cells.iter().map(|cell| Point { total: cell.message_bytes, cell });
        let points = in_order(points.collect());
        SizeInterpolation::over(&points, total)?.value(&figure, false, 0.0)
    }

    #[test]
    fn a_measured_size_is_taken_as_it_is() {
        let cells = [cell(8, 1_000.0), cell(1_024, 2_000.0)];
        let value = at(&cells, 1_024).unwrap();
        assert_eq!((value.value, value.spread), (2_000.0, Some([-0.1, 0.1])));
    }

    #[test]
    fn between_sizes_figures_lie_between_and_are_less_certain() {
        let cells = [cell(1_024, 1_000.0), cell(65_536, 10_000.0)];
        let mut last = 1_000.0;
        for total in [2_048, 8_192, 32_768] {
            let value = at(&cells, total).unwrap();
            assert!(value.value > last && value.value < 10_000.0, "{total}: {}", value.value);
            assert!(value.spread.unwrap()[1] > 0.1 && value.launches.len() == 2);
            last = value.value;
        }
    }

    #[test]
    fn beyond_the_measured_sizes_nothing_is_said_but_nearby() {
        let cells = [cell(1_024, 1_000.0), cell(65_536, 10_000.0)];
        assert!(at(&cells, 131_072).unwrap().value > 10_000.0);
        assert_eq!(at(&cells, 200_000), None);
        assert_eq!(at(&cells, 64), None);
        // Small sizes all take one line.
        assert_eq!(at(&[cell(8, 1_000.0)], 64).unwrap().value, 1_000.0);
        assert_eq!(at(&[], 64), None);
    }
}
