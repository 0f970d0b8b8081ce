//! `nearcall bench waits`: makes a plan of the words and has waiting measured.

use std::ffi::OsString;

use nearcall_bench::waits::WaitsPlan;

use super::{Cpus, distinct, how, measure, measure_and_deliver};
use crate::args::WaitsArgs;
use crate::commands::{End, Usage};

pub(super) fn run(args: &WaitsArgs, words: &[OsString]) -> anyhow::Result<End> {
    let plan = WaitsPlan {
        waits: args.wait.clone().map(distinct),
        how: how(&args.how, None, words, &Cpus::read()).map_err(Usage)?,
    };
    measure_and_deliver(&args.how, |interrupt| measure::measure_waits(&plan, interrupt))
}
