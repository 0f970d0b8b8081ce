//! Medians, spreads, and how sure a figure is when it comes from a few launches.
//!
//! Iterations of one launch resemble each other, and a launch differs from the next by its memory
//! layout. So the unit of evidence is the launch: a cell's interval comes from how its launch
//! values differ, never from the number of iterations. Everything here is a function of its
//! arguments. Two samples are compared in `stats/two_samples.rs`, many in
//! `stats/ties.rs`.
//!
//! **Invariant:** a percentile is reported only where enough samples lie beyond it, a confidence
//! interval comes from the spread between launches, and the median beside it is that of a typical
//! launch. *Checked by* `a_percentile_needs_ten_times_above_it`, `src/stats/tests.rs`, by synthetic
//! data with known answers.

mod student;
pub mod ties;
pub mod two_samples;

/// The middle of `values`; the mean of both middles if their number is even. `None` if empty or if
/// any value is not a number. Copies and sorts the values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The quantile `q` of `values`, between 0 and 1, by linear interpolation between neighbours.
///
/// `None` if empty or if any value or `q` is not a number. Copies and sorts the values.
pub(crate) fn quantile(values: &[f64], q: f64) -> Option<f64> {
    if values.is_empty() || q.is_nan() || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(quantile_of_sorted(&sorted, q))
}

/// The median distance from the median. Unscaled: multiply by 1.4826 to compare it with a standard
/// deviation.
#[must_use]
pub fn median_absolute_deviation(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances)
}

/// The mean of rates over equal amounts of work. `None` if empty or if a rate is not above zero.
#[must_use]
pub fn harmonic_mean(rates: &[f64]) -> Option<f64> {
    if rates.is_empty() || !rates.iter().all(|&rate| is_positive(rate)) {
        return None;
    }
    Some(rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>())
}

/// The geometric mean of the middle half: a few values far off do not move it, and it uses more of
/// the others than a median. `None` if empty or if a value is not above zero.
#[must_use]
pub fn typical(values: &[f64]) -> Option<f64> {
    if values.is_empty() || !values.iter().all(|&value| is_positive(value)) {
        return None;
    }
    let mut logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    logs.sort_unstable_by(f64::total_cmp);
    let dropped = logs.len() / 4;
    Some(mean(&logs[dropped..logs.len() - dropped]).exp())
}

/// The arithmetic mean and the standard deviation of a sample, which is 0 for one value. `None` if
/// empty.
#[must_use]
pub fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    let deviation = variance(values).unwrap_or(0.0).sqrt();
    (!values.is_empty()).then(|| (mean(values), deviation))
}

/// The 97.5 % quantile of Student's t distribution, for two-sided intervals of 95 %.
///
/// `None` for zero degrees of freedom: one launch says nothing about the next.
#[must_use]
pub fn student_t_975(degrees: usize) -> Option<f64> {
    let degrees = Some(degrees).filter(|&degrees| degrees > 0)?;
    Some(student::two_sided_quantile(two_samples::SIGNIFICANCE, degrees as f64))
}

/// What several launches say about one figure: times or rates, always above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The typical launch: the geometric mean of the launch values.
    pub center: f64,
    /// Where a typical launch lies with 95 % confidence. `None` with fewer than two launches.
    pub ci95: Option<[f64; 2]>,
    /// Variance of the natural logarithm between launches, beyond what the iterations of a launch
    /// explain. 0.0001 is a relative spread of 1 %. `None` with fewer than two launches.
    pub between_launch_variance: Option<f64>,
    /// Variance of the natural logarithm of block values within a launch, the mean over launches.
    /// `None` if no launch has two blocks.
    pub within_launch_variance: Option<f64>,
}

