//! `nearcall bench matrix`: plans and runs the experiment.

use std::ffi::OsString;

use nearcall_bench::bench_plan::How;
use nearcall_bench::matrix::MatrixPlan;

use super::{Cpus, distinct, measure, measure_and_deliver, run_options};
use crate::args::MatrixArgs;
use crate::commands::{End, Usage};

pub(super) fn run(args: &MatrixArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    if args.run.pin.pin.is_some() {
        let reason = "--pin: every pair of CPUs is measured; choose the CPUs by taskset";
        return Err(Usage(reason.to_owned()).into());
    }
    let plan = MatrixPlan {
        mechanisms: args.mechanism.mechanism.clone().map(distinct),
        waits: args.wait.wait.clone().map(distinct),
        message_bytes: args.size.size,
        how: How {
            load: args.load.load,
            awake: args.pm_qos.pm_qos,
            ..run_options(&args.run, None, arguments, &Cpus::read()).map_err(Usage)?
        },
    };
    measure_and_deliver(&args.run, |interrupt| measure::measure_matrix(&plan, interrupt))
}
