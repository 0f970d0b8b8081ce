//! Measures how a channel's waiting does at different paces: latency, and CPU time of each end.
//!
//! A client makes calls at set times, some per second up to a hundred thousand; the server is in
//! its event loop and waits by the same policy. On two CPUs and on one. `adaptive` stands beside
//! the better of the others. Launches, interleaving and grades are those of every run
//! (`runner.rs`). Not here: the loop of the client (`exchange/paced.rs`), the comparison
//! (`waits/compare.rs`), the table (`report/table/waits.rs`).

mod compare;

use std::time::Duration;

use nearcall_channel::{Mechanism, WaitPolicy};

use crate::bench_plan::{BenchPlan, How, Shape, Usual};
use crate::budgets::rows::server_at_rest;
use crate::calls::ours;
use crate::calls::route::Route;
use crate::cell::{CellSpec, Scene, Subject};
use crate::run::{Cell, Kind, Run};
use crate::runner::{self, BenchError, Hooks, Task};
use crate::scene::Spot;
use crate::tour::Tour;

/// How to measure waiting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitsPlan {
    /// The policies; `None` means all that the channel has.
    pub waits: Option<Vec<WaitPolicy>>,
    /// Where and how.
    pub how: How,
}

/// Measures waiting and returns the run, whole or marked as cut short.
///
/// Blocks for the plan's time budget, three minutes without one. Call it as
/// [`bench`](runner::bench).
///
/// # Errors
///
/// As [`bench`](runner::bench).
pub fn bench(plan: &WaitsPlan, hooks: &Hooks<'_>) -> Result<Run, BenchError> {
    let extent = plan.how.extent(&USUAL);
    let common = BenchPlan {
        kinds: vec![Kind::Latency],
        waits: plan.waits.clone(),
        how: plan.how.clone(),
        ..BenchPlan::default()
    };
    let find = |no_spinning: Option<&str>| cells(plan, no_spinning);
    let conclude = |run: &mut Run, _: &[CellSpec], cells: &mut [Cell]| {
        // A floor is an exchange at full speed.
        cells.iter_mut().for_each(|cell| cell.floor = None);
        run.waits = compare::all(cells);
    };
    let task = Task { find: &find, extent: Some(extent), conclude: &conclude };
    runner::bench_cells(&common, &task, hooks)
}

/// Each policy at each pace on both placements, and a server at rest for each policy.
fn cells(plan: &WaitsPlan, no_spinning: Option<&str>) -> Tour {
    let mut tour = Tour::default();
    let rates = if plan.how.quick { &RATES_PER_S[1..] } else { &RATES_PER_S[..] };
    let wanted = |wait: &WaitPolicy| plan.waits.as_ref().is_none_or(|waits| waits.contains(wait));
    for wait in plan.waits.iter().flatten() {
        if !ours::policies().iter().any(|(_, has)| has == wait) {
            tour.skip(
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
    for spot in [Spot::OfRun, Spot::OneCpu] {
        let one_cpu = spot == Spot::OneCpu;
        for &(mechanism, wait) in &ways {
            let what = || format!("{mechanism} {wait}");
            match (one_cpu, no_spinning) {
                (false, Some(reason)) => {
                    tour.skip(&what(), format!("on two CPUs: {reason}"), false);
                    continue;
                }
                (true, _) if wait == WaitPolicy::Spin => {
                    let reason = "on one CPU: an end that spins keeps the other from running";
                    tour.skip(&what(), reason.to_owned(), false);
                    continue;
                }
                _ => {}
            }
            let cell = |&rate_per_s: &u32| CellSpec {
                kind: Kind::Latency,
                subject: Subject::Call(Route::Blocking(mechanism)),
                shape: Shape::Call,
                message_bytes: 0,
                wait,
                scene: Scene { spot, rate_per_s, ..Scene::default() },
            };
            tour.cells.extend(rates.iter().map(cell));
            if !one_cpu || no_spinning.is_some() {
                tour.cells.push(server_at_rest(mechanism, wait, 0, spot));
            }
        }
    }
    tour
}

/// From a timer to a data feed.
const RATES_PER_S: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];

/// An interval needs two; more take long at ten calls per second.
const LAUNCHES: u32 = 3;

/// With `--quick`.
const LAUNCHES_QUICK: u32 = 2;

/// About forty cells, three launches each of about a second.
const BUDGET: Duration = Duration::from_secs(180);

/// With `--quick`, which leaves out the slowest pace.
const BUDGET_QUICK: Duration = Duration::from_secs(25);

/// What all of that takes.
const USUAL: Usual = Usual {
    launches: LAUNCHES,
    launches_quick: LAUNCHES_QUICK,
    budget: BUDGET,
    budget_quick: BUDGET_QUICK,
    cell_max: Some(CELL_MAX),
};

/// A 99th percentile of a thousand calls per second needs a second.
const CELL_MAX: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cpu_leaves_what_sleeps() {
        let two = cells(&WaitsPlan::default(), None);
        let one = cells(&WaitsPlan::default(), Some("only one CPU is allowed"));
        assert!(two.cells.iter().any(|cell| cell.wait == WaitPolicy::Spin));
        assert!(
            one.cells
                .iter()
                .all(|cell| cell.wait != WaitPolicy::Spin && cell.scene.spot == Spot::OneCpu)
        );
        assert!(one.skipped.iter().any(|skip| skip.reason.starts_with("on two CPUs: only one")));
        let rests = |tour: &Tour| {
            tour.cells.iter().filter(|cell| matches!(cell.subject, Subject::AtRest(_))).count()
        };
        assert_eq!(rests(&two), ours::policies().len() + 1);
        assert!(rests(&one) > 0);
    }

    #[test]
    fn a_policy_that_is_no_choice_here_is_told() {
        let waits = Some(vec![WaitPolicy::Poll, WaitPolicy::Block]);
        let tour = cells(&WaitsPlan { waits, ..WaitsPlan::default() }, None);
        assert_eq!(tour.skipped[0].mechanism, "poll");
        assert!(tour.cells.iter().all(|cell| cell.wait == WaitPolicy::Block));
    }
}
