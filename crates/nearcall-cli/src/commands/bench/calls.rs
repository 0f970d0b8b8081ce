//! `nearcall bench calls`: plans and runs the experiment.

use std::ffi::OsString;

use nearcall_bench::calls::CallsPlan;

use super::{Cpus, distinct, measure, measure_and_deliver, run_options};
use crate::args::CallsArgs;
use crate::commands::{End, Usage};

pub(super) fn run(args: &CallsArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let plan = plan(args, arguments, &Cpus::read()).map_err(Usage)?;
    measure_and_deliver(&args.run, |interrupt| measure::measure_calls(&plan, interrupt))
}

fn plan(args: &CallsArgs, arguments: &[OsString], cpus: &Cpus) -> Result<CallsPlan, String> {
    let sizes_bytes = args.size.size.clone().map(|sizes| sizes.0);
    if let Some(size) = sizes_bytes.iter().flatten().find(|&&size| size > ARGUMENT_BYTES_MAX) {
        return Err(format!("--size: an argument of {size} bytes is above the limit of 1 MiB"));
    }
    Ok(CallsPlan {
        callers: args.client.clone().map(distinct),
        mechanisms: args.mechanism.mechanism.clone().map(distinct),
        sizes_bytes,
        breakdown: args.breakdown,
        streams: args.streams,
        waits: args.wait.wait.clone().map(distinct),
        how: run_options(&args.run, args.placement.placement, arguments, cpus)?,
    })
}

/// With its header it fits in every connection's limit.
const ARGUMENT_BYTES_MAX: u64 = 1 << 20;
