//! Aligns rows of text in columns, and keeps text from a file harmless on a terminal.
//!
//! **Invariants:** no cell is cut or lost. Columns that do not fit stand in a further block below,
//! each block with the first columns; text in the last column is wrapped. Characters count as one
//! column each, which holds for all that is used here. Before columns go to a further block, blanks
//! are saved.
//!
//! **Not here:** runs, and what a cell holds.

use crate::report::lines::{Ink, Style, Writer};
pub(in crate::report) use crate::report::lines::{clean, clean_to, clip};
use crate::visible::{is_hidden, printable};

/// How a column is filled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// To the left.
    Left,
    /// To the right.
    Right,
    /// To the right, near the column before it, to which it belongs.
    Near,
    /// A grade, to the left.
    Grade,
    /// Text that is wrapped; only the last column can be one.
    Text,
}

/// Rows of columns under one head, in groups with a heading each.
#[derive(Clone, Debug)]
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Row>,
    is_compact: bool,
    /// Columns that a narrow terminal does without, the first of them first.
    spare: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Column {
    /// The names, one line below the other.
    head: Vec<String>,
    align: Align,
    least: usize,
}

#[derive(Clone, Debug)]
enum Row {
    Heading(String),
    Note(String),
    Cells(Vec<(String, Ink)>),
}

/// Where the columns stand.
#[derive(Clone)]
struct Layout {
    indent: usize,
    gap: usize,
    widths: Vec<usize>,
}

impl Grid {
    /// Creates a grid without rows. Columns have a name, an alignment and a least width.
    #[must_use]
    pub fn new(head: &[(&str, Align, usize)]) -> Self {
        let column = |&(name, align, least): &(&str, Align, usize)| Column {
            head: name.split('\n').map(str::to_owned).collect(),
            align,
            least,
        };
        let columns = head.iter().map(column).collect();
        Self { columns, rows: Vec::new(), is_compact: false, spare: Vec::new() }
    }

    /// The same grid with headings at the left edge and no empty lines before them.
    #[must_use]
    pub fn compact(self) -> Self {
        Self { is_compact: true, ..self }
    }

    /// The same grid without some columns where there is no room for all, the first of them first.
    #[must_use]
    pub fn without(self, spare: Vec<usize>) -> Self {
        Self { spare, ..self }
    }

    /// The names of the columns in one line each, and how they are filled up.
    pub fn heads(&self) -> impl Iterator<Item = (String, Align)> {
        self.columns.iter().map(|column| (column.head.join(" ").trim().to_owned(), column.align))
    }

    /// The texts of each row; one text of a heading, and none of a note.
    pub fn texts(&self) -> impl Iterator<Item = Vec<&str>> {
        self.rows.iter().map(|row| match row {
            Row::Heading(text) => vec![text.as_str()],
            Row::Note(_) => Vec::new(),
            Row::Cells(cells) => cells.iter().map(|(text, _)| text.as_str()).collect(),
        })
    }

    /// Adds a heading above the next rows.
    pub fn heading(&mut self, text: String) {
        self.rows.push(Row::Heading(text));
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        let ink = |(cell, column): (String, &Column)| {
            let is_bad = column.align == Align::Grade && cell.contains('D');
            // A hostile name stays in its line and place as well.
            let cell = if cell.chars().any(is_hidden) { printable(&cell) } else { cell };
            (cell, if is_bad { Ink::Bad } else { Ink::Plain })
        };
        self.rows.push(Row::Cells(cells.into_iter().zip(&self.columns).map(ink).collect()));
    }

    /// Gives a cell of the last row a colour.
    pub fn paint(&mut self, column: usize, ink: Ink) {
        if let Some(Row::Cells(cells)) = self.rows.last_mut()
            && let Some(cell) = cells.get_mut(column)
        {
            cell.1 = ink;
        }
    }

    /// Adds a line of text below the last row.
    pub fn note(&mut self, text: String) {
        self.rows.push(Row::Note(text));
    }

    /// Adds the grid as lines. A heading has an empty line before it.
    pub(in crate::report) fn print(&self, out: &mut Writer) {
        let room = out.style().table_columns();
        let blocks = self.blocks(room);
        for (at, (columns, layout)) in blocks.iter().enumerate() {
            if at > 0 {
                out.blank();
            }
            self.print_head(out, columns, layout);
            for row in &self.rows {
                self.print_row(out, row, columns, layout, at == 0);
            }
        }
    }

