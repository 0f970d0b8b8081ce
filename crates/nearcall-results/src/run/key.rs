//! What a cell is a measurement of: the key by which cells of different runs meet.
//!
//! **Invariants:** two cells of one run have different keys, and cells with equal keys measured the
//! same thing in the same way, apart from when and on which machine. So a table joins cells by
//! their keys and never by their place in a file. What was found is in [`Cell`]; how two findings
//! compare is in `compare.rs`.
//!
//! **Invariant:** one table, picture or ranking has one definition of its times. *Checked by*
//! `definitions_never_share_a_table`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::fact::{self, Fact};
use super::{Cell, Definition, Kind, Run};
use crate::noise::{self, Grade};
use crate::report::number::{self, Measured, Unit};
use crate::words::words;

/// The list of a run in which a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum List {
    /// What was asked for.
    Cells,
    /// The same exchanges without nearcall.
    Floors,
    /// What calls move, on the bare channel.
    Bare,
    /// Parts of a call.
    Parts,
    /// As a published study measured it.
    StudyCells,
    /// Of another library, or of nearcall beside it.
    Libraries,
}

words! { List:
    Cells => "cells",
    Floors => "floors",
    Bare => "bare",
    Parts => "parts",
    StudyCells => "study_cells",
    Libraries => "library_cells",
}

/// When the exchanges of a cell began, and how many were under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rhythm {
    /// One, each right after the one before (closed loop).
    Steady,
    /// So many per second, each at its set time (open loop).
    Pace(u32),
    /// One, then nothing for so many nanoseconds.
    Gap(u64),
    /// So many messages right after each other, then one reply.
    Burst(u32),
    /// One of each of so many clients.
    Clients(u32),
    /// One of each of so many threads of one caller, to a server with so many loops.
    Threads(u32, u32),
    /// So many connections, one after the other.
    Start(u32),
    /// One, each right after the one before, while the connection moves to another mechanism.
    Switches,
}

/// The protocol of a published study by which a cell was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StudyKey {
    /// "motorola" and so on.
    pub study: String,
    /// What the study calls the mechanism.
    pub mechanism: String,
    /// Exchanges per launch; 0: for a time.
    pub exchanges: u32,
}

/// What a cell is a measurement of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellKey {
    /// Where it stands in its run.
    pub list: List,
    /// Latency or throughput.
    pub kind: Kind,
    /// What one time or rate means.
    pub definition: Definition,
    /// The mechanism's name, or the floor's.
    pub mechanism: String,
    /// "echo", "sink", "call", "one-way".
    pub shape: String,
    /// Payload bytes of one message.
    pub message_bytes: u64,
    /// How both ends wait.
    pub wait: String,
    /// The kind of caller; empty in cells that are no calls.
    pub caller: String,
    /// Whether arguments pass by reference.
    pub by_reference: bool,
    /// "same_cpu", "same_llc" and so on.
    pub class: String,
    /// The CPUs of client and server, where the run has several pairs of one class.
    pub pair: Option<[u32; 2]>,
    /// What else ran on purpose; "idle" if nothing.
    pub load: String,
    /// When exchanges began.
    pub rhythm: Rhythm,
    /// The mechanism that the connection moved to; empty if it did not move.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// The study by whose protocol it was measured.
    pub study: Option<StudyKey>,
}

impl Run {
    /// Returns the cells of a list.
    #[must_use]
    pub fn list(&self, list: List) -> &[Cell] {
        match list {
            List::Cells => &self.cells,
            List::Floors => &self.floors,
            List::Bare => &self.bare,
            List::Parts => &self.parts,
            List::StudyCells => &self.study_cells,
            List::Libraries => &self.library_cells,
        }
    }

    /// Returns every cell of the run with its key, in the order of the lists.
    pub fn keyed_cells(&self) -> impl Iterator<Item = (CellKey, &Cell)> {
        let many_pairs = self.matrix.is_some();
        let all = List::ALL.into_iter();
        let all = all.flat_map(|list| self.list(list).iter().map(move |cell| (list, cell)));
        all.map(move |(list, cell)| (CellKey::new(list, cell, many_pairs), cell))
    }
}

impl CellKey {
    /// The key of `cell`; `many_pairs` where its run has several pairs of CPUs of one class.
    #[must_use]
    pub fn new(list: List, cell: &Cell, many_pairs: bool) -> Self {
        let placed = cell.placement.client_cpu.zip(cell.placement.server_cpu);
        let pair = placed.filter(|_| many_pairs || list == List::StudyCells);
        let call = cell.call.as_ref();
        Self {
            list,
            kind: cell.kind,
            definition: cell.definition,
            mechanism: cell.mechanism.clone(),
            shape: cell.shape.clone(),
            message_bytes: cell.message_bytes,
            wait: cell.wait.clone(),
            caller: call.map(|call| call.caller.clone()).unwrap_or_default(),
            by_reference: call.is_some_and(|call| call.by_reference),
            class: cell.placement.class.clone(),
            pair: pair.map(|(client, server)| [client, server]),
            load: cell.load.clone(),
            rhythm: cell.rhythm(),
            to: cell.switch.as_ref().map(|switch| switch.to.clone()).unwrap_or_default(),
            study: cell.study.as_ref().map(|study| StudyKey {
                study: study.study.clone(),
                mechanism: study.mechanism.clone(),
                exchanges: study.exchanges,
            }),
        }
    }
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(study) = &self.study {
            write!(f, "{} {}: ", study.study, study.mechanism)?;
        }
        let what = match self.kind {
            Kind::Latency => self.shape.as_str(),
            Kind::Throughput => "throughput",
        };
        write!(f, "{} {what} {} B {}", self.mechanism, self.message_bytes, self.wait)?;
        if !self.caller.is_empty() {
            write!(f, ", caller {}", self.caller)?;
        }
        if self.by_reference {
            f.write_str(", by reference")?;
        }
        write!(f, ", {}", self.class)?;
        if let Some([client, server]) = self.pair {
            write!(f, " {client}-{server}")?;
        }
        if self.load != "idle" {
            write!(f, ", beside {}", self.load)?;
        }
        match self.rhythm {
            Rhythm::Steady => Ok(()),
            Rhythm::Switches => write!(f, ", switched to {}", self.to),
            rhythm => write!(f, ", {rhythm}"),
        }
    }
}

