//! Studies: each table with the paper's figures, this machine's, and the verdicts on the claims.
//!
//! **Invariants:** a figure that was not measured stands there with the reason; pictures without
//! numbers are shown only in full.

use super::grid::{Align, clean, clean_to, clip};
use crate::report::columns::{self, Column, figure, spread};
use crate::report::document::Document;
use crate::report::number::{self, optional};
use crate::run::{ClaimVerdict, Judged};
use crate::run::{Run, StudyResult, StudyRow, StudyTable};

/// Adds all studies; pictures only if `full`.
pub(super) fn print(out: &mut Document, run: &Run, full: bool) {
    for study in run.studies.iter().take(STUDIES_MAX) {
        print_study(out, study, full);
    }
    out.note(LEGEND);
    if !full && run.studies.iter().any(|study| study.tables.iter().any(is_pictures)) {
        let more = "Measured too, for claims about pictures without numbers: \
                    nearcall show --all RUN.json";
        out.note(more);
    }
}

fn print_study(out: &mut Document, study: &StudyResult, full: bool) {
    let name = [&study.number, &study.study].map(|part| clean(part)).join(" ");
    out.title(format!("{}: {}", name.trim(), clean(&study.title)));
    for table in study.tables.iter().take(TABLES_MAX).filter(|table| full || !is_pictures(table)) {
        print_table(out, table);
    }
    out.blank();
    for judged in study.verdicts.iter().take(CLAIMS_MAX) {
        print_verdict(out, judged);
    }
    out.blank();
}

fn print_table(out: &mut Document, table: &StudyTable) {
    out.part(format!("  {}: {}", name_of_table(&table.table), clean(&table.statistic)));
    let lines: Vec<Line<'_>> =
        table.rows.iter().take(ROWS_MAX).map(|row| Line { row, unit: &table.unit }).collect();
    let heading = |line: &Line<'_>| clean(&line.row.mechanism).replace('_', " ");
    out.grid(columns::grouped(&columns(), &lines, heading));
}

/// `Table 1` of `table1`.
fn name_of_table(name: &str) -> String {
    match name.strip_prefix("table").filter(|number| !number.is_empty()) {
        Some(number) => format!("Table {}", clean(number)),
        None => clean(name),
    }
}

/// One row of a table of a study, and the unit of its figures.
struct Line<'a> {
    row: &'a StudyRow,
    unit: &'a str,
}

/// The columns of all tables of studies: the last is the grade, or why there is no figure.
fn columns<'a>() -> [Column<Line<'a>>; 8] {
    [
        Column::figure("size", 7, |one| {
            one.row.message_bytes.map_or_else(String::new, number::size)
        }),
        Column::words("where", 6, |one| {
            let place = [&one.row.placement, &one.row.load].map(|part| clean(part)).join(" ");
            clip(place.trim(), 24)
        }),
        Column::figure("paper", 8, |one| optional(one.row.paper, one.unit)),
        Column::figure("here, so", 8, |one| optional(one.row.here_as_paper, one.unit)),
        Column::figure("here", 8, |one| optional(one.row.here, one.unit)),
        Column::figure("± 95 %", 6, |one| spread(one.row.here, one.row.here_ci95)),
        Column::figure("ratio", 6, |one| figure(one.row.ratio, number::ratio)),
        Column::words("grade", 5, grade_or_note).aligned(Align::Text),
    ]
}

fn grade_or_note(one: &Line<'_>) -> String {
    let note = || one.row.note.as_deref().map(clean).unwrap_or_default();
    one.row.grade.map_or_else(note, |grade| grade.to_string())
}

fn print_verdict(out: &mut Document, judged: &Judged) {
    let sign = match judged.verdict {
        ClaimVerdict::Confirmed => "✓",
        ClaimVerdict::Refuted => "✗",
        ClaimVerdict::Inconclusive => "?",
        ClaimVerdict::Skipped => "–",
    };
    let label = format!("  {:<4} {sign} {:<13} ", clean(&judged.id), judged.verdict);
    out.wrap(&label, clean(&judged.statement));
    let indent = " ".repeat(label.chars().count());
    out.wrap(&indent, clean_to(&judged.evidence, EVIDENCE_CHARS_MAX));
}

/// How many of each verdict.
pub(super) fn answer(run: &Run) -> String {
    let all = || run.studies.iter().flat_map(|study| &study.verdicts);
    let count = |verdict| all().filter(|judged| judged.verdict == verdict).count();
    format!(
        "{} claims: {} confirmed, {} refuted, {} inconclusive, {} skipped.",
        all().count(),
        count(ClaimVerdict::Confirmed),
        count(ClaimVerdict::Refuted),
        count(ClaimVerdict::Inconclusive),
        count(ClaimVerdict::Skipped),
    )
}

fn is_pictures(table: &StudyTable) -> bool {
    table.table == PICTURES
}

/// The table of what a paper shows without numbers.
const PICTURES: &str = "pictures";

/// What the columns mean.
const LEGEND: &str = "paper: as printed; here, so: this machine by the \
    paper's statistic, the median over launches; here: the median of the typical launch, or the \
    rate, and its 95 % interval; ratio: this machine by the paper's statistic to the paper. closed \
    loop, times not halved. A verdict is open (INCONCLUSIVE) where an interval straddles the bound.";

/// The evidence of X02 is the longest; a file may claim more.
const EVIDENCE_CHARS_MAX: usize = 1_200;

/// There are five, and what compares them; a file may claim more.
const STUDIES_MAX: usize = 20;
const TABLES_MAX: usize = 100;
const ROWS_MAX: usize = 1_000;
const CLAIMS_MAX: usize = 200;
