//! `nearcall show`: prints the table of a stored result again.

use anyhow::{Context, Error};
use nearcall_results::findings::memory::MemoryFindings;
use nearcall_results::report::table::{self, details};
use nearcall_results::run::{Run, read_text};
use nearcall_studies::stored;

use super::End;
use crate::args::ShowArgs;
use crate::output;
use crate::terminal::style;

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
