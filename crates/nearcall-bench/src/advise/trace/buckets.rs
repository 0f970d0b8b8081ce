//! Counts of numbers in logarithmic buckets: eight to each doubling.
//!
//! Always true: at most 500 buckets, whatever is counted; numbers below 16 have a bucket of their
//! own. A bucket knows the sum of its numbers, so that a size that always is the same comes out
//! exactly.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    /// By index: how many, and their sum.
    buckets: BTreeMap<u16, (u64, u128)>,
    count: u64,
    ends: Option<(u64, u64)>,
}

impl Buckets {
    pub(super) fn count_one(&mut self, value: u64) {
        let bucket = self.buckets.entry(index(value)).or_default();
        bucket.0 += 1;
        bucket.1 += u128::from(value);
        self.count += 1;
        let (min, max) = self.ends.unwrap_or((value, value));
        self.ends = Some((min.min(value), max.max(value)));
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (index, bucket) in &other.buckets {
            let own = self.buckets.entry(*index).or_default();
            own.0 += bucket.0;
            own.1 += bucket.1;
        }
        self.count += other.count;
        self.ends = match (self.ends, other.ends) {
            (Some(own), Some(other)) => Some((own.0.min(other.0), own.1.max(other.1))),
            (own, other) => own.or(other),
        };
    }

    /// The smallest and the largest.
    pub(super) fn ends(&self) -> Option<(u64, u64)> {
        self.ends
    }

    /// The mean of the bucket in which the quantile lies.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let rank = share.clamp(0.0, 1.0) * self.count as f64;
        let mut below = 0;
        for (count, sum) in self.buckets.values() {
            below += count;
            if below as f64 >= rank {
                return u64::try_from(sum / u128::from((*count).max(1))).ok();
            }
        }
        self.ends.map(|ends| ends.1)
    }
}

/// Three bits behind the leading one.
fn index(value: u64) -> u16 {
    let octave = value.max(1).ilog2();
    let index = match octave {
        0..=3 => value,
        _ => u64::from(octave - 2) * 8 + ((value >> (octave - 3)) & 7),
    };
    u16::try_from(index).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_grow_with_the_numbers_and_stay_few() {
        let mut last = 0;
        for value in (0..100_000_u64).chain([u64::MAX / 2, u64::MAX]) {
            let at = index(value);
            assert!(at >= last, "{value}");
            last = at;
        }
        assert_eq!((index(15), index(16), index(17), index(18)), (15, 16, 16, 17));
        assert!(last < 500, "{last}");
    }

    #[test]
    fn quantiles_are_near_and_exact_where_all_are_the_same() {
        let mut buckets = Buckets::default();
        (0..90).for_each(|_| buckets.count_one(120));
        (0..10).for_each(|_| buckets.count_one(5_000));
        let mut twice = buckets.clone();
        twice.merge(&buckets);
        for buckets in [buckets, twice] {
            assert_eq!(buckets.quantile(0.5), Some(120));
            assert_eq!(buckets.quantile(0.9), Some(120));
            assert_eq!(buckets.quantile(0.99), Some(5_000));
            assert_eq!(buckets.ends(), Some((120, 5_000)));
        }
        assert_eq!(Buckets::default().quantile(0.5), None);
    }
}
