//! `nearcall bench wait-policies`: plans and runs the experiment.

use std::ffi::OsString;

use nearcall_bench::waits::WaitsPlan;

use super::{Cpus, distinct, measure, measure_and_deliver, run_options};
use crate::args::WaitPoliciesArgs;
use crate::commands::{End, Usage};

pub(super) fn run(args: &WaitPoliciesArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let plan = WaitsPlan {
        waits: args.wait.wait.clone().map(distinct),
        how: run_options(&args.run, None, arguments, &Cpus::read()).map_err(Usage)?,
    };
    measure_and_deliver(&args.run, |interrupt| measure::measure_waits(&plan, interrupt))
}
