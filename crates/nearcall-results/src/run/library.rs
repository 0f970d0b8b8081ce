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

use super::{Cell, Kind, Run};
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
