//! `nearcall bench pace` and the other kinds of traffic: makes a plan of the words and has it
//! measured.

use std::ffi::OsString;

use nearcall_bench::bench_plan::How;
use nearcall_bench::launch::Fault;
use nearcall_bench::traffic::{TrafficPlan, What};

use super::{Cpus, distinct, how, measure, measure_and_deliver};
use crate::args::traffic::{BurstArgs, ClientsArgs, GapArgs, PaceArgs, StartArgs, TrafficArgs};
use crate::args::{HowArgs, LoadArgs, PlaceArgs};
use crate::commands::{End, Usage};

/// Open loop beside closed loop.
pub(super) fn pace(args: &PaceArgs, words: &[OsString]) -> anyhow::Result<End> {
    let fault = args.stall.map_or(Fault::None, |ns| Fault::Stall { ns });
    let rates_per_s = args.rate.clone().map(distinct);
    run(What::Pace { rates_per_s }, &args.traffic, fault, words)
}

/// Rare messages.
pub(super) fn gap(args: &GapArgs, words: &[OsString]) -> anyhow::Result<End> {
    let gaps_ns = args.gap.clone().map(distinct);
    run(What::Gap { gaps_ns }, &args.traffic, Fault::None, words)
}

/// Messages right after each other.
pub(super) fn burst(args: &BurstArgs, words: &[OsString]) -> anyhow::Result<End> {
    let messages = args.messages.clone().map(distinct);
    run(What::Burst { messages }, &args.traffic, Fault::None, words)
}

/// Many clients of one server.
pub(super) fn clients(args: &ClientsArgs, words: &[OsString]) -> anyhow::Result<End> {
    let plan = TrafficPlan {
        mechanisms: args.via.clone().map(distinct),
        waits: args.wait.clone().map(distinct),
        ..TrafficPlan::new(What::Clients { clients: args.clients.clone().map(distinct) })
    };
    measure_plan(plan, (&args.how, &args.place, &args.load), Fault::None, words)
}

/// Beginnings and ends of connections.
pub(super) fn start(args: &StartArgs, words: &[OsString]) -> anyhow::Result<End> {
    run(What::Start, &args.traffic, Fault::None, words)
}

fn run(what: What, args: &TrafficArgs, fault: Fault, words: &[OsString]) -> anyhow::Result<End> {
    let plan = TrafficPlan {
        mechanisms: args.mechanism.clone().map(distinct),
        waits: args.wait.clone().map(distinct),
        message_bytes: args.size,
        ..TrafficPlan::new(what)
    };
    measure_plan(plan, (&args.how, &args.place, &args.load), fault, words)
}

fn measure_plan(
    plan: TrafficPlan,
    (args, at, beside): (&HowArgs, &PlaceArgs, &LoadArgs),
    fault: Fault,
    words: &[OsString],
) -> anyhow::Result<End> {
    let plan = TrafficPlan {
        how: How {
            load: beside.load,
            ..how(args, at.placement, words, &Cpus::read()).map_err(Usage)?
        },
        ..plan
    };
    measure_and_deliver(args, |interrupt| measure::measure_traffic(&plan, fault, interrupt))
}
