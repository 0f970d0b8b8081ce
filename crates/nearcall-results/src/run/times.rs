//! What a run stores of many times: percentiles, extremes and the interval of the median.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::stats::Estimate;

/// The distribution of times in nanoseconds. All but the median are of the times of all launches
/// together. A percentile with fewer than ten times above it is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RttNs {
    /// The shortest.
    pub min: Option<u64>,
    /// The median of a typical launch: the geometric mean of those of the launches. Older
    /// runs may have the median of all times here.
    pub p50: Option<f64>,
    /// 90 % are shorter.
    pub p90: Option<f64>,
    /// 99 % are shorter.
    pub p99: Option<f64>,
    /// 99.9 % are shorter.
    pub p999: Option<f64>,
    /// 99.99 % are shorter.
    pub p9999: Option<f64>,
    /// The longest.
    pub max: Option<u64>,
    /// The arithmetic mean; pauses of the machine move it a lot.
    pub mean: Option<f64>,
    /// Where the median of a typical launch lies with 95 % confidence; `null` with one launch.
    pub p50_ci95: Option<[f64; 2]>,
}

impl RttNs {
    /// Takes the median and its interval from the launches, the rest from all times of all
    /// launches.
    ///
    /// The median of all times would be nearer to that of the fast launches, which have more
    /// exchanges in the same time, and may lie outside of the interval. It stands in where no
    /// launch has a median.
    #[must_use]
    pub fn new(times: &Histogram, launches: Option<&Estimate>) -> Self {
        let p50 = launches.map(|launches| launches.center).or_else(|| times.quantile_ns(0.5));
        Self {
            min: times.min_ns(),
            p50,
            p90: times.quantile_ns(0.9),
            p99: times.quantile_ns(0.99),
            p999: times.quantile_ns(0.999),
            p9999: times.quantile_ns(0.9999),
            max: times.max_ns(),
            mean: times.mean_ns(),
            p50_ci95: launches.and_then(|launches| launches.ci95),
        }
    }
}
