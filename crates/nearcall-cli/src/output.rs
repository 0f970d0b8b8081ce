//! Output: results to standard output, diagnostics to standard error.
//!
//! **Invariants:** a reader that closes the pipe early (`| head`) ends the program silently and is
//! no failure. Colour and width are decided once, here: colour by `--color`, and for `auto` by
//! NO_COLOR, TERM and whether standard output is a terminal.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use anyhow::Context;
use clap::ColorChoice;
pub(crate) use nearcall_bench::report::lines::COLUMNS;
use nearcall_bench::run::printable;
use serde::Serialize;

/// The form of results on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// The columns of the terminal; `None` for a pipe or a file.
    pub(crate) width: Option<usize>,
    /// Whether to write escape sequences of colours.
    pub(crate) color: bool,
}

/// Decides the style for the rest of the program. The first call counts.
pub(crate) fn set_style(choice: ColorChoice) {
    let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let is_terminal = io::stdout().is_terminal();
    let columns = terminal_size::terminal_size_of(io::stdout()).map(|size| usize::from(size.0.0));
    let color = match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
            is_terminal && !is_dumb && variable("NO_COLOR").is_none()
        }
    };
    let _ = STYLE.set(Style { width: columns.filter(|columns| *columns > 0), color });
}

/// Returns the style of results.
pub(crate) fn style() -> Style {
    STYLE.get().copied().unwrap_or_default()
}

static STYLE: OnceLock<Style> = OnceLock::new();

/// Adds `text` to `out` in lines that fit the terminal, at most [`COLUMNS`] wide: `label` before
/// the first line, blanks of the same width before the others.
pub(crate) fn wrap(out: &mut String, label: &str, text: &str) {
    let columns = style().width.map_or(COLUMNS, |width| width.min(COLUMNS));
    let indent = label.chars().count();
    let (mut line, mut used) = (label.to_owned(), indent);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > indent && used + 1 + length > columns {
            out.push_str(line.trim_end());
            out.push('\n');
            (line, used) = (" ".repeat(indent), indent);
        }
        if used > indent {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Writes a result.
///
/// # Errors
///
/// Any error of the system but a closed pipe.
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

/// Writes a diagnostic, such as a failure, to standard error. If that fails too, it is lost.
///
/// The text may quote files and names from anywhere: control characters except line breaks are
/// escaped.
pub(crate) fn diagnostic(text: &str) {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    let _ = writeln!(io::stderr().lock(), "{}", lines.join("\n"));
}
