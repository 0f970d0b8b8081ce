//! What was found out about memory, as it is stored and printed (`nearcall.memory/1`).
//!
//! Plain data, and the figures that follow from it. What a machine does not give is `null`.

use serde::{Deserialize, Serialize};

use crate::run::{Machine, Tool};
use crate::words::words;

mod map;

pub use self::map::{Cause, MemoryMap, MemoryPart, PartBytes};

/// The name of the form in which findings are stored.
pub const SCHEMA: &str = "nearcall.memory/1";

/// All that one run of `nearcall bench memory` finds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryFindings {
    /// The name of the format: [`SCHEMA`].
    pub schema: String,
    /// What measured.
    pub tool: Tool,
    /// The machine that was measured.
    pub machine: Machine,
    /// When, in seconds since 1970.
    pub started_unix_s: u64,
    /// With fewer connections and rounds than usual.
    pub quick: bool,
    /// Why something is missing; `None`: all was measured.
    pub partial: Option<String>,
    /// Idle connections, one entry per mechanism.
    pub connections: Vec<ConnectionMemory>,
    /// Services in processes, in libraries and linked, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setups: Option<SetupsMemory>,
    /// Where the memory of services and of their host lies, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<MemoryMap>,
    /// What was not measured, and why.
    pub skipped: Vec<SkippedMemory>,
    /// What makes figures worse than they could be.
    pub warnings: Vec<String>,
}

impl MemoryFindings {
    /// Reads findings that were stored. `None` if the text is something else, such as a run.
    ///
    /// # Errors
    ///
    /// They are cut off or damaged: what is wrong, with line and column.
    #[must_use]
    pub fn parse(text: &str) -> Option<Result<Self, String>> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_str(text).ok()?;
        let is_found = head.schema == SCHEMA;
        is_found.then(|| {
            let found = serde_json::from_str(text);
            found.map_err(|error| format!("not a valid result of `nearcall bench memory`: {error}"))
        })
    }

    /// As one JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("findings have no map")
    }
}

/// Something that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedMemory {
    /// A mechanism, or a set-up of services.
    pub what: String,
    /// Why it was not measured.
    pub reason: String,
}

/// One mechanism with more and more idle connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionMemory {
    /// Its name.
    pub mechanism: String,
    /// Beside one connection that has called: none, 1, 10, 100, 1,000.
    pub levels: Vec<Level>,
    /// Why there are no more levels.
    pub stopped: Option<String>,
    /// Why memory could not be read.
    pub unreadable: Option<String>,
    /// By how much memory grows with each connection.
    pub per_connection: PerConnection,
}

/// Both processes with so many idle connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Connections that say nothing; each belongs to a client of its own.
    pub idle_connections: u32,
    /// The process that has the server.
    pub server: ProcessMemory,
    /// The process that has the clients.
    pub client: ProcessMemory,
    /// Of both: the part in rings and other shared memory.
    pub shared_bytes: Option<u64>,
    /// What the whole machine could still give: MemAvailable, and free pages in the processors' own
    /// lists. Others change it too.
    pub available_bytes: Option<u64>,
}

impl Level {
    /// Resident memory of both, what they share counted once.
    #[must_use]
    pub fn pss_bytes(&self) -> Option<u64> {
        Some(self.server.pss_bytes? + self.client.pss_bytes?)
    }
}

/// Memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// Resident bytes, each shared page divided by the number of those who map it.
    pub pss_bytes: Option<u64>,
    /// Resident bytes that no other process maps.
    pub private_bytes: Option<u64>,
}

/// Growth with each idle connection: the slope of the line through all levels (least squares).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PerConnection {
    /// Of both processes, what they share counted once.
    pub touched_bytes: Option<f64>,
    /// Of the server alone.
    pub server_private_bytes: Option<f64>,
    /// Of the clients alone, each with its own `Client`.
    pub client_private_bytes: Option<f64>,
    /// The part in shared memory.
    pub shared_bytes: Option<f64>,
    /// What the whole machine lost, the kernel's buffers and tables included.
    pub machine_bytes: Option<f64>,
}

