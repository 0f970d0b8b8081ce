//! Where words go: results to standard output, everything else to standard error.
//!
//! Always true: a reader that closes the pipe early (`| head`) ends the program silently and is no
//! failure.

use std::io::{self, Write};

use anyhow::Context;
use nearcall_bench::run::printable;
use serde::Serialize;

/// Writes a result.
///
/// # Errors
///
/// What the system says, a closed pipe excepted.
pub(crate) fn result(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.context("cannot write to standard output"),
    }
}

/// Writes a result as one JSON document.
///
/// # Errors
///
/// As [`result`].
pub(crate) fn json(document: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(document).context("cannot make JSON")?;
    text.push('\n');
    result(&text)
}

/// Writes what is no result, such as a failure. If even that fails nobody can be told.
///
/// It may quote files and names of anybody: what is no text but a line break is escaped.
pub(crate) fn aside(text: &str) {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    let _ = writeln!(io::stderr().lock(), "{}", lines.join("\n"));
}

/// Adds `text` to `out` in lines of at most [`COLUMNS`]: `label` before the first, blanks of the
/// same width before the others.
pub(crate) fn wrap(out: &mut String, label: &str, text: &str) {
    let width = label.chars().count();
    let (mut line, mut used) = (label.to_owned(), width);
    for word in text.split_whitespace() {
        let columns = word.chars().count();
        if used > width && used + 1 + columns > COLUMNS {
            out.push_str(line.trim_end());
            out.push('\n');
            (line, used) = (" ".repeat(width), width);
        }
        if used > width {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += columns;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// The width of tables, in characters.
pub(crate) const COLUMNS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped_below_its_start() {
        let mut out = String::new();
        wrap(&mut out, "  µ ", &"word ".repeat(25));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("  µ word") && lines[1].starts_with("    word"));
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
    }

    #[test]
    fn no_text_leaves_the_label() {
        let mut out = String::new();
        wrap(&mut out, "label ", "");
        assert_eq!(out, "label\n");
    }
}
