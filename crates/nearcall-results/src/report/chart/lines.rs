//! Lines over an axis that is continuous, with bands and names at their ends.
//!
//! **Invariants:** a line connects measured points only, in the order of the axis; where a point is
//! missing it is broken, and nothing leads to the 0 that has no place on a logarithm. A few series
//! are singled out by colour, dash and mark and have their name beside them; the others are grey,
//! and their marks have their name as a label. Where names stand is in `lines/names.rs`.

mod names;

use maud::{Markup, html};

use super::axis::Axis;
use super::mark::{Look, mark};
use super::plane::Plane;
use super::{Frame, WIDTH, num, path, svg, text};
use crate::stats::agree;

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// From left to right; continuous.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// What was found.
    pub series: Vec<Series>,
    /// Lines from edge to edge: bounds that do not depend on x.
    pub bounds: Vec<Bound>,
}

/// A series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Legend label.
    pub name: String,
    /// Its colour, dash and mark.
    pub look: Look,
    /// In the order of x.
    pub points: Vec<Point>,
}

/// One value of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where on the axis.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// Where it lies with 95 % confidence.
    pub interval: Option<[f64; 2]>,
    /// Only the outline of its mark.
    pub hollow: bool,
    /// The label of its mark.
    pub label: String,
}

/// A bound that is the same everywhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// What it is.
    pub name: String,
    /// Its value.
    pub value: f64,
}

impl Lines {
    /// Draws it.
    #[must_use]
    pub fn draw(&self, frame: &Frame<'_>) -> Markup {
        let beside = (self.names_width() + 20.0).clamp(12.0, WIDTH * 0.37);
        let plane = Plane::new([&self.x, &self.y], beside);
        let ends = self.end_names(&plane);
        let interval = if self.bands_overlap() { Interval::Whiskers } else { Interval::Band };
        let body = html! {
            (plane.draw())
            (self.bounds(&plane))
            // What is singled out comes last and lies on top.
            @for series in self.series.iter().filter(|s| !s.look.is_singled_out()).take(GREY_MAX) {
                (line(series, &plane, interval))
            }
            @for series in self.series.iter().filter(|s| s.look.is_singled_out()) {
                (line(series, &plane, interval))
            }
            @for end in &ends { (end.draw()) }
        };
        svg(frame, plane.height(), &body)
    }

    /// Whether bands of two series would cover each other somewhere.
    fn bands_overlap(&self) -> bool {
        let banded: Vec<&Series> = self.series.iter().filter(|series| is_banded(series)).collect();
        let meet = |a: &Series, b: &Series| {
            a.points.iter().any(|one| {
                let other = b.points.iter().find(|other| other.x == one.x);
                let ends = other.and_then(|other| one.interval.zip(other.interval));
                ends.is_some_and(|(a, b)| agree(a, b))
            })
        };
        (0..banded.len()).any(|at| banded[..at].iter().any(|before| meet(before, banded[at])))
    }

    /// The bounds as lines from edge to edge.
    fn bounds(&self, plane: &Plane<'_>) -> Markup {
        html! {
            @for bound in &self.bounds {
                @if let Some(y) = plane.y(bound.value) {
                    g class="floor" data-series=(text::clean(&bound.name)) {
                        path class="line"
                            d={ "M" (num(plane.left)) " " (num(y)) "H" (num(plane.right)) } {}
                    }
                }
            }
        }
    }
}

/// How the intervals of a chart are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interval {
    /// As an area along the line.
    Band,
    /// As a bar at each point.
    Whiskers,
}

/// Whether the intervals of a series are drawn.
fn is_banded(series: &Series) -> bool {
    series.look.is_singled_out()
}

fn is_named(series: &Series) -> bool {
    series.look != Look::Other
}

fn line(series: &Series, plane: &Plane<'_>, interval: Interval) -> Markup {
    let stretches = stretches(series, plane);
    html! {
        g class=(series.look.class()) data-series=(text::clean(&series.name)) {
            @if is_banded(series) {
                @for stretch in &stretches { (band(stretch, plane, interval)) }
            }
            @for stretch in stretches.iter().filter(|stretch| stretch.len() > 1) {
                @let places: Vec<[f64; 2]> = stretch.iter().map(|(_, at)| *at).collect();
                path class="line" d=(path(&places)) {}
            }
            @for (point, at) in stretches.iter().flatten() {
                (mark(*at, series.look, point.hollow, &point.label))
            }
        }
    }
}

/// Neighbours that a line may connect.
fn stretches<'s>(series: &'s Series, plane: &Plane<'_>) -> Vec<Vec<(&'s Point, [f64; 2])>> {
    let mut found: Vec<Vec<(&Point, [f64; 2])>> = vec![Vec::new()];
    for point in &series.points {
        let after_zero = plane.x.zero
            && found.last().and_then(|stretch| stretch.last()).is_some_and(|(p, _)| p.x == 0.0);
        if after_zero {
            found.push(Vec::new());
        }
        match (plane.at(point.x, point.y), found.last_mut()) {
            (Some(at), Some(stretch)) => stretch.push((point, at)),
            _ => found.push(Vec::new()),
        }
    }
    found.retain(|stretch| !stretch.is_empty());
    found
}

/// From the lower ends of the intervals to the upper ones. What lies outside of the axis ends at
/// its edge.
fn band(stretch: &[(&Point, [f64; 2])], plane: &Plane<'_>, interval: Interval) -> Markup {
    let ends = stretch.iter().map(|(point, [x, y])| {
        let [low, high] = point.interval.unwrap_or([point.y; 2]);
        let within = |value: f64| plane.y?.within(value).and_then(|v| plane.y(v));
        let edge = |value: f64| within(value).unwrap_or(*y);
        ([*x, edge(low)], [*x, edge(high)])
    });
    let (mut low, high): (Vec<[f64; 2]>, Vec<[f64; 2]>) = ends.unzip();
    // A single point has no width: a bar.
    if interval == Interval::Whiskers || low.len() < 2 {
        let bars: String = low.iter().zip(&high).map(|(low, high)| path(&[*low, *high])).collect();
        return html! { path class="bar" d=(bars) {} };
    }
    low.extend(high.iter().rev());
    html! { path class="band" d={ (path(&low)) "Z" } {} }
}

/// More grey lines are only a grey area; the table has them.
const GREY_MAX: usize = 80;
