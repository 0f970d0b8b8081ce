//! Calls over a connection that moves from each mechanism to each other one.

use std::time::Duration;

use nearcall_channel::Mechanism;
use nearcall_results::route::Route;

use super::traffic::{self, Wanted};
use super::{Experiment, Machine};
use crate::bench_plan::{BenchPlan, ExperimentDefaults};
use crate::cell::CellSpec;
use crate::cell_list::CellList;
use crate::conditions::Traffic;

/// Calls over a connection that moves to another mechanism.
pub static SWITCHES: Experiment = Experiment {
    name: "switches",
    summary: "Measure calls while their connection moves to another mechanism",
    details: "A client in an event loop calls without a pause while its connection moves from each \
              mechanism to each other one that a loop can watch. For each pair: how long the \
              switch takes, the longest time without a reply meanwhile, the calls during it, and \
              the same calls over a connection of the same processes that stays. --mechanism names \
              those to move between.",
    examples: EXAMPLES,
    options: &["mechanism", "placement"],
    defaults: Some(USUAL),
    cells,
    ..traffic::BASE
};

fn cells(plan: &BenchPlan, on: &Machine<'_>) -> CellList {
    let usable = Mechanism::all().filter(|mechanism| is_for_loops(*mechanism)).collect();
    let all: Vec<Mechanism> = plan.mechanisms.clone().unwrap_or(usable);
    let cell = |mechanism| {
        let route = Route::Looped(mechanism);
        CellSpec::empty_call(route, route.usual_wait())
    };
    // What cannot be measured at all is listed once.
    let none = Wanted {
        mechanisms: &all,
        waits: |mechanism| vec![Route::Looped(mechanism).usual_wait()],
        cell: |_, mechanism, wait| CellSpec::empty_call(Route::Looped(mechanism), wait),
    };
    let found = traffic::cells(plan, on, &none, []);
    let is_there = |mechanism: &Mechanism| {
        !found.skipped.iter().any(|skipped| skipped.mechanism == mechanism.name())
    };
    let mut list = CellList::default();
    for mechanism in all.iter().filter(|mechanism| !is_for_loops(**mechanism)) {
        let reason = "no connection moves there: a loop cannot wait for it beside others";
        list.skip(mechanism.name(), reason.to_owned(), false);
    }
    let ends = all.iter().filter(|mechanism| is_for_loops(**mechanism) && is_there(mechanism));
    for &from in ends.clone() {
        for &to in ends.clone().filter(|to| **to != from) {
            let conditions = traffic::of(Traffic::Switch { to });
            list.cells.push(CellSpec { conditions, ..cell(from) });
        }
    }
    list.skipped.extend(found.skipped);
    list
}

/// Whether connections of loops move to it and from it.
fn is_for_loops(mechanism: Mechanism) -> bool {
    let can = mechanism.capabilities();
    mechanism != Mechanism::Tcp && (can.pollable || can.needs_spinning)
}

/// Launches and time.
const USUAL: ExperimentDefaults = ExperimentDefaults {
    // 272 pairs, some forty switches of each in each launch.
    budget: Duration::from_secs(150),
    budget_quick: Duration::from_secs(30),
    cell_max: Some(Duration::from_millis(150)),
    ..traffic::USUAL
};

const EXAMPLES: &str = "\
Examples:
  nearcall bench switches                        all pairs, within three minutes
  nearcall bench switches --quick                a first look
  nearcall bench switches --mechanism shm,pipe --time 2m
                                                 with 99th percentiles
  nearcall bench switches --json | jq '.cells[].switch.pause_ns.p50'";
