//! `nearcall reproduce`: plans and runs studies.

use std::ffi::OsString;

use nearcall_bench::footprint::ServiceFiles;
use nearcall_studies::reproduce::StudiesPlan;

use super::bench::{self, Cpus};
use super::{End, Usage};
use crate::args::ReproduceArgs;

pub(super) fn run(args: &ReproduceArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let plan = StudiesPlan {
        studies: args.study.0.clone(),
        services: Some(bench::program()),
        service_files: Some(ServiceFiles::find()),
        options: bench::run_options(&args.run, None, arguments, &Cpus::read()).map_err(Usage)?,
    };
    bench::measure_and_deliver(&args.run, |interrupt| bench::measure_studies(&plan, interrupt))
}
