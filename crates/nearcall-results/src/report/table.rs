//! The text of a run for a person at a terminal.
//!
//! [`table`] is the run in one table, [`details`] all about every cell. Both end with the sentence
//! that answers what was asked.
//!
//! **Invariants:** a function of the run and the [`Style`] alone. Text from the run file is made
//! harmless before it is shown.
//!
//! **Not here:** printing, and which terminal there is.

mod answer;
mod budgets;
mod calls;
mod cells;
pub mod clocks;
pub mod compare;
mod details;
pub mod footprint;
pub mod grid;
mod head;
mod imported;
mod libraries;
mod matrix;
mod notes;
mod overview;
pub(in crate::report) mod studies;
mod switches;
mod traffic;
mod waits;

pub use cells::class_words;
pub(in crate::report) use cells::load_achieved;

use super::lines::{Style, Writer};
use crate::run::Run;

/// Renders the run as one table, mechanism by size. Ends with a line break.
///
/// A run that has several placements, or more sizes than fit, is rendered as by [`details`].
#[must_use]
pub fn table(run: &Run, style: Style) -> String {
    let mut out = Writer::new(style);
    head::print_short(&mut out, run);
    out.blank();
    let form = Form::of(run);
    if form != Form::Cells {
        form.print(&mut out, run, false);
    } else if !overview::print(&mut out, run) {
        return details(run, style);
    }
    print_end(&mut out, run, form);
    out.finish()
}

/// Renders every cell of the run, with intervals and marks. Ends with a line break.
#[must_use]
pub fn details(run: &Run, style: Style) -> String {
    let mut out = Writer::new(style);
    head::print(&mut out, run);
    out.blank();
    let form = Form::of(run);
    form.print(&mut out, run, true);
    match form {
        Form::Studies | Form::Import | Form::Libraries => {}
        Form::Cells if run.cells.is_empty() && run.floors.is_empty() => {
            out.line("Nothing was measured.");
        }
        Form::Cells => details::print(&mut out, run),
        Form::Budgets
        | Form::Matrix
        | Form::Waits
        | Form::Switches
        | Form::Traffic
        | Form::Calls => {
            out.blank();
            details::print(&mut out, run);
        }
    }
    print_end(&mut out, run, form);
    out.finish()
}

/// The runs that have tables of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Studies,
    Budgets,
    Import,
    Libraries,
    Matrix,
    Waits,
    Switches,
    Traffic,
    Calls,
    /// Mechanism by size.
    Cells,
}

impl Form {
    fn of(run: &Run) -> Self {
        match run {
            _ if studies::is_of_studies(run) => Self::Studies,
            _ if budgets::is_of_budgets(run) => Self::Budgets,
            _ if imported::is_of_import(run) => Self::Import,
            _ if libraries::is_of_libraries(run) => Self::Libraries,
            _ if matrix::is_of_matrix(run) => Self::Matrix,
            _ if waits::is_of_waits(run) => Self::Waits,
            _ if switches::is_of_switches(run) => Self::Switches,
            _ if traffic::is_of_traffic(run) => Self::Traffic,
            _ if calls::is_of_calls(run) => Self::Calls,
            _ => Self::Cells,
        }
    }

    /// Adds the table that runs of this form have; nothing where that is mechanism by size.
    fn print(self, out: &mut Writer, run: &Run, full: bool) {
        match self {
            Self::Studies => studies::print(out, run, full),
            Self::Budgets => budgets::print(out, run),
            Self::Import => imported::print(out, run),
            Self::Libraries => libraries::print(out, run),
            Self::Matrix => matrix::print(out, run),
            Self::Waits => waits::print(out, run),
            Self::Switches => switches::print(out, run),
            Self::Traffic => traffic::print(out, run),
            Self::Calls => calls::print(out, run, full),
            Self::Cells => {}
        }
    }
}

/// What was not measured, and the answer.
fn print_end(out: &mut Writer, run: &Run, form: Form) {
    cells::print_skipped(out, run);
    out.answer(&match form {
        Form::Studies => studies::answer(run),
        Form::Budgets => budgets::answer(run),
        Form::Import => String::new(),
        Form::Libraries => libraries::answer(run),
        Form::Matrix => matrix::answer(run),
        Form::Waits => waits::answer(run),
        Form::Switches => switches::answer(run),
        Form::Traffic => traffic::answer(run),
        Form::Calls => calls::answer(run),
        Form::Cells => answer::of_cells(run),
    });
}
