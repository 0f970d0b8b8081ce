//! Numbers in logarithmic bins, eight to each doubling: sizes with their direction, and gaps.
//!
//! **Invariants:** at most 500 bins, whatever is counted; numbers below 16 have a bin of their own.
//! A bin knows the sum of its numbers, so that a size that always is the same comes out exactly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Quantiles;

/// The messages of one range of sizes, as sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// The smallest size of the range in bytes.
    pub from_bytes: u64,
    /// Requests and messages that were not answered.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them were answered.
    pub answered: u64,
    /// The bytes of those.
    pub answered_bytes: u64,
    /// The bytes of all replies to them.
    pub reply_bytes: u64,
}

impl Class {
    fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.answered += other.answered;
        self.answered_bytes = self.answered_bytes.saturating_add(other.answered_bytes);
        self.reply_bytes = self.reply_bytes.saturating_add(other.reply_bytes);
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Histogram(BTreeMap<u64, Class>);

impl Histogram {
    /// Counts a message of this size, or another number.
    pub(super) fn count(&mut self, bytes: u64) {
        self.add(&Class { from_bytes: bytes, messages: 1, bytes, ..Class::default() });
    }

    /// Counts a reply to a message of this size, or more of it.
    pub(super) fn answer(&mut self, asked_bytes: u64, is_first: bool, reply_bytes: u64) {
        let (answered, answered_bytes) = if is_first { (1, asked_bytes) } else { (0, 0) };
        let (from_bytes, messages, bytes) = (asked_bytes, 0, 0);
        self.add(&Class { from_bytes, messages, bytes, answered, answered_bytes, reply_bytes });
    }

    fn add(&mut self, class: &Class) {
        let from_bytes = bin_of(class.from_bytes);
        let bin = self.0.entry(from_bytes).or_insert(Class { from_bytes, ..Class::default() });
        bin.add(class);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.0.values().for_each(|bin| self.add(bin));
    }

    /// All of them together.
    pub(super) fn total(&self) -> Class {
        self.0.values().fold(Class::default(), |mut sum, bin| {
            sum.add(bin);
            sum
        })
    }

    /// Sums by the ranges within which what a mechanism costs differs by less than mechanisms do.
    pub(super) fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<Class> = Vec::new();
        for bin in self.0.values() {
            let from_bytes = FROM_BYTES.iter().rfind(|from| bin.from_bytes >= **from);
            let from_bytes = from_bytes.copied().unwrap_or_default();
            match classes.last_mut().filter(|class| class.from_bytes == from_bytes) {
                Some(class) => class.add(bin),
                None => classes.push(Class { from_bytes, ..*bin }),
            }
        }
        classes
    }

    pub(super) fn quantiles(&self) -> Option<Quantiles> {
        let count = self.total().messages as f64;
        let at = |share: f64| {
            let mut below = 0;
            let bin = self.0.values().find(|bin| {
                below += bin.messages;
                below > 0 && below as f64 >= share * count
            })?;
            Some((bin.bytes / bin.messages.max(1)).max(bin.from_bytes))
        };
        let [min, p50, p90, p99, max] = [0.0, 0.5, 0.9, 0.99, 1.0].map(at);
        Some(Quantiles { min: min?, p50: p50?, p90: p90?, p99: p99?, max: max? })
    }
}

/// The smallest number of the bin: three bits behind the leading one count.
fn bin_of(value: u64) -> u64 {
    let rest = value.max(1).ilog2().saturating_sub(3);
    value >> rest << rest
}

/// Where ranges of sizes begin, in bytes.
const FROM_BYTES: [u64; 6] = [1, 64, 512, 4 << 10, 32 << 10, 256 << 10];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_few_and_grow_with_their_numbers() {
        let values = (0..100_000_u64).chain([u64::MAX / 2, u64::MAX]);
        let mut bins: Vec<u64> = values.clone().map(bin_of).collect();
        assert!(bins.is_sorted() && values.zip(&bins).all(|(value, bin)| *bin <= value));
        bins.dedup();
        assert!(bins.len() < 500 && bins[..17] == (0..17).collect::<Vec<_>>(), "{bins:?}");
    }

    #[test]
    fn quantiles_are_near_and_exact_where_all_are_the_same() {
        let mut numbers = Histogram::default();
        (0..90).for_each(|_| numbers.count(120));
        (0..10).for_each(|_| numbers.count(5_000));
        let mut twice = numbers.clone();
        twice.merge(&numbers);
        for numbers in [numbers, twice] {
            let expected = Quantiles { min: 120, p50: 120, p90: 120, p99: 5_000, max: 5_000 };
            assert_eq!(numbers.quantiles(), Some(expected));
        }
        assert_eq!(Histogram::default().quantiles(), None);
        let mut huge = Histogram::default();
        (0..3).for_each(|_| huge.count(u64::MAX));
        huge.count(u64::MAX / 2);
        assert!(huge.quantiles().is_some_and(|found| found.min < found.max), "{huge:?}");
    }
}
