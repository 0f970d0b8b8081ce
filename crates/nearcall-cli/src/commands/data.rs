//! `nearcall data`: has runs taken in and exported.

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use nearcall_results::dataset::{
    Arrival, DataSet, Exported, Format, Outcome, StoreError, StoreProblem, export,
};
use nearcall_results::report::document::Document;
use nearcall_results::run::printable;
use serde_json::json;

use super::{End, Usage};
use crate::args::JsonArgs;
use crate::terminal::style;
use crate::{output, places};

/// Keep runs of many machines in a directory of plain files
///
/// Each run lies in the directory of its machine; the file name is derived from the content.
/// Runs of different machines are never averaged. For queries over many runs there are CSV and
/// JSON lines, one row per cell.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, arg_required_else_help = true)]
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

pub(super) fn run(args: &DataArgs) -> anyhow::Result<End> {
    match &args.verb {
        DataCommand::Add(args) => add(args),
        DataCommand::Export(args) => write_table(args),
    }
}

fn data_set(which: &WhichArgs) -> anyhow::Result<DataSet> {
    let directory = which.dir.clone().or_else(places::data_set);
    let no_home = || Usage("there is no home directory: give --dir DIR".to_owned());
    Ok(DataSet::at(&directory.ok_or_else(no_home)?))
}

fn add(args: &AddArgs) -> anyhow::Result<End> {
    let data = data_set(&args.which)?;
    let arrivals = data.add(&args.runs, args.keep_host_name)?;
    report(&data, &arrivals, args.which.format.json)?;
    let is_new = arrivals.iter().any(|arrival| arrival.outcome != Outcome::Duplicate);
    if is_new && !args.which.format.json {
        let taken =
            if args.keep_host_name { "Directories" } else { "The host's name and directories" };
        let text = format!(
            "{taken} of paths were removed. Before you publish the data set, check the \
             kernel's command line in it."
        );
        let mut out = Document::default();
        out.wrap("", text);
        output::result(&out.text(style()))?;
    }
    Ok(End::Done)
}

/// Prints the outcome of each run.
fn report(data: &DataSet, arrivals: &[Arrival], json: bool) -> anyhow::Result<End> {
    let of = |outcome| arrivals.iter().filter(move |arrival| arrival.outcome == outcome);
    let [added, duplicates] = [Outcome::Added, Outcome::Duplicate].map(|one| of(one).count());
    if json {
        let runs: Vec<_> = arrivals
            .iter()
            .map(|arrival| {
                json!({
                    "from": arrival.from.display().to_string(),
                    "file": arrival.place,
                    "outcome": word(arrival.outcome),
                })
            })
            .collect();
        output::json(&json!({
            "schema": "nearcall.data-add/1",
            "directory": data.directory().display().to_string(),
            "added": added,
            "duplicates": duplicates,
            "runs": runs,
        }))?;
        return Ok(End::Done);
    }
    let mut text = Document::default();
    for arrival in arrivals {
        // Both are names that others may have given.
        let from = printable(&arrival.from.display().to_string());
        let place = printable(&arrival.place);
        match arrival.outcome {
            Outcome::Added => text.wrap("added      ", place),
            Outcome::Duplicate => {
                text.wrap("duplicate  ", format!("{from} is {place}"));
            }
        }
    }
    let runs = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
    let there = match duplicates {
        0 => String::new(),
        1 => ", 1 was there already".to_owned(),
        many => format!(", {many} were there already"),
    };
    let summary = format!("{} added{there}: {}", runs(added), data.directory().display());
    text.wrap("", summary);
    output::result(&text.text(style()))?;
    Ok(End::Done)
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Added => "added",
        Outcome::Duplicate => "duplicate",
    }
}

fn write_table(args: &ExportArgs) -> anyhow::Result<End> {
    if args.parquet.is_some() {
        let text = "--parquet: Parquet files are not written; use --csv FILE or --jsonl FILE, \
                    DuckDB reads both";
        return Err(Usage(text.to_owned()).into());
    }
    let data = data_set(&args.which)?;
    let directory = data.directory();
    // A table without rows would be a wrong answer.
    anyhow::ensure!(directory.is_dir(), "{}: no such directory", directory.display());
    let files: Vec<_> = [(Format::Csv, &args.csv), (Format::JsonLines, &args.jsonl)]
        .into_iter()
        .filter_map(|(format, file)| Some((format, file.as_deref()?)))
        .collect();
    let mut done = Exported::default();
    for (format, file) in &files {
        done = match export(&data, *format, file) {
            // Whoever reads has seen enough.
            Err(StoreError { problem: StoreProblem::Io(error), .. })
                if error.kind() == ErrorKind::BrokenPipe =>
            {
                return Ok(End::Done);
            }
            outcome => outcome?,
        };
    }
    let names: Vec<String> = files.iter().map(|(_, file)| file.display().to_string()).collect();
    if args.which.format.json {
        output::json(&json!({
            "schema": "nearcall.data-export/1",
            "runs": done.runs,
            "rows": done.rows,
            "files": names,
        }))?;
        return Ok(End::Done);
    }
    // Where the table itself goes to standard output, nothing follows it.
    if files.iter().all(|(_, file)| file.is_file()) {
        let text = format!("{} rows of {} runs: {}\n", done.rows, done.runs, names.join(", "));
        output::result(&text)?;
    }
    Ok(End::Done)
}

const EXAMPLES: &str = "\
Examples:
  nearcall data add run.json                     add a run
  nearcall data export --jsonl cells.jsonl       one row per cell";

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
