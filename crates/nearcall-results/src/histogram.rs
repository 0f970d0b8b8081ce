//! Whole distributions of times: recorded without allocation, merged without loss, stored small.
//!
//! A [`Histogram`] counts nanoseconds in logarithmic buckets that are at most 0.1 % of their value
//! wide, so a bucket's middle is wrong by 0.05 % at most. Minimum, maximum, sum and count are
//! exact. [`StoredHistogram`] is the form in a run file: only buckets that hold something, no more
//! memory than the file gave. Confidence intervals are not made here but in `stats.rs`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Counts of times in nanoseconds, from 0 to 68.7 s; a longer time counts in the last bucket.
///
/// Holds 221 KiB from the start, so that [`Histogram::record`] never allocates: keep one per cell
/// and launch while it is measured, and the stored form afterwards.
#[derive(Clone)]
pub struct Histogram {
    buckets: hdrhistogram::Histogram<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
}

impl Histogram {
    /// An empty histogram. Allocates all the memory that it will ever hold.
    #[must_use]
    pub fn new() -> Self {
        let buckets = hdrhistogram::Histogram::new_with_bounds(1, VALUE_NS_MAX, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the library accepts");
        Self { buckets, min_ns: u64::MAX, max_ns: 0, sum_ns: 0 }
    }

    /// Counts one time. Allocates nothing; costs a few nanoseconds.
    // Between two measured exchanges: compiled where it is called, as fast as the exchange itself.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Counts `count` equal times, such as the mean of a batch of that size.
    #[inline]
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.buckets.saturating_record_n(value_ns, count);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns = self.sum_ns.saturating_add(value_ns.saturating_mul(count));
    }

    /// Adds everything that `other` counted. The result is that of counting both sets of times
    /// here.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.add(&other.buckets).expect("both have the same bounds");
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// How many times were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// The shortest time, exact.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.min_ns)
    }

    /// The longest time, exact, also when it is above 68.7 s.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max_ns)
    }

    /// The arithmetic mean in nanoseconds, exact. One long pause can double it: prefer the median.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The median in nanoseconds, or `None` if nothing was counted.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.value_at(0.5))
    }

    /// The quantile `q` (0.99 for the 99th percentile) in nanoseconds.
    ///
    /// `None` if fewer than ten counted times lie above it: such a figure is chance.
    #[must_use]
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        quantile_allowed(self.count(), q).then(|| self.value_at(q))
    }

    /// The form for a run file.
    #[must_use]
    pub fn to_stored(&self) -> StoredHistogram {
        let mut stored = StoredHistogram {
            significant_digits: SIGNIFICANT_DIGITS,
            count: self.count(),
            min_ns: self.min_ns().unwrap_or(0),
            max_ns: self.max_ns,
            sum_ns: self.sum_ns,
            step_ns: Vec::new(),
            counts: Vec::new(),
        };
        let mut last_ns = 0;
        for bucket in self.buckets.iter_recorded() {
            let low_ns = self.buckets.lowest_equivalent(bucket.value_iterated_to());
            stored.step_ns.push(low_ns - last_ns);
            stored.counts.push(bucket.count_at_value());
            last_ns = low_ns;
        }
        stored
    }

    /// Spreads the times of a bucket evenly over its width, so that a figure does not jump by a
    /// whole bucket when one time more falls into it.
    fn value_at(&self, q: f64) -> f64 {
        let rank = q.clamp(0.0, 1.0) * (self.count() - 1) as f64;
        let mut below = 0_u64;
        for bucket in self.buckets.iter_recorded() {
            let here = bucket.count_at_value();
            // The rank may lie between two times of neighbouring buckets; the nearer one gets it.
            if rank < (below + here) as f64 - 0.5 {
                let low_ns = self.buckets.lowest_equivalent(bucket.value_iterated_to());
                let width_ns = self.buckets.equivalent_range(low_ns) as f64;
                let share = (rank - below as f64 + 0.5) / here as f64;
                let middle_ns = low_ns as f64 + (width_ns - 1.0) / 2.0;
                let value_ns = middle_ns + width_ns * (share - 0.5);
                return value_ns.clamp(self.min_ns as f64, self.max_ns as f64);
            }
            below += here;
        }
        self.max_ns as f64
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("min_ns", &self.min_ns)
            .field("max_ns", &self.max_ns)
            .finish_non_exhaustive()
    }
}

/// Whether a quantile says something: at least ten of `count` times must lie above it.
pub(crate) fn quantile_allowed(count: u64, q: f64) -> bool {
    // The small allowance keeps 10,000 times enough for 0.999: 1 - 0.999 is not exact in binary.
    q >= 0.0 && count as f64 * (1.0 - q) >= TIMES_ABOVE_QUANTILE_MIN - 1e-6
}

