//! Output: results to standard output, diagnostics to standard error.
//!
//! **Invariants:** a reader that closes the pipe early (`| head`) ends the program silently and is
//! no failure; any other failed write is one. What servers, their clients and files of others have
//! chosen reaches standard output without hidden characters, in texts and in JSON, whichever
//! command prints it.
//!
//! **Not here:** width and colour (`terminal.rs`).
//!
//! **Invariant:** only this crate prints. Results go to stdout, everything else to stderr. *Checked
//! by* `print_stdout`, `print_stderr`.

use std::io::{self, Write};

use anyhow::Context;
use nearcall_results::visible::{printable, printable_json, printable_lines};
use serde::Serialize;

use crate::terminal;

/// Writes a result for people. Hidden characters are escaped but for line breaks and colours.
///
/// # Errors
///
/// Any error of the system but a closed pipe.
pub(crate) fn result(text: &str) -> anyhow::Result<()> {
    file(&printable_lines(text, terminal::has_color()))
}

/// Writes the content of a file as it is, such as a page.
///
/// # Errors
///
/// As [`result`].
pub(crate) fn file(text: &str) -> anyhow::Result<()> {
    write(text).map(drop)
}

/// Writes one of several texts for people, as [`result`]. Returns as [`message`].
///
/// # Errors
///
/// As [`result`].
pub(crate) fn stream(text: &str) -> anyhow::Result<bool> {
    write(&printable_lines(text, terminal::has_color()))
}

/// Writes one of several results, and a line break. Hidden characters are escaped. Returns whether
/// somebody may read the next one: the pipe is not closed.
///
/// # Errors
///
/// As [`result`].
pub(crate) fn message(text: &str) -> anyhow::Result<bool> {
    write(&(printable_json(text) + "\n"))
}

fn write(text: &str) -> anyhow::Result<bool> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    let is_open = written.is_ok();
    check(written).map(|()| is_open)
}

/// Writes what is said of the arguments: help and version to standard output, errors to standard
/// error.
///
/// # Errors
///
/// As [`result`].
pub(crate) fn usage(message: &clap::Error) -> anyhow::Result<()> {
    check(message.print().and_then(|()| io::stdout().flush()))
}

/// Judges a write to standard output.
fn check(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
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
    json_text(&serde_json::to_string_pretty(document).context("cannot make JSON")?)
}

/// Writes the text of a JSON document, and a line break.
///
/// # Errors
///
/// As [`result`].
pub(crate) fn json_text(document: &str) -> anyhow::Result<()> {
    file(&(printable_json(document) + "\n"))
}

/// Writes a diagnostic, such as a failure, to standard error. If that fails too, it is lost.
///
/// The text may quote files and names from anywhere: control characters except line breaks are
/// escaped.
pub(crate) fn diagnostic(text: &str) {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    let _ = writeln!(io::stderr().lock(), "{}", lines.join("\n"));
}
