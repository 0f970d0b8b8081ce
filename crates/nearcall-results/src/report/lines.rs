//! Text for a terminal: lines that fit its width, and colour where it is wanted.
//!
//! **Invariants:** no text is cut; a word is broken only where it is longer than a whole line of
//! a terminal. Colour adds escape sequences and moves nothing: without them the text is the same.
//! Hidden characters of a text are escaped.
//!
//! **Not here:** columns (`table/grid.rs`), and which terminal there is, which the caller knows.

use crate::visible::{is_hidden, printable_lines};

/// The form in which a result is written: the width of its lines, and whether it has colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// `None`: no terminal shows it.
    width: Option<usize>,
    color: bool,
}

impl Style {
    /// Text for a pipe or a file: tables as wide as they are, prose of [`COLUMNS`], no colour.
    pub const PLAIN: Self = Self { width: None, color: false };

    /// Text for lines of `width` columns. Below [`COLUMNS_MIN`] lines have that width.
    #[must_use]
    pub const fn new(width: Option<usize>, color: bool) -> Self {
        Self { width, color }
    }

    /// The columns that a table may take.
    pub(crate) fn table_columns(self) -> usize {
        self.width.map_or(usize::MAX, |width| width.max(COLUMNS_MIN))
    }

    /// The columns of a line of prose: longer lines are hard to read, however wide the terminal.
    pub(crate) fn prose_columns(self) -> usize {
        self.table_columns().min(COLUMNS)
    }

    /// Splits `text` into lines of at most `columns`. Only a terminal needs longer words broken.
    #[must_use]
    pub fn split(self, text: &str, columns: usize) -> Vec<String> {
        let mut lines = vec![String::new()];
        let mut used = 0;
        for mut word in words(text, columns) {
            let mut length = word.chars().count();
            if used > 0 && used + 1 + length > columns {
                lines.push(String::new());
                used = 0;
            }
            while self.width.is_some() && length > columns {
                let rest = word.split_off(byte_at(&word, columns));
                *last(&mut lines) = word;
                lines.push(String::new());
                (word, length) = (rest, length - columns);
            }
            let line = last(&mut lines);
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(&word);
            used += length;
        }
        lines
    }

    /// `text` with the escape sequences of `ink`, if there is colour.
    #[must_use]
    pub fn paint(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            _ if !self.color || text.is_empty() => return text.to_owned(),
            Ink::Plain => return text.to_owned(),
            Ink::Title => "1",
            Ink::Note => "2",
            Ink::Good => "32",
            Ink::Bad => "31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// What a part of a text is, which decides its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ink {
    /// A figure or a sentence.
    #[default]
    Plain,
    /// A heading, or the answer: bold.
    Title,
    /// An explanation: dim.
    Note,
    /// The best of several, or a budget that is met: green.
    Good,
    /// What cannot be used, or a budget that is not met: red.
    Bad,
}

/// A text that is being written.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    style: Style,
    text: String,
}

impl Writer {
    /// Creates an empty text.
    pub(super) const fn new(style: Style) -> Self {
        Self { style, text: String::new() }
    }

    /// The form of the text.
    pub(super) const fn style(&self) -> Style {
        self.style
    }

