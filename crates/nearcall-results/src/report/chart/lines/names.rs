//! Names of lines and bounds at their right ends.

use maud::{Markup, html};

use super::{Lines, Series, is_named};
use crate::report::chart::label::spread;
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

/// Lines whose ends are closer than this have their names in one column.
const NAMES_APART: f64 = 110.0;
