//! `nearcall bench matrix`: makes a plan of the words and has every pair of CPUs measured.

use std::ffi::OsString;

use nearcall_bench::bench_plan::How;
use nearcall_bench::matrix::{MESSAGE_BYTES, MatrixPlan};

use super::{Cpus, distinct, how, measure, measure_and_deliver};
use crate::args::MatrixArgs;
use crate::commands::{End, Usage};

pub(super) fn run(args: &MatrixArgs, words: &[OsString]) -> anyhow::Result<End> {
    if args.how.pin.is_some() {
        let reason = "--pin: every pair of CPUs is measured here; taskset says which CPUs";
        return Err(Usage(reason.to_owned()).into());
    }
    let message_bytes = match args.size.as_ref().map(|sizes| sizes.0.as_slice()) {
        None => MESSAGE_BYTES,
        Some(&[size]) => size,
        Some(_) => return Err(Usage("--size: give one size".to_owned()).into()),
    };
    let plan = MatrixPlan {
        mechanisms: args.mechanism.clone().map(distinct),
        waits: args.wait.clone().map(distinct),
        message_bytes,
        how: How {
            load: args.load.load,
            awake: args.quiet.awake,
            ..how(&args.how, None, words, &Cpus::read()).map_err(Usage)?
        },
    };
    measure_and_deliver(&args.how, |interrupt| measure::measure_matrix(&plan, interrupt))
}