    /// Returns the text.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Adds an empty line.
    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Adds a line as it is, with its escape sequences, without blanks at its end.
    pub(super) fn push(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Adds `text` in as many lines as it needs: `label` before the first, blanks of the same width
    /// before the others.
    pub(super) fn wrap_in(&mut self, ink: Ink, label: &str, text: &str) {
        let indent = label.chars().count();
        let columns = self.style.prose_columns();
        if indent * 2 > columns && !text.is_empty() {
            // Beside so long a label there is no room for text.
            self.push(label);
            self.wrap_in(ink, "    ", text);
            return;
        }
        self.hang(ink, label, &" ".repeat(indent), text);
    }

    /// Adds a text whose later lines begin two columns further to the right.
    pub(super) fn indented(&mut self, ink: Ink, text: &str) {
        let indent = text.len() - text.trim_start_matches(' ').len();
        self.hang(ink, &" ".repeat(indent), &" ".repeat(indent + 2), text);
    }

    /// One indentation before the first line, another before the others. Nothing of the text leaves
    /// its place, also if a name in it is hostile.
    fn hang(&mut self, ink: Ink, first: &str, others: &str, text: &str) {
        let text = &printable_lines(&text.replace('\t', " "), false);
        let first = &*printable_lines(first, false);
        let columns = self.style.prose_columns().saturating_sub(others.chars().count());
        // A first line that fits stays whole even if it is less indented.
        let whole = text.trim_start_matches(' ');
        let short = first.chars().count() + whole.chars().count() <= self.style.prose_columns();
        let lines = match short && !whole.contains(['\n', '\t']) {
            true => vec![whole.to_owned()],
            false => self.style.split(text, columns),
        };
        for (at, line) in lines.iter().enumerate() {
            let indent = if at == 0 { first } else { others };
            let line = format!("{indent}{}", self.style.paint(ink, line.trim_end()));
            self.push(&line);
        }
    }
}

/// The words of a text; a number and its unit are one, if they fit in a line.
fn words(text: &str, columns: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', '.', ';', ':', ')']);
        match words.last_mut() {
            Some(number)
                if UNITS.contains(&bare)
                    && number.ends_with(|c: char| c.is_ascii_digit())
                    && number.chars().count() + 1 + word.chars().count() <= columns =>
            {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

fn last(lines: &mut [String]) -> &mut String {
    lines.last_mut().expect("there is a line from the start")
}

/// Where the character `index` begins.
fn byte_at(text: &str, index: usize) -> usize {
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

/// Text from a file: without control characters, and not longer than a page can bear.
pub fn clean(text: &str) -> String {
    clean_to(text, TEXT_CHARS_MAX)
}

/// The same for text that may be as long as `chars_max`.
pub fn clean_to(text: &str, chars_max: usize) -> String {
    let shown = |c: char| if is_hidden(c) { '\u{fffd}' } else { c };
    clip(&text.chars().take(chars_max + 1).map(shown).collect::<String>(), chars_max)
}

/// A name from a file, which must not make a column as wide as its author likes. Names of this
/// program are shorter and stay whole.
pub(crate) fn clip(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// The text as a sentence begins.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Units that never begin a line.
const UNITS: [&str; 19] = [
    "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "%", "/s", "k/s", "M/s", "G/s", "B/s", "kB/s",
    "MB/s", "GB/s", "CPUs", "×",
];

/// A longer text from a file is cut. Reasons of the kernel are shorter.
const TEXT_CHARS_MAX: usize = 300;

/// The columns of a line of prose.
pub const COLUMNS: usize = 100;

/// The least columns of a line. A narrower terminal breaks the lines itself.
pub const COLUMNS_MIN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::Document;

    fn wrapped(width: Option<usize>, label: &str, text: &str) -> String {
        let mut out = Writer::new(Style::new(width, false));
        out.wrap_in(Ink::Plain, label, text);
        out.finish()
    }

    #[test]
    fn long_text_is_wrapped_below_its_start() {
        let out = wrapped(None, "  µ ", &"word ".repeat(25));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("  µ word") && lines[1].starts_with("    word"));
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
    }

    #[test]
    fn a_number_stays_beside_its_unit() {
        assert_eq!(wrapped(Some(20), "", "it takes about 83.0 µs."), "it takes about\n83.0 µs.\n");
    }

    #[test]
    fn no_text_leaves_the_label() {
        assert_eq!(wrapped(None, "label ", ""), "label\n");
    }

    #[test]
    fn a_long_label_stands_above_its_text() {
        assert_eq!(
            wrapped(Some(40), "a label of thirty columns     ", "much"),
            "a label of thirty columns\n    much\n"
        );
    }

    #[test]
    fn only_a_terminal_breaks_a_word_that_is_longer_than_a_line() {
        let path = "/x".repeat(60);
        assert_eq!(wrapped(None, "  ", &path), format!("  {path}\n"));
        let out = wrapped(Some(50), "  ", &format!("in {path} now"));
        assert!(out.lines().all(|line| line.chars().count() <= 50), "{out}");
        assert_eq!(out.split_whitespace().collect::<String>(), format!("in{path}now"));
    }

    #[test]
    fn colour_adds_escape_sequences_and_nothing_else() {
        let write = |color| {
            let mut out = Document::default();
            out.title("  A heading that does not fit in forty columns");
            out.note("word ".repeat(25));
            out.answer("an answer");
            out.text(Style::new(Some(40), color))
        };
        let plain = write(true).replace("\u{1b}[1m", "").replace("\u{1b}[2m", "");
        assert_eq!(plain.replace("\u{1b}[0m", ""), write(false));
        assert!(write(true).starts_with("  \u{1b}[1mA heading"));
    }
}
