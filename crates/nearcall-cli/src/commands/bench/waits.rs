//! `nearcall bench waits`: makes a plan of the words and has waiting measured.

use std::ffi::OsString;

use nearcall_bench::waits::WaitsPlan;

use super::{Cpus, arguments, distinct, measure, measure_and_deliver, new_seed, place};
use crate::args::WaitsArgs;
use crate::commands::{End, Usage};

pub(super) fn run(args: &WaitsArgs, words: &[OsString]) -> anyhow::Result<End> {
    let how = &args.how;
    let plan = WaitsPlan {
        waits: args.wait.clone().map(distinct),
        placement: place(how, None, &Cpus::read()).map_err(Usage)?,
        launches: how.launches,
        time_budget: how.time,
        quick: how.quick,
        seed: how.seed.unwrap_or_else(new_seed),
        arguments: arguments(words),
    };
    measure_and_deliver(how, |interrupt| measure::measure_waits(&plan, interrupt))
}
