//! Options of `nearcall data`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::options::JsonArgs;

/// Options of `data`.
#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    pub(crate) verb: DataCommand,
}

/// What to do with a data set.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Add runs; the file name is derived from the content
    ///
    /// Adds all of them, or none if one of them is no run. A run that is present already is
    /// recognised, whatever the file that is given is called. Data sets get published: the host's
    /// name is replaced by "unknown", and only the last part of absolute paths among the arguments
    /// is kept.
    #[command(before_help = ADD_EXAMPLES)]
    Add(AddArgs),

    /// Write all cells as one flat table, for a database
    ///
    /// Reads every run. Exit code: 1 if a file is no run, or lies in the wrong directory.
    #[command(before_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),

    /// Convert an archive of the public ipc-bench data set to a run
    ///
    /// The run is stored in the data set, with warnings about what is known to be wrong with its
    /// figures. Nothing is unpacked. An archive with names that lead out of it is refused.
    #[command(before_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
}

/// The data set, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct WhichArgs {
    /// Directory of the data set [default: in the data directory of nearcall]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// Options of `data add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Runs that `bench` or `reproduce` has stored
    #[arg(value_name = "RUN.json", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    /// Keep the host's name; readers of the data set will see it
    #[arg(long)]
    pub(crate) keep_host_name: bool,

    #[command(flatten)]
    pub(crate) which: WhichArgs,
}

/// Options of `data export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write comma-separated values here; an existing file is replaced
    #[arg(long, value_name = "FILE", required_unless_present_any = ["jsonl", "parquet"])]
    pub(crate) csv: Option<PathBuf>,

    /// Write JSON lines here, one object per row; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) jsonl: Option<PathBuf>,

    /// Refused with the formats to use instead
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) parquet: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) which: WhichArgs,
}

/// Options of `data import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The archive, in the form of the ipc-bench data set
    #[arg(value_name = "FILE.tar.gz")]
    pub(crate) archive: PathBuf,

    /// Store the run in this file and not in the data set
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) which: WhichArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  nearcall data add run.json                     add a run
  nearcall data export --jsonl cells.jsonl       one row per cell
  nearcall data import i5-m580.tar.gz            a result of ipc-bench";

const ADD_EXAMPLES: &str = "\
Examples:
  nearcall data add run.json
  nearcall data add docs/runs/*.json --dir shared-data
  nearcall data add other-data/*/*.json          the runs of another data set
  nearcall data add run.json --keep-host-name";

const EXPORT_EXAMPLES: &str = "\
Examples:
  nearcall data export --csv cells.csv
  nearcall data export --jsonl cells.jsonl --dir shared-data
  duckdb -c \"SELECT machine_id, count(*) FROM 'cells.jsonl' GROUP BY 1\"";

const IMPORT_EXAMPLES: &str = "\
Examples:
  nearcall data import i5-m580.tar.gz
  nearcall data import i5-m580.tar.gz --out i5-m580.json";
