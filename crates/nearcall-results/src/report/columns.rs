//! The columns of tables: for each its name, what it holds, how it is filled up, and its value.
//!
//! A table of the terminal (`table/`), of the page (`page/`) and of Markdown is a list of these and
//! of its rows, so that a figure has one definition wherever it stands. The columns of cells that
//! several tables have are here; a table's own stand beside it.
//!
//! **Invariants:** a value is text that may be shown: it has its unit or stands under a head that
//! names it, and is a dash where there is no figure. Text of runs has no control characters.
//!
//! **Not here:** where columns stand (`table/grid.rs`, `page/table.rs`), and the columns of the
//! flat table of a data set, which are numbers for programs (`dataset/flat/columns.rs`).

use super::number::{self, MISSING, Measured};
use super::table::grid::{Align, Grid, clean, clip};
use crate::run::{Cell, Kind};

/// One column of a table whose rows are of type `R`.
pub struct Column<R: ?Sized> {
    /// Its name above the rows; empty for the first column.
    pub head: &'static str,
    /// How it is filled up.
    pub align: Align,
    /// Its least width in a terminal of usual width.
    pub least: usize,
    /// Its value in a row.
    pub value: fn(&R) -> String,
}

impl<R: ?Sized> Copy for Column<R> {}

impl<R: ?Sized> Clone for Column<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: ?Sized> Column<R> {
    /// A column of figures.
    pub const fn figure(head: &'static str, least: usize, value: fn(&R) -> String) -> Self {
        Self { head, align: Align::Right, least, value }
    }

    /// A column of words.
    pub const fn words(head: &'static str, least: usize, value: fn(&R) -> String) -> Self {
        Self { head, align: Align::Left, least, value }
    }

