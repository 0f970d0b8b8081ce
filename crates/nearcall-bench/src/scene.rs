//! Where and beside what a cell is measured, where that differs from the rest of its run.
//!
//! Plain data: placing processes is in `runner/placement.rs`, starting load in the runner.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cell::words;
use crate::touch::Touch;

/// The circumstances of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Scene {
    /// Where both ends run.
    pub spot: Spot,
    /// What else runs on purpose.
    #[serde(with = "words")]
    pub load: Load,
    /// Other clients that are connected to the server and say nothing.
    pub idle_connections: u32,
    /// Calls that begin per second at set times; 0: each begins when the one before has ended.
    pub rate_per_s: u32,
    /// The argument is borrowed memory of the connection that is passed by reference and not
    /// touched; both ends trust each other.
    pub by_reference: bool,
    /// Exactly so many exchanges, the first one included, without a warm-up; 0: for a time, after
    /// a warm-up.
    pub exchanges: u32,
    /// How long the client sleeps after each of these, in microseconds.
    pub pause_us: u32,
    /// How much of the payload is written and read.
    #[serde(with = "words")]
    pub touch: Touch,
    /// Room in each direction that was asked for, in bytes; 0: the default.
    pub buffer_bytes: u32,
    /// A room that turns out different is measured all the same.
    pub any_buffer: bool,
    /// When exchanges begin, and how many are under way.
    pub traffic: Traffic,
    /// Each exchange is also timed by the kernel's clock, around the same instructions.
    pub two_clocks: bool,
}

/// Where both ends run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Spot {
    /// Where those of the whole run are.
    #[default]
    OfRun,
    /// Both on the server's CPU of the run.
    OneCpu,
    /// Wherever the scheduler wants.
    Unpinned,
    /// On these CPUs, which may be one and the same.
    Pair {
        /// Of the end that asks.
        client: u16,
        /// Of the end that answers.
        server: u16,
    },
}

/// When exchanges begin, and how many are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// One, each right after the one before, or at the rate that is set.
    #[default]
    Steady,
    /// One, and nothing for a while after it.
    Gap {
        /// For how long.
        ns: u64,
    },
    /// Messages right after each other, then one reply to all of them.
    Burst {
        /// How many, at least 1.
        messages: u32,
    },
    /// One of each of these clients of one server.
    Clients {
        /// How many, at least 1.
        clients: u32,
        /// `Some`: they are threads that share one caller, and the server has so many loops.
        /// `None`: each has a client of its own, and the server has one loop.
        loops: Option<u32>,
    },
    /// Connections that are made and closed, one after the other, with one exchange each.
    Starts {
        /// How many.
        connects: u32,
    },
}

/// What else runs on purpose while a cell is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Load {
    /// A worker for each CPU that computes without a pause.
    pub cpu: bool,
    /// A worker that writes memory again and again.
    pub memory: bool,
    /// A worker that writes a file and waits until it is on the disk.
    pub io: bool,
    /// Each CPU computes for this part of the time; 0: none does.
    pub duty_percent: u8,
}

impl Load {
    /// All three kinds of worker.
    pub const STRESS: Self = Self { cpu: true, memory: true, io: true, duty_percent: 0 };

    /// Each CPU is busy for `percent` of the time.
    #[must_use]
    pub const fn duty(percent: u8) -> Self {
        Self { cpu: false, memory: false, io: false, duty_percent: percent }
    }

    /// Whether nothing runs.
    #[must_use]
    pub fn is_idle(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_idle() {
            return f.write_str("idle");
        }
        if self.duty_percent > 0 {
            return write!(f, "{}%", self.duty_percent);
        }
        let workers = [("cpu", self.cpu), ("memory", self.memory), ("io", self.io)];
        let words: Vec<&str> = workers.iter().filter(|one| one.1).map(|one| one.0).collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for Load {
    type Err = LoadWordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || LoadWordError(text.to_owned());
        if text == "idle" {
            return Ok(Self::default());
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: u8 = percent.trim().parse().map_err(|_| refused())?;
            return (1..=99).contains(&percent).then(|| Self::duty(percent)).ok_or_else(refused);
        }
        let mut load = Self::default();
        for word in text.split(',') {
            match word.trim() {
                "cpu" => load.cpu = true,
                "memory" => load.memory = true,
                "io" => load.io = true,
                _ => return Err(refused()),
            }
        }
        Ok(load)
    }
}

/// Words that name no load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadWordError(pub String);

impl fmt::Display for LoadWordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown load {:?}; use idle, workers of cpu,memory,io, or 1% to 99%", self.0)
    }
}

impl std::error::Error for LoadWordError {}

impl Scene {
    /// What runs beside the measured exchanges, as it is stored.
    #[must_use]
    pub fn load_words(&self) -> String {
        match self.idle_connections {
            0 => self.load.to_string(),
            connections if self.load.is_idle() => format!("{connections} idle connections"),
            connections => format!("{connections} idle connections, {}", self.load),
        }
    }

