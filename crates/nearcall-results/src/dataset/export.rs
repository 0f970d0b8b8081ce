//! Every cell of a data set as one flat table in a file: CSV, JSON lines, or both at once.
//!
//! **Invariants:** one row per cell of every run, in the order of the files; superseded cells are
//! in it too, since selecting is the reader's matter. The file is there whole or not at all.
//!
//! **Not here:** the columns of a row (`dataset/rows`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::rows::{Csv, Line};
use super::store::{DataSet, StoreError};
use crate::run::create_beside;

/// The form of a table in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, a line of names first.
    Csv,
    /// One JSON object per line, with every column; what is missing is null.
    JsonLines,
}

/// What went into the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Runs that were read.
    pub runs: u64,
    /// Rows of each file.
    pub rows: u64,
}

/// Writes the table of a data set into each of these files. A file that was there is replaced.
/// Reads one run at a time.
///
/// # Errors
///
/// [`ExportError`]: a run that cannot be read, or a file that cannot be written. Files that were
/// there are unchanged then.
pub fn export(data: &DataSet, files: &[(Format, &Path)]) -> Result<Exported, ExportError> {
    let mut tables = Vec::new();
    for (format, path) in files {
        let create = || Table::new(*format, Target::new(path)?);
        tables.push((create().map_err(|error| failed(path, &error))?, path));
    }
    let mut done = Exported::default();
    for place in data.places().map_err(ExportError::Store)? {
        let run = data.load(&place).map_err(|error| {
            ExportError::Store(StoreError::Load { file: data.directory().join(&place), error })
        })?;
        done.runs += 1;
        for (key, cell) in run.keyed_cells() {
            let line = Line { run: &run, run_file: &place, key: &key, cell };
            for (table, path) in &mut tables {
                table.push(&line).map_err(|error| failed(path, &error))?;
            }
            done.rows += 1;
        }
    }
    for (table, path) in tables {
        table.finish().map_err(|error| failed(path, &error))?;
    }
    Ok(done)
}

/// A table that is being written.
enum Table {
    Csv(Box<Csv<Target>>),
    JsonLines(Target),
}

impl Table {
    fn new(format: Format, target: Target) -> io::Result<Self> {
        Ok(match format {
            Format::Csv => Self::Csv(Box::new(Csv::new(target)?)),
            Format::JsonLines => Self::JsonLines(target),
        })
    }

    fn push(&mut self, line: &Line<'_>) -> io::Result<()> {
        match self {
            Self::Csv(csv) => csv.push(line),
            Self::JsonLines(target) => line.write_json(target),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Csv(csv) => csv.finish()?.finish(),
            Self::JsonLines(target) => target.finish(),
        }
    }
}

/// A new file that gets its name when it is finished, and goes away if it is not.
struct Target {
    file: Option<BufWriter<File>>,
    /// Its present name and the one that it will have; `None` for what is no regular file.
    names: Option<[PathBuf; 2]>,
}

impl Target {
    fn new(path: &Path) -> io::Result<Self> {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(&target)?;
            return Ok(Self { file: Some(BufWriter::new(file)), names: None });
        }
        let (beside, file) = create_beside(&target)?;
        Ok(Self { file: Some(BufWriter::new(file)), names: Some([beside, target]) })
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.file = None;
        match &self.names {
            Some([beside, target]) => fs::rename(beside, target),
            None => Ok(()),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.flush()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some([beside, _]) = &self.names {
            // Gone already if it got its name.
            let _ = fs::remove_file(beside);
        }
    }
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The data set cannot be read.
    #[error("{0}")]
    Store(StoreError),
    /// The file cannot be written.
    #[error("cannot write {}: {what}", file.display())]
    Write {
        /// Which.
        file: PathBuf,
        /// What is in the way.
        what: String,
        /// Whether its reader has gone, as `| head` does; then nothing is wrong.
        is_closed_pipe: bool,
    },
}

fn failed(path: &Path, error: &io::Error) -> ExportError {
    let is_closed_pipe = error.kind() == io::ErrorKind::BrokenPipe;
    ExportError::Write { file: path.to_owned(), what: error.to_string(), is_closed_pipe }
}
