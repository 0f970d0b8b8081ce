//! Cells as a flat table: one row per cell, one value per column.
//!
//! Always true: columns have the same names, types and order for ever and grow only at the end;
//! units stand in their names. What a cell does not have is missing, never zero. A row stands for
//! one cell of one run: nothing is averaged or left out. The columns are documented in
//! docs/data.md, which a test compares with them.

mod columns;

use std::collections::HashMap;
use std::io::{self, Write};

pub use columns::COLUMNS;
use serde::Serialize;
use serde::ser::Serializer;

use super::run_id::place;
use crate::report::hosts::Host;
use crate::run::{Cell, CellKey, Run};

/// One column of the table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name, with the unit at its end.
    pub name: &'static str,
    /// What its values are.
    pub holds: Holds,
    /// What it says, in words.
    pub about: &'static str,
    value: fn(&Line<'_>) -> Value,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Text.
    Text,
    /// A whole number.
    Whole,
    /// A number.
    Real,
    /// True or false.
    Truth,
}

impl Holds {
    /// The type's name in SQL.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "VARCHAR",
            Self::Whole => "BIGINT",
            Self::Real => "DOUBLE",
            Self::Truth => "BOOLEAN",
        }
    }
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// There is none.
    Missing,
    /// Text.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A finite number.
    Real(f64),
    /// True or false.
    Truth(bool),
}

/// One cell and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The run.
    pub run: &'a Run,
    /// Where the run lies in its data set, as [`place`] tells.
    pub run_file: &'a str,
    /// What the cell measured.
    pub key: &'a CellKey,
    /// What was found.
    pub cell: &'a Cell,
}

impl Line<'_> {
    /// Its values, in the order of [`COLUMNS`].
    pub fn values(&self) -> impl Iterator<Item = Value> {
        COLUMNS.iter().map(|column| (column.value)(self))
    }

    /// Writes the row as one line of JSON: an object with every column in order, null for what is
    /// missing.
    ///
    /// # Errors
    ///
    /// That of `out`.
    pub fn write_json(&self, mut out: impl Write) -> io::Result<()> {
        let names = COLUMNS.iter().map(|column| column.name);
        serde_json::Serializer::new(&mut out).collect_map(names.zip(self.values()))?;
        out.write_all(b"\n")
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
        self.0.write_record(line.values().map(|value| value.to_text())).map_err(io_error)
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

impl Value {
    /// As it stands in CSV: empty if there is none.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Missing => String::new(),
            Self::Text(text) => text.clone(),
            Self::Whole(number) => number.to_string(),
            Self::Real(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        if number.is_finite() { Self::Real(number) } else { Self::Missing }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

#[cfg(test)]
mod tests;
