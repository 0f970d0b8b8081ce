//! Aligns rows of text in columns, and keeps text from a file harmless on a terminal.
//!
//! Knows nothing of runs. Characters count as one column each, which holds for all that is used
//! here.

use crate::report::lines::{COLUMNS, is_invisible};

/// How a column is filled up.
#[derive(Clone, Copy)]
pub(super) enum Align {
    Left,
    Right,
}

/// Rows of columns under one head, in groups with a heading each.
pub(super) struct Grid {
    columns: Vec<(Align, usize)>,
    rows: Vec<Row>,
}

enum Row {
    Heading(String),
    Note(String),
    Cells(Vec<String>),
}

impl Grid {
    /// Columns with name, alignment and least width.
    pub(super) fn new(head: &[(&str, Align, usize)]) -> Self {
        let columns = head.iter().map(|&(_, align, width)| (align, width)).collect();
        let names = head.iter().map(|(name, ..)| (*name).to_owned()).collect();
        Self { columns, rows: vec![Row::Cells(names)] }
    }

    pub(super) fn heading(&mut self, text: String) {
        self.rows.push(Row::Heading(text));
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Row::Cells(cells));
    }

    /// A line of text below the row before it.
    pub(super) fn note(&mut self, text: String) {
        self.rows.push(Row::Note(text));
    }

    /// The grid as lines. A heading has an empty line before it.
    pub(super) fn print(&self, out: &mut String) {
        let mut widths: Vec<usize> = self.columns.iter().map(|&(_, width)| width).collect();
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (width, cell) in widths.iter_mut().zip(cells) {
                    *width = (*width).max(cell.chars().count());
                }
            }
        }
        for row in &self.rows {
            match row {
                Row::Heading(text) => {
                    out.push('\n');
                    print_line(out, &format!("  {text}"));
                }
                Row::Note(text) => print_line(out, &format!("    {text}")),
                Row::Cells(cells) => print_line(out, &self.align(cells, &widths)),
            }
        }
    }

    fn align(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = "  ".to_owned();
        for ((cell, &width), (align, _)) in cells.iter().zip(widths).zip(&self.columns) {
            line.push_str("  ");
            match align {
                Align::Left => line.push_str(&format!("{cell:<width$}")),
                Align::Right => line.push_str(&format!("{cell:>width$}")),
            }
        }
        line
    }
}

/// Adds one line without blanks at its end, cut off with an ellipsis at the width of the page.
pub(super) fn print_line(out: &mut String, line: &str) {
    out.push_str(clip(line.trim_end(), COLUMNS_MAX).trim_end());
    out.push('\n');
}

/// Adds text that begins with `label`, in as many lines as it needs, later ones indented alike.
pub(super) fn print_wrapped(out: &mut String, label: &str, text: &str) {
    let indent = label.chars().count();
    let mut line = label.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let columns = line.chars().count() + 1 + word.chars().count();
        if !empty && columns > COLUMNS_MAX {
            print_line(out, &line);
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    print_line(out, &line);
}

/// Text from a file: without control characters, and not longer than a page can bear.
pub(in crate::report) fn clean(text: &str) -> String {
    clean_to(text, TEXT_CHARS_MAX)
}

/// The same for text that may be as long as `chars_max`.
pub(in crate::report) fn clean_to(text: &str, chars_max: usize) -> String {
    let shown = |c: char| if c.is_control() || is_invisible(c) { '\u{fffd}' } else { c };
    clip(&text.chars().take(chars_max + 1).map(shown).collect::<String>(), chars_max)
}

/// Shortens `text` to `columns`, marked by an ellipsis.
pub(super) fn clip(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// The width of a page: fits half a wide screen and every mail.
pub(super) const COLUMNS_MAX: usize = COLUMNS;

/// A longer text from a file is cut. Reasons of the kernel are shorter.
const TEXT_CHARS_MAX: usize = 300;
