//! Puts what was measured beside its floor and beside its budget.
//!
//! A function of its arguments. A ratio is that of two launches of one round, so that what the
//! machine did meanwhile falls on both; the figure is the median over rounds.

use super::rows::{Of, Row};
use crate::cell::CellSpec;
use crate::noise;
use crate::run::{AtRest, Budget, Cell, Kind, Verdict};
use crate::stats;

/// What a run has measured.
pub(crate) struct Found<'a> {
    pub(crate) specs: &'a [CellSpec],
    pub(crate) cells: &'a [Cell],
    pub(crate) at_rest: &'a [AtRest],
}

impl Found<'_> {
    fn cell(&self, spec: &CellSpec) -> Option<&Cell> {
        let at = self.specs.iter().position(|other| other == spec)?;
        self.cells.get(at)
    }
}

/// Judges one row.
pub(crate) fn judge(row: &Row, found: &Found<'_>) -> Budget {
    let mut budget = Budget {
        name: row.name.to_owned(),
        what: row.what.to_owned(),
        against: row.against.to_owned(),
        budget: row.budget,
        goal: row.goal,
        at_least: row.of.at_least(),
        ..Budget::default()
    };
    match row.of {
        Of::Beside(cell, floor) => beside(&mut budget, &cell, &floor, found),
        Of::Time(cell) => {
            "ns".clone_into(&mut budget.unit);
            if let Some(cell) = found.cell(&cell) {
                budget.launch_values.clone_from(&cell.launch_medians_ns);
                budget.measured = stats::median(&budget.launch_values);
                budget.value = budget.measured;
                budget.grade = cell.grade;
            }
        }
        Of::Rest(cell, fact) => {
            fact.unit().clone_into(&mut budget.unit);
            let rest = found.at_rest.iter().find(|rest| {
                rest.mechanism == cell.subject.name()
                    && rest.wait == cell.wait.name()
                    && rest.idle_connections == cell.conditions.idle_connections
            });
            if let Some(rest) = rest {
                (budget.measured, budget.launch_values) = fact.of(rest);
                budget.value = budget.measured;
            }
        }
    }
    let estimate = stats::estimate(&budget.launch_values, &[], 0.0);
    budget.value_ci95 = estimate.and_then(|estimate| estimate.ci95).map(|ci| widen(ci, &budget));
    decide(&mut budget);
    budget
}

fn beside(budget: &mut Budget, cell: &CellSpec, floor: &CellSpec, found: &Found<'_>) {
    let unit = if cell.kind == Kind::Throughput { "per_s" } else { "ns" };
    unit.clone_into(&mut budget.unit);
    budget.floor = Some(floor.subject.name().to_owned());
    let values = |spec| found.cell(spec).map(launch_values).unwrap_or_default();
    let (ours, theirs) = (values(cell), values(floor));
    let both = [cell, floor].map(|spec| found.cell(spec).and_then(|cell| cell.grade));
    budget.grade = noise::worst_of(both);
    budget.measured = stats::median(&ours);
    budget.floor_value = stats::median(&theirs);
    // One launch of each per round.
    let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs);
    budget.launch_values = ratios.filter(|ratio| ratio.is_finite()).collect();
    budget.value = stats::median(&budget.launch_values);
}

fn launch_values(cell: &Cell) -> Vec<f64> {
    match cell.kind {
        Kind::Latency => cell.launch_medians_ns.clone(),
        Kind::Throughput => cell.launch_messages_per_s.clone(),
    }
}

/// The interval is that of the geometric mean; the median may lie outside.
fn widen([low, high]: [f64; 2], budget: &Budget) -> [f64; 2] {
    let middle = budget.value.unwrap_or(low);
    [low.min(middle), high.max(middle)]
}

fn decide(budget: &mut Budget) {
    let Some(value) = budget.value else { return };
    let keeps = |limit: f64, value: f64| match budget.at_least {
        true => value >= limit,
        false => value <= limit,
    };
    budget.verdict = match budget.goal {
        Some(goal) if keeps(goal, value) => Verdict::Goal,
        _ if keeps(budget.budget, value) => Verdict::Within,
        _ => Verdict::Short,
    };
    if budget.verdict == Verdict::Short && budget.budget > 0.0 {
        budget.short_by = Some((value / budget.budget - 1.0).abs());
    }
    let ends = budget.value_ci95.unwrap_or([value; 2]);
    budget.certain =
        ends.iter().all(|&end| keeps(budget.budget, end) == keeps(budget.budget, value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::budgets::rows;

    fn spin_row() -> Row {
        rows::all().remove(0)
    }

    fn judged(ours: &[f64], floors: &[f64]) -> Budget {
        let row = spin_row();
        let Of::Beside(cell, floor) = row.of else { panic!("{row:?}") };
        let made = |spec: &CellSpec, values: &[f64]| {
            let mut cell = Cell::new(spec.kind, spec.subject.name(), spec.message_bytes);
            cell.launch_medians_ns = values.to_vec();
            cell
        };
        let (specs, cells) = ([cell, floor], [made(&cell, ours), made(&floor, floors)]);
        judge(&row, &Found { specs: &specs, cells: &cells, at_rest: &[] })
    }

    #[test]
    fn ratios_are_of_one_round() {
        // The machine was twice as slow in the second round.
        let budget = judged(&[160.0, 320.0, 160.0], &[100.0, 200.0, 100.0]);
        assert_eq!(budget.value, Some(1.6));
        assert_eq!((budget.verdict, budget.certain), (Verdict::Within, true));
        assert_eq!(budget.short_by, None);
    }

    #[test]
    fn a_row_that_falls_short_says_by_how_much() {
        let budget = judged(&[300.0; 3], &[100.0; 3]);
        assert_eq!((budget.verdict, budget.short_by), (Verdict::Short, Some(0.5)));
        let wide = judged(&[300.0, 120.0, 301.0], &[100.0; 3]);
        assert_eq!((wide.verdict, wide.certain), (Verdict::Short, false));
        assert_eq!(judged(&[149.0; 2], &[100.0; 2]).verdict, Verdict::Goal);
    }

    #[test]
    fn what_was_not_measured_has_no_verdict() {
        assert_eq!(judged(&[], &[100.0]).verdict, Verdict::Unmeasured);
        assert_eq!(judged(&[100.0], &[]).verdict, Verdict::Unmeasured);
    }
}
