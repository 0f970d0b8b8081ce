//! What claims are judged by: the figures of one machine, launch by launch.
//!
//! A [`Series`] has one value per round of launches. Values at the same place of two series belong
//! to the same round, so a figure made from both is made round by round, and what the machine did
//! meanwhile falls on both (`figure.rs`). Nothing here measures; a stored run or a test fills it.

use std::collections::BTreeMap;
use std::fmt;

use crate::Study;
use crate::report::number;

/// Which figure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The study whose protocol it was measured by.
    pub study: Study,
    /// The mechanism by the paper's name; a variant of ours has a suffix, as in `pipe:1M`.
    pub mechanism: String,
    /// Payload bytes; 0 where there are none.
    pub message_bytes: u64,
    /// Where both ends ran.
    pub place: Place,
    /// What ran beside them.
    pub load: Load,
    /// What was measured.
    pub quantity: Quantity,
}

impl Key {
    /// A key on an idle machine; `load` can be set afterwards.
    #[must_use]
    pub fn new(
        study: Study,
        mechanism: &str,
        message_bytes: u64,
        place: Place,
        quantity: Quantity,
    ) -> Self {
        let mechanism = mechanism.to_owned();
        Self { study, mechanism, message_bytes, place, load: Load::Idle, quantity }
    }

    /// The same under this load.
    #[must_use]
    pub fn under(mut self, load: Load) -> Self {
        self.load = load;
        self
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.quantity, self.mechanism)?;
        if self.message_bytes > 0 {
            write!(f, " at {}", number::size(self.message_bytes))?;
        }
        for words in [self.place.to_string(), self.load.to_string()] {
            if !words.is_empty() {
                write!(f, " {words}")?;
            }
        }
        Ok(())
    }
}

/// Where both ends ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// On two cores of one node.
    Cross,
    /// On one CPU.
    Same,
    /// On two hardware threads of one core.
    Smt,
    /// On two NUMA nodes.
    CrossNode,
    /// Wherever the kernel put them.
    Unpinned,
    /// On these CPUs, client and server.
    Pair(u16, u16),
    /// There are no two ends: timers, memory.
    None,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cross => f.write_str("on two CPUs"),
            Self::Same => f.write_str("on one CPU"),
            Self::Smt => f.write_str("on two threads of one core"),
            Self::CrossNode => f.write_str("on two nodes"),
            Self::Unpinned => f.write_str("not pinned"),
            Self::Pair(client, server) => write!(f, "on CPUs {client} and {server}"),
            Self::None => Ok(()),
        }
    }
}

/// What ran beside the measured processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Load {
    /// Nothing on purpose.
    Idle,
    /// Work for CPUs, memory and I/O.
    Stress,
    /// Work that keeps each CPU 35 % busy.
    Duty35,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "",
            Self::Stress => "under load",
            Self::Duty35 => "under 35 % load",
        })
    }
}

/// What was measured. Times are whole round trips in nanoseconds, never halved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quantity {
    /// The median round trip of a launch.
    Median,
    /// The mean round trip of a launch.
    Mean,
    /// The shortest round trip of a launch.
    Min,
    /// The longest.
    Max,
    /// The first one.
    First,
    /// The 99th percentile without the first.
    P99,
    /// Payload bytes per second of wall time, ended by the receiver.
    Throughput,
    /// Payload bits per second of CPU time, of both ends together.
    CpuThroughput,
    /// The time from nothing to an open connection, in nanoseconds.
    SetUp,
    /// What a reading of a clock costs, in nanoseconds.
    TimerOverhead,
    /// The smallest step of a clock, in nanoseconds.
    TimerGranularity,
    /// By how much two clocks differ on the same interval, as a share: 0.005 is 0.5 %.
    Disagreement,
    /// Memory by proportional share, in bytes.
    PssBytes,
}

impl Quantity {
    /// The unit of its values.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::Throughput => Unit::BytesPerSecond,
            Self::CpuThroughput => Unit::BitsPerCpuSecond,
            Self::Disagreement => Unit::Share,
            Self::PssBytes => Unit::Bytes,
            _ => Unit::Ns,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Median => "median latency",
            Self::Mean => "mean latency",
            Self::Min => "shortest latency",
            Self::Max => "longest latency",
            Self::First => "first latency",
            Self::P99 => "99th percentile",
            Self::Throughput => "throughput",
            Self::CpuThroughput => "throughput per CPU-second",
            Self::SetUp => "set-up time",
            Self::TimerOverhead => "cost of a reading",
            Self::TimerGranularity => "granularity",
            Self::Disagreement => "disagreement",
            Self::PssBytes => "memory",
        })
    }
}

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds of wall time.
    Ns,
    /// Bytes per second of wall time.
    BytesPerSecond,
    /// Bits per second of CPU time.
    BitsPerCpuSecond,
    /// Bytes of a message.
    Bytes,
    /// Nanoseconds per byte.
    NsPerByte,
    /// One figure divided by another of its kind.
    Ratio,
    /// A part of a whole; printed in percent.
    Share,
    /// Something counted, or a coefficient.
    Count,
}

/// One value per round of launches. A round without a value holds NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series(pub Vec<f64>);

/// What matters of the machine: claims about placements that it has not are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// CPUs that the run could use.
    pub cpus: u16,
    /// Whether two of them are threads of one core.
    pub has_smt: bool,
    /// NUMA nodes of those CPUs.
    pub numa_nodes: u16,
    /// Pairs of CPUs that are threads of one core, in either order.
    pub siblings: Vec<(u16, u16)>,
    /// The node of each CPU; empty if there is one node.
    pub node_of: BTreeMap<u16, u16>,
}

