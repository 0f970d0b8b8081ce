//! `nearcall bench open-loop`, `idle-gap`, `burst`, `clients`, `threads` and `connect`: plans and
//! runs the experiment.

use std::ffi::OsString;

use nearcall_bench::bench_plan::How;
use nearcall_bench::launch::Fault;
use nearcall_bench::traffic::{TrafficPlan, What};

use super::{Cpus, distinct, measure, measure_and_deliver, run_options};
use crate::args::traffic::{
    BurstArgs, ClientsArgs, ConnectArgs, IdleGapArgs, OpenLoopArgs, ThreadsArgs, TrafficArgs,
};
use crate::commands::{End, Usage};

/// Measures an open loop beside a closed loop.
pub(super) fn open_loop(args: &OpenLoopArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let fault = args.stall.map_or(Fault::None, |ns| Fault::Stall { ns });
    let what = What::Pace { rates_per_s: args.rate.clone().map(distinct) };
    run(with_size(what, args.size.size), &args.traffic, fault, arguments)
}

/// Measures messages with gaps between them.
pub(super) fn idle_gap(args: &IdleGapArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let what = What::Gap { gaps_ns: args.gap.clone().map(distinct) };
    run(with_size(what, args.size.size), &args.traffic, Fault::None, arguments)
}

/// Measures messages right after each other.
pub(super) fn burst(args: &BurstArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let what = What::Burst { messages: args.messages.clone().map(distinct) };
    run(with_size(what, args.size.size), &args.traffic, Fault::None, arguments)
}

/// Measures many clients of one server.
pub(super) fn clients(args: &ClientsArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let what = What::Clients { clients: args.clients.clone().map(distinct) };
    run(TrafficPlan::new(what), &args.traffic, Fault::None, arguments)
}

/// Measures threads of one caller.
pub(super) fn threads(args: &ThreadsArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    let (threads, loops) = (args.threads.clone().map(distinct), args.loops.clone().map(distinct));
    run(TrafficPlan::new(What::Threads { threads, loops }), &args.traffic, Fault::None, arguments)
}

/// Measures set-up, first message and tear-down of connections.
pub(super) fn connect(args: &ConnectArgs, arguments: &[OsString]) -> anyhow::Result<End> {
    run(with_size(What::Start, args.size.size), &args.traffic, Fault::None, arguments)
}

fn with_size(what: What, message_bytes: u64) -> TrafficPlan {
    TrafficPlan { message_bytes, ..TrafficPlan::new(what) }
}

fn run(
    plan: TrafficPlan,
    args: &TrafficArgs,
    fault: Fault,
    arguments: &[OsString],
) -> anyhow::Result<End> {
    let placement = args.placement.placement;
    let how = run_options(&args.run, placement, arguments, &Cpus::read()).map_err(Usage)?;
    let plan = TrafficPlan {
        mechanisms: args.mechanism.mechanism.clone().map(distinct),
        waits: args.wait.wait.clone().map(distinct),
        how: How { load: args.load.load, ..how },
        ..plan
    };
    measure_and_deliver(&args.run, |interrupt| measure::measure_traffic(&plan, fault, interrupt))
}