    /// The columns of each block: one if all fit.
    fn blocks(&self, room: usize) -> Vec<(Vec<usize>, Layout)> {
        let (wide, narrow) = (self.widths(true), self.widths(false));
        let indent = if self.is_compact { 2 } else { 4 };
        let layout =
            |indent, gap, widths: &Vec<usize>| Layout { indent, gap, widths: widths.clone() };
        let tries = [
            layout(indent, 2, &wide),
            layout(indent, 2, &narrow),
            layout(2, 2, &narrow),
            layout(2, 1, &narrow),
        ];
        let mut all: Vec<usize> = (0..self.columns.len()).collect();
        for at in 0..=self.spare.len() {
            all.retain(|column| !self.spare[..at].contains(column));
            // Before the gaps become narrow, a terminal does without some columns.
            let tries = if at < self.spare.len() { &tries[..3] } else { &tries[..] };
            // Text stands beside its row if there is some room for it.
            for most in [TEXT_COLUMNS_MIN, 0] {
                let text = self.text_columns(&narrow, most);
                let fits = |one: &&Layout| self.used(&all, one) + text <= room;
                if let Some(layout) = tries.iter().find(fits) {
                    return vec![(all, layout.clone())];
                }
            }
        }
        self.split(&all, narrow, room)
    }

    /// Several blocks of columns, as all do not fit.
    fn split(
        &self,
        all: &[usize],
        mut narrow: Vec<usize>,
        room: usize,
    ) -> Vec<(Vec<usize>, Layout)> {
        if let Some(first) = narrow.first_mut() {
            // A longer name is wrapped.
            *first = (*first).min(room / 2 - 2);
        }
        let layout = Layout { indent: 2, gap: 2, widths: narrow };
        let keys = self.keys(&layout, room);
        // A grade is needed beside the first figures.
        let is_grade = |&column: &usize| self.columns[column].align == Align::Grade;
        let grade = all.iter().copied().skip(keys.len()).find(is_grade);
        let mut last: Vec<usize> = keys.iter().copied().chain(grade).collect();
        let mut blocks = Vec::new();
        let rest = all[keys.len()..].iter().copied().filter(|&column| Some(column) != grade);
        let rest: Vec<usize> = rest.collect();
        // What belongs to a column stays beside it.
        for unit in rest.chunk_by(|_, &next| self.columns[next].align == Align::Near) {
            let with = [&last[..], unit].concat();
            // No block is without a figure.
            let text = match self.columns[unit[0]].align {
                Align::Text => self.text_columns(&layout.widths, TEXT_COLUMNS_MIN),
                _ => 0,
            };
            if self.used(&with, &layout) + text <= room || last.len() == keys.len() {
                last = with;
            } else {
                let next = [&keys[..], unit].concat();
                blocks.push(std::mem::replace(&mut last, next));
            }
        }
        blocks.push(last);
        let fit = |mut block: Vec<usize>| {
            block.sort_unstable();
            // One column beside the first ones may need a narrower gap.
            let gap = if self.used(&block, &layout) > room { 1 } else { layout.gap };
            (block, Layout { gap, ..layout.clone() })
        };
        blocks.into_iter().map(fit).collect()
    }

    /// The columns that the text beside rows takes: `most`, or what it and its name need.
    fn text_columns(&self, widths: &[usize], most: usize) -> usize {
        let last = self.columns.last().filter(|last| last.align == Align::Text);
        let Some((last, &width)) = last.zip(widths.last()) else { return 0 };
        let name = last.head.iter().map(|name| length(name)).max().unwrap_or_default();
        match width.min(most).max(name) {
            0 => 0,
            columns => 2 + columns,
        }
    }

    /// The first columns, which say what a row is about: the first and those of names after it.
    fn keys(&self, layout: &Layout, room: usize) -> Vec<usize> {
        let names = self.columns.iter().skip(1).take_while(|one| one.align == Align::Left).count();
        let keys: Vec<usize> = (0..=names.min(self.columns.len().saturating_sub(1))).collect();
        if self.used(&keys, layout) * 2 <= room { keys } else { vec![0] }
    }