/// In words; nothing of [`Rhythm::Steady`].
impl fmt::Display for Rhythm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Steady => Ok(()),
            Self::Pace(rate) => write!(f, "{rate} per second"),
            Self::Gap(ns) => write!(f, "gaps of {}", number::time(ns as f64)),
            Self::Burst(messages) => write!(f, "bursts of {messages}"),
            Self::Clients(clients) => write!(f, "{clients} clients"),
            Self::Threads(threads, loops) => {
                write!(f, "{threads} threads of one caller, {loops} loops of the server")
            }
            Self::Start(connects) => write!(f, "{connects} connections"),
            Self::Switches => f.write_str("switches"),
        }
    }
}

/// The one figure that stands for a cell, with its interval and what each launch gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline<'a> {
    /// Nanoseconds, or operations per second.
    pub value: f64,
    /// Where a typical launch lies with 95 % confidence.
    pub ci95: Option<[f64; 2]>,
    /// One value per launch, in the order of launches.
    pub launches: &'a [f64],
    /// "ns" or "/s": of times less is better, of rates more.
    pub unit: &'static str,
}

impl Cell {
    /// When its exchanges began, and how many were under way.
    #[must_use]
    pub fn rhythm(&self) -> Rhythm {
        if let Some(pace) = &self.pace {
            return Rhythm::Pace(pace.rate_per_s);
        }
        if let Some(gap) = &self.gap {
            return Rhythm::Gap(gap.gap_ns);
        }
        if let Some(burst) = &self.burst {
            return Rhythm::Burst(burst.messages);
        }
        if let Some(clients) = &self.clients {
            let threads = |loops| Rhythm::Threads(clients.clients, loops);
            return clients.loops.map_or(Rhythm::Clients(clients.clients), threads);
        }
        if let Some(start) = &self.start {
            return Rhythm::Start(start.connects);
        }
        if self.switch.is_some() {
            return Rhythm::Switches;
        }
        Rhythm::Steady
    }

    /// Returns the figure that stands for the cell: the median of latency, the rate of throughput
    /// and of many clients.
    pub(crate) const fn main_fact(&self) -> &'static Fact {
        match self.kind {
            _ if self.clients.is_some() => &fact::CALLS,
            Kind::Latency => &fact::P50,
            Kind::Throughput => &fact::MESSAGES,
        }
    }

    /// Returns the value of the main fact with its launches. `None` if the cell has none.
    #[must_use]
    pub fn headline(&self) -> Option<Headline<'_>> {
        let fact = self.main_fact();
        let Measured { value, ci95 } = (fact.of)(self)?;
        let unit = if fact.unit == Unit::Time { "ns" } else { "/s" };
        Some(Headline { value, ci95, launches: (fact.launches)(self), unit })
    }

    /// Returns whether exchanges began later than they should have.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| !pace.kept)
    }

    /// The grade of its headline, by the width of its interval; `None` without an interval. That of
    /// its tails is [`Cell::grade`].
    pub(crate) fn median_grade(&self) -> Option<Grade> {
        noise::of_median((self.main_fact().of)(self)?)
    }

    /// CPU time of both ends per message in nanoseconds; `None` unless both are known.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<f64> {
        Some(self.cpu_ns_per_message.client? + self.cpu_ns_per_message.server?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn cells_of_the_stored_runs_have_keys_of_their_own() {
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
        for file in std::fs::read_dir(runs).unwrap() {
            let path = file.unwrap().path();
            let run = Run::load(&path).unwrap();
            let mut seen = HashSet::new();
            for (key, _) in run.keyed_cells() {
                assert!(seen.insert(key.clone()), "{}: {key} twice", path.display());
            }
            assert!(!seen.is_empty());
        }
    }

    #[test]
    fn a_key_says_what_was_measured_in_words() {
        let mut cell = Cell::new(Kind::Latency, "pipe", 8);
        cell.placement.class = "same_llc".to_owned();
        cell.load = "cpu".to_owned();
        let key = CellKey::new(List::Cells, &cell, false);
        assert_eq!(key.to_string(), "pipe echo 8 B block, same_llc, beside cpu");
        assert_eq!(key.rhythm, Rhythm::Steady);
    }
}
