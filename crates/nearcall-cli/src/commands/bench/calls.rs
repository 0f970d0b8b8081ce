//! `nearcall bench calls`: makes a plan of the words and has calls measured.

use std::ffi::OsString;

use nearcall_bench::calls::CallsPlan;

use super::{Cpus, distinct, how, measure, measure_and_deliver};
use crate::args::CallsArgs;
use crate::commands::{End, Usage};

pub(super) fn run(args: &CallsArgs, words: &[OsString]) -> anyhow::Result<End> {
    let plan = plan(args, words, &Cpus::read()).map_err(Usage)?;
    measure_and_deliver(&args.how, |interrupt| measure::measure_calls(&plan, interrupt))
}

fn plan(args: &CallsArgs, words: &[OsString], cpus: &Cpus) -> Result<CallsPlan, String> {
    let sizes_bytes = args.size.clone().map(|sizes| sizes.0);
    if let Some(size) = sizes_bytes.iter().flatten().find(|&&size| size > ARGUMENT_BYTES_MAX) {
        return Err(format!("--size: an argument of {size} bytes is above the limit of 1 MiB"));
    }
    Ok(CallsPlan {
        callers: args.caller.clone().map(distinct),
        mechanisms: args.via.clone().map(distinct),
        sizes_bytes,
        breakdown: args.breakdown,
        waits: args.wait.clone().map(distinct),
        how: how(&args.how, args.place.placement, words, cpus)?,
    })
}

/// The largest that the thesis sent; with its header it fits in every connection's limit.
const ARGUMENT_BYTES_MAX: u64 = 1 << 20;
