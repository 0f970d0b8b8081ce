//! The columns of tables: for each its name, how it is filled up, and its value.
//!
//! A table of the terminal (`table/`), of the page (`page/`) and of Markdown is a list of these and
//! of its rows. Figures of cells are rows of `run/fact.rs`; columns that several tables have are
//! here, a table's own stand beside it.
//!
//! **Invariants:** a value is text that may be shown: it has its unit or stands under a head that
//! names it, and is a dash where there is no figure. Text of runs has no control characters.
//!
//! **Not here:** where columns stand (`table/grid.rs`, `page/table.rs`), and the columns of the
//! flat table of a data set, which are numbers for programs (`dataset/rows/columns.rs`).

use super::number::{self, MISSING, Measured, Unit};
use super::table::grid::{Align, Grid, clean, clip};
use crate::run::Cell;
use crate::run::fact::{self, Fact};

/// One column of a table whose rows are of type `R`.
pub struct Column<R: ?Sized> {
    /// Its name above the rows; empty for the first column.
    pub head: &'static str,
    /// How it is filled up.
    pub align: Align,
    /// Its least width in a terminal of usual width.
    pub least: usize,
    value: Value<R>,
}

/// The source of a column's values.
enum Value<R: ?Sized> {
    Own(fn(&R) -> String),
    /// A text of the row's cell.
    Cell(fn(&Cell) -> String, fn(&R) -> &Cell),
    /// A figure of the row's cell.
    Fact(&'static Fact, Part, fn(&R) -> &Cell),
}

/// What a column shows of a figure.
#[derive(Clone, Copy)]
enum Part {
    Value,
    /// Half its interval, relative to it.
    Spread,
    /// Its interval.
    Interval,
}

impl<R: ?Sized> Copy for Column<R> {}

impl<R: ?Sized> Clone for Column<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: ?Sized> Copy for Value<R> {}

impl<R: ?Sized> Clone for Value<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: ?Sized> Column<R> {
    /// A column of figures.
    pub const fn figure(head: &'static str, least: usize, value: fn(&R) -> String) -> Self {
        Self { head, align: Align::Right, least, value: Value::Own(value) }
    }

    /// A column of words.
    pub const fn words(head: &'static str, least: usize, value: fn(&R) -> String) -> Self {
        Self { head, align: Align::Left, least, value: Value::Own(value) }
    }

    /// The same column, filled up in another way.
    pub const fn aligned(self, align: Align) -> Self {
        Self { align, ..self }
    }

    /// The same column with another least width.
    pub const fn wide(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// The same column under another name.
    pub const fn named(self, head: &'static str) -> Self {
        Self { head, ..self }
    }

    /// Its value in a row.
    pub fn text(&self, row: &R) -> String {
        match self.value {
            Value::Own(text) => text(row),
            Value::Cell(text, cell) => text(cell(row)),
            Value::Fact(fact, Part::Value, cell) => shown_fact(fact, cell(row)),
            Value::Fact(fact, Part::Spread, cell) => spread_of(fact.valid(cell(row))),
            Value::Fact(fact, Part::Interval, cell) => {
                let ci95 = fact.valid(cell(row)).and_then(|found| found.ci95);
                let finite = ci95.filter(|ends| ends.iter().all(|end| end.is_finite()));
                shown(finite.map(|ends| fact.unit.interval(ends)))
            }
        }
    }
}

impl Column<Cell> {
    /// The column of a figure.
    pub const fn fact(fact: &'static Fact) -> Self {
        let value = Value::Fact(fact, Part::Value, itself);
        Self { head: fact.head, align: Align::Right, least: fact.least, value }
    }

    /// Half the interval of a figure.
    pub const fn spread(fact: &'static Fact) -> Self {
        let value = Value::Fact(fact, Part::Spread, itself);
        Self { head: "± 95 %", align: Align::Right, least: 6, value }
    }

    /// The interval of a figure.
    pub const fn interval(fact: &'static Fact) -> Self {
        let value = Value::Fact(fact, Part::Interval, itself);
        Self { head: "95 % interval", align: Align::Right, least: 13, value }
    }

    /// The same column for rows that have a cell.
    pub fn on<R: ?Sized>(self, cell: fn(&R) -> &Cell) -> Column<R> {
        let value = match self.value {
            Value::Own(text) | Value::Cell(text, _) => Value::Cell(text, cell),
            Value::Fact(fact, part, _) => Value::Fact(fact, part, cell),
        };
        Column { head: self.head, align: self.align, least: self.least, value }
    }
}

const fn itself(cell: &Cell) -> &Cell {
    cell
}

/// A figure with the digits that its interval bears. Of a cell that fell behind its rate, the word
/// for that in place of the median, and the rate that it reached in place of the 99th percentile.
fn shown_fact(fact: &Fact, cell: &Cell) -> String {
    match fact.name {
        "p50_ns" if cell.is_behind() => FAILED.to_owned(),
        "p99_ns" if cell.is_behind() => {
            let pace = cell.pace.as_ref();
            figure(pace.and_then(|pace| pace.achieved_per_s), number::message_rate)
        }
        _ => measured(fact.valid(cell), fact.unit),
    }
}

/// An empty grid of the terminal with these columns.
pub fn grid<R: ?Sized>(columns: &[Column<R>]) -> Grid {
    let head = |column: &Column<R>| (column.head, column.align, column.least);
    Grid::new(&columns.iter().map(head).collect::<Vec<_>>())
}

/// The values of one row.
pub fn values<R: ?Sized>(columns: &[Column<R>], row: &R) -> Vec<String> {
    columns.iter().map(|column| column.text(row)).collect()
}

/// A table with a row for each of `rows`.
pub fn table<'r, R: 'r>(columns: &[Column<R>], rows: impl IntoIterator<Item = &'r R>) -> Grid {
    grouped(columns, rows, |_| String::new())
}

/// The same with a heading above the rows that have the same one; none where it is empty.
pub fn grouped<'r, R: 'r>(
    columns: &[Column<R>],
    rows: impl IntoIterator<Item = &'r R>,
    heading: impl Fn(&R) -> String,
) -> Grid {
    let mut grid = grid(columns);
    let mut last = String::new();
    for row in rows {
        let heading = heading(row);
        if heading != last {
            grid.heading(heading.clone());
            last = heading;
        }
        grid.row(values(columns, row));
    }
    grid
}

/// An amount of something, or a dash.
pub fn figure(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| MISSING.to_owned(), format)
}

/// A time, or a dash.
pub fn time(ns: Option<f64>) -> String {
    figure(ns, number::time)
}

/// A figure with the digits that its interval bears, or a dash.
pub fn measured(found: Option<Measured>, unit: Unit) -> String {
    found
        .filter(|found| found.value.is_finite())
        .map_or_else(|| MISSING.to_owned(), |f| f.text(unit))
}

/// Half its interval, relative to it.
pub fn spread_of(found: Option<Measured>) -> String {
    found.map_or_else(|| MISSING.to_owned(), |found| spread(Some(found.value), found.ci95))
}

/// A count, a name or the like, or a dash.
pub fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| MISSING.to_owned(), |value| value.to_string())
}

