//! One row per thing: dots with intervals on a common axis, sorted by whoever calls.
//!
//! For many names one axis each cannot be read, and lines between names would mean nothing: places
//! on a common scale are compared best. A bound is a row of its own whose place runs through all
//! rows.

use maud::{Markup, html};

use super::axis::{Axis, Tick, tame};
use super::mark::{Look, legend, mark};
use super::{Frame, WIDTH, num, path, svg, text};

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

impl Row {
    /// Whether it is a bound whose place runs through all rows.
    fn runs_through(&self) -> bool {
        self.look == Look::Floor && self.through
    }
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
    pub fn draw(&self, frame: &Frame<'_>) -> Markup {
        let shown = &self.rows[..self.rows.len().min(ROWS_MAX)];
        let names = shown.iter().map(|row| text::width(&row.name)).fold(0.0, f64::max);
        let texts = shown.iter().map(|row| text::width(&row.text)).fold(0.0, f64::max);
        let left = (names + 12.0).clamp(40.0, WIDTH * 0.42);
        let right = WIDTH - (texts + 14.0).clamp(14.0, WIDTH * 0.3);
        let (key, key_height) = legend(&self.key, [0.0, 0.0], WIDTH);
        let top = key_height + 6.0;
        let bottom = top + shown.len() as f64 * ROW + 4.0;
        let place = Room { left, right, top, bottom };
        let left_out = self.rows.len() - shown.len();
        let mut remark = self.remark.clone().unwrap_or_default();
        if left_out > 0 {
            remark.push_str(&format!(" {left_out} more are in the table only."));
        }
        let remark = text::wrap(&remark, WIDTH - 8.0);
        let height = bottom + 40.0 + remark.len() as f64 * 15.0;
        // One path for the lines of all rows, but of bounds that run through.
        let plain = shown.iter().enumerate().filter(|(_, row)| !row.runs_through());
        let lines: String = plain.map(|(index, _)| across(left, right, place.y(index))).collect();
        let body = html! {
            (key)
            (self.grid(&place))
            path class="grid" d=(lines) {}
            @for (index, row) in shown.iter().enumerate() { (self.row(index, row, &place)) }
            @for (index, line) in remark.iter().enumerate() {
                text class="muted" x="0" y=(num(bottom + 52.0 + index as f64 * 15.0)) { (line) }
            }
        };
        svg(frame, height, &body)
    }

    fn grid(&self, room: &Room) -> Markup {
        let ticks = self.axis.ticks(8);
        let title = text::fit(&self.axis.title, WIDTH - 4.0);
        let rule = self.rule.and_then(|value| self.axis.place(value)).map(|at| room.x(at));
        // Beside the axis where there is room, else it would leave the drawing on one side.
        let centre = f64::midpoint(room.left, room.right);
        let half = text::width(&title) / 2.0;
        let down =
            |tick: &Tick| path(&[[room.x(tick.at), room.top], [room.x(tick.at), room.bottom]]);
        let grid: String = ticks.iter().map(down).collect();
        let centre = centre.min(WIDTH - half).max(half);
        html! {
            g {
                path class="grid" d=(grid) {}
                @for tick in &ticks {
                    @let x = num(room.x(tick.at));
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

    fn row(&self, index: usize, row: &Row, room: &Room) -> Markup {
        let y = room.y(index);
        let is_floor = row.look == Look::Floor;
        let name = text::fit(&text::clean(&row.name), room.left - 10.0);
        let tone = if is_floor { "muted end" } else { "end" };
        let through = row.dots.first().filter(|_| row.runs_through());
        let through = through.and_then(|dot| self.axis.place(dot.value)).map(|at| num(room.x(at)));
        html! {
            g class=(row.look.class()) data-series=(text::clean(&row.name)) {
                text class=(tone) x=(num(room.left - 8.0)) y=(num(y + 4.0)) { (name) }
                @if let Some(x) = through {
                    path class="line" d={ "M" (x) " " (num(room.top)) "V" (num(room.bottom)) } {}
                }
                @for (index, dot) in row.dots.iter().enumerate() {
                    @let count = row.dots.len() as f64;
                    @let aside = (index as f64 - (count - 1.0) / 2.0) * APART.min(ROW / count);
                    (self.dot(dot, y + aside, room))
                }
                text class=(tone) x=(num(WIDTH - 4.0)) y=(num(y + 4.0)) { (row.text) }
            }
        }
    }

    fn dot(&self, dot: &Dot, y: f64, room: &Room) -> Markup {
        let Some(x) = self.axis.place(dot.value).map(|at| room.x(at)) else { return html! {} };
        let inside = |end: f64| self.axis.within(end).and_then(|end| self.axis.place(end));
        let ends = dot.interval.map(|ends| ends.map(inside));
        html! {
            g class=(dot.look.class()) {
                @if let Some([Some(low), Some(high)]) = ends {
                    path class="bar" d=(across(room.x(low), room.x(high), y)) {}
                }
                (mark([x, y], dot.look, dot.hollow, &dot.label))
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

    /// The middle of a row.
    fn y(&self, index: usize) -> f64 {
        self.top + (index as f64 + 0.5) * ROW + 2.0
    }
}

/// More cannot be taken in; two and a half times what there is.
const ROWS_MAX: usize = 80;
/// Between the dots of one row, so that their intervals can be told apart.
const APART: f64 = 4.0;
/// From one row to the next.
const ROW: f64 = 18.0;
