//! What is stored of a comparison: the schema `nearcall.rivals/1`, one JSON document.
//!
//! Always true: every figure comes from one run on one machine; a figure without a value is `null`;
//! a row that was not measured says why. Costs are in nanoseconds, rates in messages per second,
//! sizes in bytes. A reader ignores fields that it does not know; a field that changes its meaning
//! changes the number behind the slash. Not here: how it is shown (`table.rs`).

use nearcall_bench::machine;
use nearcall_results::noise::Grade;
use nearcall_results::run::Machine;
use nearcall_results::stats;
use serde::Serialize;

use crate::bench::{Found, Plan};
use crate::measure::{Cell, Kind, Measured};
use crate::memory::Idle;
use crate::rival::{Rival, Waiting};

/// The whole comparison.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    /// [`SCHEMA`].
    schema: &'static str,
    pub(crate) version: &'static str,
    /// "release" or "debug".
    pub(crate) profile: &'static str,
    pub(crate) started_unix_s: u64,
    pub(crate) finished_unix_s: u64,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) rows: Vec<Row>,
}

/// What was asked for.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) sizes_bytes: Vec<usize>,
    pub(crate) echo_sizes_bytes: Vec<usize>,
    /// Pairs of processes per row, the one that watches the idle server not counted.
    pub(crate) launches: u32,
    pub(crate) cell_s: f64,
    pub(crate) idle_s: f64,
    pub(crate) client_cpu: Option<usize>,
    pub(crate) server_cpu: Option<usize>,
    pub(crate) seed: u64,
}

/// One way of using one library.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// "polling", "sleeping" or "adaptive". Only rows of one kind are compared.
    pub(crate) waiting: &'static str,
    /// How it was configured, and why its authors would agree.
    pub(crate) about: String,
    /// What the messages of the cell "rate" are to this library.
    pub(crate) rate_is: &'static str,
    /// The worst grade of noise around its launches, A to D.
    pub(crate) noise: Option<Grade>,
    /// Why it has no cells, or fewer launches than asked for.
    pub(crate) failure: Option<String>,
    pub(crate) cells: Vec<Figures>,
    pub(crate) idle_server: Option<Idle>,
}

/// One measured cell.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    /// "sink": round trips with an empty reply. "echo": with the payload as the reply. "rate":
    /// messages per second one way, until the server has confirmed the last.
    pub(crate) kind: Kind,
    pub(crate) bytes: usize,
    /// "ns" or "per_s".
    pub(crate) unit: &'static str,
    /// The median over launches of their medians, or of their rates.
    pub(crate) value: f64,
    /// Where a typical launch lies with 95 % confidence.
    pub(crate) ci95: Option<[f64; 2]>,
    pub(crate) launch_values: Vec<f64>,
    /// The median over launches; round trips only.
    pub(crate) p99_ns: Option<f64>,
    /// Processor time of the client per message, and of the server: medians over launches.
    pub(crate) cpu_ns_per_message: [f64; 2],
    /// How many times better nearcall's row of the same waiting is; below 1 it is worse.
    pub(crate) nearcall_ahead: Option<f64>,
    /// Whether the intervals of both are apart.
    pub(crate) nearcall_apart: Option<bool>,
    pub(crate) messages: u64,
    /// Launches whose median was still moving when the measured region began.
    pub(crate) launches_still_warming: usize,
}

impl Document {
    /// Puts together what was found for each of `rivals`.
    pub(crate) fn new(plan: &Plan, rivals: &[Rival], found: &[Found], started_unix_s: u64) -> Self {
        let rows = rivals.iter().zip(found).map(|(rival, found)| row(plan, rival, found));
        let mut rows: Vec<Row> = rows.collect();
        compare(&mut rows);
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            started_unix_s,
            finished_unix_s: crate::bench::unix_s(),
            machine: machine::read(),
            settings: Settings {
                sizes_bytes: plan.sizes.clone(),
                echo_sizes_bytes: plan.echo_sizes.clone(),
                launches: plan.launches,
                cell_s: plan.cell.as_secs_f64(),
                idle_s: plan.idle.as_secs_f64(),
                client_cpu: plan.pin.map(|pin| pin[0]),
                server_cpu: plan.pin.map(|pin| pin[1]),
                seed: plan.seed,
            },
            rows,
        }
    }
}

fn row(plan: &Plan, rival: &Rival, found: &Found) -> Row {
    let figures = plan.cells().into_iter().filter_map(|cell| figures(cell, found));
    Row {
        name: rival.name,
        version: rival.version,
        waiting: rival.waiting.name(),
        about: rival.about.split_whitespace().collect::<Vec<_>>().join(" "),
        rate_is: rival.rate,
        noise: found.noise,
        failure: found.failure.clone(),
        cells: figures.collect(),
        idle_server: found.idle,
    }
}