    /// The same column with another least width.
    pub const fn wide(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// The same column under another name.
    pub const fn named(self, head: &'static str) -> Self {
        Self { head, ..self }
    }
}

/// An empty grid of the terminal with these columns.
pub fn grid<R: ?Sized>(columns: &[Column<R>]) -> Grid {
    let head = |column: &Column<R>| (column.head, column.align, column.least);
    Grid::new(&columns.iter().map(head).collect::<Vec<_>>())
}

/// The values of one row.
pub fn values<R: ?Sized>(columns: &[Column<R>], row: &R) -> Vec<String> {
    columns.iter().map(|column| (column.value)(row)).collect()
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
pub fn measured(found: Option<Measured>, format: fn(Measured) -> String) -> String {
    found.filter(|found| found.value.is_finite()).map_or_else(|| MISSING.to_owned(), format)
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

/// The median of a latency cell with its interval; `None` where it did not keep its pace, as its
/// times say only how far it fell behind.
pub fn median(cell: &Cell) -> Option<Measured> {
    let times = cell.rtt_ns.as_ref().filter(|_| !is_behind(cell))?;
    Some(Measured { value: times.p50?, ci95: times.p50_ci95 })
}

/// Whether exchanges began later than they should have.
pub fn is_behind(cell: &Cell) -> bool {
    cell.pace.as_ref().is_some_and(|pace| !pace.kept)
}

/// What one message takes: the median, or the inverse of the rate, with its interval.
pub fn per_message(cell: &Cell) -> Option<Measured> {
    match cell.kind {
        Kind::Latency => median(cell),
        Kind::Throughput => {
            let ci95 = cell.messages_per_s_ci95.map(|[low, high]| [1e9 / high, 1e9 / low]);
            Some(Measured { value: 1e9 / cell.messages_per_s?, ci95 })
        }
    }
}

/// Messages per second with their interval.
fn messages(cell: &Cell) -> Option<Measured> {
    Some(Measured { value: cell.messages_per_s?, ci95: cell.messages_per_s_ci95 })
}

/// A percentile of the times of a cell that kept its pace.
fn percentile(cell: &Cell, of: fn(&crate::run::RttNs) -> Option<f64>) -> String {
    time(cell.rtt_ns.as_ref().filter(|_| !is_behind(cell)).and_then(of))
}

/// The mechanism.
pub const NAME: Column<Cell> =
    Column::words("", 14, |cell| clip(&clean(&cell.mechanism), NAME_COLUMNS_MAX));

/// How both ends wait.
pub const WAIT: Column<Cell> =
    Column::words("wait", 8, |cell| clip(&clean(&cell.wait), WAIT_COLUMNS_MAX));

/// The payload of one message.
pub const SIZE: Column<Cell> = Column::figure("size", 7, |cell| number::size(cell.message_bytes));

/// The median with the digits that its interval bears; `failed` where the pace was not kept.
pub const MEDIAN: Column<Cell> = Column::figure("median", 8, |cell| match median(cell) {
    None if is_behind(cell) => FAILED.to_owned(),
    found => measured(found, Measured::time),
});

/// Half the interval of the median.
pub const MEDIAN_SPREAD: Column<Cell> =
    Column::figure("± 95 %", 6, |cell| spread_of(median(cell)));

/// What one message takes.
pub const PER_MESSAGE: Column<Cell> =
    Column::figure("call", 7, |cell| measured(per_message(cell), Measured::time));

/// The interval of what stands for a cell: of its median, or of its messages per second.
pub const INTERVAL: Column<Cell> = Column::figure("95 % interval", 13, |cell| {
    let found = cell.headline().filter(|_| !is_behind(cell));
    found.map_or_else(|| MISSING.to_owned(), |found| number::interval(found.ci95, found.unit))
});

/// New pairs of processes that the figures come from.
pub const LAUNCHES: Column<Cell> = Column::figure("launches", 8, |cell| cell.launches.to_string());

/// The time that 99 % are shorter than.
pub const P99: Column<Cell> = Column::figure("p99", 8, |cell| percentile(cell, |times| times.p99));

/// The time that 99.9 % are shorter than.
pub const P999: Column<Cell> =
    Column::figure("p99.9", 8, |cell| percentile(cell, |times| times.p999));

/// Messages per second.
pub const MESSAGES: Column<Cell> =
    Column::figure("messages", 8, |cell| measured(messages(cell), Measured::message_rate));

/// Half the interval of it.
pub const MESSAGES_SPREAD: Column<Cell> =
    Column::figure("± 95 %", 6, |cell| spread_of(messages(cell)));

/// Payload bytes per second.
pub const BYTES: Column<Cell> = Column::figure("bytes", 9, |cell| {
    let rate = |value| Measured { value, ci95: cell.bytes_per_s_ci95 };
    measured(cell.bytes_per_s.map(rate), Measured::byte_rate)
});

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
pub const CPU: Column<Cell> = Column::figure("CPU", 7, |cell| time(cell.cpu_ns()));

/// CPU time of the client per message.
pub const CPU_CLIENT: Column<Cell> =
    Column::figure("client", 8, |cell| time(cell.cpu_ns_per_message.client));

/// CPU time of the server per message.
pub const CPU_SERVER: Column<Cell> =
    Column::figure("server", 8, |cell| time(cell.cpu_ns_per_message.server));

/// Payload bits per second of CPU time of both ends.
pub const BITS_PER_CPU: Column<Cell> =
    Column::figure("b/CPU-s", 7, |cell| figure(cell.bits_per_cpu_s, number::bits));

/// How many times its floor's cost, with the interval if there is one.
pub const TO_FLOOR: Column<Cell> = Column::words("ratio to floor", 18, |cell| {
    let ratio = cell.ratio_to_floor.filter(|ratio| ratio.is_finite());
    match ratio.map(|value| Measured { value, ci95: cell.ratio_to_floor_ci95 }) {
        None => MISSING.to_owned(),
        Some(ratio) if ratio.ci95.is_none() => ratio.ratio(),
        Some(ratio) => format!("{} {}", ratio.ratio(), ratio.plus_minus()),
    }
});

/// The name of the floor.
pub const FLOOR: Column<Cell> = Column::words("", 7, |cell| {
    let floor = cell.floor.as_deref().unwrap_or_default();
    clip(&clean(floor.trim_start_matches("floor-")), FLOOR_COLUMNS_MAX)
});

/// The grade of the tails.
pub const GRADE: Column<Cell> =
    Column { align: Align::Grade, ..Column::words("grade", 5, |cell| shown(cell.grade)) };

/// The grades of the median and of the tails.
pub const GRADES: Column<Cell> = Column {
    value: |cell| format!("{}/{}", shown(cell.median_grade()), shown(cell.grade)),
    ..GRADE
};

/// In place of the times of a cell that did not keep its pace.
pub const FAILED: &str = "failed";

/// Holds "floor-chunked-copy". A longer name is not one of ours.
pub const NAME_COLUMNS_MAX: usize = 18;

/// Holds "adaptive/adaptive".
pub const WAIT_COLUMNS_MAX: usize = 17;

/// Holds "chunked-copy".
const FLOOR_COLUMNS_MAX: usize = 12;
