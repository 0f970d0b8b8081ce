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