fn figures(cell: Cell, found: &Found) -> Option<Figures> {
    let launches = found.launches.iter().flatten().filter(|(measured, _)| *measured == cell);
    let launches: Vec<&Measured> = launches.map(|(_, measured)| measured).collect();
    let over = |value: &dyn Fn(&Measured) -> Option<f64>| {
        launches.iter().filter_map(|measured| value(measured)).collect::<Vec<f64>>()
    };
    let launch_values = match cell.kind {
        Kind::Rate => over(&|one| Some(one.messages as f64 * 1e9 / one.elapsed_ns as f64)),
        Kind::Sink | Kind::Echo => over(&|one| one.median_ns),
    };
    let per_message = |ns: u64, one: &Measured| Some(ns as f64 / one.messages as f64);
    let client = over(&|one| per_message(one.client_cpu_ns, one));
    let server = over(&|one| per_message(one.server_cpu_ns, one));
    Some(Figures {
        kind: cell.kind,
        bytes: cell.bytes,
        unit: if cell.kind == Kind::Rate { "per_s" } else { "ns" },
        value: stats::median(&launch_values)?,
        ci95: stats::estimate(&launch_values, &[], 0.0)?.ci95,
        p99_ns: stats::median(&over(&|one| one.p99_ns)),
        cpu_ns_per_message: [stats::median(&client)?, stats::median(&server)?],
        nearcall_ahead: None,
        nearcall_apart: None,
        messages: launches.iter().map(|one| one.messages).sum(),
        launches_still_warming: launches.iter().filter(|one| one.still_warming).count(),
        launch_values,
    })
}

/// Sets every figure beside nearcall's of the same waiting.
fn compare(rows: &mut [Row]) {
    for waiting in [Waiting::Polling, Waiting::Sleeping] {
        let of_kind = |row: &&mut Row| row.waiting == waiting.name();
        let ours = rows
            .iter()
            .find(|row| row.waiting == waiting.name() && row.version.starts_with("nearcall"));
        let ours: Vec<(Kind, usize, f64, Option<[f64; 2]>)> = ours
            .into_iter()
            .flat_map(|row| &row.cells)
            .map(|cell| (cell.kind, cell.bytes, cell.value, cell.ci95))
            .collect();
        for cell in rows.iter_mut().filter(of_kind).flat_map(|row| &mut row.cells) {
            let same = ours.iter().find(|ours| (ours.0, ours.1) == (cell.kind, cell.bytes));
            let Some(&(kind, _, value, ci95)) = same else { continue };
            cell.nearcall_ahead = Some(match kind {
                Kind::Rate => value / cell.value,
                Kind::Sink | Kind::Echo => cell.value / value,
            });
            cell.nearcall_apart = ci95.zip(cell.ci95).map(|(ours, its)| !stats::agree(ours, its));
        }
    }
}

/// The name and version of what is stored.
const SCHEMA: &str = "nearcall.rivals/1";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rival;

    fn plan() -> Plan {
        Plan {
            sizes: vec![0],
            echo_sizes: vec![],
            launches: 2,
            cell: Duration::from_millis(1),
            idle: Duration::ZERO,
            pin: None,
            seed: 1,
        }
    }

    fn found(median_ns: f64) -> Found {
        let sink = Measured {
            messages: 10,
            elapsed_ns: 1_000,
            median_ns: Some(median_ns),
            client_cpu_ns: 100,
            server_cpu_ns: 200,
            ..Measured::default()
        };
        let cell = Cell { kind: Kind::Sink, bytes: 0 };
        let rate = Cell { kind: Kind::Rate, bytes: 8 };
        let launch = vec![(cell, sink.clone()), (rate, sink)];
        Found { launches: vec![launch.clone(), launch], ..Found::default() }
    }

    #[test]
    fn figures_stand_beside_those_of_nearcall_with_the_same_waiting() {
        let rivals = rival::all();
        let found: Vec<Found> = rivals
            .iter()
            .map(|rival| found(if rival.version.starts_with("nearcall") { 100.0 } else { 300.0 }))
            .collect();
        let document = Document::new(&plan(), &rivals, &found, 0);
        let tonic = document.rows.iter().find(|row| row.name == "tonic").unwrap();
        assert_eq!(tonic.cells.len(), 2);
        assert_eq!(tonic.cells[0].nearcall_ahead, Some(3.0));
        assert_eq!(tonic.cells[0].cpu_ns_per_message, [10.0, 20.0]);
        assert_eq!(tonic.cells[1].nearcall_ahead, Some(1.0));
        assert_eq!(tonic.cells[1].value, 1e7);
    }

    #[test]
    fn a_row_that_failed_has_its_reason_and_no_cells() {
        let rivals = rival::all();
        let failed = |_: &Rival| Found { failure: Some("no".to_owned()), ..Found::default() };
        let found: Vec<Found> = rivals.iter().map(failed).collect();
        let document = Document::new(&plan(), &rivals, &found, 0);
        assert!(document.rows.iter().all(|row| row.cells.is_empty() && row.failure.is_some()));
        serde_json::to_string(&document).unwrap();
    }
}
