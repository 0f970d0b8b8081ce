//! Every cell of a data set as one flat table in a file: CSV, Parquet, or both at once.
//!
//! Always true: one row per cell of every run, in the order of the files; superseded cells are in
//! it too, since asking is the reader's matter. The file is there whole or not at all. What a row
//! has is in `dataset/flat`.

mod parquet;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::{error, fmt};

use serde::Serialize;

pub use self::parquet::to_parquet;
use super::flat::{Csv, Line};
use super::store::{DataSet, StoreError};
use crate::run::create_beside;

/// What went into the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Runs that were read.
    pub runs: u64,
    /// Rows of each file.
    pub rows: u64,
}

/// Writes the table of a data set. A file that was there is replaced. Reads one run at a time.
///
/// # Errors
///
/// [`ExportError`]: a run that cannot be read, or a file that cannot be written. Files that were
/// there are unchanged then.
pub fn export(
    data: &DataSet,
    csv: Option<&Path>,
    parquet: Option<&Path>,
) -> Result<Exported, ExportError> {
    let mut csv = match csv {
        Some(path) => Some((Csv::new(Target::new(path)?).map_err(|e| failed(path, &e))?, path)),
        None => None,
    };
    let mut parquet = match parquet {
        Some(path) => {
            let rows = parquet::Rows::new(Target::new(path)?).map_err(|e| failed(path, &e))?;
            Some((rows, path))
        }
        None => None,
    };
    let mut done = Exported::default();
    for place in data.places().map_err(ExportError::Store)? {
        let run = data.load(&place).map_err(|error| {
            ExportError::Store(StoreError::Load { file: data.directory().join(&place), error })
        })?;
        done.runs += 1;
        for (key, cell) in run.keyed_cells() {
            let line = Line { run: &run, run_file: &place, key: &key, cell };
            if let Some((csv, path)) = &mut csv {
                csv.push(&line).map_err(|e| failed(path, &e))?;
            }
            if let Some((parquet, path)) = &mut parquet {
                parquet.push(&line).map_err(|e| failed(path, &e))?;
            }
            done.rows += 1;
        }
    }
    if let Some((csv, path)) = csv {
        csv.finish().and_then(Target::finish).map_err(|e| failed(path, &e))?;
    }
    if let Some((parquet, path)) = parquet {
        let target = parquet.finish().map_err(|e| failed(path, &e))?;
        target.finish().map_err(|e| failed(path, &e))?;
    }
    Ok(done)
}

/// A new file that gets its name when it is finished, and goes away if it is not.
struct Target {
    file: Option<BufWriter<File>>,
    /// Its present name and the one that it will have; `None` for what is no regular file.
    names: Option<[PathBuf; 2]>,
}

impl Target {
    fn new(path: &Path) -> Result<Self, ExportError> {
        let io = |error: io::Error| failed(path, &error);
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(&target).map_err(io)?;
            return Ok(Self { file: Some(BufWriter::new(file)), names: None });
        }
        let (beside, file) = create_beside(&target).map_err(io)?;
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
#[derive(Debug)]
pub enum ExportError {
    /// The data set cannot be read.
    Store(StoreError),
    /// The file cannot be written.
    Write {
        /// Which.
        file: PathBuf,
        /// What is in the way.
        what: String,
        /// Whether its reader has gone, as `| head` does; then nothing is wrong.
        is_closed_pipe: bool,
    },
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Write { file, what, .. } => write!(f, "cannot write {}: {what}", file.display()),
        }
    }
}

impl error::Error for ExportError {}

fn failed(path: &Path, error: &(dyn error::Error + 'static)) -> ExportError {
    let is_closed_pipe = is_closed_pipe(error);
    ExportError::Write { file: path.to_owned(), what: error.to_string(), is_closed_pipe }
}

/// Whether a closed pipe is the cause, under whatever the libraries wrap it in.
fn is_closed_pipe(error: &(dyn error::Error + 'static)) -> bool {
    let csv = error.downcast_ref::<csv::Error>().map(csv::Error::kind);
    if let Some(csv::ErrorKind::Io(error)) = csv {
        return error.kind() == io::ErrorKind::BrokenPipe;
    }
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        || error.source().is_some_and(is_closed_pipe)
}