/// Estimates a figure from one value per launch (its median, or its rate).
///
/// `blocks` holds, per launch, the values of its successive blocks (batch medians); it serves to
/// split the variance and may be empty. `resolution` is the step in which the values come, in
/// their unit (timer granularity): the interval is never narrower. `None` if there is no launch or
/// a value is not above zero.
///
/// The interval is Student's, of the mean of the logarithms. It covers 95 % where the logarithms
/// of launches are about normal. With a few launches, and among them a rare one several times
/// slower than the others, it covers less, as every interval from so few values does.
#[must_use]
pub fn estimate(launch_values: &[f64], blocks: &[Vec<f64>], resolution: f64) -> Option<Estimate> {
    if launch_values.is_empty() || !launch_values.iter().all(|&value| is_positive(value)) {
        return None;
    }
    let logs: Vec<f64> = launch_values.iter().map(|value| value.ln()).collect();
    let middle = mean(&logs);
    let ci95 = half_width(&logs).map(|half| {
        let step = resolution.max(0.0) / 2.0;
        [((middle - half).exp() - step).max(0.0), (middle + half).exp() + step]
    });
    let within_launch_variance = within_variance(blocks);
    let between_launch_variance = variance(&logs).map(|total| {
        let explained = explained_by_blocks(blocks).unwrap_or(0.0);
        (total - explained).max(0.0)
    });
    Some(Estimate { center: middle.exp(), ci95, between_launch_variance, within_launch_variance })
}

/// Whether launch values fall into two groups that lie further apart than either is wide: no single
/// figure describes such a cell, as where an end sometimes has a near cache and sometimes a far
/// one. A single value far off is no group. False if a value is not above zero.
#[must_use]
pub fn has_two_modes(launch_values: &[f64]) -> bool {
    if launch_values.len() < 2 * MODE_MIN || !launch_values.iter().all(|&value| is_positive(value))
    {
        return false;
    }
    let mut logs: Vec<f64> = launch_values.iter().map(|value| value.ln()).collect();
    logs.sort_unstable_by(f64::total_cmp);
    let (first, last) = (logs[0], logs[logs.len() - 1]);
    (MODE_MIN..=logs.len() - MODE_MIN).any(|at| {
        let gap = logs[at] - logs[at - 1];
        let widest = (logs[at - 1] - first).max(last - logs[at]);
        gap >= MODE_GAP.ln() && gap >= widest
    })
}

/// Whether two intervals overlap, so that their figures may be the same.
#[must_use]
pub fn agree(a: [f64; 2], b: [f64; 2]) -> bool {
    a[0] <= b[1] && b[0] <= a[1]
}

/// Half the width of the 95 % interval of the mean of `values`, by Student's t distribution.
/// `None` for fewer than two values.
pub(crate) fn half_width(values: &[f64]) -> Option<f64> {
    let t = student_t_975(values.len().checked_sub(1)?)?;
    Some(t * (variance(values)? / values.len() as f64).sqrt())
}

/// How likely values around `middle` would have a mean as far from it, by Student's t test on both
/// sides; 0 for values that are all alike. `None` for fewer than two values.
#[must_use]
pub fn p_of_mean(values: &[f64], middle: f64) -> Option<f64> {
    let error = (variance(values)? / values.len() as f64).sqrt();
    let t = (mean(values) - middle).abs() / error;
    // Without any spread whatever is found is certain.
    Some(if error > 0.0 { student::two_sided_p(t, (values.len() - 1) as f64) } else { 0.0 })
}

/// The mean over launches of the variance between blocks of one launch.
fn within_variance(blocks: &[Vec<f64>]) -> Option<f64> {
    let variances: Vec<f64> = blocks.iter().filter_map(|launch| log_variance(launch)).collect();
    (!variances.is_empty()).then(|| mean(&variances))
}

/// How much launch values differ only because each has a limited number of blocks.
fn explained_by_blocks(blocks: &[Vec<f64>]) -> Option<f64> {
    let shares: Vec<f64> = blocks
        .iter()
        .filter_map(|launch| Some(log_variance(launch)? / launch.len() as f64))
        .collect();
    (!shares.is_empty()).then(|| mean(&shares))
}

fn log_variance(values: &[f64]) -> Option<f64> {
    if !values.iter().all(|&value| is_positive(value)) {
        return None;
    }
    variance(&values.iter().map(|value| value.ln()).collect::<Vec<f64>>())
}

fn variance(values: &[f64]) -> Option<f64> {
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// Not a number if `values` is empty; every caller has checked that.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// `sorted` must not be empty.
#[expect(clippy::cast_possible_truncation, reason = "the rank lies within the slice")]
fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let rank = q.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (below, above) = (rank.floor() as usize, rank.ceil() as usize);
    if below == above {
        return sorted[below];
    }
    sorted[below] + (sorted[above] - sorted[below]) * rank.fract()
}

/// Fewer launches are outliers and no group.
const MODE_MIN: usize = 2;

/// How far apart two groups are at least, as a ratio.
const MODE_GAP: f64 = 1.5;

#[cfg(test)]
pub(crate) mod tests;
