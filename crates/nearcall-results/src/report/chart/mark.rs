//! Marks: shapes that differ even without colour, and their labels.
//!
//! **Invariants:** a mark has its text as `<title>`, which browsers show without any script;
//! the group around it has its series as an attribute.

use maud::{Markup, html};

use super::{num, text};

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
    pub(crate) const fn is_singled_out(self) -> bool {
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

/// Draws a mark at a place: what was disturbed, or idle, is `hollow`. The group around it has the
/// class of its look and names the series; a path without a class is a mark. `label` is the value
/// with unit, interval and grade.
#[must_use]
pub fn mark(at: [f64; 2], look: Look, hollow: bool, label: &str) -> Markup {
    // Of the grey ones there are most: a dot is a stroke with a round end.
    let shape = if look == Look::Other && !hollow { "h0" } else { look.shape() };
    let outline = format!("M{} {}{shape}", num(at[0]), num(at[1]));
    html! {
        path class=[hollow.then_some("hollow")] d=(outline) {
            title { (text::clean_to(label, LABEL_CHARS_MAX)) }
        }
    }
}

/// A key to looks: mark and name, from left to right, as many lines as needed. Gives its height.
pub(crate) fn legend(
    entries: &[(Look, bool, String)],
    from: [f64; 2],
    width: f64,
) -> (Markup, f64) {
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
                    path class=[hollow.then_some("hollow")]
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
