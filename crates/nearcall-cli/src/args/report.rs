//! Words of `nearcall report`.

use std::path::PathBuf;

use clap::Args;

use super::RESULT;

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Stored runs, of one machine or of several
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    /// Write the page here; `-` is standard output
    #[arg(short = 'o', long = "out", value_name = "FILE", help_heading = RESULT)]
    pub(crate) out: Option<PathBuf>,

    /// Write each figure into this folder as a file of its own
    #[arg(long, value_name = "DIR", help_heading = RESULT)]
    pub(crate) svg: Option<PathBuf>,

    /// Write all cells here, one line each; `-` is standard output
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub(crate) csv: Option<PathBuf>,

    /// Write the facts in short here, for a comment; `-` is standard output
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub(crate) markdown: Option<PathBuf>,

    /// Print the facts in short as one JSON document (nearcall.report/1)
    #[arg(long, help_heading = RESULT)]
    pub(crate) json: bool,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  nearcall report run.json -o report.html
  nearcall report tour.json calls.json studies.json -o report.html --svg figures
  nearcall report here.json there.json -o both.html     two machines beside each other
  nearcall report run.json --markdown - >> $GITHUB_STEP_SUMMARY
  nearcall report run.json --csv - | head -3";
