//! Measures what the design allows calls to cost: each figure and its floor in the same run.
//!
//! Launches, interleaving, warm-up, statistics and grades are those of every run (`runner.rs`).
//! Not here: which budgets there are (`budgets/rows.rs`), how one is judged (`budgets/judge.rs`),
//! the table (`report/table/budgets.rs`).

mod judge;
pub(crate) mod rows;

use std::time::Duration;

use crate::bench_plan::{BenchPlan, How, Usual};
use crate::cell::CellSpec;
use crate::run::{Cell, Kind, Run, Verdict};
use crate::runner::{self, BenchError, Hooks, Task};
use crate::tour::Tour;
use judge::Found;
use rows::{Of, Row};

/// Measures the budgets and returns the run, whole or marked as cut short.
///
/// Blocks for the time budget, 90 seconds without one. Call it as
/// [`bench`](runner::bench).
///
/// # Errors
///
/// As [`bench`](runner::bench).
pub fn bench(how: &How, hooks: &Hooks<'_>) -> Result<Run, BenchError> {
    let extent = how.extent(&USUAL);
    let common = BenchPlan {
        kinds: vec![Kind::Latency, Kind::Throughput],
        how: how.clone(),
        ..BenchPlan::default()
    };
    let rows = rows::all();
    let conclude = |run: &mut Run, specs: &[CellSpec], cells: &mut [Cell]| {
        conclude(run, &rows, specs, cells);
    };
    let find = |no_spinning: Option<&str>| cells(&rows, no_spinning);
    let task = Task { find: &find, extent: Some(extent), conclude: &conclude };
    runner::bench_cells(&common, &task, hooks)
}

/// What must be measured, each cell once. What needs two CPUs where there is one is left out.
fn cells(rows: &[Row], no_spinning: Option<&str>) -> Tour {
    let mut tour = Tour::default();
    for row in rows {
        match no_spinning.filter(|_| row.of.needs_two_cpus()) {
            Some(reason) => tour.skip(row.what, format!("needs two CPUs: {reason}"), false),
            None => {
                for cell in row.of.cells() {
                    if !tour.cells.contains(&cell) {
                        tour.cells.push(cell);
                    }
                }
            }
        }
    }
    tour
}

/// Adds the verdicts, and gives each cell its floor.
fn conclude(run: &mut Run, rows: &[Row], specs: &[CellSpec], cells: &mut [Cell]) {
    let found = Found { specs, cells, at_rest: &run.at_rest };
    let mut budgets: Vec<_> = rows.iter().map(|row| judge::judge(row, &found)).collect();
    for budget in budgets.iter_mut().filter(|one| one.verdict == Verdict::Unmeasured) {
        let is_it = |name: &str| name == budget.what;
        let skip = run.skipped.iter().find(|skip| is_it(&skip.mechanism));
        budget.reason = skip.map(|skip| skip.reason.clone());
    }
    for (spec, cell) in specs.iter().zip(cells) {
        let of = rows.iter().zip(&budgets).find(|(row, _)| match row.of {
            Of::Beside(other, _) | Of::Time(other) => other == *spec,
            Of::Rest(..) => false,
        });
        if let Some((_, budget)) = of {
            cell.floor.clone_from(&budget.floor);
            cell.ratio_to_floor = budget.floor.as_ref().and(budget.value);
        }
    }
    run.budgets = budgets;
}

/// Rule R12.
const LAUNCHES: u32 = 5;

/// With `--quick`: an interval needs two.
const LAUNCHES_QUICK: u32 = 2;

/// About twenty cells, five launches each of some hundred milliseconds.
const BUDGET: Duration = Duration::from_secs(90);

/// With `--quick`: below 20 seconds with start-up and table.
const BUDGET_QUICK: Duration = Duration::from_secs(15);

/// What all of that takes.
const USUAL: Usual = Usual {
    launches: LAUNCHES,
    launches_quick: LAUNCHES_QUICK,
    budget: BUDGET,
    budget_quick: BUDGET_QUICK,
    cell_max: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Spot;

    #[test]
    fn one_cpu_leaves_what_can_be_measured_on_it() {
        let rows = rows::all();
        let (two, one) = (cells(&rows, None), cells(&rows, Some("only one CPU is allowed")));
        assert_eq!(two.skipped, []);
        assert!(one.cells.iter().any(|cell| cell.scene.spot == Spot::OneCpu));
        assert!(one.cells.len() < two.cells.len());
        assert!(one.skipped.iter().all(|skip| skip.reason.starts_with("needs two CPUs: only")));
    }
}
