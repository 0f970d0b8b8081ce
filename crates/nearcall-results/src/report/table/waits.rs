//! Waiting at different paces: a group for each placement and pace, a row for each policy.
//!
//! **Invariants:** a time that says only how far a client fell behind is not shown; the rate that
//! it reached stands there instead.

use super::cells::{OURS, class_words, place, print_left_out, print_legend};
use super::grid::{clean, clip};
use crate::report::columns::{self, Column, WAIT_COLUMNS_MAX, figure, shown, spread};
use crate::report::document::Document;
use crate::report::number;
use crate::run::{AtRest, Cell, PaceFacts, Placement, Run, WaitComparison, WaitRatio, fact};

/// Adds all paces, and the servers at rest.
pub(super) fn print(out: &mut Document, run: &Run) {
    let mut placements: Vec<&Placement> = Vec::new();
    for cell in &run.cells {
        if !placements.contains(&&cell.placement) && placements.len() < PLACEMENTS_MAX {
            placements.push(&cell.placement);
        }
    }
    placements.sort_by_key(|placement| placement.class == SAME_CPU);
    for placement in placements {
        out.title(format!("{}.", place(placement)));
        print_placement(out, run, placement);
        out.blank();
    }
    print_at_rest(out, run);
    print_legend(out, LEGEND, &run.cells);
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

fn print_placement(out: &mut Document, run: &Run, placement: &Placement) {
    let paced = |cell: &&Cell| cell.pace.is_some() && cell.placement == *placement;
    let mut cells: Vec<&Cell> = run.cells.iter().filter(paced).collect();
    cells.sort_by_key(|cell| (pace(cell).rate_per_s, is_other(cell), order_of(wait(cell))));
    let left_out = cells.len().saturating_sub(ROWS_MAX);
    cells.truncate(ROWS_MAX);
    let compared = |cell: &Cell| {
        run.waits.iter().find(|one| {
            let same = one.mechanism == cell.mechanism && one.class == cell.placement.class;
            same && one.rate_per_s == pace(cell).rate_per_s
        })
    };
    let lines: Vec<Line<'_>> = cells.iter().map(|cell| Line(cell, compared(cell))).collect();
    out.grid(columns::grouped(&columns(), &lines, |line| match pace(line.0).rate_per_s {
        1 => "1 call per second".to_owned(),
        rate => format!("{rate} calls per second"),
    }));
    print_left_out(out, left_out);
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
    let of = |column: Column<Cell>| column.on(|line: &Line<'_>| line.0);
    [
        of(columns::NAME.wide(12)),
        Column::words("wait", 8, |one| clip(&clean(wait(one.0)), WAIT_COLUMNS_MAX)),
        of(columns::MEDIAN.wide(7)),
        of(columns::P99),
        of(Column::fact(&fact::CPU_CLIENT)),
        of(Column::fact(&fact::CPU_SERVER)),
        Column::figure("ratio", 5, |one| figure(one.latency(), number::ratio)),
        Column::figure("± 95 %", 6, |one| {
            spread(one.latency(), one.own().and_then(|own| own.latency_ratio_ci95))
        }),
        Column::figure("CPU", 5, |one| {
            figure(one.ratio(|one| one.cpu_ratio, |one| one.cpu_ratio), number::ratio)
        }),
        of(columns::GRADE),
    ]
}

fn print_at_rest(out: &mut Document, run: &Run) {
    if run.at_rest.is_empty() {
        return;
    }
    out.title("A server with one client, without traffic");
    out.table(&REST, run.at_rest.iter().take(RESTS_MAX));
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
                      begun until it has returned; failed: not all calls began in time, and the \
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
