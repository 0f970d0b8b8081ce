//! What a run stores of other libraries that were measured beside nearcall.
//!
//! The figures are cells as all others, in the list `library_cells`: their mechanism is the name of
//! a [`Library`]. "sink" and "echo" are calls with an empty reply and with the payload as reply; a
//! cell of throughput counts messages one way until the server has confirmed the last.
//!
//! **Invariants:** only libraries of one way to wait are compared.
//!
//! **Not here:** how libraries are driven (`nearcall-peers`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Cell, Kind, Machine, PerEnd, Placement, RttNs, Run, Settings, Tool};
use crate::noise::Grade;
use crate::stats;

/// One way of using one library, ours among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Library {
    /// Unique in the run.
    pub name: String,
    /// The library and its version; of nearcall it begins with "nearcall".
    pub version: String,
    /// "spin", "block" or "adaptive".
    pub wait: String,
    /// How it was configured, and why its authors would agree.
    pub about: String,
    /// What the messages of the cells of throughput are to this library.
    pub rate_is: String,
    /// Why it has no cells, or fewer launches than asked for.
    pub failure: Option<String>,
    /// What its server costs while a connected client is silent.
    pub idle_server: Option<IdleServer>,
}

/// What a server costs while its one client is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleServer {
    /// Memory that no other process uses, the program's own pages included.
    pub private_bytes: u64,
    /// The part of it that the process has written to.
    pub private_dirty_bytes: u64,
    /// Its share of memory files and named shared memory, which are channels.
    pub channel_bytes: u64,
    /// Its share of all memory that it uses.
    pub proportional_bytes: u64,
    /// Its threads.
    pub threads: u64,
    /// Processor time, as a share of one CPU.
    pub cpu_share: f64,
}

impl Library {
    /// Whether this is a way of using nearcall.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.version.starts_with("nearcall")
    }
}

impl Run {
    /// For each cell of `library_cells` how many times better nearcall's first way of the same
    /// wait is: above 1 nearcall is faster. `None` without such a cell of nearcall. The flag says
    /// whether both intervals are apart; without both it is false.
    #[must_use]
    pub fn beside_nearcall(&self) -> Vec<Option<(f64, bool)>> {
        let mut ours: BTreeMap<(&str, Kind, &str, u64), &Cell> = BTreeMap::new();
        for library in self.libraries.iter().filter(|library| library.is_ours()) {
            for cell in self.library_cells.iter().filter(|cell| cell.mechanism == library.name) {
                let key = (&*library.wait, cell.kind, &*cell.shape, cell.message_bytes);
                ours.entry(key).or_insert(cell);
            }
        }
        let beside = |cell: &Cell| {
            let key = (&*cell.wait, cell.kind, &*cell.shape, cell.message_bytes);
            let (own, its) = (ours.get(&key)?.headline()?, cell.headline()?);
            let ratio = match cell.kind {
                Kind::Latency => its.value / own.value,
                Kind::Throughput => own.value / its.value,
            };
            let apart = own.ci95.zip(its.ci95).is_some_and(|(a, b)| !stats::agree(a, b));
            ratio.is_finite().then_some((ratio, apart))
        };
        self.library_cells.iter().map(beside).collect()
    }
}

/// The document of before such results were runs.
#[derive(Deserialize)]
pub(super) struct Rivals {
    version: String,
    #[serde(default)]
    profile: String,
    started_unix_s: u64,
    finished_unix_s: Option<u64>,
    machine: Machine,
    settings: RivalSettings,
    rows: Vec<RivalRow>,
}

#[derive(Deserialize)]
struct RivalSettings {
    launches: u32,
    client_cpu: Option<u32>,
    server_cpu: Option<u32>,
    seed: u64,
}

#[derive(Deserialize)]
struct RivalRow {
    waiting: String,
    noise: Option<Grade>,
    #[serde(flatten)]
    library: Library,
    cells: Vec<RivalCell>,
}

#[derive(Deserialize)]
struct RivalCell {
    kind: String,
    bytes: u64,
    launch_values: Vec<f64>,
    p99_ns: Option<f64>,
    cpu_ns_per_message: [f64; 2],
    messages: u64,
}

impl From<Rivals> for Run {
    fn from(old: Rivals) -> Self {
        let settings = Settings {
            launches: old.settings.launches,
            seed: old.settings.seed,
            touch: "full".to_owned(),
            ..Settings::default()
        };
        let mut run = Self::new(old.machine, settings, old.started_unix_s);
        run.tool = Tool { version: old.version, profile: old.profile, ..Tool::default() };
        run.finished_unix_s = old.finished_unix_s;
        let class = match (old.settings.client_cpu, old.settings.server_cpu) {
            (Some(client), Some(server)) if client == server => "same_cpu",
            (Some(_), Some(_)) => "unknown",
            _ => "unpinned",
        };
        let placement = Placement {
            class: class.to_owned(),
            client_cpu: old.settings.client_cpu,
            server_cpu: old.settings.server_cpu,
        };
        for row in old.rows {
            let wait = match row.waiting.as_str() {
                "polling" => "spin",
                "sleeping" => "block",
                other => other,
            };
            let library = Library { wait: wait.to_owned(), ..row.library };
            let cells = row.cells.into_iter().map(|cell| Cell {
                wait: wait.to_owned(),
                placement: placement.clone(),
                grade: row.noise,
                ..cell.into_cell(&library.name)
            });
            run.library_cells.extend(cells);
            run.libraries.push(library);
        }
        run
    }
}

impl RivalCell {
    fn into_cell(self, name: &str) -> Cell {
        let estimate = stats::estimate(&self.launch_values, &[], 0.0);
        let center = estimate.as_ref().map(|estimate| estimate.center);
        let ci95 = estimate.and_then(|estimate| estimate.ci95);
        let is_rate = self.kind == "rate";
        let kind = if is_rate { Kind::Throughput } else { Kind::Latency };
        let mut cell = Cell::new(kind, name, self.bytes);
        cell.launches = u32::try_from(self.launch_values.len()).unwrap_or(u32::MAX);
        cell.count = self.messages;
        let [client, server] = self.cpu_ns_per_message.map(Some);
        cell.cpu_ns_per_message = PerEnd { client, server };
        if is_rate {
            "one-way".clone_into(&mut cell.shape);
            // Without a figure the reader of runs refuses the cell.
            cell.messages_per_s = center;
            cell.messages_per_s_ci95 = ci95;
            cell.launch_messages_per_s = self.launch_values;
        } else {
            cell.shape = self.kind;
            let p99 = self.p99_ns;
            cell.rtt_ns = Some(RttNs { p50: center, p50_ci95: ci95, p99, ..RttNs::default() });
            cell.launch_medians_ns = self.launch_values;
        }
        cell
    }
}
