//! Tables of the page: wide ones scroll in a box of their own and keep their first column.
//!
//! Always true: every table has a caption and heads with a scope; each row begins with its head.
//! The page's script makes the heads buttons that sort; without it the order is ours.

use maud::{Markup, Render, html};

use super::text::{interval, optional};
use crate::noise::Grade;
use crate::report::number::MISSING;
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
        let heads = heads.collect();
        let (id, caption) = (id.to_owned(), caption.into());
        Self { id, caption, heads, rows: Vec::new(), sortable: true }
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
    /// Whether a column says anything.
    fn is_used(&self, column: usize) -> bool {
        let says = |slot: &Slot| match slot {
            Slot::Text(text) | Slot::Figure(text) => !text.is_empty(),
            Slot::Grade(_) => true,
        };
        column == 0 || self.rows.iter().any(|row| row.get(column).is_some_and(says))
    }
}

impl Render for Table {
    fn render(&self) -> Markup {
        let used: Vec<bool> = (0..self.heads.len()).map(|column| self.is_used(column)).collect();
        let sortable = self.sortable && self.rows.len() > 1;
        let heads = self.heads.iter().zip(&used).filter(|(_, used)| **used);
        let caption_id = format!("{}-caption", self.id);
        html! {
            div.scroll role="region" tabindex="0" aria-labelledby=(caption_id) {
                table id=(self.id) data-sort[sortable] {
                    caption id=(caption_id) { (self.caption) }
                    thead {
                        tr {
                            @for ((head, figures), _) in heads {
                                th scope="col" class=[figures.then_some("n")] { (head) }
                            }
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
        @if let Some(head) = head { th scope="row" { (inner(head)) } }
        @for (slot, _) in rest.iter().zip(&used[1..]).filter(|(_, used)| **used) {
            @match slot {
                Slot::Figure(text) => td.n { (text) },
                _ => td { (inner(slot)) },
            }
        }
    }
}

fn inner(slot: &Slot) -> Markup {
    match slot {
        Slot::Text(text) | Slot::Figure(text) => html! { (text) },
        Slot::Grade(grade) => grade_mark(*grade),
    }
}

/// A grade as a letter in a shape of its colour; the letter says it, not the colour.
pub(super) fn grade_mark(grade: Option<Grade>) -> Markup {
    match grade {
        Some(grade) => html! { span class={ "g g" (grade) } { (grade) } },
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
