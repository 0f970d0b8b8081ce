//! Reads and writes run files. A file may come from anywhere: it is checked before it is used.
//!
//! Reading takes no more memory than the file's size asks for, whatever it claims inside. Writing
//! replaces the file at once, so that a reader never sees half of it. What to measure or how to
//! show it is not here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Cell, Kind, List, Run, SCHEMA};
use crate::visible::printable;

impl Run {
    /// Reads a run from a file of at most [`RUN_BYTES_MAX`].
    ///
    /// # Errors
    ///
    /// [`LoadError`]: the file cannot be read, or is no run that this program knows.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        Self::parse(&read_text(path)?).map_err(LoadError::Parse)
    }

    /// Reads a run from JSON.
    ///
    /// # Errors
    ///
    /// [`ParseError`] names what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        check_head(text)?;
        let run: Self =
            serde_json::from_str(text).map_err(|error| ParseError::field(&error, text))?;
        for list in List::ALL {
            for (index, cell) in run.list(list).iter().enumerate() {
                let list = list.name();
                check_cell(cell).map_err(|what| ParseError::Cell { list, index, what })?;
            }
        }
        Ok(run)
    }

    /// Writes the run to a file, all of it or nothing. Something that is no regular file, such as
    /// `/dev/stdout`, is written to directly.
    ///
    /// # Errors
    ///
    /// The error of the file system. A file that was there before is unchanged then.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        save_text(path, &(self.to_json() + "\n"))
    }
}

/// Returns the text of a file of at most [`RUN_BYTES_MAX`].
///
/// # Errors
///
/// It cannot be read, is larger, or is not text.
pub fn read_text(path: &Path) -> Result<String, LoadError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(LoadError::Io)?;
    file.take(RUN_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(LoadError::Io)?;
    if bytes.len() as u64 > RUN_BYTES_MAX {
        return Err(LoadError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| LoadError::NotText)
}

/// Writes `text` to a file as [`Run::save`] does.
///
/// # Errors
///
/// The error of the file system. A file that was there before is unchanged then.
pub fn save_text(path: &Path, text: &str) -> io::Result<()> {
    save_with(path, |out| out.write_all(text.as_bytes()))
}

/// Writes what `write` writes to a file as [`Run::save`] does.
///
/// # Errors
///
/// The error of the file system or of `write`. A file that was there before is unchanged then.
pub(crate) fn save_with(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let to = |file: File| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    };
    // Follow links, so that the file they mean is replaced and not the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        return to(OpenOptions::new().write(true).open(&target)?);
    }
    let (beside, file) = create_beside(&target)?;
    let outcome = to(file).and_then(|()| fs::rename(&beside, &target));
    if outcome.is_err() {
        // Nothing more can be done about a file that does not go away either.
        let _ = fs::remove_file(&beside);
    }
    outcome
}

/// Checks before measuring whether [`Run::save`] could write there. Leaves nothing behind.
///
/// # Errors
///
/// The error of the file system.
pub fn check_writable(path: &Path) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&target) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => Ok(()),
        _ => fs::remove_file(create_beside(&target)?.0),
    }
}

/// Why a file gave no run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("cannot read: {0}")]
    Io(io::Error),
    /// It is larger than [`RUN_BYTES_MAX`].
    #[error("larger than {} MiB", RUN_BYTES_MAX >> 20)]
    TooLarge,
    /// It is not UTF-8.
    #[error("not a nearcall run: not text")]
    NotText,
    /// It can be read, and is no run that this program knows.
    #[error(transparent)]
    Parse(ParseError),
}

/// Why a text is no run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It ends in the middle.
    #[error("cut off: the file ends at line {line} column {column}, inside the run")]
    CutOff {
        /// The line where it ends, from 1.
        line: usize,
        /// The column where it ends, from 1.
        column: usize,
    },
    /// It is not JSON, or a field has the wrong type or is missing.
    #[error("not a valid run: {what}")]
    Field {
        /// What is wrong, with line and column.
        what: String,
    },
    /// It is JSON, but no run.
    #[error("not a nearcall run: no field \"schema\" with {SCHEMA:?}")]
    NotARun,
    /// It was written by a newer program.
    #[error("{} is newer than this program reads ({SCHEMA}): update nearcall", printable(schema))]
    Newer {
        /// Its schema.
        schema: String,
    },
    /// A cell contradicts itself.
    #[error("not a valid run: {list}[{index}]: {what}")]
    Cell {
        /// "cells", "floors", "bare", "parts", "study_cells" or "library_cells".
        list: &'static str,
        /// Which one, from 0.
        index: usize,
        /// What is wrong.
        what: String,
    },
}

impl ParseError {
    fn field(error: &serde_json::Error, text: &str) -> Self {
        // A number that ends after its point or sign is bad syntax for the parser.
        let half_number = error.is_syntax() && text.ends_with(['.', '-', '+', 'e', 'E']);
        if error.is_eof() || half_number {
            return Self::CutOff { line: error.line(), column: error.column() };
        }
        // It quotes the text.
        Self::Field { what: printable(&error.to_string()) }
    }
}

/// Judges the schema first, so that a newer file is called newer and not broken.
fn check_head(text: &str) -> Result<(), ParseError> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<serde_json::Value>,
    }
    let head: Head = serde_json::from_str(text).map_err(|error| {
        // Text that is whole JSON but no object is no run; the message on types would only
        // confuse.
        let whole = serde_json::from_str::<IgnoredAny>(text).is_ok();
        if whole { ParseError::NotARun } else { ParseError::field(&error, text) }
    })?;
    let schema = head.schema.as_ref().and_then(|schema| schema.as_str());
    let schema = schema.ok_or(ParseError::NotARun)?;
    let version = schema.strip_prefix("nearcall.run/").and_then(|text| text.parse::<u64>().ok());
    match version.ok_or(ParseError::NotARun)? {
        0 => Err(ParseError::NotARun),
        1 => Ok(()),
        _ => Err(ParseError::Newer { schema: schema.to_owned() }),
    }
}

fn check_cell(cell: &Cell) -> Result<(), String> {
    if cell.kind == Kind::Latency && cell.rtt_ns.is_none() {
        return Err("a latency cell without rtt_ns".to_owned());
    }
    if cell.kind == Kind::Throughput && cell.messages_per_s.is_none() {
        return Err("a throughput cell without messages_per_s".to_owned());
    }
    match &cell.histogram {
        Some(stored) => stored.to_histogram().map(drop).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

/// Makes a new file in the same directory, for the target's name to be given to. A process that
/// died may have left one of a like name; it is let lie.
pub(crate) fn create_beside(target: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    for _ in 0..NAMES_TRIED_MAX {
        let mut name = own.to_owned();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".{}.{number}.part", process::id()));
        let beside = target.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => return Ok((beside, outcome?)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Files that dead processes of one number have left at most.
const NAMES_TRIED_MAX: u32 = 100;

/// A tour stores about 2 MiB. A larger file is the wrong one.
pub const RUN_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests;