impl PerConnection {
    /// The slopes through `levels`.
    #[must_use]
    pub fn of(levels: &[Level]) -> Self {
        let through = |get: fn(&Level) -> Option<u64>| {
            let point =
                |level: &Level| Some((f64::from(level.idle_connections), get(level)? as f64));
            let points: Option<Vec<(f64, f64)>> = levels.iter().map(point).collect();
            slope(&points?)
        };
        Self {
            touched_bytes: through(Level::pss_bytes),
            server_private_bytes: through(|level| level.server.private_bytes),
            client_private_bytes: through(|level| level.client.private_bytes),
            shared_bytes: through(|level| level.shared_bytes),
            machine_bytes: through(|level| level.available_bytes).map(|growth| -growth),
        }
    }
}

/// Slope of the line through `points` with the least squares. `None` if they lie at one place.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let together: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (spread > 0.0).then(|| together / spread)
}

/// Where services run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setup {
    /// Each is a program.
    #[default]
    Processes,
    /// Each is a library in a host of its own.
    LibraryHosts,
    /// All are libraries in one host.
    Libraries,
    /// All are linked into one program, with one event loop.
    Linked,
    /// Each is a program, and all share one runtime, a dynamic library.
    SharedProcesses,
    /// All are libraries in one host, which shares its runtime with them.
    SharedLibraries,
}

words! { Setup:
    Processes => "processes",
    LibraryHosts => "libraries, own hosts",
    Libraries => "libraries, one host",
    Linked => "linked, one program",
    SharedProcesses => "processes, shared",
    SharedLibraries => "libraries, shared",
}

/// Several services in each set-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SetupsMemory {
    /// In words: what ends the allocation.
    pub limit: String,
    /// So much the machine's available memory may fall by while allocating.
    pub budget_bytes: u64,
    /// One allocation.
    pub block_bytes: u64,
    /// Allocations that do not count, since others moved the machine's memory by more than
    /// 2 MiB meanwhile or something else than the limit ended them.
    pub uncounted: u32,
    /// Why there are fewer rounds than planned.
    pub partial: Option<String>,
    /// By number of services, then in the order of [`Setup::ALL`].
    pub setups: Vec<SetupMemory>,
}

impl SetupsMemory {
    /// Returns a set-up with this many services.
    #[must_use]
    pub fn of(&self, setup: Setup, services: u32) -> Option<&SetupMemory> {
        self.setups.iter().find(|one| one.setup == setup && one.services == services)
    }
}

/// So many services in one set-up. Each list has one value per round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SetupMemory {
    /// Where they run.
    pub setup: Setup,
    /// How many there are.
    pub services: u32,
    /// In how many processes.
    pub processes: u32,
    /// Resident bytes, the sum over processes: a page that several map counts for each.
    pub rss_bytes: Vec<u64>,
    /// Proportional bytes, the sum over processes: a page that several map counts once, and less if
    /// processes of others map it too.
    pub pss_bytes: Vec<u64>,
    /// The part of the resident bytes that no other process maps.
    pub private_bytes: Vec<u64>,
    /// The other part, which counts for each process.
    pub shared_bytes: Vec<u64>,
    /// By how much less could be allocated beside it. Rounds that others disturbed have no value.
    pub allocmem_bytes: Vec<f64>,
    /// From before the first process was started until each service had answered a call.
    pub start_up_ns: Vec<u64>,
    /// One empty call from the first service to the second, the median of batches. Empty with one
    /// service.
    pub call_ns: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(idle_connections: u32, pss_bytes: Option<u64>) -> Level {
        let server = ProcessMemory { pss_bytes, private_bytes: Some(7) };
        Level { idle_connections, server, client: server, ..Level::default() }
    }

    #[test]
    fn the_slope_is_the_growth_with_each_connection() {
        let levels = [0, 1, 10, 100, 1_000]
            .map(|idle| level(idle, Some(1_000_000 + 5_000 * u64::from(idle))));
        let found = PerConnection::of(&levels);
        // Both processes.
        assert!((found.touched_bytes.unwrap() - 10_000.0).abs() < 1e-6, "{found:?}");
        assert_eq!(found.server_private_bytes, Some(0.0));
        assert_eq!(found.machine_bytes, None);
    }

    #[test]
    fn one_level_or_an_unreadable_one_has_no_slope() {
        assert_eq!(PerConnection::of(&[level(1, Some(5))]).touched_bytes, None);
        assert_eq!(PerConnection::of(&[level(1, Some(5)), level(2, None)]).touched_bytes, None);
        assert_eq!(PerConnection::of(&[]), PerConnection::default());
    }
}
