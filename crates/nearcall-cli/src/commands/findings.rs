//! Findings, which are no run: their file is tried before measuring, stored, then printed.
//!
//! **Invariants:** they are stored first, since a closed pipe must not cost what was measured.

use std::path::Path;

use anyhow::Context;
use nearcall_results::run::{check_writable, save_text};

use crate::output;

/// Tries whether `out` can be written, if there is one.
pub(super) fn check(out: Option<&Path>) -> anyhow::Result<()> {
    out.map_or(Ok(()), |file| check_writable(file).with_context(|| cannot_store(file)))
}

/// Stores `json` in `out`, if there is one, and prints it or the `table`.
pub(super) fn deliver(json: &str, table: Option<String>, out: Option<&Path>) -> anyhow::Result<()> {
    let save = |file| save_text(file, &format!("{json}\n")).with_context(|| cannot_store(file));
    let stored = out.map_or(Ok(()), save);
    match table {
        Some(table) => output::result(&table)?,
        None => output::json_text(json)?,
    }
    stored
}

fn cannot_store(file: &Path) -> String {
    format!("cannot store in {}", file.display())
}
