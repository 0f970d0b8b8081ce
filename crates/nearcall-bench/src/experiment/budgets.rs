//! What the design allows calls to cost: each figure and its floor in the same run.
//!
//! Not here: which budgets there are (`budgets/rows.rs`), how one is judged (`budgets/judge.rs`).

mod judge;
mod rows;

use std::time::Duration;

use self::judge::Found;
use self::rows::{Of, Row};
use super::Experiment;
use crate::bench_plan::ExperimentDefaults;
use crate::cell::CellSpec;
use crate::cell_list::CellList;
use crate::run::{Cell, Kind, Run, Verdict};

/// What the design allows calls to cost.
pub static BUDGETS: Experiment = Experiment {
    name: "budgets",
    summary: "Measure calls against their budgets and floors",
    details: "Every figure and the floor that it is compared with come from the same run: \
              interleaved launches of new processes on two pinned CPUs, or on one where a row says \
              so. The ratio is the median over launches of the ratios of one round. Idle servers \
              are checked too: CPU time, wake-ups, threads, memory.",
    examples: EXAMPLES,
    kinds: &[Kind::Latency, Kind::Throughput],
    defaults: Some(ExperimentDefaults {
        launches: 5,
        launches_quick: 2,
        // About twenty cells, five launches each of some hundred milliseconds.
        budget: Duration::from_secs(90),
        budget_quick: Duration::from_secs(15),
        cell_max: None,
    }),
    cells: |_, on| cells(&rows::all(), on.no_spinning),
    finish: |_, _, run, specs, cells| conclude(run, &rows::all(), specs, cells),
    ..Experiment::BASE
};

/// What must be measured, each cell once. What needs two CPUs where there is one is left out.
fn cells(rows: &[Row], no_spinning: Option<&str>) -> CellList {
    let mut list = CellList::default();
    for row in rows {
        match no_spinning.filter(|_| row.of.needs_two_cpus()) {
            Some(reason) => list.skip(row.what, format!("needs two CPUs: {reason}"), false),
            None => {
                for cell in row.of.cells() {
                    if !list.cells.contains(&cell) {
                        list.cells.push(cell);
                    }
                }
            }
        }
    }
    list
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

const EXAMPLES: &str = "\
Examples:
  nearcall bench budgets                         all of it, within 90 seconds
  nearcall bench budgets --quick                 a first look
  nearcall bench budgets --pin 0,1 --launches 10 --time 5m --out budgets.json
  nearcall bench budgets --json | jq '.budgets[] | [.what, .value, .verdict]'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::PinChoice;

    #[test]
    fn one_cpu_leaves_what_can_be_measured_on_it() {
        let rows = rows::all();
        let (two, one) = (cells(&rows, None), cells(&rows, Some("only one CPU is allowed")));
        assert_eq!(two.skipped, []);
        assert!(one.cells.iter().any(|cell| cell.conditions.spot == PinChoice::OneCpu));
        assert!(one.cells.len() < two.cells.len());
        assert!(one.skipped.iter().all(|skip| skip.reason.starts_with("needs two CPUs: only")));
    }
}
