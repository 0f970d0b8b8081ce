//! Marks: shapes that differ even without colour, and what a mark says of itself.
//!
//! Always true: a mark carries its series and its text as attributes, in a wide chart also its
//! numbers and a `<title>`, which browsers show without any script.

use maud::{Markup, html};

use super::{Width, num, text};

/// Which colour, dash and shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Look {
    /// One of eight that can be told apart, from 0.
    Series(u8),
    /// Not singled out: grey.
    Other,
    /// A bound: dotted.
    Floor,
}

impl Look {
    /// The class of the group that holds the marks.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::Series(index) => CLASSES[(index % 8) as usize],
            Self::Other => "other",
            Self::Floor => "floor",
        }
    }

    /// Whether it has a colour of its own.
    #[must_use]
    pub const fn is_singled_out(self) -> bool {
        matches!(self, Self::Series(_))
    }

    /// The outline around 0, within 5 units.
    const fn shape(self) -> &'static str {
        match self {
            Self::Series(index) => SHAPES[(index % 8) as usize],
            Self::Other => "m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0z",
            Self::Floor => "m0 -5v10",
        }
    }
}

/// One value in a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark<'a> {
    /// Where, in units.
    pub at: [f64; 2],
    /// How it looks.
    pub look: Look,
    /// Disturbed, idle and the like: only its outline is drawn.
    pub hollow: bool,
    /// The series that it belongs to.
    pub series: &'a str,
    /// What was measured, in the units of the run file.
    pub values: [Option<f64>; 2],
    /// What it says of itself: value with unit, interval, grade.
    pub label: &'a str,
}

/// Draws a mark. The group around it has the class of its look.
#[must_use]
pub fn mark(mark: &Mark<'_>, width: Width) -> Markup {
    let [x, y] = mark.at;
    let outline = format!("M{} {}{}", num(x), num(y), mark.look.shape());
    let class = if mark.hollow { "mark hollow" } else { "mark" };
    let (series, label) = (text::clean(mark.series), text::clean_to(mark.label, LABEL_CHARS_MAX));
    let [value_x, value_y] = mark.values.map(|value| value.filter(|v| v.is_finite()).map(num));
    html! {
        @if width == Width::Wide {
            path class=(class) d=(outline) data-series=(series) data-x=[value_x] data-y=[value_y]
                data-label=(label) { title { (series) ": " (label) } }
        } @else {
            path class=(class) d=(outline) data-series=(series) data-label=(label) {}
        }
    }
}

/// A key to looks: mark and name, from left to right, as many lines as needed. Gives its height.
#[must_use]
pub fn legend(entries: &[(Look, bool, String)], from: [f64; 2], width: f64) -> (Markup, f64) {
    let [left, top] = from;
    let (mut x, mut y) = (left, top + 12.0);
    let mut placed = Vec::new();
    for (look, hollow, name) in entries {
        let name = text::clean(name);
        let takes = 16.0 + text::width(&name) + 16.0;
        if x > left && x + takes - 16.0 > left + width {
            (x, y) = (left, y + 17.0);
        }
        placed.push((*look, *hollow, x, y, name));
        x += takes;
    }
    let drawn = html! {
        g class="legend" {
            @for (look, hollow, x, y, name) in &placed {
                g class=(look.class()) data-key=(name) {
                    path class=(if *hollow { "mark hollow" } else { "mark" })
                        d={ "M" (num(x + 6.0)) " " (num(y - 4.0)) (look.shape()) } {}
                    text x=(num(x + 16.0)) y=(num(*y)) { (name) }
                }
            }
        }
    };
    (drawn, if placed.is_empty() { 0.0 } else { y - top + 8.0 })
}

const CLASSES: [&str; 8] = ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"];

/// Circle, square, diamond, two triangles, plus, cross, hexagon.
const SHAPES: [&str; 8] = [
    "m-3.8 0a3.8 3.8 0 1 0 7.6 0a3.8 3.8 0 1 0 -7.6 0z",
    "m-3.4 -3.4h6.8v6.8h-6.8z",
    "m0 -4.8l4.8 4.8l-4.8 4.8l-4.8 -4.8z",
    "m0 -4.6l4.4 7.6h-8.8z",
    "m0 4.6l4.4 -7.6h-8.8z",
    "m-1.4 -4.4h2.8v3h3v2.8h-3v3h-2.8v-3h-3v-2.8h3z",
    "m0 -1.9l2.6 -2.6l1.9 1.9l-2.6 2.6l2.6 2.6l-1.9 1.9l-2.6 -2.6l-2.6 2.6l-1.9 -1.9l2.6 -2.6\
     l-2.6 -2.6l1.9 -1.9z",
    "m-4.4 0l2.2 -3.8h4.4l2.2 3.8l-2.2 3.8h-4.4z",
];

/// Longer than what any mark has to say.
const LABEL_CHARS_MAX: usize = 200;
