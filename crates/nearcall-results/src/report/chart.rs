//! Drawing: static SVG from plain numbers, for a page, for a file and for paper.
//!
//! **Invariants:** the same numbers give the same bytes; a number that cannot be drawn (not finite,
//! or not positive on a logarithmic axis) is left out and never reaches a path; every text is
//! escaped and free of control characters. Colours are classes that [`STYLE`] defines by variables,
//! so that light, dark and print need one drawing. Nothing here knows what a cell is: which chart
//! shows what is in `figure.rs`.

pub mod axis;
pub mod heat;
pub mod lines;
pub mod mark;
pub mod plane;
pub mod rows;
pub mod text;

use maud::{Markup, html};

/// Everything that the charts of a page need.
pub const STYLE: &str = include_str!("chart/style.css");

/// Units from the left to the right edge of every chart; text is 12 of them high. A page scales a
/// chart to its column and lets it scroll on a phone.
pub const WIDTH: f64 = 680.0;

/// The description of a chart for those who cannot see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Unique on the page.
    pub id: &'a str,
    /// One line.
    pub title: &'a str,
    /// What there is to see, in a sentence or two.
    pub desc: &'a str,
}

/// One `<svg>` of this height around `body`.
#[must_use]
pub fn svg(frame: &Frame<'_>, height: f64, body: &Markup) -> Markup {
    let (title, desc) = (format!("{}-title", frame.id), format!("{}-desc", frame.id));
    let view_box = format!("0 0 {} {}", num(WIDTH), num(height));
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox=(view_box) role="img"
            aria-labelledby={ (title) " " (desc) } {
            title id=(title) { (text::clean(frame.title)) }
            desc id=(desc) { (text::clean_to(frame.desc, 400)) }
            (body)
        }
    }
}

/// A number in an attribute: one decimal at most. A number that is not finite becomes
/// 0; callers leave such numbers out.
#[must_use]
pub fn num(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.1}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// A path through these places, from the first to the last.
#[must_use]
pub fn path(places: &[[f64; 2]]) -> String {
    let mut out = String::new();
    for (index, [x, y]) in places.iter().enumerate() {
        out.push(if index == 0 { 'M' } else { 'L' });
        out.push_str(&num(*x));
        out.push(' ');
        out.push_str(&num(*y));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_attributes_have_one_decimal_at_most() {
        let cases = [
            (0.0, "0"),
            (-0.001, "0"),
            (1.05_01, "1.1"),
            (12.5, "12.5"),
            (100.0, "100"),
            (f64::NAN, "0"),
            (f64::INFINITY, "0"),
        ];
        for (value, expected) in cases {
            assert_eq!(num(value), expected);
        }
    }

    #[test]
    fn paper_is_never_dark() {
        assert_eq!(STYLE.matches("prefers-color-scheme").count(), 1);
        assert!(STYLE.contains("@media screen and (prefers-color-scheme: dark) {"));
    }

    #[test]
    fn a_path_begins_with_a_move() {
        assert_eq!(path(&[[0.0, 1.0], [2.25, 3.0]]), "M0 1L2.2 3");
        assert_eq!(path(&[]), "");
    }
}
