//! Runs of traffic: a group for each pace, a row for each mechanism and way to wait.
//!
//! Always true: the times of a cell that did not keep its pace are not shown; the rate that it
//! reached stands there instead.

use super::cells::{figure, place};
use super::details::FAILED;
use super::grid::{Align, Grid, clean, clip, print_line, print_wrapped};
use super::notes::DISTURBED;
use crate::noise::Grade;
use crate::report::number::{self, MISSING};
use crate::run::{Cell, Run};

/// Whether the run is one of traffic.
pub(super) fn is_of_traffic(run: &Run) -> bool {
    run.cells.iter().any(|cell| cell.pace.is_some() && cell.call.is_none())
}

/// Adds the table and what its columns mean.
pub(super) fn print(out: &mut String, run: &Run) {
    if let Some(first) = run.cells.first() {
        let what = format!("{} of {}", clean(&first.shape), number::size(first.message_bytes));
        let load = clean(&first.load);
        print_line(out, &format!("{}; {what}; load: {load}.", place(&first.placement)));
    }
    print_pace(out, run);
    out.push('\n');
    print_wrapped(out, "  ", PACE_LEGEND);
    if run.cells.iter().any(|cell| cell.grade == Some(Grade::D)) {
        print_wrapped(out, "  ", DISTURBED);
    }
    print_wrapped(out, "  ", "Every cell with its interval: nearcall show --all RUN.json");
}

fn print_pace(out: &mut String, run: &Run) {
    let rate = |cell: &Cell| cell.pace.as_ref().map(|pace| pace.rate_per_s);
    let mut rates: Vec<Option<u32>> = run.cells.iter().map(rate).collect();
    rates.sort_unstable();
    rates.dedup();
    let mut grid = Grid::new(&PACE_HEAD);
    for group in rates {
        grid.heading(match group {
            None => "closed_loop: each exchange begins when the one before has ended".to_owned(),
            Some(rate) => format!("open_loop: {rate} per second, from when each was due"),
        });
        for cell in run.cells.iter().filter(|cell| rate(cell) == group) {
            grid.row(pace_row(cell));
        }
    }
    grid.print(out);
}

fn pace_row(cell: &Cell) -> Vec<String> {
    let rtt = cell.rtt_ns.clone().unwrap_or_default();
    let time = |ns: Option<f64>| figure(ns, number::time);
    let missing = || MISSING.to_owned();
    let mut row = names(cell);
    match &cell.pace {
        Some(pace) if !pace.kept => {
            let reached = figure(pace.achieved_per_s, number::message_rate);
            row.extend([FAILED.to_owned(), reached, missing(), missing(), missing()]);
        }
        Some(pace) => {
            let service = &pace.service_ns;
            let times = [rtt.p50, rtt.p99, rtt.p999, service.p50, service.p99];
            row.extend(times.map(time));
        }
        None => {
            row.extend([rtt.p50, rtt.p99, rtt.p999].map(time));
            row.extend([missing(), missing()]);
        }
    }
    row.extend(cpu_and_grade(cell));
    row
}

fn names(cell: &Cell) -> Vec<String> {
    vec![clip(&clean(&cell.mechanism), 14), clip(&clean(&cell.wait), 8)]
}

/// CPU time of both ends per message, and the grade.
fn cpu_and_grade(cell: &Cell) -> [String; 2] {
    let cpu = cell.cpu_ns_per_message;
    let both = cpu.client.zip(cpu.server).map(|(client, server)| client + server);
    let grade = cell.grade.map_or_else(|| MISSING.to_owned(), |grade| grade.to_string());
    [figure(both, number::time), grade]
}

const PACE_HEAD: [(&str, Align, usize); 9] = [
    ("", Align::Left, 12),
    ("wait", Align::Left, 8),
    ("median", Align::Right, 7),
    ("p99", Align::Right, 8),
    ("p99.9", Align::Right, 8),
    ("service", Align::Right, 7),
    ("its p99", Align::Right, 8),
    ("CPU", Align::Right, 7),
    ("grade", Align::Left, 5),
];

const PACE_LEGEND: &str = "closed_loop: from sending until the reply is there; what holds up one \
                           exchange delays the next and is counted once. open_loop: from when an \
                           exchange was due, so what holds it up is counted for all that were due \
                           meanwhile; the client has one under way at a time and makes up for the \
                           others after it. service: from when it did begin. failed: fewer than \
                           99.9 % began in time, and the rate that was reached. CPU: of both ends \
                           per message, of the client in open_loop within exchanges only.";
