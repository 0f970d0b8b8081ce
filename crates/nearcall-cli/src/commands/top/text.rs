//! The columns of `nearcall top`, and one block of text for each tick.
//!
//! **Invariants:** a narrow screen loses columns from the least important one on, and never the
//! name or the rate; what servers and clients have chosen is printable.
//! **Not here:** the screen of a terminal (`screen.rs`).

use nearcall_results::report::document;
use nearcall_results::report::lines::{Ink, Style};
use nearcall_results::report::number::{MISSING, byte_rate, message_rate, three_digits, time};
use nearcall_results::report::table::grid::{Align, Grid};
use nearcall_results::run::printable;

use super::rows::{Level, Row, Rows, View};

/// A column of a table.
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) align: Align,
    /// Its width on a screen, in characters. The first column takes what is left.
    pub(super) width: u16,
    /// The columns with the largest number are left out first.
    pub(super) spare: u8,
    pub(super) cell: fn(&Row) -> String,
}

/// Returns the columns of a table.
pub(super) fn columns(level: Level) -> Vec<Column> {
    let name = Column {
        head: match level {
            Level::Servers => "server",
            Level::Methods => "method",
            Level::Connections => "client",
        },
        align: Align::Left,
        width: NAME_WIDTH_MIN,
        spare: 0,
        cell: name,
    };
    let mut columns = vec![name];
    if level != Level::Servers {
        columns.push(column("server", Align::Left, 14, 6, |row| printable(&row.server)));
    }
    columns.push(column("calls/s", Align::Right, 10, 0, |row| or_missing(row.calls_per_s, rate)));
    columns.push(column("p50", Align::Right, 8, 2, |row| or_missing(row.p50_ns, nanoseconds)));
    columns.push(column("p99", Align::Right, 8, 1, |row| or_missing(row.p99_ns, nanoseconds)));
    if level == Level::Servers {
        columns.push(column("CPU", Align::Right, 6, 3, |row| or_missing(row.cpu, percent)));
    }
    if level != Level::Methods {
        columns.push(column("wakes/call", Align::Right, 10, 7, |row| {
            or_missing(row.wakes_per_call, three_digits)
        }));
    }
    if level == Level::Servers {
        columns.push(column("clients", Align::Right, 7, 5, |row| {
            or_missing(row.connections, |count| count.to_string())
        }));
    }
    columns.push(column("in flight", Align::Right, 9, 8, |row| row.in_flight.to_string()));
    columns.push(column("errors/s", Align::Right, 8, 9, |row| or_missing(row.errors_per_s, rate)));
    columns.push(column("bytes/s", Align::Right, 10, 10, |row| {
        or_missing(row.bytes_per_s, byte_rate)
    }));
    if level != Level::Methods {
        columns.push(column("mechanism", Align::Left, 12, 4, |row| {
            printable(row.mechanism.as_deref().unwrap_or(MISSING))
        }));
    }
    if level == Level::Connections {
        columns.push(column("CPUs", Align::Left, 7, 11, placement));
    }
    if level != Level::Methods {
        columns.push(column("state", Align::Left, 16, 3, |row| printable(&row.state)));
    }
    columns
}

fn column(
    head: &'static str,
    align: Align,
    width: u16,
    spare: u8,
    cell: fn(&Row) -> String,
) -> Column {
    Column { head, align, width, spare, cell }
}

/// Returns those of the columns that a screen has room for.
pub(super) fn fitting(mut columns: Vec<Column>, width: usize) -> Vec<Column> {
    let needed = |columns: &[Column]| {
        columns.iter().map(|column| usize::from(column.width) + 1).sum::<usize>()
    };
    while needed(&columns) > width + 1
        && let Some(spare) = columns.iter().map(|column| column.spare).max()
        && spare > 0
    {
        columns.retain(|column| column.spare != spare);
    }
    columns
}

/// Returns the block of one tick.
pub(super) fn block(rows: &Rows, view: &View, seconds: f64, style: Style) -> String {
    let mut out = document::Document::default();
    out.title(format!("{} in {} s", super::name_of(view.level), three_digits(seconds)));
    let chosen = view.select(rows);
    let columns = columns(view.level);
    let heads: Vec<_> = columns.iter().map(|column| (column.head, column.align, 0)).collect();
    let mut spare: Vec<_> = (0..columns.len()).filter(|at| columns[*at].spare > 0).collect();
    spare.sort_by_key(|at| std::cmp::Reverse(columns[*at].spare));
    let mut grid = Grid::new(&heads).compact().without(spare);
    for row in chosen.iter().take(ROWS_MAX) {
        grid.row(columns.iter().map(|column| (column.cell)(row)).collect());
        if let (Level::Servers, None, Some(last)) =
            (view.level, row.connections, columns.len().checked_sub(1))
        {
            grid.paint(last, Ink::Bad);
        }
    }
    match chosen.len() {
        0 => out.line("none"),
        _ => out.grid(grid),
    }
    if chosen.len() > ROWS_MAX {
        out.note(format!("and {} more", chosen.len() - ROWS_MAX));
    }
    out.blank();
    out.text(style)
}

fn name(row: &Row) -> String {
    let name = row.method.as_ref().or(row.client.as_ref()).unwrap_or(&row.server);
    printable(name)
}

fn or_missing<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| MISSING.to_owned(), text)
}

fn rate(per_s: f64) -> String {
    message_rate(per_s).trim_end_matches(" /s").trim_end_matches("/s").to_owned()
}

fn nanoseconds(ns: u64) -> String {
    time(ns as f64)
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Returns the processors of both ends: `1→5`, the server's first.
fn placement(row: &Row) -> String {
    let Some(cpus) = row.cpus else { return MISSING.to_owned() };
    let [server, client] = cpus.map(|cpu| or_missing(cpu, |cpu| cpu.to_string()));
    format!("{server}→{client}")
}

/// A name has as much room at least.
const NAME_WIDTH_MIN: u16 = 16;

/// Rows of one block: more are not read.
const ROWS_MAX: usize = 50;
