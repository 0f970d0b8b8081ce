//! What other crates see of nearcall-bench, tested from outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod load;
mod profile;
mod runner;
mod traffic;

use nearcall_bench::bench_plan::BenchPlan;
use nearcall_bench::experiment;
use nearcall_bench::runner::{BenchError, RunContext};
use nearcall_results::report::lines::Style;
use nearcall_results::run::Run;

/// A page of the usual width without colours.
const PAGE: Style = Style::new(Some(100), false);

/// Measures latency and throughput by mechanism, as far as the plan wants them.
fn bench(plan: &BenchPlan, context: &RunContext<'_>) -> Result<Run, BenchError> {
    experiment::measure(&experiment::ALL_KINDS, plan, context)
}