    /// Connections that the server has beside the one that everything is measured on.
    #[must_use]
    pub(crate) fn connections(&self) -> u32 {
        match self.traffic {
            Traffic::Clients { clients, .. } => self.idle_connections.saturating_add(clients),
            _ => self.idle_connections,
        }
    }

    /// What its traffic takes at least, whatever the cell's time is.
    #[must_use]
    pub(crate) fn least_ns(&self) -> u64 {
        match self.traffic {
            Traffic::Gap { ns } => ns.saturating_mul(EXCHANGES_LEAST),
            _ if self.rate_per_s > 0 => EXCHANGES_LEAST * NS_PER_S / u64::from(self.rate_per_s),
            _ => u64::from(self.exchanges) * u64::from(self.pause_us) * NS_PER_US,
        }
    }

    /// Whether what runs on purpose takes the CPUs of the ends from them: a load, or clients that
    /// wait for each other.
    #[must_use]
    pub(crate) fn crowds(&self) -> bool {
        !self.load.is_idle() || matches!(self.traffic, Traffic::Clients { clients: 2.., .. })
    }

    /// The same for all cells that can be measured by the same two processes, one after the other.
    #[must_use]
    pub(crate) fn of_unit(self) -> Self {
        let traffic = match self.traffic {
            Traffic::Steady | Traffic::Gap { .. } | Traffic::Burst { .. } => Traffic::Steady,
            // More clients may not be had, and that shall cost only their own cell.
            other @ (Traffic::Clients { .. } | Traffic::Starts { .. }) => other,
        };
        Self { rate_per_s: 0, exchanges: 0, two_clocks: false, traffic, ..self }
    }
}

/// What a cell with gaps or at a rate makes at least, its warm-up included (23 and 26), and some
/// more, since gaps are longer than asked.
const EXCHANGES_LEAST: u64 = 30;

const NS_PER_US: u64 = 1_000;
const NS_PER_S: u64 = 1_000_000_000;

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spot {
            Spot::OfRun => {}
            Spot::OneCpu => f.write_str(", one CPU")?,
            Spot::Unpinned => f.write_str(", not pinned")?,
            Spot::Pair { client, server } => write!(f, ", CPUs {client} and {server}")?,
        }
        if !self.load.is_idle() {
            write!(f, ", beside {}", self.load)?;
        }
        if self.touch != Touch::Full {
            write!(f, ", payload touched: {}", self.touch)?;
        }
        if self.buffer_bytes > 0 {
            write!(f, ", buffer of {} B", self.buffer_bytes)?;
        }
        if self.by_reference {
            f.write_str(", by reference")?;
        }
        if self.idle_connections > 0 {
            write!(f, ", {} idle connections", self.idle_connections)?;
        }
        if self.rate_per_s > 0 {
            write!(f, ", {} per second", self.rate_per_s)?;
        }
        if self.exchanges > 0 {
            write!(f, ", {} exchanges", self.exchanges)?;
        }
        if self.pause_us > 0 {
            write!(f, ", a pause of {} µs after each", self.pause_us)?;
        }
        match self.traffic {
            Traffic::Steady => Ok(()),
            Traffic::Gap { ns } => write!(f, ", gaps of {} µs", ns as f64 / 1e3),
            Traffic::Burst { messages } => write!(f, ", bursts of {messages}"),
            Traffic::Clients { clients, loops: None } => write!(f, ", {clients} clients"),
            Traffic::Clients { clients, loops: Some(loops) } => {
                write!(f, ", {clients} threads of one caller, {loops} loops")
            }
            Traffic::Starts { connects } => write!(f, ", {connects} connections"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_clients_and_loads_crowd() {
        let clients = |clients| {
            let traffic = Traffic::Clients { clients, loops: None };
            Scene { traffic, ..Scene::default() }
        };
        assert!(clients(2).crowds() && !clients(1).crowds() && !Scene::default().crowds());
        assert!(Scene { load: Load::STRESS, ..Scene::default() }.crowds());
    }

    #[test]
    fn long_gaps_and_low_rates_take_more_than_a_cell_is_given() {
        let gap = Scene { traffic: Traffic::Gap { ns: NS_PER_S }, ..Scene::default() };
        let rate = Scene { rate_per_s: 1, ..Scene::default() };
        assert_eq!((gap.least_ns(), rate.least_ns()), (30 * NS_PER_S, 30 * NS_PER_S));
        assert_eq!(Scene::default().least_ns(), 0);
    }

    #[test]
    fn a_load_is_parsed_from_what_it_is_printed_as() {
        let loads = [Load::default(), Load::STRESS, Load::duty(35)];
        for load in loads.into_iter().chain([Load { io: true, ..Load::default() }]) {
            assert_eq!(load.to_string().parse(), Ok(load));
        }
        assert_eq!("cpu, memory".parse(), Ok(Load { cpu: true, memory: true, ..Load::default() }));
        for bad in ["", "cpu,", "0%", "100%", "-5%", "disk", "35"] {
            let error = bad.parse::<Load>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }
}
