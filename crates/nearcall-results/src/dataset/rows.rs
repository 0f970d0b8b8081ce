//! Cells as a flat table: one row per cell, one value per column.
//!
//! **Invariants:** columns have the same names, types and order in all versions and grow only at
//! the end; units stand in their names. What a cell does not have is missing, never zero. A row
//! stands for one cell of one run: nothing is averaged or left out. The columns are documented in
//! docs/book/src/reference/data.md, which a test compares with them.

mod columns;

use std::collections::HashMap;
use std::io::{self, Write};

pub use columns::COLUMNS;
use serde::ser::Serializer;
use serde_json::Value;

use super::identity::place;
use crate::report::hosts::Host;
use crate::run::fact::Fact;
use crate::run::{Cell, CellKey, Run};
use crate::visible::printable_json;
use crate::words::words;

/// One column of the table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name, with the unit at its end.
    pub name: &'static str,
    /// What its values are.
    pub holds: Holds,
    /// Its meaning, in words.
    pub about: &'static str,
    value: Get,
}

/// The source of a column's values.
#[derive(Clone, Copy, Debug)]
enum Get {
    Own(fn(&Line<'_>) -> Value),
    /// A figure of the cell.
    Fact(&'static Fact),
    /// An end of its interval.
    End(&'static Fact, usize),
}

impl Column {
    fn value(&self, line: &Line<'_>) -> Value {
        match self.value {
            Get::Own(value) => value(line),
            Get::Fact(fact) => (fact.of)(line.cell).map(|found| found.value).into(),
            Get::End(fact, end) => {
                let interval = (fact.of)(line.cell).and_then(|found| found.ci95);
                interval.map(|ends| ends[end]).into()
            }
        }
    }
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Text of any kind.
    Text,
    /// A whole number.
    Whole,
    /// A number.
    Real,
    /// True or false.
    Truth,
}

// Named as types of SQL.
words! { Holds: Text => "VARCHAR", Whole => "BIGINT", Real => "DOUBLE", Truth => "BOOLEAN" }

/// One cell and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The run.
    pub run: &'a Run,
    /// Where the run lies in its data set, as [`place`] returns.
    pub run_file: &'a str,
    /// What the cell measured.
    pub key: &'a CellKey,
    /// What was found.
    pub cell: &'a Cell,
}

impl Line<'_> {
    /// Its values, in the order of [`COLUMNS`].
    pub fn values(&self) -> impl Iterator<Item = Value> {
        COLUMNS.iter().map(|column| column.value(self))
    }

    /// Writes the row as one line of JSON: an object with every column in order, null for what is
    /// missing.
    ///
    /// # Errors
    ///
    /// That of `out`.
    pub fn write_json(&self, mut out: impl Write) -> io::Result<()> {
        let names = COLUMNS.iter().map(|column| column.name);
        let mut text = Vec::new();
        serde_json::Serializer::new(&mut text).collect_map(names.zip(self.values()))?;
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        writeln!(out, "{}", printable_json(&text))
    }
}

/// What is known of these machines as CSV (RFC 4180, UTF-8, a line of names first; lines end with
/// CR LF). A missing value is an empty field.
///
/// Has the cells that a report shows: of two runs that measured the same, the later one's.
#[must_use]
pub fn csv(hosts: &[Host<'_>]) -> String {
    let mut table = Csv::new(Vec::new()).expect("memory takes what is written");
    let mut places: HashMap<*const Run, String> = HashMap::new();
    for entry in hosts.iter().flat_map(|host| &host.entries) {
        let run_file: &str =
            places.entry(std::ptr::from_ref(entry.run)).or_insert_with(|| place(entry.run));
        let line = Line { run: entry.run, run_file, key: &entry.key, cell: entry.cell };
        table.push(&line).expect("memory takes what is written");
    }
    let bytes = table.finish().expect("memory takes what is written");
    String::from_utf8(bytes).expect("text and numbers are UTF-8")
}

/// Writes the table as CSV, line by line.
pub(crate) struct Csv<W: Write>(csv::Writer<W>);

impl<W: Write> Csv<W> {
    /// Writes the names of the columns.
    pub(crate) fn new(out: W) -> io::Result<Self> {
        let mut writer =
            csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
        writer.write_record(COLUMNS.iter().map(|column| column.name)).map_err(io_error)?;
        Ok(Self(writer))
    }

    pub(crate) fn push(&mut self, line: &Line<'_>) -> io::Result<()> {
        self.0.write_record(line.values().map(|value| to_text(&value))).map_err(io_error)
    }

    pub(crate) fn finish(self) -> io::Result<W> {
        self.0.into_inner().map_err(csv::IntoInnerError::into_error)
    }
}

/// The error of the file below; a writer of records has no other one.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A value as it stands in CSV: empty if there is none.
fn to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // All digits that it takes to read the same number again, and no point without a fraction.
        other => other
            .as_f64()
            .filter(|_| other.is_f64())
            .map_or_else(|| other.to_string(), |number| number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;
    use crate::report::hosts::hosts;
    use crate::run::{Kind, Machine, RttNs, Settings};

    #[test]
    fn every_column_has_a_meaning_and_holds_what_it_says() {
        let mut seen = HashSet::new();
        for column in COLUMNS {
            assert!(seen.insert(column.name), "{} twice", column.name);
            assert!(!column.about.is_empty() && !column.about.ends_with('.'), "{}", column.name);
        }
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
        for file in std::fs::read_dir(runs).unwrap() {
            let run = Run::load(&file.unwrap().path()).unwrap();
            for (key, cell) in run.keyed_cells() {
                let line = Line { run: &run, run_file: "a/b.json", key: &key, cell };
                for (column, value) in COLUMNS.iter().zip(line.values()) {
                    let holds = match &value {
                        Value::Null => continue,
                        Value::Bool(_) => Holds::Truth,
                        value if value.is_u64() => Holds::Whole,
                        value if value.is_f64() => Holds::Real,
                        _ => Holds::Text,
                    };
                    assert_eq!(holds, column.holds, "{}", column.name);
                }
            }
        }
    }

    #[test]
    fn csv_has_one_line_per_cell_and_quotes_what_must_be() {
        let machine = Machine { cpu_model: "A, \"B\"".to_owned(), ..Machine::default() };
        let mut run = Run::new(machine, Settings::default(), 0);
        let mut cell = Cell::new(Kind::Latency, "pipe", 8);
        cell.rtt_ns =
            Some(RttNs { p50: Some(0.1 + 0.2), mean: Some(f64::NAN), ..RttNs::default() });
        run.cells = vec![cell, Cell::new(Kind::Throughput, "pipe", 8)];
        let runs = [run];
        let text = csv(&hosts(&runs).unwrap());
        assert_eq!(text.matches("\r\n").count(), 3);
        assert!(text.contains("\"A, \"\"B\"\"\""), "{text}");
        // All digits, so that reading it gives the same number.
        assert!(text.contains(",0.30000000000000004,") && !text.contains("NaN"), "{text}");
    }
}
