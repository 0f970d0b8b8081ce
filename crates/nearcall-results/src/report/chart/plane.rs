//! The area of a chart: its grid, its ticks, and where a pair of numbers lies.

use maud::{Markup, html};

use super::axis::{Axis, Tick};
use super::{WIDTH, num, text};

/// An axis from left to right, in most charts one from bottom to top, and the room between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane<'a> {
    /// From left to right.
    pub x: &'a Axis,
    /// From bottom to top; `None` where rows stand below each other.
    pub y: Option<&'a Axis>,
    /// Where the room begins and ends, in units.
    pub left: f64,
    /// The upper edge.
    pub top: f64,
    /// The right edge.
    pub right: f64,
    /// The lower edge.
    pub bottom: f64,
}

impl<'a> Plane<'a> {
    /// Leaves room for the texts of the ticks, and for names of `beside` units at the right.
    #[must_use]
    pub fn new([x, y]: [&'a Axis; 2], beside: f64) -> Self {
        let texts = y.ticks(Y_TICKS_MAX).into_iter().map(|tick| text::width(&tick.text));
        let left = texts.fold(20.0, f64::max) + 10.0;
        Self { x, y: Some(y), left, top: 24.0, right: WIDTH - beside, bottom: 24.0 + TALL }
    }

    /// The height of a chart whose lowest part this is.
    #[must_use]
    pub fn height(&self) -> f64 {
        self.bottom + 44.0
    }

    /// Where a number lies from left to right.
    #[must_use]
    pub fn x(&self, value: f64) -> Option<f64> {
        Some(self.across(self.x.place(value)?))
    }

    /// Where a number lies from top to bottom.
    #[must_use]
    pub fn y(&self, value: f64) -> Option<f64> {
        Some(self.up(self.y?.place(value)?))
    }

    /// Where a pair of numbers lies.
    #[must_use]
    pub fn at(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        Some([self.x(x)?, self.y(y)?])
    }

    /// Grid, ticks and titles.
    #[must_use]
    pub fn draw(&self) -> Markup {
        let [left, top, right, bottom] = [self.left, self.top, self.right, self.bottom].map(num);
        let title = text::fit(&self.x.title, WIDTH - 4.0);
        // Beside the axis where there is room, else it would leave the drawing on one side.
        let half = text::width(&title) / 2.0 + 2.0;
        let centre = f64::midpoint(self.left, self.right).min(WIDTH - half).max(half);
        let y_ticks = self.y.map(|y| y.ticks(Y_TICKS_MAX)).unwrap_or_default();
        let across =
            y_ticks.iter().map(|tick| format!("M{left} {}H{right}", num(self.up(tick.at))));
        let down = self.x_ticks().into_iter().map(|(x, _)| format!("M{} {top}V{bottom}", num(x)));
        let grid: String = across.chain(down).collect();
        html! {
            g {
                path class="grid" d=(grid) {}
                @for tick in &y_ticks {
                    text class="muted end" x=(num(self.left - 6.0))
                        y=(num(self.up(tick.at) + 4.0)) { (tick.text) }
                }
                @for (x, text) in self.x_ticks() {
                    text class="muted middle" x=(num(x)) y=(num(self.bottom + 16.0)) { (text) }
                }
                path class="axis" d={ "M" (left) " " (top) "V" (bottom) "H" (right) } {}
                @if let Some(y) = self.y {
                    text x="0" y=(num(self.top - 10.0)) { (text::fit(&y.title, WIDTH - 4.0)) }
                }
                text class="middle" x=(num(centre)) y=(num(self.bottom + 36.0)) { (title) }
            }
        }
    }

    fn across(&self, at: f64) -> f64 {
        self.left + at * (self.right - self.left)
    }

    fn up(&self, at: f64) -> f64 {
        self.bottom - at * (self.bottom - self.top)
    }

    /// Ticks whose texts do not touch; the others keep their line.
    fn x_ticks(&self) -> Vec<(f64, String)> {
        let mut end = f64::NEG_INFINITY;
        let place = |tick: Tick| {
            let (x, half) = (self.across(tick.at), text::width(&tick.text) / 2.0);
            if x - half < end + 4.0 {
                return (x, String::new());
            }
            end = x + half;
            (x, tick.text)
        };
        self.x.ticks(9).into_iter().map(place).collect()
    }
}

/// Units from the upper edge to the lower.
const TALL: f64 = 340.0;
/// More lines than these are no help.
const Y_TICKS_MAX: usize = 8;