/// A histogram as it stands in a run file, for any program to read.
///
/// Entry `i` of `counts` belongs to the bucket whose lowest value is the sum of `step_ns[0..=i]`
/// (`numpy.cumsum(step_ns)`). A bucket is 1 ns wide below 2,048 ns, and 2^(k-10) ns wide for
/// values from 2^k ns up. The value of a bucket is its middle. Empty buckets are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredHistogram {
    /// Decimal digits that a bucket keeps of a value; always 3 in `nearcall.run/1`.
    pub significant_digits: u8,
    /// The sum of `counts`.
    pub count: u64,
    /// The shortest time, exact; 0 if `count` is 0.
    pub min_ns: u64,
    /// The longest time, exact; 0 if `count` is 0.
    pub max_ns: u64,
    /// The sum of all times, exact unless it reached 2^64.
    pub sum_ns: u64,
    /// From the lowest value of the bucket before (from 0 at first) to that of this one.
    pub step_ns: Vec<u64>,
    /// How many times fell into each bucket; never 0.
    pub counts: Vec<u64>,
}

/// What is wrong with a stored histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoredHistogramError {
    /// Made with another precision than this program knows.
    #[error("histogram has {0} significant digits, expected {SIGNIFICANT_DIGITS}")]
    Digits(u8),
    /// `step_ns` and `counts` differ in length, or are longer than there are buckets.
    #[error("histogram's step_ns and counts have wrong lengths")]
    Length,
    /// A bucket is empty, out of order, above 68.7 s, or does not begin where one begins.
    #[error("histogram bucket {index} is not valid")]
    Bucket {
        /// Which entry of `counts`, from 0.
        index: usize,
    },
    /// `count`, `min_ns`, `max_ns` or `sum_ns` do not agree with the buckets.
    #[error("histogram's buckets contradict its count, min_ns or max_ns")]
    Summary,
}

impl StoredHistogram {
    /// Makes the histogram that was stored. Allocates 221 KiB, whatever the file claims.
    ///
    /// # Errors
    ///
    /// [`StoredHistogramError`] if no [`Histogram`] could have been stored like this.
    pub fn to_histogram(&self) -> Result<Histogram, StoredHistogramError> {
        if self.significant_digits != SIGNIFICANT_DIGITS {
            return Err(StoredHistogramError::Digits(self.significant_digits));
        }
        if self.step_ns.len() != self.counts.len() || self.counts.len() > BUCKETS_MAX {
            return Err(StoredHistogramError::Length);
        }
        let mut made = Histogram::new();
        let (mut low_ns, mut count) = (0_u64, 0_u64);
        for (index, (&step, &here)) in self.step_ns.iter().zip(&self.counts).enumerate() {
            let bad = StoredHistogramError::Bucket { index };
            low_ns = low_ns.checked_add(step).ok_or(bad)?;
            count = count.checked_add(here).ok_or(bad)?;
            let ordered = index == 0 || step > 0;
            if !ordered || here == 0 || low_ns > VALUE_NS_MAX {
                return Err(bad);
            }
            if made.buckets.lowest_equivalent(low_ns) != low_ns {
                return Err(bad);
            }
            made.buckets.saturating_record_n(low_ns, here);
        }
        if count != self.count || !self.summary_fits(&made) {
            return Err(StoredHistogramError::Summary);
        }
        if count > 0 {
            made.min_ns = self.min_ns;
        }
        made.max_ns = self.max_ns;
        made.sum_ns = self.sum_ns;
        Ok(made)
    }

    fn summary_fits(&self, made: &Histogram) -> bool {
        let Some(&first) = self.step_ns.first() else {
            return self.min_ns == 0 && self.max_ns == 0 && self.sum_ns == 0;
        };
        let last: u64 = self.step_ns.iter().sum();
        let bucket_of = |value: u64| made.buckets.lowest_equivalent(value.min(VALUE_NS_MAX));
        let beyond = self.max_ns > VALUE_NS_MAX && last >= bucket_of(VALUE_NS_MAX);
        bucket_of(self.min_ns) == first
            && (bucket_of(self.max_ns) == last || beyond)
            && self.min_ns <= self.max_ns
            && self.sum_ns >= self.max_ns
    }
}

/// Times above 68.7 s count in the last bucket. No cell waits longer: the watchdog ends it before.
/// One less than a power of two, so that the library's last bucket ends exactly here.
const VALUE_NS_MAX: u64 = (1 << 36) - 1;

/// Three digits make buckets 0.1 % wide. Two would be within the rule of 1 %, but then the medians
/// of all launches often fall into one bucket and the interval around them shrinks to nothing.
const SIGNIFICANT_DIGITS: u8 = 3;

/// 2,048 buckets of 1 ns and 1,024 for each of the 25 doublings up to 68.7 s. A file with more
/// lies.
const BUCKETS_MAX: usize = 2_048 + 25 * 1_024;

