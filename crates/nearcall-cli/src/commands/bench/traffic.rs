//! `nearcall bench pace` and the other kinds of traffic: makes a plan of the words and has it
//! measured.

use std::ffi::OsString;

use nearcall_bench::launch::Fault;
use nearcall_bench::traffic::{TrafficPlan, What};

use super::{Cpus, arguments, distinct, measure, measure_and_deliver, new_seed, place};
use crate::args::traffic::{BurstArgs, ClientsArgs, GapArgs, PaceArgs, StartArgs, TrafficArgs};
use crate::args::{HowArgs, PlaceArgs};
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
        load: args.load.load,
        ..TrafficPlan::new(What::Clients { clients: args.clients.clone().map(distinct) })
    };
    measure_plan(plan, &args.how, &args.place, Fault::None, words)
}

/// Beginnings and ends of connections.
pub(super) fn start(args: &StartArgs, words: &[OsString]) -> anyhow::Result<End> {
    run(What::Start, &args.traffic, Fault::None, words)
}

fn run(what: What, args: &TrafficArgs, fault: Fault, words: &[OsString]) -> anyhow::Result<End> {
    let plan = TrafficPlan {
        mechanisms: args.mechanism.clone().map(distinct),
        waits: args.wait.clone().map(distinct),
        load: args.load.load,
        message_bytes: args.size,
        ..TrafficPlan::new(what)
    };
    measure_plan(plan, &args.how, &args.place, fault, words)
}

fn measure_plan(
    plan: TrafficPlan,
    how: &HowArgs,
    at: &PlaceArgs,
    fault: Fault,
    words: &[OsString],
) -> anyhow::Result<End> {
    let plan = TrafficPlan {
        placement: place(how, at.placement, &Cpus::read()).map_err(Usage)?,
        launches: how.launches,
        time_budget: how.time,
        quick: how.quick,
        seed: how.seed.unwrap_or_else(new_seed),
        arguments: arguments(words),
        ..plan
    };
    measure_and_deliver(how, |interrupt| measure::measure_traffic(&plan, fault, interrupt))
}
