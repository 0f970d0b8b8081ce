//! Cells of what ipc-bench published.
//!
//! Always true: a mean is stored as a mean and there is no median; a time is stored under the
//! definition by which that program took it, and a test whose times have no known meaning gives no
//! cell. Each cell is one launch, since nothing was repeated, and has no grade.

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::Topology;

use super::results::{Latency, LatencyKey, Rate, Results, meaning};
use crate::run::{Cell, Definition, Kind, Matrix, Placement, RttNs, Skipped, UNKNOWN};

/// The cells, and what was left out.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) cells: Vec<Cell>,
    pub(super) skipped: Vec<Skipped>,
}

pub(super) fn cells(results: &Results, topology: &Topology) -> Made {
    let mut made = Made::default();
    let mut unknown: BTreeSet<&str> = BTreeSet::new();
    for (key, latency) in &results.latencies {
        match meaning(&key.test) {
            Some(meaning) => made.cells.push(latency_cell(key, latency, meaning, topology)),
            None => drop(unknown.insert(&key.test)),
        }
    }
    let mut groups: BTreeMap<(&str, Placed, &str, u64), Vec<&Rate>> = BTreeMap::new();
    for rate in &results.rates {
        if !rate.test.ends_with("_thr") {
            unknown.insert(&rate.test);
            continue;
        }
        let placed = (rate.receiver, rate.sender);
        let key = (rate.test.as_str(), placed, rate.shape.as_str(), rate.message_bytes);
        groups.entry(key).or_default().push(rate);
    }
    made.cells.extend(groups.values().map(|rates| rate_cell(rates, topology)));
    made.skipped = unknown.into_iter().map(skipped).collect();
    made
}

/// Receiver and sender.
type Placed = (u32, u32);

fn latency_cell(
    key: &LatencyKey,
    latency: &Latency,
    (definition, wait): (Definition, &str),
    topology: &Topology,
) -> Cell {
    let mut cell = Cell::new(Kind::Latency, &mechanism(&key.test, "_lat"), key.message_bytes);
    cell.definition = definition;
    wait.clone_into(&mut cell.wait);
    cell.placement = placement(topology, key.pair.map(|[receiver, sender]| (receiver, sender)));
    cell.launches = 1;
    cell.count = latency.count.unwrap_or_default();
    cell.rtt_ns = Some(RttNs { mean: Some(latency.mean_ns), ..RttNs::default() });
    cell.tags = vec!["imported".to_owned(), "mean".to_owned()];
    if definition == Definition::TwoRtt {
        // `has_payload` says why.
        cell.message_bytes = 0;
        cell.tags.extend(["two_round_trips".to_owned(), "no_payload".to_owned()]);
    }
    if latency.mean_ns <= STEP_NS {
        cell.tags.push(AT_STEP.to_owned());
    }
    cell
}

fn rate_cell(rates: &[&Rate], topology: &Topology) -> Cell {
    let first = rates[0];
    let mut cell =
        Cell::new(Kind::Throughput, &mechanism(&first.test, "_thr"), first.message_bytes);
    cell.shape.clone_from(&first.shape);
    cell.wait = if first.test == "mempipe_spin_thr" { "spin" } else { "block" }.to_owned();
    cell.placement = placement(topology, Some((first.receiver, first.sender)));
    cell.launches = u32::try_from(rates.len()).unwrap_or(u32::MAX);
    cell.count = rates.iter().fold(0, |sum: u64, rate| sum.saturating_add(rate.count));
    let bytes = first.message_bytes as f64;
    let per_s: Vec<f64> =
        rates.iter().map(|rate| rate.megabits_per_s as f64 * 1e6 / 8.0 / bytes).collect();
    let harmonic = per_s.len() as f64 / per_s.iter().map(|rate| 1.0 / rate).sum::<f64>();
    cell.messages_per_s = Some(harmonic);
    cell.bytes_per_s = Some(harmonic * bytes);
    cell.launch_messages_per_s = per_s;
    cell.tags = vec!["imported".to_owned()];
    cell
}

/// `mempipe_spin_thr` as `ipc-bench-mempipe-spin`.
fn mechanism(test: &str, ending: &str) -> String {
    format!("{PREFIX}{}", test.strip_suffix(ending).unwrap_or(test).replace('_', "-"))
}

/// The sender's clock is read, so the sender is the client.
fn placement(topology: &Topology, placed: Option<Placed>) -> Placement {
    let Some((receiver, sender)) = placed else {
        return Placement { class: UNKNOWN.to_owned(), client_cpu: None, server_cpu: None };
    };
    Placement {
        class: topology.class(receiver as usize, sender as usize).name().to_owned(),
        client_cpu: Some(sender),
        server_cpu: Some(receiver),
    }
}

fn skipped(test: &str) -> Skipped {
    Skipped {
        mechanism: mechanism(test, ""),
        reason: "what its figures mean is not known".to_owned(),
        unsupported: false,
        kind: None,
        message_bytes: None,
        shape: None,
        wait: None,
    }
}

/// Which CPUs there are: those that cells name.
pub(super) fn matrix(cells: &[Cell], topology: &Topology) -> Option<Matrix> {
    let of = |cell: &Cell| [cell.placement.client_cpu, cell.placement.server_cpu];
    let mut cpus: BTreeSet<u32> = cells.iter().flat_map(of).flatten().collect();
    let known = topology.cpus.iter().map(|cpu| u32::try_from(cpu.number).unwrap_or(u32::MAX));
    cpus.extend(known.take(super::CPUS_MAX));
    let pairs = (cpus.len() * cpus.len()) as u64;
    (!cpus.is_empty()).then(|| Matrix { cpus: cpus.into_iter().collect(), pairs, left_out: 0 })
}

/// What stands before the names of other people's implementations.
pub const PREFIX: &str = "ipc-bench-";

/// The smallest step that the printed times have.
pub(super) const STEP_NS: f64 = 1_000.0;

/// The mark of a time that is not above it.
pub(super) const AT_STEP: &str = "at_clock_step";
