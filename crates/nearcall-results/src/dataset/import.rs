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

use std::collections::BTreeSet;
use std::io::Read;

pub use self::archive::{
    ARCHIVE_BYTES_MAX, ArchiveError, ENTRIES_MAX, ENTRY_BYTES_MAX, NAME_BYTES_MAX,
    UNPACKED_BYTES_MAX,
};
use self::archive::{Archive, LIMITS};
pub use self::cells::PREFIX;
pub use self::results::CELLS_MAX;
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
    let mechanisms: BTreeSet<&String> = made.cells.iter().map(|cell| &cell.mechanism).collect();
    let sizes_bytes: BTreeSet<u64> = made.cells.iter().map(|cell| cell.message_bytes).collect();
    let has = |kind: &Kind| made.cells.iter().any(|cell| cell.kind == *kind);
    let settings = Settings {
        arguments: vec!["data".to_owned(), "import".to_owned(), file.to_owned()],
        kinds: [Kind::Latency, Kind::Throughput].into_iter().filter(has).collect(),
        mechanisms: mechanisms.into_iter().cloned().collect(),
        sizes_bytes: sizes_bytes.into_iter().collect(),
        wait: UNKNOWN.to_owned(),
        placement: "pin".to_owned(),
        // Not ours, so that no table takes it for one of ours.
        touch: FORM.to_owned(),
        launches: 1,
        ..Settings::default()
    };
    let (first_s, last_s) = archive.written_unix_s;
    let mut run = Run::new(machine, settings, first_s);
    run.finished_unix_s = Some(last_s);
    let (version, profile, compiler) = (FORM.to_owned(), UNKNOWN.to_owned(), UNKNOWN.to_owned());
    run.tool = Tool { version, profile, compiler };
    let (form, file) = (FORM.to_owned(), file.to_owned());
    run.imported = Some(Imported { form, file, lines_refused: results.refused });
    run.matrix = cells::matrix(&made.cells, &topology);
    run.warnings = warnings::warnings(archive, &results, &made);
    (run.cells, run.skipped) = (made.cells, made.skipped);
    Ok(run)
}

/// Why an archive gave no run.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read, or must not be.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// It has no results where ipc-bench puts them.
    #[error(
        "not an ipc-bench archive: no results/01-NAME-headline.log and no results/lat/NAME.csv"
    )]
    NoResults,
    /// No line of its results could be read.
    #[error("none of {refused} lines of results can be read; the first: {first}")]
    NoFigures {
        /// How many there are.
        refused: u64,
        /// The first of them.
        first: FirstRefused,
    },
    /// It has more figures than [`CELLS_MAX`].
    #[error("more than {CELLS_MAX} figures")]
    TooManyCells,
}

/// Whose archives these are.
const FORM: &str = "ipc-bench";
