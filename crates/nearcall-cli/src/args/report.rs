//! Options of `nearcall report`.

use std::path::PathBuf;

use clap::Args;

use super::options::JsonArgs;

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Stored runs, of one machine or of several
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    /// Write the page here; `-` is standard output
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Write all cells here, one line each; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Write a summary as Markdown here; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  nearcall report run.json -o report.html
  nearcall report all.json calls.json -o report.html
  nearcall report run.json libraries.json -o report.html  beside other libraries
  nearcall report here.json there.json -o both.html       two machines
  nearcall report run.json --markdown - >> $GITHUB_STEP_SUMMARY
  nearcall report run.json --csv - | head -3";
