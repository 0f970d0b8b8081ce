//! A flame graph as one SVG file without scripts: the width of a box is its part of the samples.
//!
//! Pure text. Time does not run along the x axis: frames are in the order of their names. A box
//! tells its name, samples and share when the mouse rests on it.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A frame with all that it called.
#[derive(Default)]
struct Frame<'a> {
    samples: u64,
    children: BTreeMap<&'a str, Frame<'a>>,
}

/// Draws folded stacks below `title`.
pub(crate) fn svg<'a>(title: &str, stacks: impl Iterator<Item = (&'a str, u64)>) -> String {
    let mut root = Frame::default();
    for (stack, count) in stacks {
        root.samples += count;
        let mut at = &mut root;
        for name in stack.split(';') {
            at = at.children.entry(name).or_default();
            at.samples += count;
        }
    }
    let depth = root.depth();
    let height = TOP + depth as f64 * ROW + MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"monospace\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    let scale = (WIDTH - 2.0 * MARGIN) / root.samples.max(1) as f64;
    let mut x = MARGIN;
    for (name, frame) in &root.children {
        frame.draw(&mut out, name, x, TOP, scale, root.samples);
        x += frame.samples as f64 * scale;
    }
    out.push_str("</svg>\n");
    out
}

impl Frame<'_> {
    fn depth(&self) -> usize {
        self.children.values().map(|child| 1 + child.depth()).max().unwrap_or(0)
    }

    /// Root at the top, so that both ends begin at the same line.
    fn draw(&self, out: &mut String, name: &str, x: f64, y: f64, scale: f64, all: u64) {
        let width = self.samples as f64 * scale;
        if width < WIDTH_MIN {
            return;
        }
        let share = 100.0 * self.samples as f64 / all.max(1) as f64;
        let (samples, box_height, colour) = (self.samples, ROW - 1.0, colour(name));
        let name_escaped = escaped(name);
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "<g><title>{name_escaped}: {samples} samples, {share:.1} %</title>\
             <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{box_height}\" \
             fill=\"{colour}\" rx=\"1\"/>"
        );
        let letters = letters(width);
        if letters >= LETTERS_MIN {
            let shown: String = match name.chars().count() > letters {
                true => name.chars().take(letters - 2).chain("..".chars()).collect(),
                false => name.to_owned(),
            };
            let (text_x, text_y) = (x + 3.0, y + ROW - 5.0);
            let shown = escaped(&shown);
            let _ = write!(out, "<text x=\"{text_x:.1}\" y=\"{text_y:.1}\">{shown}</text>");
        }
        out.push_str("</g>\n");
        let mut child_x = x;
        for (child_name, child) in &self.children {
            child.draw(out, child_name, child_x, y + ROW, scale, all);
            child_x += child.samples as f64 * scale;
        }
    }
}

/// How many letters fit into a box.
fn letters(width: f64) -> usize {
    let mut letters = 0;
    while (letters + 1) as f64 * LETTER < width - 6.0 {
        letters += 1;
    }
    letters
}

/// The kernel's frames are of another colour; within a colour the name decides on the shade.
fn colour(name: &str) -> String {
    let shade =
        name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let hue = if name.ends_with("_[k]") { 200 } else { 30 };
    format!("hsl({}, 70%, {}%)", hue + shade % 20, 66 + shade / 20 % 14)
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter if letter.is_control() => out.push('?'),
            letter => out.push(letter),
        }
    }
    out
}

const WIDTH: f64 = 1_200.0;
const MARGIN: f64 = 10.0;
const TOP: f64 = 34.0;
const ROW: f64 = 17.0;

/// The width of a letter of the font.
const LETTER: f64 = 7.3;

/// Shorter names say nothing.
const LETTERS_MIN: usize = 4;

/// Narrower boxes cannot be seen.
const WIDTH_MIN: f64 = 0.3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_a_box_as_wide_as_its_samples() {
        let stacks = [("client;<a as b>::c", 3), ("client;d_[k]", 1), ("server", 4)];
        let drawn = svg("pipe & co", stacks.into_iter());
        assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
        assert!(drawn.contains("pipe &amp; co") && !drawn.contains("<a as"));
        assert!(drawn.contains("&lt;a as b&gt;::c: 3 samples, 37.5 %"), "{drawn}");
        assert!(drawn.contains("server: 4 samples, 50.0 %"));
        assert_eq!(drawn.matches("width=\"590.0\"").count(), 2, "both ends have half: {drawn}");
        assert_eq!(drawn.matches("<g>").count(), drawn.matches("</g>").count());
    }

    #[test]
    fn no_stacks_are_an_empty_picture() {
        assert!(svg("none", std::iter::empty()).ends_with("</svg>\n"));
    }
}
