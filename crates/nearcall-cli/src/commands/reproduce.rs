//! `nearcall reproduce`: makes a plan of the words and has studies repeated.

use std::ffi::OsString;

use nearcall_bench::footprint;
use nearcall_bench::runner::Program;
use nearcall_bench::studies::reproduce::StudiesPlan;

use super::bench::{self, Cpus};
use super::{End, Usage};
use crate::args::ReproduceArgs;

pub(super) fn run(args: &ReproduceArgs, words: &[OsString]) -> anyhow::Result<End> {
    let how = &args.how;
    let plan = StudiesPlan {
        studies: args.study.0.clone(),
        services: Some(Program::current(&[footprint::PROCESS_VERB])),
        placement: bench::place(how, None, &Cpus::read()).map_err(Usage)?,
        launches: how.launches,
        time_budget: how.time,
        quick: how.quick,
        seed: how.seed.unwrap_or_else(bench::new_seed),
        arguments: bench::arguments(words),
    };
    bench::measure_and_deliver(how, |interrupt| bench::measure_studies(&plan, interrupt))
}
