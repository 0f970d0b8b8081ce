//! `nearcall bench budgets`: makes a plan of the words and has the budgets measured.

use std::ffi::OsString;

use nearcall_bench::budgets::BudgetsPlan;

use super::{Cpus, arguments, measure, measure_and_deliver, new_seed, place};
use crate::args::BudgetsArgs;
use crate::commands::{End, Usage};

pub(super) fn run(args: &BudgetsArgs, words: &[OsString]) -> anyhow::Result<End> {
    let how = &args.how;
    let plan = BudgetsPlan {
        placement: place(how, None, &Cpus::read()).map_err(Usage)?,
        launches: how.launches,
        time_budget: how.time,
        quick: how.quick,
        seed: how.seed.unwrap_or_else(new_seed),
        arguments: arguments(words),
    };
    measure_and_deliver(how, |interrupt| measure::measure_budgets(&plan, interrupt))
}
