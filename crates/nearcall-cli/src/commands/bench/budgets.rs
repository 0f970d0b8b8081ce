//! `nearcall bench budgets`: plans and runs the experiment.

use std::ffi::OsString;

use super::{Cpus, measure, measure_and_deliver, run_options};
use crate::args::RunArgs;
use crate::commands::{End, Usage};

pub(super) fn run(args: &RunArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let plan = run_options(args, None, arguments, &Cpus::read()).map_err(Usage)?;
    measure_and_deliver(args, |interrupt| measure::measure_budgets(&plan, interrupt))
}
