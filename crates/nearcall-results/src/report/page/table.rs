//! Tables of the page: wide ones scroll in a box of their own and keep their first column.
//!
//! **Invariants:** every table has a caption and a row of heads; each row begins with its head.
//! Of long tables a column that says the same in every row stands in the caption.

use maud::{Markup, Render, html};

use crate::noise::Grade;
use crate::report::number::MISSING;
use crate::report::table::grid::{Align, Grid};

/// One table.
pub(in crate::report) struct Table {
    id: String,
    caption: String,
    heads: Vec<(String, Align)>,
    /// Texts as they are read. A heading has one.
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of these rows, whose headings are rows of their own.
    pub(in crate::report) fn new(id: &str, caption: impl Into<String>, grid: &Grid) -> Self {
        let texts = grid.texts().filter(|row| !row.is_empty());
        let rows = texts.map(|row| row.into_iter().map(str::to_owned).collect()).collect();
        let (id, caption, heads) = (id.to_owned(), caption.into(), grid.heads().collect());
        Self { id, caption, heads, rows }
    }

    /// Whether a column says anything that differs from row to row.
    fn is_used(&self, column: usize) -> bool {
        let says = |row: &&[String]| !matches!(row[column].as_str(), "" | MISSING);
        column == 0 || self.full_rows().any(|row| says(&row)) && self.common(column).is_none()
    }

    /// The rows that are no headings.
    fn full_rows(&self) -> impl Iterator<Item = &[String]> {
        let columns = self.heads.len();
        self.rows.iter().map(Vec::as_slice).filter(move |row| row.len() == columns)
    }

    /// What a column says in every row of a long table, where that is the same, and no grade.
    fn common(&self, column: usize) -> Option<&str> {
        let is_grade = self.heads.get(column).is_some_and(|(_, align)| *align == Align::Grade);
        let mut texts = self.full_rows().map(|row| row[column].as_str());
        let says = |text: &&str| !matches!(*text, "" | MISSING) && !is_grade;
        let first = texts.next().filter(says)?;
        let long = column > 0 && self.full_rows().count() >= COMMON_ROWS_MIN;
        (long && texts.all(|text| text == first)).then_some(first)
    }

    /// The caption, with what is the same in every row.
    fn whole_caption(&self) -> String {
        let heads = self.heads.iter().enumerate();
        let common: Vec<String> = heads
            .filter_map(|(column, (head, _))| Some(format!("{head} {}", self.common(column)?)))
            .collect();
        match common.as_slice() {
            [] => self.caption.clone(),
            common => format!("{}; in every row: {}", self.caption, common.join(", ")),
        }
    }

    /// A cell of a row.
    fn inner(&self, column: usize, text: &str) -> Markup {
        match self.heads[column].1 {
            Align::Grade => {
                grade_mark(Grade::ALL.into_iter().find(|grade| grade.to_string() == text))
            }
            _ => html! { (text) },
        }
    }
}

impl Render for Table {
    fn render(&self) -> Markup {
        let used: Vec<usize> = (0..self.heads.len()).filter(|&at| self.is_used(at)).collect();
        // A class of the table for each column of figures, not of each of its cells.
        let figures = used.iter().enumerate().filter(|(_, at)| self.heads[**at].1 == Align::Right);
        let figures: Vec<String> = figures.map(|(at, _)| format!("n{}", at + 1)).collect();
        let caption_id = format!("{}-caption", self.id);
        html! {
            div.scroll role="region" tabindex="0" aria-labelledby=(caption_id) {
                table id=(self.id) class=(figures.join(" ")) {
                    caption id=(caption_id) { (self.whole_caption()) }
                    thead {
                        tr { @for &at in &used { th { (self.heads[at].0) } } }
                    }
                    tbody {
                        @for row in &self.rows {
                            @if row.len() == 1 && self.heads.len() > 1 {
                                tr { th colspan=(used.len()) { (row[0]) } }
                            } @else { tr {
                                @for &at in used.iter().filter(|at| **at < row.len()) {
                                    @let cell = self.inner(at, &row[at]);
                                    @if at == 0 { th { (cell) } } @else { td { (cell) } }
                                }
                            } }
                        }
                    }
                }
            }
        }
    }
}

/// In shorter tables a column stands where it is looked for.
const COMMON_ROWS_MIN: usize = 8;

/// A grade as a letter in a shape of its colour; the letter says it, not the colour.
pub(super) fn grade_mark(grade: Option<Grade>) -> Markup {
    match grade {
        Some(grade) => html! { b class={ "g" (grade) } { (grade) } },
        None => html! { (MISSING) },
    }
}
