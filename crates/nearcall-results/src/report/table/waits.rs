//! Waiting at different paces: a group for each placement and pace, a row for each policy.
//!
//! Always true: a time that tells only how far a client fell behind is not shown; the rate that it
//! reached stands there instead.

use super::cells::{OURS, class_words, place};
use super::grid::{Align, clean, clip};
use super::notes::{DISTURBED, note_left_out};
use crate::noise::Grade;
use crate::report::columns::{self, Column, WAIT_COLUMNS_MAX, figure, shown, spread, values};
use crate::report::lines::Writer;
use crate::report::number;
use crate::run::{AtRest, Cell, PaceFacts, Placement, Run, WaitComparison, WaitRatio};

/// Whether the run is one of waits.
pub(super) fn is_of_waits(run: &Run) -> bool {
    run.cells.iter().any(|cell| cell.pace.is_some() && cell.call.is_some())
}

/// Adds all paces, and the servers at rest.
pub(super) fn print(out: &mut Writer, run: &Run) {
    let mut placements: Vec<&Placement> = Vec::new();
    for cell in &run.cells {
        if !placements.contains(&&cell.placement) && placements.len() < PLACEMENTS_MAX {
            placements.push(&cell.placement);
        }
    }
    placements.sort_by_key(|placement| placement.class == SAME_CPU);
    for placement in placements {
        out.title(&format!("{}.", place(placement)));
        print_placement(out, run, placement);
        out.blank();
    }
    print_at_rest(out, run);
    out.note(LEGEND);
    if run.cells.iter().any(|cell| cell.grade == Some(Grade::D)) {
        out.note(DISTURBED);
    }
    out.note("Every cell with its interval: nearcall show --all RUN.json");
}

/// How near adaptive comes to the better of the other policies, and what CPU time it takes.
pub(super) fn answer(run: &Run) -> String {
    let ratio = |one: &&WaitComparison| one.latency_ratio.filter(|ratio| ratio.is_finite());
    let known: Vec<(f64, &WaitComparison)> =
        run.waits.iter().filter_map(|one| Some((ratio(&one)?, one))).collect();
    let Some((worst, at)) = known.iter().max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return "Adaptive could not be compared with spin and block.".to_owned();
    };
    let near = known.iter().filter(|(ratio, _)| *ratio <= NEAR).count();
    let mut text = format!(
        "Adaptive is within {:.0} % of the better of spin and block at {near} of {} paces; at \
         worst its median is {} as long ({}, {} per second, {})",
        (NEAR - 1.0) * 100.0,
        known.len(),
        number::ratio(*worst),
        clean(&at.mechanism),
        at.rate_per_s,
        class_words(&at.class),
    );
    let open = at.latency_ratio_ci95.is_none_or(|[low, _]| low <= NEAR) && *worst > NEAR;
    if open {
        text += ", which is not certain";
    }
    let cpu = run.waits.iter().filter_map(|one| one.cpu_ratio).filter(|ratio| ratio.is_finite());
    match cpu.reduce(f64::max) {
        Some(cpu) => format!(
            "{text}. It takes at most {} the CPU time of the cheaper of them.",
            number::ratio(cpu)
        ),
        None => text + ".",
    }
}

fn print_placement(out: &mut Writer, run: &Run, placement: &Placement) {
    let paced = |cell: &&Cell| cell.pace.is_some() && cell.placement == *placement;
    let mut cells: Vec<&Cell> = run.cells.iter().filter(paced).collect();
    cells.sort_by_key(|cell| (pace(cell).rate_per_s, is_other(cell), order_of(wait(cell))));
    let left_out = cells.len().saturating_sub(ROWS_MAX);
    cells.truncate(ROWS_MAX);
    let columns = columns();
    let mut grid = columns::grid(&columns);
    let mut rate = None;
    for cell in cells {
        let facts = pace(cell);
        if rate != Some(facts.rate_per_s) {
            rate = Some(facts.rate_per_s);
            let what = if facts.rate_per_s == 1 { "call" } else { "calls" };
            grid.heading(format!("{} {what} per second", facts.rate_per_s));
        }
        let comparison = run.waits.iter().find(|one| {
            let same = one.mechanism == cell.mechanism && one.class == cell.placement.class;
            same && one.rate_per_s == facts.rate_per_s
        });
        grid.row(values(&columns, &Line(cell, comparison)));
    }
    grid.print(out);
    note_left_out(out, left_out);
}

/// A cell, and how adaptive compares at its pace.
struct Line<'a>(&'a Cell, Option<&'a WaitComparison>);

