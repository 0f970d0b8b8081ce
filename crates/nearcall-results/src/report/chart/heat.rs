//! A square of shades: one field for each pair of things, the darker the greater its number.
//!
//! Shades are eight steps of equal factors between the least and the greatest number. Of a small
//! square each field has its number as text; what a larger one holds stands in a table.

use maud::{Markup, html};

use super::axis::drawable;
use super::{Frame, WIDTH, num, svg, text};
use crate::report::number::Unit;

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// The rows from top to bottom, and the columns from left to right.
    pub names: Vec<String>,
    /// What was found.
    pub fields: Vec<Field>,
    /// What rows and columns are.
    pub titles: [&'static str; 2],
}

/// One pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The place of its row among the names.
    pub row: usize,
    /// That of its column.
    pub column: usize,
    /// A time in nanoseconds.
    pub value: f64,
    /// Only its outline: it was disturbed.
    pub hollow: bool,
    /// Its label.
    pub label: String,
}

impl Heat {
    /// Draws it.
    #[must_use]
    pub fn draw(&self, frame: &Frame<'_>) -> Markup {
        let count = self.names.len().max(1) as f64;
        let widest = self.names.iter().map(|name| text::width(name)).fold(0.0, f64::max);
        let left = widest + 12.0;
        let side = ((WIDTH - left - 4.0) / count).min(SIDE_MAX);
        let top = 40.0;
        let at = |place: usize| place as f64 * side;
        let [low, high] = self.ends();
        let has_room = |every: &usize| *every as f64 * side >= NAME_APART;
        let name_every = (1..=self.names.len()).find(has_room).unwrap_or(1);
        let names = || self.names.iter().enumerate().step_by(name_every);
        let below = top + count * side + 24.0;
        let body = html! {
            text x="0" y="12" { (self.titles[0]) " (rows), " (self.titles[1]) " (columns)" }
            @for (place, name) in names() {
                text class="muted end" x=(num(left - 6.0))
                    y=(num(top + at(place) + side / 2.0 + 4.0)) { (text::clean(name)) }
                text class="muted middle" x=(num(left + at(place) + side / 2.0))
                    y=(num(top - 6.0)) { (text::clean(name)) }
            }
            @for shade in 0..SHADES {
                @let own = self.fields.iter().filter(|field| self.shade(field.value) == shade);
                g class={ "heat h" (shade) } {
                    @if side < SIDE_OF_TEXT {
                        @let fields: String = own.map(|f| outline(f, [left, top], side)).collect();
                        path d=(fields) {}
                    } @else {
                        @for field in own { (with_text(field, [left, top], side)) }
                    }
                }
            }
            (key(low, high, below))
        };
        svg(frame, below + 22.0, &body)
    }

    /// The least and the greatest number.
    fn ends(&self) -> [f64; 2] {
        let values = self.fields.iter().map(|field| field.value).filter(|value| drawable(*value));
        values.fold([f64::INFINITY, 0.0], |[low, high], value| [low.min(value), high.max(value)])
    }

    /// The step of a number, from 0.
    fn shade(&self, value: f64) -> u32 {
        let [low, high] = self.ends();
        if !drawable(value) || high <= low {
            return 0;
        }
        let part = (value.ln() - low.ln()) / (high.ln() - low.ln());
        let is_reached = |step: &u32| part * f64::from(SHADES) >= f64::from(*step);
        (1..SHADES).rev().find(is_reached).unwrap_or(0)
    }
}

/// The path around a field.
fn outline(field: &Field, [left, top]: [f64; 2], side: f64) -> String {
    let (x, y) = (left + field.column as f64 * side, top + field.row as f64 * side);
    let (x, y, side) = (num(x), num(y), num(side - 1.0));
    format!("M{x} {y}h{side}v{side}h-{side}z")
}

fn with_text(field: &Field, from: [f64; 2], side: f64) -> Markup {
    let middle = |place: usize| (place as f64 + 0.5) * side;
    let (x, y) = (from[0] + middle(field.column), from[1] + middle(field.row) + 4.0);
    html! {
        path class=[field.hollow.then_some("hollow")] d=(outline(field, from, side)) {
            title { (text::clean_to(&field.label, 200)) }
        }
        text class="middle" x=(num(x)) y=(num(y)) { (Unit::Time.value(field.value)) }
    }
}

/// The shades with the numbers at both ends.
fn key(low: f64, high: f64, top: f64) -> Markup {
    let [low, high] = [low, high].map(|end| Unit::Time.value(end));
    let left = text::width(&low) + 8.0;
    html! {
        text x="0" y=(num(top + 12.0)) { (low) }
        @for shade in 0..SHADES {
            g class={ "heat h" (shade) } {
                path d={ "M" (num(left + f64::from(shade) * 22.0)) " " (num(top)) "h20v16h-20z" } {}
            }
        }
        text x=(num(left + f64::from(SHADES) * 22.0 + 4.0)) y=(num(top + 12.0)) { (high) }
    }
}

/// Steps from the least to the greatest number, as many as can be told apart.
const SHADES: u32 = 8;

/// Units from one name to the next.
const NAME_APART: f64 = 12.0;

/// Units of the side of a field.
const SIDE_MAX: f64 = 96.0;

/// A field of this side has room for "12.3 µs".
const SIDE_OF_TEXT: f64 = 52.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_factors_are_equal_steps_and_bad_numbers_are_none() {
        let field = |value| Field { row: 0, column: 0, value, hollow: false, label: String::new() };
        let fields = [1.0, 10.0, 100.0, f64::NAN].map(field).to_vec();
        let heat = Heat { names: vec!["0".to_owned()], fields, titles: ["", ""] };
        assert_eq!([1.0, 10.0, 100.0, f64::NAN].map(|v| heat.shade(v)), [0, 4, 7, 0]);
        let empty = Heat { fields: Vec::new(), ..heat };
        assert_eq!(empty.shade(1.0), 0);
    }
}
