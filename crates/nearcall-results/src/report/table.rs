//! The text of a run for a person.
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
mod libraries;
mod overview;
mod squares;
mod studies;
mod traffic;
mod waits;

pub use cells::class_words;
pub(in crate::report) use squares::{CPUS_MAX, classes};

use super::document::Document;
use super::lines::Style;
use crate::run::Run;

/// Renders the run as one table, mechanism by size. Ends with a line break.
///
/// A run that has several placements, or more sizes than fit, is rendered as by [`details`].
#[must_use]
pub fn table(run: &Run, style: Style) -> String {
    document(run).text(style)
}

/// The same for a page.
pub(in crate::report) fn document(run: &Run) -> Document {
    let mut out = Document::default();
    head::print_short(&mut out, run);
    out.blank();
    match form_of(run) {
        Some(form) => (form.print)(&mut out, run, false),
        None if overview::print(&mut out, run) => {}
        None => return full_document(run),
    }
    print_end(&mut out, run);
    out
}

/// Renders every cell of the run, with intervals and marks. Ends with a line break.
#[must_use]
pub fn details(run: &Run, style: Style) -> String {
    full_document(run).text(style)
}

fn full_document(run: &Run) -> Document {
    let mut out = Document::default();
    head::print(&mut out, run);
    out.blank();
    let form = form_of(run);
    if let Some(form) = form {
        (form.print)(&mut out, run, true);
    }
    match form {
        Some(form) if form.is_whole => {}
        None if run.cells.is_empty() && run.floors.is_empty() => out.line("Nothing was measured."),
        _ => {
            if form.is_some() {
                out.blank();
            }
            details::print(&mut out, run);
        }
    }
    print_end(&mut out, run);
    out
}

/// What was not measured, and the answer.
fn print_end(out: &mut Document, run: &Run) {
    cells::print_skipped(out, run);
    out.answer(form_of(run).map_or_else(|| answer::of_cells(run), |form| (form.answer)(run)));
}

/// A kind of run that has a table of its own.
struct Form {
    is_of: fn(&Run) -> bool,
    /// Adds the table; the flag: with all that there is.
    print: fn(&mut Document, &Run, bool),
    answer: fn(&Run) -> String,
    /// Whether the table has all that there is.
    is_whole: bool,
}

/// The form of a run; `None`: mechanism by size.
fn form_of(run: &Run) -> Option<&'static Form> {
    FORMS.iter().find(|form| (form.is_of)(run))
}

const FORMS: [Form; 8] = [
    Form {
        is_of: |run| !run.studies.is_empty(),
        print: studies::print,
        answer: studies::answer,
        is_whole: true,
    },
    Form {
        is_of: |run| !run.budgets.is_empty(),
        print: |out, run, _| budgets::print(out, run),
        answer: budgets::answer,
        is_whole: false,
    },
    Form {
        is_of: |run| !run.libraries.is_empty(),
        print: |out, run, _| libraries::print(out, run),
        answer: libraries::answer,
        is_whole: true,
    },
    Form {
        is_of: |run| run.matrix.is_some() && !run.cells.is_empty(),
        print: |out, run, _| squares::print_matrix(out, run),
        answer: squares::answer_matrix,
        is_whole: false,
    },
    Form {
        is_of: |run| run.cells.iter().any(|cell| cell.pace.is_some() && cell.call.is_some()),
        print: |out, run, _| waits::print(out, run),
        answer: waits::answer,
        is_whole: false,
    },
    Form {
        is_of: |run| run.cells.iter().any(|cell| cell.switch.is_some()),
        print: |out, run, _| squares::print_switches(out, run),
        answer: squares::answer_switches,
        is_whole: false,
    },
    Form {
        is_of: traffic::is_of_traffic,
        print: |out, run, _| traffic::print(out, run),
        answer: traffic::answer,
        is_whole: false,
    },
    Form {
        is_of: |run| run.cells.iter().any(|cell| cell.call.is_some()),
        print: calls::print,
        answer: calls::answer,
        is_whole: false,
    },
];
