//! Names of lines and bounds at their right ends, so that none covers another.

use maud::{Markup, html};

use super::{Lines, Series, is_named};
use crate::report::chart::mark::Look;
use crate::report::chart::plane::Plane;
use crate::report::chart::{WIDTH, num, path, text};

impl Lines {
    /// Names at the ends of the lines that have one and of the bounds, moved apart. Lines that end
    /// early have theirs there.
    pub(super) fn end_names(&self, plane: &Plane<'_>) -> Vec<EndName> {
        let end = |series: &Series| {
            let last =
                series.points.iter().filter_map(|point| plane.at(point.x, point.y)).next_back()?;
            Some(EndName { name: text::clean(&series.name), look: series.look, last, from: last })
        };
        let bounds = self.bounds.iter().filter_map(|bound| {
            let last = [plane.right, plane.y(bound.value)?];
            let name = text::clean(&bound.name);
            Some(EndName { name, look: Look::Floor, last, from: last })
        });
        let mut ends: Vec<_> = self.series.iter().filter(|s| is_named(s)).filter_map(end).collect();
        ends.extend(bounds);
        ends.sort_by(|a, b| a.last[0].total_cmp(&b.last[0]));
        for group in ends.chunk_by_mut(|a, b| b.last[0] - a.last[0] < NAMES_APART) {
            let wanted: Vec<f64> = group.iter().map(|end| end.last[1] + 4.0).collect();
            let places = spread(&wanted, 14.0, [plane.top + 4.0, plane.bottom + 2.0]);
            let left = group.iter().map(|end| end.last[0] + 14.0).fold(0.0, f64::max);
            for (end, base) in group.iter_mut().zip(places) {
                end.from = [left, base];
            }
        }
        ends
    }

    /// The longest name that stands at the right.
    pub(super) fn names_width(&self) -> f64 {
        let series = self.series.iter().filter(|series| is_named(series)).map(|one| &one.name);
        let names = series.chain(self.bounds.iter().map(|bound| &bound.name));
        names.map(|name| text::width(name)).fold(0.0, f64::max)
    }
}

/// A name, with the end of its line and its own place.
pub(super) struct EndName {
    name: String,
    look: Look,
    last: [f64; 2],
    from: [f64; 2],
}

impl EndName {
    /// The name, with a thin line to the end of its line.
    pub(super) fn draw(&self) -> Markup {
        let tone = if self.look == Look::Floor { "muted halo" } else { "halo" };
        let ([x, y], [left, base]) = (self.last, self.from);
        html! {
            g class=(self.look.class()) data-series=(self.name) {
                path class="lead" d=(path(&[[x + 5.0, y], [left - 2.0, base - 4.0]])) {}
                text class=(tone) x=(num(left)) y=(num(base)) {
                    (text::fit(&self.name, WIDTH - left))
                }
            }
        }
    }
}

/// Moves places on a line apart until each is `gap` from its neighbours, all of them as little as
/// possible, within `[low, high]` if there is room. The order of equal places is kept.
fn spread(wanted: &[f64], gap: f64, [low, high]: [f64; 2]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    // Without the gaps it is the nearest ascending sequence: neighbours out of order are pooled.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (rank, &index) in order.iter().enumerate() {
        let mut pool = (wanted[index] - rank as f64 * gap, 1);
        while let Some(&(mean, count)) = pools.last() {
            if mean <= pool.0 {
                break;
            }
            let total = count + pool.1;
            pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / total as f64, total);
            pools.pop();
        }
        pools.push(pool);
    }
    let last = (high - wanted.len().saturating_sub(1) as f64 * gap).max(low);
    let flat = pools.iter().flat_map(|&(mean, count)| std::iter::repeat_n(mean, count));
    let mut places = vec![0.0; wanted.len()];
    for (rank, (index, base)) in order.into_iter().zip(flat).enumerate() {
        places[index] = base.clamp(low, last) + rank as f64 * gap;
    }
    places
}

/// Lines whose ends are closer than this have their names in one column.
const NAMES_APART: f64 = 110.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_move_apart_and_no_further() {
        assert_eq!(spread(&[10.0, 50.0], 10.0, [0.0, 100.0]), [10.0, 50.0]);
        assert_eq!(spread(&[20.0, 20.0], 10.0, [0.0, 100.0]), [15.0, 25.0]);
        assert_eq!(spread(&[99.0, 98.0], 10.0, [0.0, 100.0]), [100.0, 90.0]);
        assert_eq!(spread(&[1.0], 10.0, [5.0, 2.0]), [5.0]);
        assert_eq!(spread(&[], 10.0, [0.0, 1.0]), [0.0; 0]);
    }
}
