//! `nearcall show`: prints the table of a stored result again.

use std::path::PathBuf;

use anyhow::{Context, Error};
use clap::Args;
use nearcall_results::findings::memory::MemoryFindings;
use nearcall_results::report::table::{self, details};
use nearcall_results::run::{Run, read_text};
use nearcall_studies::stored;

use super::End;
use crate::args::JsonArgs;
use crate::output;
use crate::terminal::style;

/// Print the table of a stored run again
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ShowArgs {
    /// A run that `bench` has stored, or a result of `bench memory`
    #[arg(value_name = "RUN.json")]
    pub(crate) file: PathBuf,

    /// Print every cell with its interval and its marks
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) fn run(args: &ShowArgs) -> anyhow::Result<End> {
    let name = || args.file.display().to_string();
    let text = read_text(&args.file).with_context(name)?;
    if let Some(found) = MemoryFindings::parse(&text) {
        let found = found.map_err(Error::msg).with_context(name)?;
        match args.format.json {
            true => output::json_text(&found.to_json())?,
            false => output::result(&table::footprint::table(&found, style()))?,
        }
        return Ok(End::Done);
    }
    let mut run = Run::parse(&text).with_context(name)?;
    if args.format.json {
        output::json_text(&run.to_json())?;
        return Ok(End::Done);
    }
    stored::judge_again(&mut run);
    if args.all {
        output::result(&details(&run, style()))?;
    } else {
        output::result(&table::table(&run, style()))?;
    }
    Ok(End::Done)
}

const EXAMPLES: &str = "\
Examples:
  nearcall show run.json
  nearcall show --all run.json | less
  nearcall show run.json --json | jq '.machine'";
