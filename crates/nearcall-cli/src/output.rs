//! Output: results to standard output, diagnostics to standard error.
//!
//! **Invariants:** a reader that closes the pipe early (`| head`) ends the program silently and is
//! no failure.
//!
//! **Not here:** width and colour (`terminal.rs`).

use std::io::{self, Write};

use anyhow::Context;
use nearcall_results::run::printable;
use serde::Serialize;

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
