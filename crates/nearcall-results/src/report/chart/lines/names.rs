//! Names of lines at their ends, and of bounds where the fewest lines run.

use maud::{Markup, html};

use super::{Lines, Series, is_named, stretches};
use crate::report::chart::label::spread;
use crate::report::chart::mark::Look;
use crate::report::chart::plane::Plane;
use crate::report::chart::{Width, num, path, text};

impl Lines {
    /// Names of bounds, above or below where the fewest lines and names are.
    pub(super) fn bound_names(&self, plane: &Plane<'_>, ends: &[EndName]) -> Markup {
        let mut taken = self.samples(plane);
        for end in ends {
            let wide = text::width(&end.name);
            let [left, base] = end.from;
            // Closer together than samples of a line: covering a name is worse.
            taken.extend((0..=60).map(|i| [left + wide * f64::from(i) / 60.0, base - 4.0]));
        }
        let mut placed = Vec::new();
        for bound in &self.bounds {
            let Some(y) = plane.y(bound.value) else { continue };
            let full = text::clean(&bound.name);
            let short = full.split_once(": ").map_or(full.as_str(), |(name, _)| name).to_owned();
            let room = plane.right - plane.left - 10.0;
            let names = if text::width(&full) <= room {
                [full, short.clone()]
            } else {
                [short.clone(), short]
            };
            let place = |name: String| {
                let name = text::fit(&name, room);
                let (covered, place) = free_place(&name, y, plane, &taken);
                (covered, name, place)
            };
            // The value only where it does not cover more.
            let Some((_, name, [left, base])) =
                names.map(place).into_iter().min_by_key(|(covered, ..)| *covered)
            else {
                continue;
            };
            let wide = text::width(&name);
            taken.extend((0..=60).map(|i| [left + wide * f64::from(i) / 60.0, base - 4.0]));
            placed.push((name, left, base, y));
        }
        html! {
            @for (name, left, base, y) in &placed {
                @if is_far(base - y) {
                    @let (x, near) = (left + 8.0, if base > y { base - 11.0 } else { base + 4.0 });
                    path class="lead" d=(path(&[[x, near], [x, *y]])) {}
                }
                text class="muted halo" x=(num(*left)) y=(num(*base)) { (name) }
            }
        }
    }

    /// Places along all lines, close enough to see what a name would cover.
    fn samples(&self, plane: &Plane<'_>) -> Vec<[f64; 2]> {
        let mut samples = Vec::new();
        for stretch in self.series.iter().flat_map(|series| stretches(series, plane)) {
            samples.extend(stretch.iter().map(|(_, at)| *at));
            for pair in stretch.windows(2) {
                let (from, to) = (pair[0].1, pair[1].1);
                let between = |i: i32, axis: usize| {
                    from[axis] + (to[axis] - from[axis]) * f64::from(i) / 24.0
                };
                samples.extend((1..24).map(|i| [between(i, 0), between(i, 1)]));
            }
        }
        samples
    }

    /// Names at the ends of the lines that have one, moved apart. Lines that end early have theirs
    /// there.
    pub(super) fn end_names(&self, plane: &Plane<'_>) -> Vec<EndName> {
        let end = |series: &Series| {
            let last =
                series.points.iter().filter_map(|point| plane.at(point.x, point.y)).next_back()?;
            Some(EndName { name: text::clean(&series.name), look: series.look, last, from: last })
        };
        let mut ends: Vec<_> = self.series.iter().filter(|s| is_named(s)).filter_map(end).collect();
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
    pub(super) fn draw(&self, width: Width) -> Markup {
        let tone = if self.look == Look::Floor { "muted halo" } else { "halo" };
        let ([x, y], [left, base]) = (self.last, self.from);
        html! {
            g class=(self.look.class()) data-series=(self.name) {
                path class="lead" d=(path(&[[x + 5.0, y], [left - 2.0, base - 4.0]])) {}
                text class=(tone) x=(num(left)) y=(num(base)) {
                    (text::fit(&self.name, width.units() - left))
                }
            }
        }
    }
}

/// Whether a name needs a line to its bound.
fn is_far(offset: f64) -> bool {
    !(-5.0..=14.0).contains(&offset)
}

/// Above or below a bound at `y`, where the name covers the fewest of `taken`, and how many these
/// are.
fn free_place(name: &str, y: f64, plane: &Plane<'_>, taken: &[[f64; 2]]) -> (usize, [f64; 2]) {
    let wide = text::width(name);
    let [first, last] = [plane.left + 5.0, (plane.right - wide - 5.0).max(plane.left)];
    let step = (last - first).max(0.0) / f64::from(PLACES_TRIED);
    let places = (0..=PLACES_TRIED).flat_map(|index| {
        let left = first + f64::from(index) * step;
        FROM_BOUND.map(|offset| [left, y + offset])
    });
    let covered = |[left, base]: &[f64; 2]| {
        let inside = |[x, y]: &&[f64; 2]| {
            (*left - 4.0..=left + wide + 4.0).contains(x) && (base - 12.0..=base + 4.0).contains(y)
        };
        let outside = base - 10.0 < plane.top || *base > plane.bottom - 2.0;
        let far = is_far(base - y);
        taken.iter().filter(inside).count()
            + if outside { OUTSIDE } else { 0 }
            + if far { FAR } else { 0 }
    };
    let counted = places.map(|place| (covered(&place), place));
    counted.min_by_key(|(count, _)| *count).unwrap_or((OUTSIDE, [first, y - 4.0]))
}

/// From a bound to the baseline of its name: right above, right below, and further away.
const FROM_BOUND: [f64; 6] = [-4.0, 13.0, 28.0, 42.0, 56.0, -18.0];
/// So much may a name cover before it is moved further away.
const FAR: usize = 20;
/// Places along a bound at which its name is tried.
const PLACES_TRIED: i32 = 12;
/// Worse than whatever a name inside can cover.
const OUTSIDE: usize = 1_000_000;
/// Lines whose ends are closer than this have their names in one column.
const NAMES_APART: f64 = 110.0;