impl Line<'_> {
    /// The comparison, in the row of adaptive.
    fn own(&self) -> Option<&WaitComparison> {
        self.1.filter(|_| wait(self.0) == ADAPTIVE)
    }

    /// Of adaptive to the better of the others, in its own row; in theirs of adaptive to each.
    fn ratio(
        &self,
        to_best: fn(&WaitComparison) -> Option<f64>,
        to_each: fn(&WaitRatio) -> Option<f64>,
    ) -> Option<f64> {
        let others = self.1.map(|one| one.others.as_slice()).unwrap_or_default();
        let other = others.iter().find(|one| one.wait == wait(self.0));
        self.own().and_then(to_best).or(other.and_then(to_each))
    }

    fn latency(&self) -> Option<f64> {
        self.ratio(|one| one.latency_ratio, |one| one.latency_ratio)
    }
}

fn columns<'a>() -> [Column<Line<'a>>; 10] {
    [
        Column::words("", 12, |one| (columns::NAME.value)(one.0)),
        Column::words("wait", 8, |one| clip(&clean(wait(one.0)), WAIT_COLUMNS_MAX)),
        Column::figure("median", 7, |one| match columns::is_behind(one.0) {
            true => "behind".to_owned(),
            false => (columns::MEDIAN.value)(one.0),
        }),
        Column::figure("p99", 8, |one| match columns::is_behind(one.0) {
            true => figure(pace(one.0).achieved_per_s, number::message_rate),
            false => (columns::P99.value)(one.0),
        }),
        Column::figure("client", 8, |one| (columns::CPU_CLIENT.value)(one.0)),
        Column::figure("server", 8, |one| (columns::CPU_SERVER.value)(one.0)),
        Column::figure("ratio", 5, |one| figure(one.latency(), number::ratio)),
        Column::figure("± 95 %", 6, |one| {
            spread(one.latency(), one.own().and_then(|own| own.latency_ratio_ci95))
        }),
        Column::figure("CPU", 5, |one| {
            figure(one.ratio(|one| one.cpu_ratio, |one| one.cpu_ratio), number::ratio)
        }),
        Column { align: Align::Grade, ..Column::words("grade", 5, |one| shown(one.0.grade)) },
    ]
}

fn print_at_rest(out: &mut Writer, run: &Run) {
    if run.at_rest.is_empty() {
        return;
    }
    out.title("A server with one client, without traffic");
    let mut grid = columns::grid(&REST);
    for rest in run.at_rest.iter().take(RESTS_MAX) {
        grid.row(values(&REST, rest));
    }
    grid.print(out);
    out.blank();
}

const REST: [Column<AtRest>; 6] = [
    Column::words("", 12, |rest| clip(&clean(&rest.mechanism), 14)),
    Column::words("wait", 8, |rest| clip(&clean(&rest.wait), WAIT_COLUMNS_MAX)),
    Column::figure("CPU", 7, |rest| {
        figure(rest.cpu_share(), |share| format!("{} %", number::three_digits(share * 100.0)))
    }),
    Column::figure("wake-ups", 8, |rest| {
        let seconds = rest.observed_ns as f64 / 1e9;
        let sleeps = rest.voluntary_switches.map(|sleeps| sleeps as f64 / seconds);
        figure(sleeps, number::message_rate)
    }),
    Column::figure("threads", 7, |rest| shown(rest.threads)),
    Column::figure("private", 8, |rest| figure(rest.private_bytes, number::memory)),
];

fn pace(cell: &Cell) -> PaceFacts {
    cell.pace.clone().unwrap_or_default()
}

/// How the client waits; the server does alike.
fn wait(cell: &Cell) -> &str {
    cell.call.as_ref().map_or(&cell.wait, |call| &call.client_wait)
}

/// What is there for comparison stands below.
fn is_other(cell: &Cell) -> bool {
    cell.mechanism != OURS
}

fn order_of(wait: &str) -> usize {
    ["spin", "block", "adaptive"].iter().position(|known| *known == wait).unwrap_or(usize::MAX)
}

/// A median up to so many times the better one counts as equally good.
const NEAR: f64 = 1.1;

/// The policy that is compared with the others.
const ADAPTIVE: &str = "adaptive";

/// The class of placement of both ends on one CPU.
const SAME_CPU: &str = "same_cpu";

const LEGEND: &str = "median, p99: open loop at a constant rate, from when a call should have \
                      begun until it has returned; behind: not all calls began in time, and the \
                      rate that was reached; client, server: CPU time per call, of the client \
                      within calls only; ratio, CPU: in a row of adaptive its median to that of \
                      the better of spin and block, and its CPU time of both ends to that of the \
                      cheaper of the two; in the rows of those, adaptive to each.";

/// There are fewer; a file may claim more.
const ROWS_MAX: usize = 100;

/// There are two; a file may claim more.
const PLACEMENTS_MAX: usize = 8;

/// There are few; a file may claim more.
const RESTS_MAX: usize = 50;
