//! Words of `nearcall data`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::TEMPLATE;

/// Options of `data`.
#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    pub(crate) verb: DataCommand,
}

/// What to do with a data set.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Take runs in, each under a name that follows from its content
    ///
    /// All of them, or none if one of them is no run. A run that is there already is recognised,
    /// whatever its file is called. Data sets get published: the host's name is replaced by
    /// "unknown", and of absolute paths among the arguments only the last part stays.
    #[command(help_template = TEMPLATE, before_help = ADD_EXAMPLES, verbatim_doc_comment)]
    Add(AddArgs),

    /// List the machines of the data set and what is known of each
    ///
    /// Reads every run. Exit code 1 if a file is no run, or lies where it should not.
    #[command(help_template = TEMPLATE, before_help = LIST_EXAMPLES, verbatim_doc_comment)]
    List(ListArgs),

    /// Take in every run of another data set
    ///
    /// Runs of one machine come together in its folder; nothing is averaged. What is there already
    /// is counted. Of two runs with one name both are kept.
    #[command(help_template = TEMPLATE, before_help = MERGE_EXAMPLES, verbatim_doc_comment)]
    Merge(MergeArgs),

    /// Write every cell as one row of a flat table, for a database
    #[command(help_template = TEMPLATE, before_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),

    /// Make a run of an archive of the public ipc-bench data set
    ///
    /// The run is stored in the data set and says what is known to be wrong with its figures.
    /// Nothing is unpacked. An archive with names that lead out of it is refused.
    #[command(help_template = TEMPLATE, before_help = IMPORT_EXAMPLES, verbatim_doc_comment)]
    Import(ImportArgs),
}

/// Where the data set is, and the form of the answer.
#[derive(Debug, Args)]
pub(crate) struct WhichArgs {
    /// The folder of the data set [default: in the data directory of nearcall]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Print one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `data add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Runs that `bench` or `reproduce` has stored
    #[arg(value_name = "RUN.json", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    /// Leave the host's name in; whoever gets the data set can read it
    #[arg(long)]
    pub(crate) keep_host_name: bool,

    #[command(flatten)]
    pub(crate) which: WhichArgs,
}

/// Options of `data list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,
}

/// Options of `data merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The folder of the other data set
    #[arg(value_name = "OTHER_DIR")]
    pub(crate) other: PathBuf,

    #[command(flatten)]
    pub(crate) which: WhichArgs,
}

/// Options of `data export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write comma-separated values here; a file that is there is replaced
    #[arg(long, value_name = "FILE", required_unless_present = "parquet")]
    pub(crate) csv: Option<PathBuf>,

    /// Write a Parquet file here; a file that is there is replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) parquet: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) which: WhichArgs,
}

/// Options of `data import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The archive, as the data set of ipc-bench has them
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
  nearcall data add run.json                     take a run in
  nearcall data list                             which machines there are
  nearcall data merge other-data                 take in what others have measured
  nearcall data export --parquet cells.parquet   one row per cell, for DuckDB and others
  nearcall data import i5-m580.tar.gz            a public result of ipc-bench";

const ADD_EXAMPLES: &str = "\
Examples:
  nearcall data add run.json
  nearcall data add docs/runs/*.json --dir shared-data
  nearcall data add run.json --keep-host-name";

const LIST_EXAMPLES: &str = "\
Examples:
  nearcall data list
  nearcall data list --json | jq -r '.machines[] | [.machine_id, .runs] | @tsv'";

const MERGE_EXAMPLES: &str = "\
Examples:
  nearcall data merge other-data
  nearcall data merge other-data --dir shared-data --json | jq '.duplicates'";

const EXPORT_EXAMPLES: &str = "\
Examples:
  nearcall data export --csv cells.csv
  nearcall data export --parquet cells.parquet --dir shared-data
  duckdb -c \"SELECT machine_id, count(*) FROM 'cells.parquet' GROUP BY ALL\"";

const IMPORT_EXAMPLES: &str = "\
Examples:
  nearcall data import i5-m580.tar.gz
  nearcall data import i5-m580.tar.gz --out i5-m580.json";
