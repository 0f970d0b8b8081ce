//! How a channel's waiting does at different paces: latency, and CPU time of each end.
//!
//! A client makes calls at set times, some per second up to a hundred thousand; the server is in
//! its event loop and waits by the same policy. On two CPUs and on one. `adaptive` stands beside
//! the better of the others (`wait_policies/compare.rs`). Not here: the loop of the client
//! (`exchange/paced.rs`).

mod compare;

use std::time::Duration;

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::route::Route;

use super::Experiment;
use crate::bench_plan::{BenchPlan, ExperimentDefaults};
use crate::calls::ours;
use crate::cell::{CellSpec, Conditions};
use crate::cell_list::CellList;
use crate::conditions::PinChoice;

/// How a channel's waiting does at different paces.
pub static WAIT_POLICIES: Experiment = Experiment {
    name: "wait-policies",
    summary: "Measure latency and CPU time by wait policy",
    details: "A client makes calls at 10 to 100,000 per second; a time counts from when its call \
              was due. Across two CPUs and on one. The adaptive policy stands beside the better of \
              spinning and sleeping. --wait selects policies to measure: spin, block, adaptive.",
    examples: EXAMPLES,
    options: &["wait"],
    defaults: Some(ExperimentDefaults {
        // An interval needs two; more take long at ten calls per second.
        launches: 3,
        launches_quick: 2,
        // About forty cells, three launches each of about a second.
        budget: Duration::from_secs(180),
        // Leaves out the slowest pace.
        budget_quick: Duration::from_secs(25),
        // A 99th percentile of a thousand calls per second needs a second.
        cell_max: Some(Duration::from_secs(4)),
    }),
    cells: |plan, on| cells(plan, on.no_spinning),
    finish: |_, _, run, _, cells| {
        // A floor is an exchange at full speed.
        cells.iter_mut().for_each(|cell| cell.floor = None);
        run.waits = compare::all(cells);
    },
    ..Experiment::BASE
};

/// Each policy at each pace on both placements, and a server at rest for each policy.
fn cells(plan: &BenchPlan, no_spinning: Option<&str>) -> CellList {
    let mut list = CellList::default();
    let rates = if plan.options.quick { &RATES_PER_S[1..] } else { &RATES_PER_S[..] };
    let wanted = |wait: &WaitPolicy| plan.waits.as_ref().is_none_or(|waits| waits.contains(wait));
    for wait in plan.waits.iter().flatten() {
        if !ours::policies().iter().any(|(_, has)| has == wait) {
            list.skip(
                wait.name(),
                "the experiment does not support this wait policy".to_owned(),
                false,
            );
        }
    }
    let mut ways: Vec<(Mechanism, WaitPolicy)> = ours::policies();
    ways.retain(|(_, wait)| wanted(wait));
    // Nothing of ours, for comparison.
    let other = Some((Mechanism::UnixStream, WaitPolicy::Block));
    ways.extend(other.filter(|(_, wait)| wanted(wait)));
    for spot in [PinChoice::OfRun, PinChoice::OneCpu] {
        let one_cpu = spot == PinChoice::OneCpu;
        for &(mechanism, wait) in &ways {
            let what = || format!("{mechanism} {wait}");
            match (one_cpu, no_spinning) {
                (false, Some(reason)) => {
                    list.skip(&what(), format!("on two CPUs: {reason}"), false);
                    continue;
                }
                (true, _) if wait == WaitPolicy::Spin => {
                    let reason = "on one CPU: an end that spins keeps the other from running";
                    list.skip(&what(), reason.to_owned(), false);
                    continue;
                }
                _ => {}
            }
            let cell = |&rate_per_s: &u32| CellSpec {
                conditions: Conditions { spot, rate_per_s, ..Conditions::default() },
                ..CellSpec::empty_call(Route::Blocking(mechanism), wait)
            };
            list.cells.extend(rates.iter().map(cell));
            if !one_cpu || no_spinning.is_some() {
                list.cells.push(CellSpec::at_rest(mechanism, wait, 0, spot));
            }
        }
    }
    list
}

/// From a timer to a data feed.
const RATES_PER_S: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];

const EXAMPLES: &str = "\
Examples:
  nearcall bench wait-policies                   all of it, within three minutes
  nearcall bench wait-policies --quick           without the slowest rate
  nearcall bench wait-policies --wait block --time 1m --out waits.json
  nearcall bench wait-policies --json | jq '.waits[] | [.class, .rate_per_s]'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Subject;

    #[test]
    fn one_cpu_leaves_what_sleeps() {
        let two = cells(&BenchPlan::default(), None);
        let one = cells(&BenchPlan::default(), Some("only one CPU is allowed"));
        assert!(two.cells.iter().any(|cell| cell.wait == WaitPolicy::Spin));
        assert!(
            one.cells
                .iter()
                .all(|cell| cell.wait != WaitPolicy::Spin
                    && cell.conditions.spot == PinChoice::OneCpu)
        );
        assert!(one.skipped.iter().any(|skip| skip.reason.starts_with("on two CPUs: only one")));
        let rests = |list: &CellList| {
            list.cells.iter().filter(|cell| matches!(cell.subject, Subject::AtRest(_))).count()
        };
        assert_eq!(rests(&two), ours::policies().len() + 1);
        assert!(rests(&one) > 0);
    }

    #[test]
    fn a_policy_that_is_no_choice_here_is_told() {
        let waits = Some(vec![WaitPolicy::Poll, WaitPolicy::Block]);
        let list = cells(&BenchPlan { waits, ..BenchPlan::default() }, None);
        assert_eq!(list.skipped[0].mechanism, "poll");
        assert!(list.cells.iter().all(|cell| cell.wait == WaitPolicy::Block));
    }
}
