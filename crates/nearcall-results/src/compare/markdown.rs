//! A comparison as Markdown, short enough for a comment in a review.
//!
//! Text from the runs is escaped: it can make no link, no mention and no table of its own.

use std::fmt::Write;

use super::shown::{figure, interval, p_value};
use super::{CellComparison, Comparison, Verdict};
use crate::report::lines;
use crate::report::number::{self, MISSING};

/// Renders the flagged cells and the answer; with `all` every cell. Ends with a line break.
#[must_use]
pub fn markdown(comparison: &Comparison, all: bool) -> String {
    let mut out = String::from("### nearcall compare\n\n");
    for warning in &comparison.warnings {
        line(&mut out, &format!("> **Warning:** {}\n", escape(warning)));
    }
    for (index, sentence) in comparison.summary.iter().enumerate() {
        let sentence = escape(sentence);
        let text = if index == 0 { format!("**{sentence}**\n") } else { format!("{sentence}\n") };
        line(&mut out, &text);
    }
    let shown: Vec<&CellComparison> =
        comparison.cells.iter().filter(|cell| all || cell.verdict <= Verdict::Faster).collect();
    let most = if all { usize::MAX } else { ROWS_MAX };
    if !shown.is_empty() {
        line(&mut out, "| verdict | cell | before | after | ratio | 95 % interval | p corrected |");
        line(&mut out, "|---|---|---:|---:|---:|---:|---:|");
        shown.iter().take(most).for_each(|cell| line(&mut out, &row(cell)));
        out.push('\n');
    }
    if shown.len() > most {
        line(&mut out, &format!("and {} more.\n", shown.len() - most));
    }
    for difference in comparison.machine.iter().chain(&comparison.settings) {
        let [what, before, after] =
            [&difference.what, &difference.before, &difference.after].map(|text| escape(text));
        line(&mut out, &format!("- {what}: {before} → {after}"));
    }
    out
}

fn row(cell: &CellComparison) -> String {
    let value = |of: Option<f64>| of.map_or_else(|| MISSING.to_owned(), |v| figure(&cell.unit, v));
    let ratio = cell.ratio.map_or_else(|| MISSING.to_owned(), number::ratio);
    let interval = cell.ratio_ci95.map_or_else(|| MISSING.to_owned(), interval);
    let p = cell.p_corrected.map_or_else(|| MISSING.to_owned(), p_value);
    format!(
        "| {} | {} | {} | {} | {ratio} | {interval} | {p} |",
        cell.verdict.words(),
        escape(&cell.name),
        value(cell.before.typical),
        value(cell.after.typical),
    )
}

/// Text in which nothing is markup, in one line.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().filter(|&c| c.is_control() || is_shown(c)).take(TEXT_CHARS_MAX) {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            // Addresses become links without any markup.
            '/' if out.ends_with(":/") => {
                out.truncate(out.len() - 2);
                out.push_str("&#58;//");
            }
            '.' if out.to_ascii_lowercase().ends_with("www") => out.push_str("&#46;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Not a character that hides or turns others.
fn is_shown(c: char) -> bool {
    !lines::is_invisible(c) && u32::from(c) != 0xad
}

fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

/// A comment with more rows is not read; `--all` has them.
const ROWS_MAX: usize = 40;

/// As in the tables for terminals.
const TEXT_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_run_makes_no_link_and_hides_nothing() {
        assert_eq!(escape("https://x.y"), "https&#58;//x.y");
        assert_eq!(escape("see WWW.x.y"), "see WWW&#46;x.y");
        assert_eq!(escape("w\u{200b}ww.x \u{202e}ab\n[c](d)@e"), "www&#46;x ab \\[c\\](d)&#64;e");
    }
}
