//! A result as a list of titles, sentences, tables and an answer, and its rendering for a terminal
//! and for a page.
//!
//! What a run found is written once, as a [`Document`]; `Document::text` and `Document::html`
//! lay it out. Markdown has tables of the same columns (`markdown.rs`).
//!
//! **Invariants:** each renderer shows every block but blank lines and what belongs to a terminal.
//! Untrusted text is escaped where it is laid out.
//!
//! **Not here:** what there is to say of a run (`table/`).

use maud::{Markup, html};

use super::columns::{Column, table};
use super::lines::{Ink, Style, Writer, clean_to};
use super::page::table::Table;
use super::table::grid::Grid;

/// A result, block by block.
#[derive(Debug, Default)]
pub struct Document {
    blocks: Vec<Block>,
}

#[derive(Debug)]
enum Block {
    /// An empty line in a terminal.
    Blank,
    Title(String),
    /// A sentence; `label` stands before its first line.
    Text {
        ink: Ink,
        label: String,
        text: String,
    },
    Line(String),
    Table(Grid),
    Answer(String),
}

impl Document {
    /// Adds an empty line in a terminal.
    pub fn blank(&mut self) {
        self.blocks.push(Block::Blank);
    }

    /// Adds a heading; blanks at its start make it one of a part.
    pub fn title(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Title(text.into()));
    }

    /// Adds a heading below an empty line.
    pub fn part(&mut self, text: impl Into<String>) {
        self.blank();
        self.title(text);
    }

    /// Adds a sentence, whose later lines begin two columns further to the right.
    pub fn line(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Line(text.into()));
    }

    /// Adds an explanation of what stands above it.
    pub fn note(&mut self, text: impl Into<String>) {
        self.wrap_in(Ink::Note, "  ", text);
    }

    /// Adds a text behind a label.
    pub fn wrap(&mut self, label: &str, text: impl Into<String>) {
        self.wrap_in(Ink::Plain, label, text);
    }

    /// As [`Document::wrap`], with a colour for the text.
    pub fn wrap_in(&mut self, ink: Ink, label: &str, text: impl Into<String>) {
        self.blocks.push(Block::Text { ink, label: label.to_owned(), text: text.into() });
    }

    /// Adds a table.
    pub fn grid(&mut self, grid: Grid) {
        self.blocks.push(Block::Table(grid));
    }

    /// Adds a table with a row for each of `rows`.
    pub fn table<'r, R: 'r>(
        &mut self,
        columns: &[Column<R>],
        rows: impl IntoIterator<Item = &'r R>,
    ) {
        self.grid(table(columns, rows));
    }

    /// Adds the sentence that answers the question.
    pub fn answer(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Answer(text.into()));
    }

    /// Lays the document out for a terminal. Ends with a line break.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let mut out = Writer::new(style);
        for block in &self.blocks {
            match block {
                Block::Blank => out.blank(),
                Block::Title(text) => out.indented(Ink::Title, text),
                Block::Line(text) => out.indented(Ink::Plain, text),
                Block::Text { ink, label, text } => out.wrap_in(*ink, label, text),
                Block::Table(grid) => grid.print(&mut out),
                Block::Answer(text) if text.is_empty() => {}
                Block::Answer(text) => {
                    out.blank();
                    out.wrap_in(Ink::Title, "", text);
                }
            }
        }
        out.finish()
    }

    /// Lays the document out for a page; ids begin with `id`, and a table has the last title as its
    /// caption.
    pub(in crate::report) fn html(&self, id: &str) -> Markup {
        let mut caption = "";
        let blocks = self.blocks.iter().enumerate().map(|(at, block)| match block {
            Block::Blank => html! {},
            Block::Title(text) => {
                caption = text.trim();
                match text.starts_with(' ') {
                    true => html! {},
                    false => html! { h4 id={ (id) "-" (at) } { (plain(text)) } },
                }
            }
            Block::Line(text) | Block::Answer(text) => html! { p { (plain(text)) } },
            Block::Text { ink: Ink::Note, text, .. } => html! { p.note { (plain(text)) } },
            Block::Text { label, text, .. } => match label.trim() {
                "" => html! { p.evidence { (plain(text)) } },
                label => html! { p { (mark(label)) " " (plain(text)) } },
            },
            Block::Table(grid) => {
                html! { (Table::new(&format!("{id}-t{at}"), plain(caption), grid)) }
            }
        });
        let blocks: Vec<Markup> = blocks.collect();
        html! { @for block in blocks { (block) } }
    }
}

/// A label, with a class for the sign of a verdict in it.
fn mark(label: &str) -> Markup {
    let signs = [('✓', "yes"), ('✗', "no"), ('?', "open")];
    let class = signs.iter().find(|(sign, _)| label.contains(*sign)).map(|(_, class)| class);
    html! { b class={ "v " (class.unwrap_or(&"skipped")) } { (plain(label)) } }
}

fn plain(text: &str) -> String {
    clean_to(text, TEXT_CHARS_MAX)
}

/// The longest text of a claim fits.
const TEXT_CHARS_MAX: usize = 1_500;
