//! One way of looking at the evidence of a study: by which statistic, at which placement.
//!
//! Predicates ask a [`View`] for figures and get either the figure or what is missing. Which views
//! a study has, and in which order they judge, stands in [`looks`].

use std::ops::RangeBounds;

use crate::report::number;
use crate::studies::Study;
use crate::studies::claims::truth::Missing;
use crate::studies::evidence::{Evidence, Key, Load, Place, Quantity, Series, Unit};
use crate::studies::figure::Figure;

/// One way of looking at a study.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) evidence: &'a Evidence,
    pub(crate) study: Study,
    /// What is special about it, for people.
    pub(crate) words: &'static str,
    look: Look,
}

#[derive(Clone, Copy)]
struct Look {
    /// Where both ends run unless the claim says so.
    place: Place,
    /// What stands for the latency of a launch.
    latency: Quantity,
    /// Whether throughput is size by latency instead of a measurement of its own.
    tabulated: bool,
}

/// The ways of looking at a study, those that judge before those that only comment.
fn looks(study: Study) -> Vec<(&'static str, Look)> {
    fn look(place: Place, latency: Quantity) -> Look {
        Look { place, latency, tabulated: false }
    }
    match study {
        // Nothing is stated; a system on a chip of that time has one CPU.
        Study::Motorola => vec![
            ("on one CPU", look(Place::Same, Quantity::Median)),
            ("by the paper's mean", look(Place::Same, Quantity::Mean)),
            ("not pinned", look(Place::Unpinned, Quantity::Median)),
        ],
        Study::Enea => vec![
            ("by the median", look(Place::Cross, Quantity::Median)),
            ("by the paper's mean", look(Place::Cross, Quantity::Mean)),
        ],
        // Table I states no placement, table II says one CPU, the conclusion says different ones.
        Study::WisconsinLatency => vec![
            ("not pinned", look(Place::Unpinned, Quantity::Min)),
            ("on one CPU", look(Place::Same, Quantity::Min)),
            ("on two CPUs", look(Place::Cross, Quantity::Min)),
            ("by the median", look(Place::Unpinned, Quantity::Median)),
            (
                "by size / latency, as the paper's table III",
                Look { place: Place::Unpinned, latency: Quantity::Min, tabulated: true },
            ),
        ],
        Study::WisconsinEvaluation => vec![
            ("by the median", look(Place::Cross, Quantity::Median)),
            ("by the paper's mean", look(Place::Cross, Quantity::Mean)),
        ],
        Study::ShortComparison => vec![
            ("not pinned", look(Place::Unpinned, Quantity::Median)),
            ("by the paper's mean", look(Place::Unpinned, Quantity::Mean)),
            ("on two CPUs", look(Place::Cross, Quantity::Median)),
            ("on one CPU", look(Place::Same, Quantity::Median)),
        ],
    }
}

impl<'a> View<'a> {
    /// All ways of looking at `study`.
    pub(crate) fn all(evidence: &'a Evidence, study: Study) -> impl Iterator<Item = Self> {
        looks(study).into_iter().map(move |(words, look)| Self { evidence, study, words, look })
    }

    /// The same at another placement.
    pub(crate) fn on(mut self, place: Place) -> Self {
        self.look.place = place;
        self
    }

    /// What ran beside the processes unless the claim says so.
    fn load(&self) -> Load {
        if self.study == Study::ShortComparison { Load::Duty35 } else { Load::Idle }
    }

    /// What stands for the latency of a launch here.
    pub(crate) fn latency_quantity(&self) -> Quantity {
        self.look.latency
    }

    /// The key of a figure at the placement and load of this view.
    pub(crate) fn key(&self, mechanism: &str, bytes: u64, quantity: Quantity) -> Key {
        Key::new(self.study, mechanism, bytes, self.look.place, quantity).under(self.load())
    }

    /// A figure.
    pub(crate) fn get(&self, key: &Key) -> Result<Figure, Missing> {
        let series = self.evidence.get(key).filter(|series| has_value(series));
        match series {
            Some(series) => Ok(self.figure(key, series)),
            None => Err(self.missing(key, &key.to_string())),
        }
    }

    /// The latency of a mechanism.
    pub(crate) fn latency(&self, mechanism: &str, bytes: u64) -> Result<Figure, Missing> {
        self.get(&self.key(mechanism, bytes, self.look.latency))
    }

    /// The latencies of a mechanism at each of `sizes`.
    pub(crate) fn latencies(&self, mechanism: &str, sizes: &[u64]) -> Result<Vec<Figure>, Missing> {
        sizes.iter().map(|&bytes| self.latency(mechanism, bytes)).collect()
    }

    /// The latencies of each of `mechanisms` at one size.
    pub(crate) fn latencies_of(
        &self,
        mechanisms: &[&str],
        bytes: u64,
    ) -> Result<Vec<Figure>, Missing> {
        mechanisms.iter().map(|mechanism| self.latency(mechanism, bytes)).collect()
    }

    /// The throughput of a mechanism.
    pub(crate) fn throughput(&self, mechanism: &str, bytes: u64) -> Result<Figure, Missing> {
        self.throughput_under(self.load(), mechanism, bytes)
    }

