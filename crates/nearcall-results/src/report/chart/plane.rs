//! The area between two axes: its grid, its ticks, and where a pair of numbers lies.

use maud::{Markup, html};

use super::axis::Axis;
use super::{WIDTH, num, text};

/// Two axes and the room between them, in units.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane<'a> {
    /// From left to right.
    pub x: &'a Axis,
    /// From bottom to top.
    pub y: &'a Axis,
    /// Where the room begins and ends.
    pub left: f64,
    /// The upper edge.
    pub top: f64,
    /// The right edge.
    pub right: f64,
    /// The lower edge.
    pub bottom: f64,
}

impl<'a> Plane<'a> {
    /// Leaves room for the texts of the ticks, for `above` units of a key and for names of `beside`
    /// units at the right.
    #[must_use]
    pub fn new(axes: [&'a Axis; 2], above: f64, beside: f64) -> Self {
        let [x, y] = axes;
        let texts = y.ticks(Y_TICKS_MAX).into_iter().map(|tick| text::width(&tick.text));
        let left = texts.fold(20.0, f64::max) + 10.0;
        let top = above + 24.0;
        Self { x, y, left, top, right: WIDTH - beside, bottom: top + TALL }
    }

    /// The height of a chart whose lowest part this is.
    #[must_use]
    pub fn height(&self) -> f64 {
        self.bottom + 44.0
    }

    /// Where a number lies from left to right.
    #[must_use]
    pub fn x(&self, value: f64) -> Option<f64> {
        Some(self.left + self.x.place(value)? * (self.right - self.left))
    }

    /// Where a number lies from top to bottom.
    #[must_use]
    pub fn y(&self, value: f64) -> Option<f64> {
        Some(self.bottom - self.y.place(value)? * (self.bottom - self.top))
    }

    /// Where a pair of numbers lies.
    #[must_use]
    pub fn at(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        Some([self.x(x)?, self.y(y)?])
    }

    /// Grid, ticks and titles.
    #[must_use]
    pub fn draw(&self) -> Markup {
        let (left, top, right, bottom) =
            (num(self.left), num(self.top), num(self.right), num(self.bottom));
        let title = text::fit(&self.x.title, WIDTH - 4.0);
        let half = text::width(&title) / 2.0;
        let centre = f64::midpoint(self.left, self.right);
        let centre = centre.min(WIDTH - half - 2.0).max(half + 2.0);
        let across = self.y.ticks(Y_TICKS_MAX).into_iter().map(|tick| {
            let y = self.bottom - tick.at * (self.bottom - self.top);
            format!("M{left} {}H{right}", num(y))
        });
        let down = self.x_ticks().into_iter().map(|(x, _)| format!("M{} {top}V{bottom}", num(x)));
        let grid: String = across.chain(down).collect();
        html! {
            g {
                path class="grid" d=(grid) {}
                @for tick in self.y.ticks(Y_TICKS_MAX) {
                    @let y = self.bottom - tick.at * (self.bottom - self.top);
                    text class="muted end" x=(num(self.left - 6.0)) y=(num(y + 4.0)) { (tick.text) }
                }
                @for (x, text) in self.x_ticks() {
                    text class="muted middle" x=(num(x)) y=(num(self.bottom + 16.0)) { (text) }
                }
                path class="axis" d={ "M" (left) " " (top) "V" (bottom) "H" (right) } {}
                text x="0" y=(num(self.top - 10.0)) {
                    (text::fit(&self.y.title, WIDTH - 4.0))
                }
                text class="middle" x=(num(centre)) y=(num(self.bottom + 36.0)) { (title) }
            }
        }
    }

    /// Ticks whose texts do not touch; the others keep their line.
    fn x_ticks(&self) -> Vec<(f64, String)> {
        let mut end = f64::NEG_INFINITY;
        let ticks = self.x.ticks(9);
        let place = |tick: super::axis::Tick| {
            let x = self.left + tick.at * (self.right - self.left);
            let half = text::width(&tick.text) / 2.0;
            if x - half < end + 4.0 {
                return (x, String::new());
            }
            end = x + half;
            (x, tick.text)
        };
        ticks.into_iter().map(place).collect()
    }
}

/// Units from the upper edge to the lower.
const TALL: f64 = 340.0;
/// More lines than these are no help.
const Y_TICKS_MAX: usize = 8;
