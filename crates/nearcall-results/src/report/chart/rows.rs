//! One row per thing: dots with intervals on a common axis, sorted by the caller.
//!
//! For many names one axis each cannot be read, and lines between names would mean nothing: places
//! on a common scale are compared best.

use maud::{Markup, html};

use super::axis::{Axis, tame};
use super::mark::{Look, legend, mark};
use super::plane::Plane;
use super::{Frame, WIDTH, num, path, svg, text};

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// From left to right.
    pub axis: Axis,
    /// From top to bottom.
    pub rows: Vec<Row>,
    /// What looks mean; the flag: hollow.
    pub key: Vec<(Look, bool, String)>,
}

/// One thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The look of the row.
    pub look: Look,
    /// What was found, one or several.
    pub dots: Vec<Dot>,
    /// Stands at the right edge, such as the value.
    pub text: String,
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    /// Its value.
    pub value: f64,
    /// Where it lies with 95 % confidence.
    pub interval: Option<[f64; 2]>,
    /// How it looks.
    pub look: Look,
    /// Only its outline.
    pub hollow: bool,
    /// The label of its mark.
    pub label: String,
}

/// All numbers of these rows that an axis should hold: values, and intervals as far as they are
/// not wild.
#[must_use]
pub fn extent(rows: &[Row]) -> Vec<f64> {
    let dots = || rows.iter().flat_map(|row| &row.dots);
    let values: Vec<f64> = dots().map(|dot| dot.value).collect();
    let ends = dots().filter_map(|dot| dot.interval).flat_map(|ends| tame(ends, &values));
    values.iter().copied().chain(ends.collect::<Vec<_>>()).collect()
}

impl Rows {
    /// Draws it.
    #[must_use]
    pub fn draw(&self, frame: &Frame<'_>) -> Markup {
        let shown = &self.rows[..self.rows.len().min(ROWS_MAX)];
        let widest =
            |of: fn(&Row) -> &str| shown.iter().map(|row| text::width(of(row))).fold(0.0, f64::max);
        let (key, key_height) = legend(&self.key, [0.0, 0.0], WIDTH);
        let top = key_height + 6.0;
        let plane = Plane {
            x: &self.axis,
            y: None,
            left: (widest(|row| &row.name) + 12.0).clamp(40.0, WIDTH * 0.42),
            top,
            right: WIDTH - (widest(|row| &row.text) + 14.0).clamp(14.0, WIDTH * 0.3),
            bottom: top + shown.len() as f64 * ROW + 4.0,
        };
        let left_out = match self.rows.len() - shown.len() {
            0 => String::new(),
            more => format!("{more} more are in the table only."),
        };
        // One path for the lines of all rows.
        let lines: String = (0..shown.len())
            .map(|index| level(plane.left, plane.right, y_of(index, &plane)))
            .collect();
        let body = html! {
            (key)
            (plane.draw())
            path class="grid" d=(lines) {}
            @for (index, row) in shown.iter().enumerate() { (draw_row(index, row, &plane)) }
            text class="muted" x="0" y=(num(plane.height() + 12.0)) { (left_out) }
        };
        svg(frame, plane.height() + 15.0, &body)
    }
}

fn draw_row(index: usize, row: &Row, plane: &Plane<'_>) -> Markup {
    let y = y_of(index, plane);
    let name = text::fit(&text::clean(&row.name), plane.left - 10.0);
    html! {
        g class=(row.look.class()) data-series=(text::clean(&row.name)) {
            text class="end" x=(num(plane.left - 8.0)) y=(num(y + 4.0)) { (name) }
            @for (index, dot) in row.dots.iter().enumerate() {
                @let count = row.dots.len() as f64;
                @let aside = (index as f64 - (count - 1.0) / 2.0) * APART.min(ROW / count);
                (draw_dot(dot, y + aside, plane))
            }
            text class="end" x=(num(WIDTH - 4.0)) y=(num(y + 4.0)) { (row.text) }
        }
    }
}

fn draw_dot(dot: &Dot, y: f64, plane: &Plane<'_>) -> Markup {
    let Some(x) = plane.x(dot.value) else { return html! {} };
    let inside = |end: f64| plane.x.within(end).and_then(|end| plane.x(end));
    let ends = dot.interval.map(|ends| ends.map(inside));
    html! {
        g class=(dot.look.class()) {
            @if let Some([Some(low), Some(high)]) = ends {
                path class="bar" d=(level(low, high, y)) {}
            }
            (mark([x, y], dot.look, dot.hollow, &dot.label))
        }
    }
}

/// A level line.
fn level(left: f64, right: f64, y: f64) -> String {
    path(&[[left, y], [right, y]])
}

/// The middle of a row.
fn y_of(index: usize, plane: &Plane<'_>) -> f64 {
    plane.top + (index as f64 + 0.5) * ROW + 2.0
}

/// More cannot be taken in; two and a half times what there is.
const ROWS_MAX: usize = 80;
/// Between the dots of one row, so that their intervals can be distinguished.
const APART: f64 = 4.0;
/// From one row to the next.
const ROW: f64 = 18.0;
