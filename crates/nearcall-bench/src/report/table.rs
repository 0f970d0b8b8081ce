//! The text of a run for a person at a terminal: 100 columns.
//!
//! [`table`] is the run in one table, [`details`] all about every cell. Text from the run file is
//! made harmless before it is shown. Printing is left to the caller.

mod budgets;
mod calls;
mod cells;
pub mod clocks;
pub mod compare;
mod details;
pub mod footprint;
pub(super) mod grid;
mod head;
mod imported;
mod matrix;
mod notes;
mod overview;
mod studies;
mod traffic;
mod waits;

use crate::run::Run;

/// Renders the run as one table, mechanism by size. Ends with a line break.
///
/// A run that has several placements, or more sizes than fit, is rendered as by [`details`].
#[must_use]
pub fn table(run: &Run) -> String {
    let mut out = String::new();
    head::print_short(&mut out, run);
    if studies::is_of_studies(run) {
        out.push('\n');
        studies::print(&mut out, run, false);
        cells::print_skipped(&mut out, run);
        return out;
    }
    if budgets::is_of_budgets(run) {
        out.push('\n');
        budgets::print(&mut out, run);
        cells::print_skipped(&mut out, run);
        return out;
    }
    if imported::is_of_import(run) {
        out.push('\n');
        imported::print(&mut out, run);
        cells::print_skipped(&mut out, run);
        return out;
    }
    if matrix::is_of_matrix(run) {
        out.push('\n');
        matrix::print(&mut out, run);
        cells::print_skipped(&mut out, run);
        return out;
    }
    if waits::is_of_waits(run) {
        out.push('\n');
        waits::print(&mut out, run);
        cells::print_skipped(&mut out, run);
        return out;
    }
    if traffic::is_of_traffic(run) {
        out.push('\n');
        traffic::print(&mut out, run);
        cells::print_skipped(&mut out, run);
        return out;
    }
    if calls::is_of_calls(run) {
        out.push('\n');
        calls::print_short(&mut out, run);
        cells::print_skipped(&mut out, run);
        return out;
    }
    let mut one = String::new();
    if !overview::print(&mut one, run) {
        return details(run);
    }
    out.push('\n');
    out.push_str(&one);
    cells::print_skipped(&mut out, run);
    out
}

/// Renders every cell of the run, with intervals and marks. Ends with a line break.
#[must_use]
pub fn details(run: &Run) -> String {
    let mut out = String::new();
    head::print(&mut out, run);
    out.push('\n');
    if studies::is_of_studies(run) {
        studies::print(&mut out, run, true);
    } else if budgets::is_of_budgets(run) {
        budgets::print(&mut out, run);
        out.push('\n');
        details::print(&mut out, run);
    } else if imported::is_of_import(run) {
        imported::print(&mut out, run);
    } else if matrix::is_of_matrix(run) {
        matrix::print(&mut out, run);
        out.push('\n');
        details::print(&mut out, run);
    } else if waits::is_of_waits(run) {
        waits::print(&mut out, run);
        out.push('\n');
        details::print(&mut out, run);
    } else if traffic::is_of_traffic(run) {
        traffic::print(&mut out, run);
        out.push('\n');
        details::print(&mut out, run);
    } else if calls::is_of_calls(run) {
        calls::print_full(&mut out, run);
    } else if run.cells.is_empty() && run.floors.is_empty() {
        out.push_str("Nothing was measured.\n");
    } else {
        details::print(&mut out, run);
    }
    cells::print_skipped(&mut out, run);
    out
}