    /// The width of each column, by what stands in it; a text takes what the others leave.
    fn widths(&self, is_wide: bool) -> Vec<usize> {
        let least = |column: &Column| {
            let head = column.head.iter().map(|name| length(name)).max().unwrap_or_default();
            if is_wide { head.max(column.least) } else { head }
        };
        let mut widths: Vec<usize> = self.columns.iter().map(least).collect();
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (width, (cell, _)) in widths.iter_mut().zip(cells) {
                    *width = (*width).max(length(cell.trim_end()));
                }
            }
        }
        widths
    }

    /// The columns of a line with these columns, a text left out.
    fn used(&self, columns: &[usize], layout: &Layout) -> usize {
        let fixed = columns.iter().filter(|&&column| self.columns[column].align != Align::Text);
        let width = |(at, &column): (usize, &usize)| {
            layout.widths[column] + if at == 0 { 0 } else { self.gap(column, layout) }
        };
        layout.indent + fixed.enumerate().map(width).sum::<usize>()
    }

    fn gap(&self, column: usize, layout: &Layout) -> usize {
        if self.columns[column].align == Align::Near { 1 } else { layout.gap }
    }

    fn print_head(&self, out: &mut Writer, columns: &[usize], layout: &Layout) {
        let lines = columns.iter().map(|&at| self.columns[at].head.len()).max().unwrap_or(0);
        for line in 0..lines {
            let name = |column: &Column| {
                // Columns of other blocks may have more lines; their cells are not printed.
                let at = column.head.len().checked_sub(lines - line);
                let name = at.and_then(|at| column.head.get(at));
                (name.cloned().unwrap_or_default(), Ink::Note)
            };
            let cells: Vec<(String, Ink)> = self.columns.iter().map(name).collect();
            if columns.iter().any(|&column| !cells[column].0.is_empty()) {
                out.push(&self.align(out.style(), &cells, columns, layout));
            }
        }
    }

    fn print_row(
        &self,
        out: &mut Writer,
        row: &Row,
        columns: &[usize],
        layout: &Layout,
        is_first: bool,
    ) {
        match row {
            Row::Heading(text) => {
                if !self.is_compact {
                    out.blank();
                }
                let indent = " ".repeat(layout.indent.saturating_sub(2));
                out.indented(Ink::Title, &format!("{indent}{text}"));
            }
            // One block has it.
            Row::Note(text) if is_first => {
                out.wrap_in(Ink::Note, &" ".repeat(layout.indent + 2), text);
            }
            Row::Note(_) => {}
            Row::Cells(cells) => self.print_cells(out, cells, columns, layout),
        }
    }

    /// A row, with its text beside it, or below it where there is no room.
    fn print_cells(
        &self,
        out: &mut Writer,
        cells: &[(String, Ink)],
        columns: &[usize],
        layout: &Layout,
    ) {
        let text = columns.last().filter(|&&at| self.columns[at].align == Align::Text);
        let style = out.style();
        let Some((text, ink)) = text.and_then(|&at| cells.get(at)) else {
            out.push(&self.align(style, cells, columns, layout));
            return self.print_name(out, cells, layout);
        };
        let start = self.used(columns, layout) + 2;
        let room = style.table_columns().saturating_sub(start);
        let fixed = self.align(style, cells, &columns[..columns.len() - 1], layout);
        if length(text) > room && room < TEXT_COLUMNS_MIN {
            out.push(&fixed);
            self.print_name(out, cells, layout);
            out.wrap_in(*ink, &" ".repeat(layout.indent + 2), text);
            return;
        }
        // On a wide page text is as long as prose, or as what stands beside it.
        let room = room.min(style.prose_columns().saturating_sub(start).max(TEXT_COLUMNS_MIN));
        let mut lines = style.split(text, room).into_iter();
        let first = style.paint(*ink, &lines.next().unwrap_or_default());
        out.push(&format!("{fixed}  {first}"));
        for line in lines {
            out.push(&format!("{:start$}{}", "", style.paint(*ink, &line)));
        }
        self.print_name(out, cells, layout);
    }

    /// What the first line of a row has not shown of its name.
    fn print_name(&self, out: &mut Writer, cells: &[(String, Ink)], layout: &Layout) {
        let lines = cells.first().map(|(name, _)| first_column(out.style(), name, layout));
        for line in lines.iter().flatten().skip(1) {
            out.push(&format!("{:indent$}{line}", "", indent = layout.indent));
        }
    }

    /// A line of the columns that are no text.
    fn align(
        &self,
        style: Style,
        cells: &[(String, Ink)],
        columns: &[usize],
        layout: &Layout,
    ) -> String {
        let mut line = " ".repeat(layout.indent);
        for (at, &column) in columns.iter().enumerate() {
            let Some((cell, ink)) = cells.get(column) else { break };
            let first = (column == 0).then(|| first_column(style, cell, layout).swap_remove(0));
            let cell = first.as_deref().unwrap_or(cell).trim_end();
            let fill = " ".repeat(layout.widths[column].saturating_sub(length(cell)));
            let gap = " ".repeat(if at == 0 { 0 } else { self.gap(column, layout) });
            let cell = style.paint(*ink, cell);
            let is_right = matches!(self.columns[column].align, Align::Right | Align::Near);
            let parts = if is_right { [gap, fill, cell] } else { [gap, cell, fill] };
            line.extend(parts);
        }
        line
    }
}

/// The lines of a name: one, if it fits in its column.
fn first_column(style: Style, name: &str, layout: &Layout) -> Vec<String> {
    let columns = layout.widths.first().copied().unwrap_or_default();
    if length(name) <= columns { vec![name.to_owned()] } else { style.split(name, columns) }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Text beside a row has at least so many columns; otherwise it stands below the row.
const TEXT_COLUMNS_MIN: usize = 24;
