//! Measures calls of the runtime: a fake server without work, over every mechanism and directly.
//!
//! Each call is measured beside what it moves on the bare channel, with the same bytes and the same
//! wait policy at each end, in the same two processes, in random order; so their ratio is the price
//! of marshalling, dispatch and event loop. Launches, warm-up, statistics and grades are those of
//! every run (`runner.rs`).
//! Not here: where one call's time goes (`calls/breakdown.rs`), the table
//! (`report/table/calls.rs`).

mod awaiting;
pub(crate) mod breakdown;
mod end;
mod local;
mod loops;
mod many;
pub(crate) mod ours;
pub mod part;
pub(crate) mod peer;
pub(crate) mod rest;
pub mod route;
pub(crate) mod service;
pub(crate) mod tour;

use std::time::Duration;

use nearcall_channel::{Mechanism, WaitPolicy};

use crate::bench_plan::{BenchPlan, How, Usual};
use crate::run::{Kind, Run};
use crate::runner::{self, BenchError, Hooks, Task};
use route::Caller;

/// Generated from `golden/bench.proto`.
#[allow(missing_docs, unreachable_pub, dead_code, reason = "generated")]
pub(crate) mod generated {
    include!("calls/golden/bench.rs");
}

/// The same once more, as a library built by itself would have it: other types, the same interface.
#[allow(missing_docs, unreachable_pub, dead_code, reason = "generated")]
pub(crate) mod generated_again {
    include!("calls/golden/bench.rs");
}

/// What calls to measure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallsPlan {
    /// Who calls; `None` means everybody.
    pub callers: Option<Vec<Caller>>,
    /// The mechanisms; `None` means all that this machine supports.
    pub mechanisms: Option<Vec<Mechanism>>,
    /// The arguments' sizes in bytes, at least 1 each, beside the empty and the one-way call.
    pub sizes_bytes: Option<Vec<u64>>,
    /// How the client waits; `None` means that it sleeps, in each mechanism's way.
    pub waits: Option<Vec<WaitPolicy>>,
    /// Tell where the time of one empty call goes, instead of measuring calls with arguments.
    pub breakdown: bool,
    /// Measure streams beside one-way calls, instead of calls.
    pub streams: bool,
    /// Where and how.
    pub how: How,
}

/// Measures calls and returns the run, whole or marked as cut short.
///
/// Blocks for the plan's time budget, 120 seconds without one. Call it as
/// [`bench`](runner::bench).
///
/// # Errors
///
/// As [`bench`](runner::bench).
pub fn bench(plan: &CallsPlan, hooks: &Hooks<'_>) -> Result<Run, BenchError> {
    let extent = plan.how.extent(&USUAL);
    let common = BenchPlan {
        kinds: vec![Kind::Latency, Kind::Throughput],
        mechanisms: plan.mechanisms.clone(),
        sizes_bytes: plan.sizes_bytes.clone(),
        waits: plan.waits.clone(),
        how: plan.how.clone(),
        ..BenchPlan::default()
    };
    let find = |no_spinning: Option<&str>| tour::cells(plan, &Mechanism::supported, no_spinning);
    let task = Task { find: &find, extent: Some(extent), conclude: &|_, _, _| {} };
    let mut run = runner::bench_cells(&common, &task, hooks)?;
    if plan.breakdown {
        breakdown::add(&mut run);
    }
    Ok(run)
}

/// Rule R12.
const LAUNCHES: u32 = 5;

/// With `--quick`: an interval needs two.
const LAUNCHES_QUICK: u32 = 2;

/// Twice what the tour of bare mechanisms takes: every cell has its bare exchange beside it.
const BUDGET: Duration = Duration::from_secs(120);

/// With `--quick`: below 20 seconds with start-up and table.
const BUDGET_QUICK: Duration = Duration::from_secs(14);

/// What all of that takes.
const USUAL: Usual = Usual {
    launches: LAUNCHES,
    launches_quick: LAUNCHES_QUICK,
    budget: BUDGET,
    budget_quick: BUDGET_QUICK,
    cell_max: None,
};
