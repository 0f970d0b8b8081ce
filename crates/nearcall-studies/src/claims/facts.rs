//! One way of looking at the evidence of a study: by which statistic, at which placement.
//!
//! Predicates ask a [`View`] for figures and get either the figure or what is missing. Which views
//! a study has, and in which order they judge, stands in [`looks`].

use crate::Study;
use crate::claims::verdict::Missing;
use crate::evidence::{Evidence, Key, Load, Place, Quantity, Series, Unit};
use crate::figure::Figure;
use crate::report::number;

/// One way of looking at a study.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) evidence: &'a Evidence,
    pub(crate) study: Study,
    /// What is special about it, for people.
    pub(crate) words: &'static str,
    look: ClaimView,
}

#[derive(Clone, Copy)]
struct ClaimView {
    /// Where both ends run unless the claim says so.
    place: Place,
    /// What stands for the latency of a launch.
    latency: Quantity,
    /// Whether throughput is size by latency instead of a measurement of its own.
    tabulated: bool,
}

/// The ways of looking at a study, those that judge before those that only comment.
fn looks(study: Study) -> Vec<(&'static str, ClaimView)> {
    fn look(place: Place, latency: Quantity) -> ClaimView {
        ClaimView { place, latency, tabulated: false }
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
                ClaimView { place: Place::Unpinned, latency: Quantity::Min, tabulated: true },
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

    /// A figure. Where throughput is tabulated it is the size by the latency.
    pub(crate) fn get(&self, key: &Key) -> Result<Figure, Missing> {
        if self.look.tabulated && key.quantity == Quantity::Throughput {
            let bytes = key.message_bytes as f64;
            let mut figure = self.get(&Key { quantity: self.look.latency, ..key.clone() })?;
            // Bytes per nanosecond to bytes per second.
            figure.values.iter_mut().for_each(|value| *value = bytes * 1e9 / *value);
            figure.unit = Unit::BytesPerSecond;
            return Ok(figure);
        }
        match self.evidence.get(key).filter(|series| has_value(series)) {
            Some(series) => Ok(self.figure(key, series)),
            None => Err(self.missing(key, &key.to_string())),
        }
    }

    /// The keys of all figures of a mechanism that have a value, in their order.
    pub(crate) fn measured(&self, mechanism: &str) -> impl Iterator<Item = &'a Key> {
        let all = self.evidence.of(self.study, mechanism);
        all.filter(|(_, series)| has_value(series)).map(|(key, _)| key)
    }

    /// The first figure of this kind, wherever it was measured.
    pub(crate) fn anywhere(&self, mechanism: &str, quantity: Quantity) -> Result<Figure, Missing> {
        let mut all = self.evidence.of(self.study, mechanism);
        let found = all.find(|(key, series)| key.quantity == quantity && has_value(series));
        match found {
            Some((key, series)) => Ok(self.figure(key, series)),
            None => {
                let key = Key::new(self.study, mechanism, 0, Place::None, quantity);
                Err(self.missing(&key, &format!("{quantity} of {mechanism}")))
            }
        }
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