/// A percentile needs this many times above it.
const TIMES_ABOVE_QUANTILE_MIN: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    /// Times over ten orders of magnitude, as a mechanism with rare long pauses gives.
    fn times(rng: &mut fastrand::Rng, count: usize) -> Vec<u64> {
        (0..count).map(|_| rng.u64(..) >> rng.u32(28..64)).collect()
    }

    #[test]
    fn a_merge_equals_the_histogram_of_all_samples() {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let parts: Vec<Vec<u64>> = (0..rng.usize(1..6))
                .map(|_| {
                    let count = rng.usize(0..400);
                    times(&mut rng, count)
                })
                .collect();
            let mut merged = Histogram::new();
            parts.iter().for_each(|part| merged.merge(&of(part.iter().copied())));
            let whole = of(parts.concat());
            assert_eq!(merged.to_stored(), whole.to_stored(), "seed {seed}");
            assert_eq!(merged.median_ns(), whole.median_ns(), "seed {seed}");
        }
    }

    #[test]
    fn a_quantile_is_within_a_tenth_of_a_percent() {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut values = times(&mut rng, 5_001);
            let histogram = of(values.iter().copied());
            values.sort_unstable();
            for (q, rank) in [(0.1, 500), (0.5, 2_500), (0.9, 4_500), (0.99, 4_950)] {
                let exact = values[rank] as f64;
                let found = histogram.quantile_ns(q).unwrap();
                assert!(
                    (found - exact).abs() <= exact * 0.001 + 0.5,
                    "seed {seed} {q} {found} {exact}"
                );
            }
        }
    }

    #[test]
    fn a_stored_histogram_comes_back_whole() {
        for seed in 0..20 {
            let histogram = of(times(&mut fastrand::Rng::with_seed(seed), 1_000));
            let text = serde_json::to_string(&histogram.to_stored()).unwrap();
            let stored: StoredHistogram = serde_json::from_str(&text).unwrap();
            let back = stored.to_histogram().unwrap();
            assert_eq!(back.to_stored(), histogram.to_stored(), "seed {seed}");
            assert_eq!(back.mean_ns(), histogram.mean_ns());
        }
        let empty = Histogram::new().to_stored();
        assert_eq!(empty.to_histogram().unwrap().count(), 0);
    }

    #[test]
    fn buckets_begin_and_are_as_wide_as_the_documentation_says() {
        let stored = of([0, 2_047, 2_049, 5_000_000]).to_stored();
        let lows: Vec<u64> = stored
            .step_ns
            .iter()
            .scan(0, |low, step| {
                *low += step;
                Some(*low)
            })
            .collect();
        assert_eq!(lows, [0, 2_047, 2_048, 5_000_000 / 4_096 * 4_096]);
    }

    #[test]
    fn a_percentile_needs_ten_times_above_it() {
        let histogram = of(1..=1_000);
        assert_eq!(histogram.quantile_ns(0.5), Some(500.5));
        assert!(histogram.quantile_ns(0.99).is_some());
        assert_eq!(histogram.quantile_ns(0.999), None);
        assert!(quantile_allowed(10_000, 0.999) && !quantile_allowed(9_999, 0.999));
        assert!(quantile_allowed(100_000, 0.9999) && !quantile_allowed(99_999, 0.9999));
        assert_eq!(of([7]).median_ns(), Some(7.0));
        assert_eq!(Histogram::new().median_ns(), None);
    }

    #[test]
    fn equal_times_give_exactly_that_median() {
        assert_eq!(of([117; 99]).median_ns(), Some(117.0));
    }

    #[test]
    fn a_time_above_the_range_keeps_its_maximum() {
        let histogram = of([5, u64::MAX]);
        assert_eq!(histogram.max_ns(), Some(u64::MAX));
        let back = histogram.to_stored().to_histogram().unwrap();
        assert_eq!(back.max_ns(), Some(u64::MAX));
    }

    #[test]
    fn a_hostile_stored_histogram_is_refused() {
        let good = of([10, 20, 3_000]).to_stored();
        let refused = |change: &dyn Fn(&mut StoredHistogram)| {
            let mut bad = good.clone();
            change(&mut bad);
            bad.to_histogram().expect_err("refused")
        };
        use StoredHistogramError::{Bucket, Digits, Length, Summary};
        assert_eq!(refused(&|s| s.significant_digits = 200), Digits(200));
        assert_eq!(refused(&|s| s.counts.truncate(1)), Length);
        assert_eq!(refused(&|s| s.counts[1] = 0), Bucket { index: 1 });
        assert_eq!(refused(&|s| s.step_ns[2] = u64::MAX), Bucket { index: 2 });
        assert_eq!(refused(&|s| s.step_ns[1] = 0), Bucket { index: 1 });
        assert_eq!(refused(&|s| s.step_ns[2] = 2_981), Bucket { index: 2 });
        assert_eq!(refused(&|s| s.counts[1] = u64::MAX), Bucket { index: 1 });
        assert_eq!(refused(&|s| s.count = 4), Summary);
        assert_eq!(refused(&|s| s.min_ns = 11), Summary);
        assert_eq!(refused(&|s| s.max_ns = u64::MAX), Summary);
        assert_eq!(refused(&|s| s.sum_ns = 0), Summary);
    }
}
