//! Sizes of messages in logarithmic bins, eight to each doubling, by whether they were answered.
//!
//! **Invariants:** at most 500 bins, whatever is counted; sizes below 16 have a bin of their own. A
//! bin holds the sum of its sizes, so a size that is always the same comes out exactly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A few quantiles of sizes, off by 6 % at most; exact where near sizes are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The smallest.
    pub min: u64,
    /// Half of them are smaller.
    pub p50: u64,
    /// 90 % are smaller.
    pub p90: u64,
    /// 99 % are smaller.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

/// The messages of one range of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRange {
    /// The smallest size of the range in bytes.
    pub from_bytes: u64,
    /// Messages that were answered.
    pub calls: u64,
    /// The others.
    pub one_way: u64,
}

/// The messages of one bin.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    messages: u64,
    bytes: u64,
}

/// A histogram of sizes: by the smallest size of a bin, its one-way messages and its calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes(BTreeMap<u64, [Bin; 2]>);

impl Sizes {
    pub(super) fn count(&mut self, bytes: u64, is_call: bool) {
        let bins = self.0.entry(bin_of(bytes)).or_default();
        add(&mut bins[usize::from(is_call)], Bin { messages: 1, bytes });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (from_bytes, [one_way, calls]) in &other.0 {
            let bins = self.0.entry(*from_bytes).or_default();
            add(&mut bins[0], *one_way);
            add(&mut bins[1], *calls);
        }
    }

    /// How many messages there are: of calls, of one-way messages, or of both.
    pub(super) fn messages(&self, is_call: Option<bool>) -> u64 {
        self.bins(is_call).map(|(_, bin)| bin.messages).sum()
    }

    /// Each bin with the smallest size that it can hold.
    fn bins(&self, is_call: Option<bool>) -> impl Iterator<Item = (u64, Bin)> {
        self.0.iter().map(move |(from_bytes, [one_way, calls])| {
            let mut bin = if is_call == Some(true) { Bin::default() } else { *one_way };
            if is_call != Some(false) {
                add(&mut bin, *calls);
            }
            (*from_bytes, bin)
        })
    }

    pub(super) fn quantiles(&self, is_call: Option<bool>) -> Option<Quantiles> {
        let count = self.messages(is_call) as f64;
        let at = |share: f64| {
            let mut below = 0;
            let (from_bytes, bin) = self.bins(is_call).find(|(_, bin)| {
                below += bin.messages;
                below > 0 && below as f64 >= share * count
            })?;
            Some((bin.bytes / bin.messages.max(1)).max(from_bytes))
        };
        let [min, p50, p90, p99, max] = [0.0, 0.5, 0.9, 0.99, 1.0].map(at);
        Some(Quantiles { min: min?, p50: p50?, p90: p90?, p99: p99?, max: max? })
    }

    /// Counts by a few ranges of sizes.
    pub(super) fn ranges(&self) -> Vec<SizeRange> {
        let mut ranges: Vec<SizeRange> = Vec::new();
        for (bytes, [one_way, calls]) in &self.0 {
            let from_bytes = FROM_BYTES.iter().rfind(|from| bytes >= from).copied().unwrap_or(0);
            if ranges.last().is_none_or(|range| range.from_bytes != from_bytes) {
                ranges.push(SizeRange { from_bytes, ..SizeRange::default() });
            }
            if let Some(range) = ranges.last_mut() {
                range.calls += calls.messages;
                range.one_way += one_way.messages;
            }
        }
        ranges
    }
}

fn add(bin: &mut Bin, more: Bin) {
    bin.messages += more.messages;
    bin.bytes = bin.bytes.saturating_add(more.bytes);
}

/// The smallest size of the bin: three bits behind the leading one count.
fn bin_of(bytes: u64) -> u64 {
    let rest = bytes.max(1).ilog2().saturating_sub(3);
    bytes >> rest << rest
}

/// Where ranges of sizes begin, in bytes.
const FROM_BYTES: [u64; 6] = [1, 64, 512, 4 << 10, 32 << 10, 256 << 10];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_few_and_grow_with_their_sizes() {
        let sizes = (0..100_000_u64).chain([u64::MAX / 2, u64::MAX]);
        let mut bins: Vec<u64> = sizes.clone().map(bin_of).collect();
        assert!(bins.is_sorted() && sizes.zip(&bins).all(|(size, bin)| *bin <= size));
        bins.dedup();
        assert!(bins.len() < 500 && bins[..17] == (0..17).collect::<Vec<_>>(), "{bins:?}");
    }

    #[test]
    fn quantiles_are_near_and_exact_where_all_are_the_same() {
        let mut sizes = Sizes::default();
        (0..90).for_each(|_| sizes.count(120, true));
        (0..10).for_each(|_| sizes.count(5_000, false));
        let mut twice = sizes.clone();
        twice.merge(&sizes);
        let all = |bytes| Quantiles { min: bytes, p50: bytes, p90: bytes, p99: bytes, max: bytes };
        for sizes in [sizes, twice] {
            let expected = Quantiles { p99: 5_000, max: 5_000, ..all(120) };
            assert_eq!(sizes.quantiles(None), Some(expected));
            assert_eq!(sizes.quantiles(Some(true)), Some(all(120)));
            assert_eq!(sizes.quantiles(Some(false)), Some(all(5_000)));
        }
        assert_eq!(Sizes::default().quantiles(None), None);
        let mut huge = Sizes::default();
        (0..3).for_each(|_| huge.count(u64::MAX, true));
        huge.count(u64::MAX / 2, true);
        assert!(huge.quantiles(None).is_some_and(|found| found.min < found.max), "{huge:?}");
    }
}
