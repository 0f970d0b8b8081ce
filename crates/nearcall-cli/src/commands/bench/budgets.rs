//! `nearcall bench budgets`: makes a plan of the words and has the budgets measured.

use std::ffi::OsString;

use super::{Cpus, how, measure, measure_and_deliver};
use crate::args::BudgetsArgs;
use crate::commands::{End, Usage};

pub(super) fn run(args: &BudgetsArgs, words: &[OsString]) -> anyhow::Result<End> {
    let plan = how(&args.how, None, words, &Cpus::read()).map_err(Usage)?;
    measure_and_deliver(&args.how, |interrupt| measure::measure_budgets(&plan, interrupt))
}
