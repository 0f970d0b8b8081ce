//! Where and beside what a cell is measured, where that differs from the rest of its run.
//!
//! Plain data: placing processes is in `runner/placement.rs`, starting load in the runner.

use std::fmt;

use nearcall_channel::Mechanism;
use serde::{Deserialize, Serialize};

pub use nearcall_results::load::{Load, LoadWordError};

use crate::touch::Touch;
use crate::words;

/// The circumstances of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Where both ends run.
    pub spot: PinChoice,
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
pub enum PinChoice {
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
    /// One, each right after the one before, while the connection moves to another mechanism, again
    /// and again.
    Switch {
        /// The mechanism that it moves to.
        #[serde(with = "words")]
        to: Mechanism,
    },
    /// The same to each of some mechanisms in turn: what their cells share a launch for.
    Switches,
}

impl Conditions {
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
            Traffic::Switch { .. } | Traffic::Switches => Traffic::Switches,
        };
        Self { rate_per_s: 0, exchanges: 0, two_clocks: false, traffic, ..self }
    }
}

/// What a cell with gaps or at a rate makes at least, its warm-up included (23 and 26), and some
/// more, since gaps are longer than asked.
const EXCHANGES_LEAST: u64 = 30;

const NS_PER_US: u64 = 1_000;
const NS_PER_S: u64 = 1_000_000_000;

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spot {
            PinChoice::OfRun => {}
            PinChoice::OneCpu => f.write_str(", one CPU")?,
            PinChoice::Unpinned => f.write_str(", not pinned")?,
            PinChoice::Pair { client, server } => write!(f, ", CPUs {client} and {server}")?,
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
            Traffic::Switch { to } => write!(f, ", switched to {to}"),
            Traffic::Switches => f.write_str(", switched"),
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
            Conditions { traffic, ..Conditions::default() }
        };
        assert!(clients(2).crowds() && !clients(1).crowds() && !Conditions::default().crowds());
        assert!(Conditions { load: Load::STRESS, ..Conditions::default() }.crowds());
    }

    #[test]
    fn long_gaps_and_low_rates_take_more_than_a_cell_is_given() {
        let gap = Conditions { traffic: Traffic::Gap { ns: NS_PER_S }, ..Conditions::default() };
        let rate = Conditions { rate_per_s: 1, ..Conditions::default() };
        assert_eq!((gap.least_ns(), rate.least_ns()), (30 * NS_PER_S, 30 * NS_PER_S));
        assert_eq!(Conditions::default().least_ns(), 0);
    }
}