/// Half the width of the interval, relative to the figure.
pub fn spread(value: Option<f64>, ci95: Option<[f64; 2]>) -> String {
    let (Some(value), Some([low, high])) = (value, ci95) else {
        return MISSING.to_owned();
    };
    match (high - low) / 2.0 / value * 100.0 {
        percent if !percent.is_finite() => MISSING.to_owned(),
        percent if percent > 999.0 => ">999 %".to_owned(),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// A time in microseconds, without the unit.
pub fn micros(ns: Option<f64>) -> String {
    figure(ns.map(|ns| ns / 1e3), number::three_digits)
}

/// The mechanism.
pub const NAME: Column<Cell> =
    Column::words("", 14, |cell| clip(&clean(&cell.mechanism), NAME_COLUMNS_MAX));

/// How both ends wait.
pub const WAIT: Column<Cell> =
    Column::words("wait", 8, |cell| clip(&clean(&cell.wait), WAIT_COLUMNS_MAX));

/// The payload of one message.
pub const SIZE: Column<Cell> = Column::figure("size", 7, |cell| number::size(cell.message_bytes));

/// The median; `failed` where the rate was not kept.
pub const MEDIAN: Column<Cell> = Column::fact(&fact::P50);

/// The interval of what stands for a cell: of its median, or of its messages per second.
pub const INTERVAL: Column<Cell> = Column::figure("95 % interval", 13, |cell| {
    let found = cell.headline().filter(|_| !cell.is_behind());
    found.map_or_else(|| MISSING.to_owned(), |found| number::interval(found.ci95, found.unit))
});

/// New pairs of processes that the figures come from.
pub const LAUNCHES: Column<Cell> = Column::figure("launches", 8, |cell| cell.launches.to_string());

/// The time that 99 % are shorter than.
pub const P99: Column<Cell> = Column::fact(&fact::P99);

/// CPU time of client and server per message in microseconds.
pub const CPU_OF_EACH: Column<Cell> = Column::figure("CPU µs/msg", 11, |cell| {
    let cpu = cell.cpu_ns_per_message;
    match (cpu.client, cpu.server) {
        (None, None) => MISSING.to_owned(),
        (client, server) => format!("{}+{}", micros(client), micros(server)),
    }
});

/// The same together.
pub const CPU_MICROS: Column<Cell> = Column::figure("CPU µs", 6, |cell| {
    let cpu = cell.cpu_ns_per_message;
    micros(cpu.client.map(|client| client + cpu.server.unwrap_or(0.0)))
});

/// The same as a time.
pub const CPU: Column<Cell> = Column::fact(&fact::CPU);

/// How many times its floor's cost, with the interval if there is one.
pub const TO_FLOOR: Column<Cell> = Column::words("ratio to floor", 18, |cell| {
    let ratio = (fact::TO_FLOOR.of)(cell).filter(|ratio| ratio.value.is_finite());
    match ratio {
        Some(ratio) if ratio.ci95.is_some() => {
            format!("{} {}", ratio.text(Unit::Ratio), ratio.plus_minus())
        }
        ratio => measured(ratio, Unit::Ratio),
    }
});

/// The name of the floor.
pub const FLOOR: Column<Cell> = Column::words("", 7, |cell| {
    let floor = cell.floor.as_deref().unwrap_or_default();
    clip(&clean(floor.trim_start_matches("floor-")), FLOOR_COLUMNS_MAX)
});

/// The grade of the tails.
pub const GRADE: Column<Cell> =
    Column::words("grade", 5, |cell: &Cell| shown(cell.grade)).aligned(Align::Grade);

/// The grades of the median and of the tails.
pub const GRADES: Column<Cell> = Column::words("grade", 5, |cell: &Cell| {
    format!("{}/{}", shown(cell.median_grade()), shown(cell.grade))
})
.aligned(Align::Grade);

/// In place of the times of a cell that did not keep its pace.
pub const FAILED: &str = "failed";

/// Holds "floor-chunked-copy". A longer name is not one of ours.
pub const NAME_COLUMNS_MAX: usize = 18;

/// Holds "adaptive/adaptive".
pub const WAIT_COLUMNS_MAX: usize = 17;

/// Holds "chunked-copy".
const FLOOR_COLUMNS_MAX: usize = 12;