    /// The throughput of a mechanism under this load.
    pub(crate) fn throughput_under(
        &self,
        load: Load,
        mechanism: &str,
        bytes: u64,
    ) -> Result<Figure, Missing> {
        if !self.look.tabulated {
            return self.get(&self.key(mechanism, bytes, Quantity::Throughput).under(load));
        }
        let mut figure = self.latency(mechanism, bytes)?;
        // Bytes per nanosecond to bytes per second.
        figure.values.iter_mut().for_each(|value| *value = bytes as f64 * 1e9 / *value);
        figure.unit = Unit::BytesPerSecond;
        Ok(figure)
    }

    /// The first figure of this kind, wherever it was measured.
    pub(crate) fn anywhere(&self, mechanism: &str, quantity: Quantity) -> Result<Figure, Missing> {
        let found = self.evidence.iter().find(|(key, series)| {
            let of = (key.study, key.mechanism.as_str(), key.quantity);
            of == (self.study, mechanism, quantity) && has_value(series)
        });
        match found {
            Some((key, series)) => Ok(self.figure(key, series)),
            None => {
                let key = Key::new(self.study, mechanism, 0, Place::None, quantity);
                Err(self.missing(&key, &format!("{quantity} of {mechanism}")))
            }
        }
    }

    /// The sizes within `range` at which all `mechanisms` were measured under all `loads`.
    pub(crate) fn sizes(
        &self,
        quantity: Quantity,
        mechanisms: &[&str],
        loads: &[Load],
        range: impl RangeBounds<u64>,
    ) -> Vec<u64> {
        let Some(first) = mechanisms.first() else { return Vec::new() };
        let mut sizes: Vec<u64> = self
            .evidence
            .iter()
            .filter(|(key, _)| {
                let of = (key.study, key.mechanism.as_str(), key.place, key.quantity);
                of == (self.study, *first, self.look.place, quantity)
            })
            .map(|(key, _)| key.message_bytes)
            .filter(|bytes| range.contains(bytes))
            .filter(|&bytes| {
                mechanisms.iter().all(|mechanism| {
                    let key = self.key(mechanism, bytes, quantity);
                    loads.iter().all(|&load| {
                        self.evidence.get(&key.clone().under(load)).is_some_and(has_value)
                    })
                })
            })
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Those sizes, or what is missing if there are fewer than `count`.
    pub(crate) fn sizes_of(
        &self,
        count: usize,
        quantity: Quantity,
        mechanisms: &[&str],
        loads: &[Load],
        range: impl RangeBounds<u64> + Clone,
    ) -> Result<Vec<u64>, Missing> {
        let sizes = self.sizes(quantity, mechanisms, loads, range.clone());
        if sizes.len() >= count {
            return Ok(sizes);
        }
        // The mechanism and load with the fewest sizes is what to name.
        let fewest = mechanisms
            .iter()
            .flat_map(|mechanism| loads.iter().map(move |&load| (*mechanism, load)))
            .min_by_key(|&(mechanism, load)| {
                self.sizes(quantity, &[mechanism], &[load], range.clone()).len()
            });
        let (mechanism, load) = fewest.unwrap_or(("all", Load::Idle));
        let key = self.key(mechanism, 0, quantity).under(load);
        let range = words_of_range(range.start_bound(), range.end_bound());
        let what = match count {
            1 => format!("{key} at any size{range}"),
            _ => format!("{key} at {count} or more sizes{range}"),
        };
        Err(self.missing(&key, &what))
    }

    /// The sizes at which the latency of all `mechanisms` was measured, at least `count`.
    pub(crate) fn common_latency_sizes(
        &self,
        count: usize,
        mechanisms: &[&str],
    ) -> Result<Vec<u64>, Missing> {
        self.sizes_of(count, self.look.latency, mechanisms, &[self.load()], ..)
    }

    fn figure(&self, key: &Key, series: &Series) -> Figure {
        let mut at = Vec::new();
        if key.message_bytes > 0 {
            at.push(format!("at {}", number::size(key.message_bytes)));
        }
        if key.place != self.look.place {
            at.push(key.place.to_string());
        }
        if key.load != self.load() {
            let idle = key.load == Load::Idle;
            at.push(if idle { "idle".to_owned() } else { key.load.to_string() });
        }
        at.retain(|words| !words.is_empty());
        Figure::new(&key.mechanism, &at.join(" "), key.quantity.unit(), series)
    }

    /// What is missing, and why as far as anybody said.
    pub(crate) fn missing(&self, key: &Key, what: &str) -> Missing {
        let facts = &self.evidence.facts;
        if let Some(reason) = facts.lacks(key.place) {
            return Missing(format!("no {what}: {reason}"));
        }
        match self.evidence.reason(key.study, &key.mechanism) {
            Some(reason) => Missing(format!("no {what}: {reason}")),
            None => Missing(format!("no {what}: not measured")),
        }
    }
}

fn has_value(series: &Series) -> bool {
    series.0.iter().any(|value| value.is_finite())
}

fn words_of_range(start: std::ops::Bound<&u64>, end: std::ops::Bound<&u64>) -> String {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let from = match start {
        Included(bytes) if *bytes > 0 => format!("from {}", number::size(*bytes)),
        Excluded(bytes) => format!("above {}", number::size(*bytes)),
        _ => String::new(),
    };
    let to = match end {
        Included(bytes) => format!("to {}", number::size(*bytes)),
        Excluded(bytes) => format!("below {}", number::size(*bytes)),
        Unbounded => String::new(),
    };
    [from, to].iter().filter(|words| !words.is_empty()).map(|words| format!(" {words}")).collect()
}