impl Facts {
    /// The class of a pair of CPUs.
    #[must_use]
    pub fn class(&self, client: u16, server: u16) -> Place {
        let node = |cpu| self.node_of.get(&cpu);
        if client == server {
            Place::Same
        } else if self
            .siblings
            .iter()
            .any(|&(a, b)| (a, b) == (client, server) || (b, a) == (client, server))
        {
            Place::Smt
        } else if node(client) != node(server) {
            Place::CrossNode
        } else {
            Place::Cross
        }
    }

    /// Why nothing can run at `place`, if that is so.
    #[must_use]
    pub fn lacks(&self, place: Place) -> Option<&'static str> {
        match place {
            Place::Smt if !self.has_smt => Some("no two CPUs here are threads of one core"),
            Place::CrossNode if self.numa_nodes < 2 => Some("there is one NUMA node"),
            Place::Cross if self.cpus < 2 => Some("there is one CPU"),
            _ => None,
        }
    }
}

/// The figures of one machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    series: BTreeMap<Key, Series>,
    skipped: Vec<Skip>,
    /// What matters of the machine.
    pub facts: Facts,
}

#[derive(Clone, Debug, PartialEq)]
struct Skip {
    study: Study,
    mechanism: Option<String>,
    reason: String,
}

impl Evidence {
    /// No figures yet.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        Self { facts, ..Self::default() }
    }

    /// Adds a series, or replaces it.
    pub fn insert(&mut self, key: Key, series: Series) {
        self.series.insert(key, series);
    }

    /// The series, if it was measured.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Series> {
        self.series.get(key)
    }

    /// Takes a series away.
    pub fn remove(&mut self, key: &Key) -> Option<Series> {
        self.series.remove(key)
    }

    /// All series, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Series)> {
        self.series.iter()
    }

    /// The series of one mechanism of a study, in the order of their keys.
    pub fn of(&self, study: Study, mechanism: &str) -> impl Iterator<Item = (&Key, &Series)> {
        // The first of each order: no key of the mechanism comes before it.
        let first = Key::new(study, mechanism, 0, Place::Cross, Quantity::Median);
        let last = first.mechanism.clone();
        let all = self.series.range(first..);
        all.take_while(move |(key, _)| key.study == study && key.mechanism == last)
    }

    /// All series, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &mut Series)> {
        self.series.iter_mut()
    }

    /// Says why figures of `mechanism`, or of the whole study, are missing. Claims that need them
    /// give this reason.
    pub fn skip(&mut self, study: Study, mechanism: Option<&str>, reason: &str) {
        let mechanism = mechanism.map(str::to_owned);
        self.skipped.push(Skip { study, mechanism, reason: reason.to_owned() });
    }

    /// Why `mechanism` of `study` was not measured, as far as anybody said.
    #[must_use]
    pub fn reason(&self, study: Study, mechanism: &str) -> Option<&str> {
        let of = |wanted: Option<&str>| {
            let mut skips = self.skipped.iter().filter(|skip| skip.study == study);
            skips.find(|skip| skip.mechanism.as_deref() == wanted)
        };
        of(Some(mechanism)).or_else(|| of(None)).map(|skip| skip.reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new(Study::Enea, "pipe", 8192, Place::Cross, Quantity::Throughput)
    }

    #[test]
    fn a_series_is_found_by_its_whole_key() {
        let mut evidence = Evidence::new(Facts::default());
        evidence.insert(key(), Series(vec![1.0, 2.0]));
        assert_eq!(evidence.get(&key()), Some(&Series(vec![1.0, 2.0])));
        assert_eq!(evidence.get(&key().under(Load::Stress)), None);
        assert_eq!(evidence.iter().count(), 1);
    }

    #[test]
    fn the_reason_of_a_mechanism_comes_before_that_of_its_study() {
        let mut evidence = Evidence::new(Facts::default());
        assert_eq!(evidence.reason(Study::Enea, "pipe"), None);
        evidence.skip(Study::Enea, None, "interrupted");
        evidence.skip(Study::Enea, Some("tcp"), "no loopback");
        assert_eq!(evidence.reason(Study::Enea, "pipe"), Some("interrupted"));
        assert_eq!(evidence.reason(Study::Enea, "tcp"), Some("no loopback"));
        assert_eq!(evidence.reason(Study::Motorola, "tcp"), None);
    }

    #[test]
    fn a_pair_of_cpus_has_a_class() {
        let node_of = [(0, 0), (1, 0), (2, 0), (3, 1)].into();
        let siblings = vec![(0, 1)];
        let facts = Facts { cpus: 4, has_smt: true, numa_nodes: 2, siblings, node_of };
        assert_eq!(facts.class(2, 2), Place::Same);
        assert_eq!(facts.class(1, 0), Place::Smt);
        assert_eq!(facts.class(0, 2), Place::Cross);
        assert_eq!(facts.class(0, 3), Place::CrossNode);
        assert_eq!(facts.lacks(Place::Smt), None);
        assert!(Facts::default().lacks(Place::Smt).is_some());
        assert!(Facts { cpus: 1, ..Facts::default() }.lacks(Place::Cross).is_some());
    }

    #[test]
    fn a_key_tells_in_words_what_it_is() {
        let loaded = key().under(Load::Stress).to_string();
        assert_eq!(loaded, "throughput of pipe at 8 KiB on two CPUs under load");
        let timer = Key::new(Study::Enea, "timer:rdtsc", 0, Place::None, Quantity::TimerOverhead);
        assert_eq!(timer.to_string(), "cost of a reading of timer:rdtsc");
    }
}
