//! `nearcall show`: prints the table of a stored run again.

use anyhow::Context;
use nearcall_bench::report::table::{details, table};
use nearcall_bench::run::Run;

use super::End;
use crate::args::ShowArgs;
use crate::output;
use crate::terminal::style;

pub(super) fn run(args: &ShowArgs) -> anyhow::Result<End> {
    let run = Run::load(&args.file).with_context(|| args.file.display().to_string())?;
    if args.format.json {
        output::result(&(run.to_json() + "\n"))?;
    } else if args.all {
        output::result(&details(&run, style()))?;
    } else {
        output::result(&table(&run, style()))?;
    }
    Ok(End::Done)
}
