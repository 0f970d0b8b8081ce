//! Every cell of a data set as one flat table in a file: CSV or JSON lines.
//!
//! **Invariants:** one row per cell of every run, in the order of the files; superseded cells are
//! in it too, since selecting is the reader's matter. The file is there whole or not at all.
//!
//! **Not here:** the columns of a row (`dataset/rows`).

use std::io;
use std::path::Path;

use serde::Serialize;

use super::rows::{Csv, Line};
use super::store::{DataSet, Machines, StoreError, StoreProblem};
use crate::run::save_with;

/// The form of a table in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, a line of names first.
    Csv,
    /// One JSON object per line, with every column; what is missing is null.
    JsonLines,
}

/// What went into a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Runs that were read.
    pub runs: u64,
    /// Rows of the file.
    pub rows: u64,
}

/// Writes the table of a data set into a file, which is replaced if it was there. Reads one run at
/// a time.
///
/// # Errors
///
/// [`StoreError`]: a run that cannot be read or is of another machine than others with its id, or
/// the file cannot be written. A file that was there is unchanged then.
pub fn export(data: &DataSet, format: Format, path: &Path) -> Result<Exported, StoreError> {
    let places = data.places()?;
    let mut done = Exported::default();
    let mut unread = None;
    let written = save_with(path, |out| match format {
        Format::Csv => {
            let mut csv = Csv::new(out)?;
            let outcome = each_line(data, &places, &mut done, &mut unread, |line| csv.push(line));
            outcome.and_then(|()| csv.finish().map(drop))
        }
        Format::JsonLines => {
            each_line(data, &places, &mut done, &mut unread, |line| line.write_json(&mut *out))
        }
    });
    match (unread, written) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(StoreProblem::Io(error).of(path)),
        (None, Ok(())) => Ok(done),
    }
}

/// Ends with an error if a run cannot be used, which is in `unread` then.
fn each_line(
    data: &DataSet,
    places: &[String],
    done: &mut Exported,
    unread: &mut Option<StoreError>,
    mut push: impl FnMut(&Line<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut machines = Machines::default();
    for place in places {
        let checked = data.load(place).and_then(|run| {
            machines.check(&run, &data.directory().join(place))?;
            Ok(run)
        });
        let run = checked.map_err(|error| {
            *unread = Some(error);
            io::Error::from(io::ErrorKind::InvalidData)
        })?;
        done.runs += 1;
        for (key, cell) in run.keyed_cells() {
            push(&Line { run: &run, run_file: place, key: &key, cell })?;
            done.rows += 1;
        }
    }
    Ok(())
}
