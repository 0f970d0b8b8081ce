//! Reads an archive of the public ipc-bench data set into a run of its own kind.
//!
//! Always true: figures are kept as they were published and are never given a statistic, grade or
//! interval that they do not have; what is known to be wrong with them stands in the run's
//! warnings. Mechanisms have the prefix [`PREFIX`], since they are that program's own, and two
//! round trips have a definition of their own, so that no table mixes them with one. Nothing is
//! unpacked: `import/archive.rs` reads the files into memory within limits, `import/results.rs`
//! reads their lines, `import/place.rs` the machine, `import/cells.rs` makes cells.

mod archive;
mod cells;
mod place;
mod results;
mod warnings;

use std::io::Read;
use std::{error, fmt};

pub use self::archive::{
    ARCHIVE_BYTES_MAX, ArchiveError, ENTRIES_MAX, ENTRY_BYTES_MAX, NAME_BYTES_MAX,
    UNPACKED_BYTES_MAX,
};
use self::archive::{Archive, LIMITS};
pub use self::cells::{CELLS_MAX, PREFIX};
use self::results::Results;
pub use self::results::{CPUS_MAX, FirstRefused};
use crate::run::{Imported, Kind, Run, Settings, Tool, UNKNOWN};

/// Reads a gzipped archive. `file` is its name, for the record.
///
/// # Errors
///
/// [`ImportError`]: the archive is unsafe, too large, damaged, or of another form.
pub fn import(gzip: impl Read, file: &str) -> Result<Run, ImportError> {
    to_run(&Archive::read_gzip(gzip, &LIMITS)?, file)
}

/// Reads an archive that is not compressed.
///
/// # Errors
///
/// As [`import`].
pub fn import_tar(tar: impl Read, file: &str) -> Result<Run, ImportError> {
    to_run(&Archive::read_tar(tar, &LIMITS)?, file)
}

fn to_run(archive: &Archive, file: &str) -> Result<Run, ImportError> {
    let results = Results::read(archive).ok_or(ImportError::TooManyCells)?;
    let (topology, machine) = place::machine(archive);
    let made = cells::cells(&results, &topology);
    if made.cells.is_empty() {
        return Err(match results.first_refused {
            Some(first) => ImportError::NoFigures { refused: results.refused, first },
            None => ImportError::NoResults,
        });
    }
    let (first_s, last_s) = archive.written_unix_s;
    let kinds = [Kind::Latency, Kind::Throughput];
    let mut mechanisms: Vec<String> =
        made.cells.iter().map(|cell| cell.mechanism.clone()).collect();
    mechanisms.sort_unstable();
    mechanisms.dedup();
    let mut sizes_bytes: Vec<u64> = made.cells.iter().map(|cell| cell.message_bytes).collect();
    sizes_bytes.sort_unstable();
    sizes_bytes.dedup();
    let settings = Settings {
        arguments: vec!["data".to_owned(), "import".to_owned(), file.to_owned()],
        kinds: kinds
            .into_iter()
            .filter(|kind| made.cells.iter().any(|cell| cell.kind == *kind))
            .collect(),
        mechanisms,
        sizes_bytes,
        wait: UNKNOWN.to_owned(),
        placement: "pin".to_owned(),
        // Not ours, so that no table takes it for one of ours.
        touch: FORM.to_owned(),
        launches: 1,
        ..Settings::default()
    };
    let mut run = Run::new(machine, settings, first_s);
    run.finished_unix_s = Some(last_s);
    run.tool = Tool {
        version: FORM.to_owned(),
        profile: UNKNOWN.to_owned(),
        compiler: UNKNOWN.to_owned(),
    };
    run.imported = Some(Imported {
        form: FORM.to_owned(),
        file: file.to_owned(),
        lines_refused: results.refused,
    });
    run.matrix = cells::matrix(&made.cells, &topology);
    run.warnings = warnings::warnings(archive, &results, &made);
    run.cells = made.cells;
    run.skipped = made.skipped;
    Ok(run)
}

/// Why an archive gave no run.
#[derive(Debug)]
pub enum ImportError {
    /// It cannot be read, or must not be.
    Archive(ArchiveError),
    /// It has no results where ipc-bench puts them.
    NoResults,
    /// No line of its results could be read.
    NoFigures {
        /// How many there are.
        refused: u64,
        /// The first of them.
        first: FirstRefused,
    },
    /// It has more figures than [`CELLS_MAX`].
    TooManyCells,
}

impl From<ArchiveError> for ImportError {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error)
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Archive(error) => error.fmt(f),
            Self::NoResults => f.write_str(
                "not an ipc-bench archive: no results/01-NAME-headline.log and no \
                 results/lat/NAME.csv",
            ),
            Self::NoFigures { refused, first } => {
                write!(f, "none of {refused} lines of results can be read; the first: {first}")
            }
            Self::TooManyCells => write!(f, "more than {CELLS_MAX} figures"),
        }
    }
}

impl error::Error for ImportError {}

/// Whose archives these are.
const FORM: &str = "ipc-bench";
