//! One row per thing: dots with intervals on a common axis, sorted by whoever calls.
//!
//! For many names one axis each cannot be read, and lines between names would mean nothing: places
//! on a common scale are compared best. A bound is a row of its own whose place runs through all
//! rows.

use maud::{Markup, html};

use super::axis::{Axis, tame};
use super::mark::{Look, Mark, legend, mark};
use super::{Frame, Width, num, path, svg, text};

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// From left to right.
    pub axis: Axis,
    /// From top to bottom.
    pub rows: Vec<Row>,
    /// A line through all rows, such as a ratio of 1.
    pub rule: Option<f64>,
    /// What looks mean; the flag: hollow.
    pub key: Vec<(Look, bool, String)>,
    /// Said under the axis, such as that there are no bounds.
    pub remark: Option<String>,
}

/// One thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The look of the row; [`Look::Floor`] makes it a bound.
    pub look: Look,
    /// What was found, one or several.
    pub dots: Vec<Dot>,
    /// Whether the place of a bound runs through all rows.
    pub through: bool,
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
    /// What it says of itself.
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
    pub fn draw(&self, frame: &Frame<'_>, width: Width) -> Markup {
        let shown = &self.rows[..self.rows.len().min(ROWS_MAX)];
        let names = shown.iter().map(|row| text::width(&row.name)).fold(0.0, f64::max);
        let texts = shown.iter().map(|row| text::width(&row.text)).fold(0.0, f64::max);
        let left = (names + 12.0).clamp(40.0, width.units() * 0.42);
        let right = width.units() - (texts + 14.0).clamp(14.0, width.units() * 0.3);
        let (key, key_height) = legend(&self.key, [0.0, 0.0], width.units());
        let top = key_height + 6.0;
        let bottom = top + shown.len() as f64 * ROW + 4.0;
        let place = Room { left, right, top, bottom };
        let left_out = self.rows.len() - shown.len();
        let mut remark = self.remark.clone().unwrap_or_default();
        if left_out > 0 {
            remark.push_str(&format!(" {left_out} more are in the table only."));
        }
        let remark = text::wrap(&remark, width.units() - 8.0);
        let height = bottom + 40.0 + remark.len() as f64 * 15.0;
        let body = html! {
            (key)
            (self.grid(&place, width))
            @for (index, row) in shown.iter().enumerate() { (self.row(index, row, &place, width)) }
            @for (index, line) in remark.iter().enumerate() {
                text class="muted" x="0" y=(num(bottom + 52.0 + index as f64 * 15.0)) { (line) }
            }
        };
        svg(frame, width, height, &body)
    }

    fn grid(&self, room: &Room, width: Width) -> Markup {
        let ticks = self.axis.ticks(if width == Width::Wide { 8 } else { 4 });
        let title = text::fit(&self.axis.title, width.units() - 4.0);
        let rule = self.rule.and_then(|value| self.axis.place(value)).map(|at| room.x(at));
        // Beside the axis where there is room, else it would leave the drawing on one side.
        let centre = f64::midpoint(room.left, room.right);
        let half = text::width(&title) / 2.0;
        let centre = centre.min(width.units() - half).max(half);
        html! {
            g {
                @for tick in &ticks {
                    @let x = num(room.x(tick.at));
                    path class="grid" d={ "M" (x) " " (num(room.top)) "V" (num(room.bottom)) } {}
                    text class="muted middle" x=(x) y=(num(room.bottom + 15.0)) { (tick.text) }
                }
                path class="axis" d=(across(room.left, room.right, room.bottom)) {}
                @if let Some(x) = rule {
                    path class="rule" d=(path(&[[x, room.top], [x, room.bottom]])) {}
                }
                text class="middle" x=(num(centre)) y=(num(room.bottom + 33.0)) { (title) }
            }
        }
    }

    fn row(&self, index: usize, row: &Row, room: &Room, width: Width) -> Markup {
        let y = room.top + (index as f64 + 0.5) * ROW + 2.0;
        let is_floor = row.look == Look::Floor;
        let name = text::fit(&text::clean(&row.name), room.left - 10.0);
        let tone = if is_floor { "muted end" } else { "end" };
        let through = row.dots.first().filter(|_| is_floor && row.through);
        let through = through.and_then(|dot| self.axis.place(dot.value)).map(|at| num(room.x(at)));
        html! {
            g class=(row.look.class()) data-series=(text::clean(&row.name)) {
                text class=(tone) x=(num(room.left - 8.0)) y=(num(y + 4.0)) { (name) }
                @if let Some(x) = through {
                    path class="line" d={ "M" (x) " " (num(room.top)) "V" (num(room.bottom)) } {}
                } @else {
                    path class="grid" d=(across(room.left, room.right, y)) {}
                }
                @for (index, dot) in row.dots.iter().enumerate() {
                    @let count = row.dots.len() as f64;
                    @let aside = (index as f64 - (count - 1.0) / 2.0) * APART.min(ROW / count);
                    (self.dot(row, dot, y + aside, room, width))
                }
                text class=(tone) x=(num(width.units() - 4.0)) y=(num(y + 4.0)) { (row.text) }
            }
        }
    }

    fn dot(&self, row: &Row, dot: &Dot, y: f64, room: &Room, width: Width) -> Markup {
        let Some(x) = self.axis.place(dot.value).map(|at| room.x(at)) else { return html! {} };
        let inside = |end: f64| self.axis.within(end).and_then(|end| self.axis.place(end));
        let ends = dot.interval.map(|ends| ends.map(inside));
        html! {
            g class=(dot.look.class()) {
                @if let Some([Some(low), Some(high)]) = ends {
                    path class="bar" d=(across(room.x(low), room.x(high), y)) {}
                }
                (mark(&Mark {
                    at: [x, y],
                    look: dot.look,
                    hollow: dot.hollow,
                    series: &row.name,
                    values: [Some(dot.value), None],
                    label: &dot.label,
                }, width))
            }
        }
    }
}

/// A level line.
fn across(left: f64, right: f64, y: f64) -> String {
    path(&[[left, y], [right, y]])
}

/// Where rows lie, in units.
struct Room {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Room {
    fn x(&self, at: f64) -> f64 {
        self.left + at * (self.right - self.left)
    }
}

/// More cannot be taken in; two and a half times what there is.
const ROWS_MAX: usize = 80;
/// Between the dots of one row, so that their intervals can be told apart.
const APART: f64 = 4.0;
/// From one row to the next.
const ROW: f64 = 18.0;
