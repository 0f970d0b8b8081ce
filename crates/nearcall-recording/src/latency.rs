//! How long calls took when they were recorded, and how long they take now.
//!
//! **Invariants:** memory is bounded, however long a recording is.
//! **Not here:** reading clocks (`player.rs`).

use hdrhistogram::Histogram;
use serde::Serialize;

/// Calls of a part of the recording.
#[derive(Debug, Clone, Serialize)]
pub struct IntervalReport {
    /// Where it begins, in seconds of the recording.
    pub from_s: f64,
    /// Where it ends.
    pub to_s: f64,
    /// Calls that have ended.
    pub calls: u64,
    /// As those of a [`MethodReport`](crate::MethodReport).
    pub recorded: Option<Percentiles>,
    /// As those of a [`MethodReport`](crate::MethodReport).
    pub now: Option<Percentiles>,
}

/// Times of calls, in microseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Percentiles {
    /// Half of them took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
}

/// Times of calls, in nanoseconds, off by 1 % at most.
#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    recorded: Histogram<u64>,
    now: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        // It fails for more than 5 digits only.
        let new = || Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("two digits"));
        Self { recorded: new(), now: new() }
    }
}

impl Latencies {
    /// Counts a call that has ended then and now; `None`: it has no end in the recording.
    pub(crate) fn count(&mut self, recorded_ns: Option<u64>, now_ns: u64) {
        if let Some(recorded_ns) = recorded_ns {
            // It grows with what is recorded.
            let _ = self.recorded.record(recorded_ns);
        }
        let _ = self.now.record(now_ns);
    }

    pub(crate) fn add(&mut self, others: &Self) {
        // They have the same digits, and grow.
        let _ = self.recorded.add(&others.recorded);
        let _ = self.now.add(&others.now);
    }

    /// Returns those of the recording, and those of now.
    pub(crate) fn percentiles(&self) -> [Option<Percentiles>; 2] {
        [&self.recorded, &self.now].map(|of| {
            let us = |quantile| of.value_at_quantile(quantile) as f64 / 1e3;
            (!of.is_empty()).then(|| Percentiles { p50_us: us(0.5), p99_us: us(0.99) })
        })
    }
}

/// Latencies by the time of the recording, in a few intervals of equal length.
#[derive(Debug, Clone)]
pub(crate) struct Intervals {
    width_ns: u64,
    rows: Vec<Latencies>,
}

impl Default for Intervals {
    fn default() -> Self {
        Self { width_ns: WIDTH_NS_MIN, rows: Vec::new() }
    }
}

impl Intervals {
    pub(crate) fn count(&mut self, at_ns: u64, recorded_ns: Option<u64>, now_ns: u64) {
        while at_ns / self.width_ns >= INTERVALS_MAX {
            self.widen();
        }
        let index = usize::try_from(at_ns / self.width_ns).unwrap_or_default();
        if index >= self.rows.len() {
            self.rows.resize_with(index + 1, Latencies::default);
        }
        self.rows[index].count(recorded_ns, now_ns);
    }

    fn widen(&mut self) {
        self.width_ns *= 2;
        let pairs = self.rows.chunks(2).map(|pair| {
            let mut both = pair[0].clone();
            pair[1..].iter().for_each(|second| both.add(second));
            both
        });
        self.rows = pairs.collect();
    }

    pub(crate) fn add(&mut self, mut others: Self) {
        while self.width_ns < others.width_ns {
            self.widen();
        }
        while others.width_ns < self.width_ns {
            others.widen();
        }
        if self.rows.len() < others.rows.len() {
            self.rows.resize_with(others.rows.len(), Latencies::default);
        }
        self.rows.iter_mut().zip(&others.rows).for_each(|(own, other)| own.add(other));
    }

    pub(crate) fn report(&self) -> Vec<IntervalReport> {
        let row = |(index, row): (usize, &Latencies)| {
            let [recorded, now] = row.percentiles();
            let width_s = self.width_ns as f64 / 1e9;
            let at_s = |index: usize| index as f64 * width_s;
            let (from_s, to_s, calls) = (at_s(index), at_s(index + 1), row.now.len());
            IntervalReport { from_s, to_s, calls, recorded, now }
        };
        self.rows.iter().enumerate().map(row).filter(|row| row.calls > 0).collect()
    }
}

/// Digits that are kept of a time.
const DIGITS: u8 = 2;

/// Intervals at most: as many rows as a person reads.
const INTERVALS_MAX: u64 = 12;

/// The shortest interval, in nanoseconds.
const WIDTH_NS_MIN: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_become_longer_and_keep_every_call() {
        let (mut one, mut other) = (Intervals::default(), Intervals::default());
        for second in 0..100 {
            one.count(second * 1_000_000_000, Some(1000), 2000);
        }
        other.count(0, None, 5000);
        one.add(other);
        let rows = one.report();
        assert!((6..=12).contains(&rows.len()), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.calls).sum::<u64>(), 101);
        assert!(rows.windows(2).all(|pair| pair[0].to_s == pair[1].from_s), "{rows:?}");
        let recorded = rows[0].recorded.as_ref().unwrap();
        assert!((0.99..1.02).contains(&recorded.p50_us), "{recorded:?}");
    }
}
