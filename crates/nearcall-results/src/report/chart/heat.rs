//! A square of numbers, coloured from little (light) to much (dark).
//!
//! Always true: a colour stands for a range that the key names; the number stands in its place
//! where it fits, all in one unit. A place without a number is empty, not coloured.

use maud::{Markup, html};

use super::{Frame, WIDTH, num, svg, text};
use crate::report::number;

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Names of the rows, from top to bottom.
    pub rows: Vec<String>,
    /// Names of the columns, from left to right.
    pub columns: Vec<String>,
    /// What rows and columns are.
    pub titles: [String; 2],
    /// One per row, one per column.
    pub places: Vec<Vec<Option<Warmth>>>,
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Warmth {
    /// Nanoseconds.
    pub ns: f64,
    /// What it says of itself.
    pub label: String,
}

impl Heat {
    /// Draws it.
    #[must_use]
    pub fn draw(&self, frame: &Frame<'_>) -> Markup {
        let shades = Shades::of(self.places.iter().flatten().flatten().map(|place| place.ns));
        let names = self.rows.iter().map(|name| text::width(name)).fold(10.0, f64::max);
        let left = (names + 12.0).min(WIDTH * 0.3);
        let step = ((WIDTH - left - 4.0) / self.columns.len().max(1) as f64).min(64.0);
        let tall = step.min(36.0);
        let (key, key_height) = shades.key();
        let top = key_height + 42.0;
        let bottom = top + tall * self.rows.len() as f64;
        let sparse = (11.0 * 2.2 / step).ceil().max(1.0);
        let compact = self.rows.len() * self.columns.len() > PLACES_LABELLED_MAX;
        let body = html! {
            (key)
            text x="0" y=(num(top - 24.0)) { (self.titles[0]) " ↓   " (self.titles[1]) " →" }
            @for (index, name) in self.columns.iter().enumerate() {
                @if index as f64 % sparse == 0.0 {
                    text class="muted middle" x=(num(left + (index as f64 + 0.5) * step))
                        y=(num(top - 5.0)) { (text::fit(name, step.max(24.0))) }
                }
            }
            @for (index, (name, places)) in self.rows.iter().zip(&self.places).enumerate() {
                @let y = top + index as f64 * tall;
                @if tall >= 12.0 || index as f64 % (13.0 / tall).ceil() == 0.0 {
                    text class="muted end" x=(num(left - 6.0)) y=(num(y + tall / 2.0 + 4.0)) {
                        (text::fit(name, left - 8.0))
                    }
                }
                @if compact {
                    (stripes(places, &shades, [left, y, step, tall]))
                } @else {
                    @for (column, place) in places.iter().enumerate().take(self.columns.len()) {
                        @let area = [left + column as f64 * step, y, step, tall];
                        (draw_place(place.as_ref(), &shades, area))
                    }
                }
            }
        };
        svg(frame, bottom + 8.0, &body)
    }
}

fn draw_place(place: Option<&Warmth>, shades: &Shades, [x, y, wide, tall]: [f64; 4]) -> Markup {
    let gap = if wide > 8.0 { 1.0 } else { 0.0 };
    let shade = place.and_then(|place| shades.of_value(place.ns));
    let class = shade.map_or("hx", |index| SHADE_CLASSES[index]);
    let number = place.filter(|_| shade.is_some()).map(|place| shades.number(place.ns));
    let number = number.filter(|text| text::width(text) < wide - 4.0 && tall >= 14.0);
    let tone = if shade.is_some_and(|index| index >= DARK_FROM) { "on-dark" } else { "on-light" };
    html! {
        rect class=(class) x=(num(x)) y=(num(y)) width=(num(wide - gap)) height=(num(tall - gap))
            { @if let Some(place) = place { title { (text::clean(&place.label)) } } }
        @if let Some(number) = number {
            text class={ "middle " (tone) } x=(num(x + (wide - gap) / 2.0))
                y=(num(y + tall / 2.0 + 3.5)) { (number) }
        }
    }
}

/// One row of many: neighbours of one shade in one piece, without labels.
fn stripes(places: &[Option<Warmth>], shades: &Shades, [left, y, step, tall]: [f64; 4]) -> Markup {
    let shade = |place: &Option<Warmth>| place.as_ref().and_then(|p| shades.of_value(p.ns));
    let mut column = 0;
    let mut found = Vec::new();
    for stripe in places.chunk_by(|a, b| shade(a) == shade(b)) {
        let class = stripe.first().and_then(shade).map(|index| SHADE_CLASSES[index]);
        found.extend(class.map(|class| (class, left + column as f64 * step, stripe.len())));
        column += stripe.len();
    }
    html! {
        @for (class, x, count) in &found {
            rect class=(class) x=(num(*x)) y=(num(y)) width=(num(*count as f64 * step))
                height=(num(tall)) {}
        }
    }
}

/// Ranges of numbers, each as many times the one before.
struct Shades {
    low: f64,
    high: f64,
    unit: (f64, &'static str),
}

impl Shades {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let good = values.filter(|ns| super::axis::drawable(*ns));
        let (low, high) = good.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = if high > 0.0 { (low, high) } else { (1.0, 1.0) };
        let units = [(1.0, "ns", 1e4), (1e3, "µs", 1e7), (1e6, "ms", f64::INFINITY)];
        let fits = units.into_iter().find(|(_, _, limit)| high < *limit);
        Self { low, high, unit: fits.map_or((1.0, "ns"), |(factor, unit, _)| (factor, unit)) }
    }

    /// Which shade, from 0. Values that hardly differ are not made to look different.
    fn of_value(&self, ns: f64) -> Option<usize> {
        if !super::axis::drawable(ns) {
            return None;
        }
        let at = (ns / self.low).ln() / self.span().ln() * SHADE_CLASSES.len() as f64;
        (0..SHADE_CLASSES.len()).rev().find(|&index| at + 1e-9 >= index as f64).or(Some(0))
    }

    fn span(&self) -> f64 {
        (self.high / self.low).max(SPAN_MIN)
    }

    fn number(&self, ns: f64) -> String {
        number::three_digits(ns / self.unit.0)
    }

    /// The shades with the numbers between them.
    fn key(&self) -> (Markup, f64) {
        let step = 52.0;
        let edge = |index: f64| self.low * self.span().powf(index / SHADE_CLASSES.len() as f64);
        let drawn = html! {
            g {
                @for (index, class) in SHADE_CLASSES.iter().enumerate() {
                    rect class=(class) x=(num(16.0 + index as f64 * step)) y="0" width=(num(step))
                        height="12" {}
                }
                @for index in (0..=SHADE_CLASSES.len()).step_by(3) {
                    text class="muted middle" x=(num(16.0 + index as f64 * step)) y="26" {
                        (self.number(edge(index as f64)))
                    }
                }
                text class="muted" x="0" y="42" { "numbers in " (self.unit.1) }
            }
        };
        (drawn, 46.0)
    }
}

const SHADE_CLASSES: [&str; 9] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8"];
/// From this shade on, black text cannot be read.
const DARK_FROM: usize = 5;
/// With more places than these, labels would make the drawing too large; the table has them.
const PLACES_LABELLED_MAX: usize = 400;
/// The darkest is at least so many times the lightest.
const SPAN_MIN: f64 = 1.5;
