//! Tables of the page: wide ones scroll in a box of their own and keep their first column.
//!
//! Always true: every table has a caption and a row of heads; each row begins with its head.
//! Of long tables a column that says the same in every row stands in the caption.
//! The page's script makes the heads buttons that sort; without it the order is ours.

use maud::{Markup, Render, html};

use super::GRADES;
use super::text::{interval, optional};
use crate::noise::Grade;
use crate::report::columns::Column;
use crate::report::number::MISSING;
use crate::report::table::grid::Align;
use crate::run::ClaimVerdict;

/// One table.
pub(super) struct Table {
    id: String,
    caption: String,
    heads: Vec<(String, bool)>,
    rows: Vec<Vec<Slot>>,
    sortable: bool,
}

/// What stands in one place of a table.
pub(super) enum Slot {
    /// Words.
    Text(String),
    /// A figure as it is read. The script knows the units and sorts by them.
    Figure(String),
    /// A noise grade.
    Grade(Option<Grade>),
}

impl Slot {
    /// A value in its unit.
    pub(super) fn value(value: Option<f64>, unit: &str) -> Self {
        Self::Figure(optional(value, unit))
    }

    /// Where a value lies.
    pub(super) fn interval(ci95: Option<[f64; 2]>, unit: &str) -> Self {
        Self::Figure(interval(ci95, unit))
    }

    /// Words.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

impl Table {
    /// An empty table. Heads that begin with `#` are above figures.
    pub(super) fn new(id: &str, caption: impl Into<String>, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| match head.strip_prefix('#') {
            Some(head) => (head.to_owned(), true),
            None => ((*head).to_owned(), false),
        });
        Self::with_heads(id, caption, heads.collect())
    }

    /// An empty table. With each head stands whether it is above figures.
    pub(super) fn with_heads(
        id: &str,
        caption: impl Into<String>,
        heads: Vec<(String, bool)>,
    ) -> Self {
        let (id, caption) = (id.to_owned(), caption.into());
        Self { id, caption, heads, rows: Vec::new(), sortable: true }
    }

    /// A table of these columns with a row for each of `rows`.
    pub(super) fn of<'r, R: 'r>(
        id: &str,
        caption: impl Into<String>,
        columns: &[Column<R>],
        rows: impl IntoIterator<Item = &'r R>,
    ) -> Self {
        let head = |column: &Column<R>| (column.head.to_owned(), column.align == Align::Right);
        let mut table = Self::with_heads(id, caption, columns.iter().map(head).collect());
        for row in rows {
            let slot = |column: &Column<R>| match ((column.value)(row), column.align) {
                (text, Align::Grade) => Slot::Grade(grade_of(&text)),
                (text, Align::Right) => Slot::Figure(text),
                (text, _) => Slot::Text(text),
            };
            table.row(columns.iter().map(slot).collect());
        }
        table
    }

    /// Keeps the order that the rows have.
    pub(super) fn in_order(mut self) -> Self {
        self.sortable = false;
        self
    }

    pub(super) fn row(&mut self, row: Vec<Slot>) {
        self.rows.push(row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Table {
    /// Whether a column says anything that differs from row to row.
    fn is_used(&self, column: usize) -> bool {
        let says = |slot: &Slot| match slot {
            Slot::Text(text) | Slot::Figure(text) => !text.is_empty(),
            Slot::Grade(_) => true,
        };
        let any = self.rows.iter().any(|row| row.get(column).is_some_and(says));
        column == 0 || any && self.common(column).is_none()
    }

    /// What a column says in every row of a long table, where that is the same.
    fn common(&self, column: usize) -> Option<&str> {
        let mut texts = self.rows.iter().map(|row| match row.get(column) {
            Some(Slot::Text(text) | Slot::Figure(text)) => Some(text.as_str()),
            _ => None,
        });
        let first = texts.next().flatten().filter(|text| !text.is_empty())?;
        let long = column > 0 && self.rows.len() >= COMMON_ROWS_MIN;
        (long && texts.all(|text| text == Some(first))).then_some(first)
    }

    /// The caption, with what is the same in every row.
    fn whole_caption(&self) -> String {
        let common = self
            .heads
            .iter()
            .enumerate()
            .filter_map(|(column, (head, _))| Some(format!("{head} {}", self.common(column)?)));
        let common: Vec<String> = common.collect();
        match common.as_slice() {
            [] => self.caption.clone(),
            common => format!("{}; in every row: {}", self.caption, common.join(", ")),
        }
    }
}

impl Render for Table {
    fn render(&self) -> Markup {
        let used: Vec<bool> = (0..self.heads.len()).map(|column| self.is_used(column)).collect();
        let sortable = self.sortable && self.rows.len() > 1;
        let heads: Vec<&(String, bool)> =
            self.heads.iter().zip(&used).filter(|(_, used)| **used).map(|(head, _)| head).collect();
        // A class of the table for each column of figures, not of each of its cells.
        let figures = heads.iter().enumerate().filter(|(_, (_, figures))| *figures);
        let figures: Vec<String> = figures.map(|(at, _)| format!("n{}", at + 1)).collect();
        let caption_id = format!("{}-caption", self.id);
        html! {
            div.scroll role="region" tabindex="0" aria-labelledby=(caption_id) {
                table id=(self.id) class=(figures.join(" ")) data-sort[sortable] {
                    caption id=(caption_id) { (self.whole_caption()) }
                    thead {
                        tr {
                            @for (head, _) in heads { th { (head) } }
                        }
                    }
                    tbody { @for row in &self.rows { tr { (cells(row, &used)) } } }
                }
            }
        }
    }
}

fn cells(row: &[Slot], used: &[bool]) -> Markup {
    let (head, rest) = match row {
        [head, rest @ ..] => (Some(head), rest),
        [] => (None, row),
    };
    html! {
        @if let Some(head) = head { th { (inner(head)) } }
        @for (slot, _) in rest.iter().zip(&used[1..]).filter(|(_, used)| **used) {
            td { (inner(slot)) }
        }
    }
}

fn inner(slot: &Slot) -> Markup {
    match slot {
        Slot::Text(text) | Slot::Figure(text) => html! { (text) },
        Slot::Grade(grade) => grade_mark(*grade),
    }
}

/// In shorter tables a column stands where it is looked for.
const COMMON_ROWS_MIN: usize = 8;

/// The grade that is written so.
fn grade_of(text: &str) -> Option<Grade> {
    GRADES.into_iter().find(|grade| grade.to_string() == text)
}

/// A grade as a letter in a shape of its colour; the letter says it, not the colour.
pub(super) fn grade_mark(grade: Option<Grade>) -> Markup {
    match grade {
        Some(grade) => html! { b class={ "g" (grade) } { (grade) } },
        None => html! { (MISSING) },
    }
}

/// A verdict by sign and word.
pub(super) fn verdict_mark(verdict: ClaimVerdict) -> Markup {
    let (class, sign) = match verdict {
        ClaimVerdict::Confirmed => ("yes", "✓"),
        ClaimVerdict::Refuted => ("no", "✗"),
        ClaimVerdict::Inconclusive => ("open", "?"),
        ClaimVerdict::Skipped => ("skipped", "–"),
    };
    html! {
        span class={ "v " (class) } { span aria-hidden="true" { (sign) } " " (verdict) }
    }
}
