//! Two independent samples of launches: their ratio, how sure it is, and whether it is one at all.
//!
//! Everything is done on the logarithms of launch values (medians or rates), so that a ratio and
//! its inverse are judged alike.
//!
//! **Invariants:** the interval of [`ratio`] and its p value are two sides of one test, so a p
//! below 5 % means an interval without 1.
//!
//! Why Welch's t test. With five launches on each side the rank test of Mann and Whitney has only
//! 252 orders: its smallest two-sided p is 2/252 = 0.008, with three and three it is 0.1. Corrected
//! for a hundred cells none of them can become small, whatever happened. Welch's t test on
//! logarithms has no such bound, does not ask for equal spreads, and errs towards finding nothing
//! where one launch is far off: that launch widens the spread. The correction for many cells is
//! explained at `benjamini_hochberg`.

use super::{half_width, is_positive, mean, student, variance};

/// The ratio of two typical launches, with what is known of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// After to before: the ratio of the geometric means of the launch values.
    pub ratio: f64,
    /// Where it lies with 95 % confidence.
    pub ci95: [f64; 2],
    /// How likely launches that do not differ would look at least as different.
    pub p_value: f64,
    /// Variance of the natural logarithm between launches of one run, the mean over both.
    pub launch_variance: f64,
}

/// Compares the launch values of two runs by Welch's t test on their logarithms.
///
/// `resolution` is the step in which the values of each come, in their unit; the interval is never
/// narrower than half of both. `None` if either has fewer than two values or one is not above
/// zero.
#[must_use]
pub fn ratio(before: &[f64], after: &[f64], resolution: [f64; 2]) -> Option<Ratio> {
    let (before, after) = (Side::new(before, resolution[0])?, Side::new(after, resolution[1])?);
    let difference = after.middle - before.middle;
    let (b, a) = (before.variance / before.count, after.variance / after.count);
    let error = (b + a).sqrt();
    let degrees =
        (b + a).powi(2) / (b.powi(2) / (before.count - 1.0) + a.powi(2) / (after.count - 1.0));
    let half_step = before.half_step + after.half_step;
    let half = student::two_sided_quantile(SIGNIFICANCE, degrees) * error + half_step;
    let t = (difference.abs() - half_step).max(0.0) / error;
    Some(Ratio {
        ratio: difference.exp(),
        ci95: [(difference - half).exp(), (difference + half).exp()],
        p_value: student::two_sided_p(t, degrees),
        launch_variance: f64::midpoint(before.variance, after.variance),
    })
}

/// Whether a sample is sure not to have the mean 0, by its t interval of 95 %. False with fewer
/// than two values.
pub(crate) fn excludes_zero(values: &[f64]) -> bool {
    half_width(values).is_some_and(|half| mean(values).abs() > half)
}

/// The typical launch. `None` if there is none or a value is not above zero.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let is_fit = !values.is_empty() && values.iter().all(|&value| is_positive(value));
    is_fit.then(|| mean(&logs).exp())
}

/// How many launches each side needs so that a true ratio of `ratio` is told from 1 four times out
/// of five, if launches vary by `launch_variance`. An order of magnitude: it knows the variance
/// from a few launches itself, and nothing of a correction for many cells.
pub(crate) fn launches_needed(launch_variance: f64, ratio: f64) -> f64 {
    let effect = ratio.ln().abs().max(f64::MIN_POSITIVE);
    let by_normal = 2.0 * launch_variance * ((NORMAL_975 + NORMAL_80) / effect).powi(2);
    (by_normal + FEW_MORE).ceil()
}

/// Corrects p values for their number by the step-up procedure of Benjamini and Hochberg: of what
/// is below 5 % after it, at most 5 % is false in expectation.
///
/// Holm's procedure would keep the chance of any false one at 5 %. It was not taken: a run has
/// hundreds of cells and a real change touches many at once, and there Holm demands of each what
/// it would demand alone. If nothing at all has changed both give the same promise, 5 % for any
/// false one, which is what a check in CI needs. Cells of a machine move together, which the
/// procedure bears.
pub(crate) fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| p_values[b].total_cmp(&p_values[a]));
    let mut corrected = vec![1.0; count];
    let mut least = 1.0_f64;
    for (above, &index) in order.iter().enumerate() {
        let rank = count - above;
        least = least.min(p_values[index] * count as f64 / rank as f64);
        corrected[index] = least;
    }
    corrected
}

/// How often a difference may be found where there is none.
pub const SIGNIFICANCE: f64 = 0.05;

struct Side {
    count: f64,
    middle: f64,
    variance: f64,
    /// Half a step of the clock, as a share of the value.
    half_step: f64,
}

impl Side {
    fn new(values: &[f64], resolution: f64) -> Option<Self> {
        if values.len() < 2 || !values.iter().all(|&value| is_positive(value)) {
            return None;
        }
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let middle = mean(&logs);
        let step = if is_positive(resolution) { resolution } else { 0.0 };
        Some(Self {
            count: values.len() as f64,
            middle,
            variance: variance(&logs)?.max(VARIANCE_MIN),
            half_step: step / 2.0 / middle.exp(),
        })
    }
}

/// Medians are read from histograms of three digits. A spread below a thousandth of the value is
/// what those digits hide, and not certainty.
const VARIANCE_MIN: f64 = 0.001 * 0.001;

/// The 97.5 % and the 80 % quantile of the normal distribution.
const NORMAL_975: f64 = 1.959_964;
const NORMAL_80: f64 = 0.841_621;

/// What a few launches need more than the normal distribution says.
const FEW_MORE: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::launch_median;

    #[test]
    fn welch_meets_a_worked_example() {
        // Logarithms 1, 2, 3, 4 and 3, 4, 5, 8: t = 1.9868, 4.9005 degrees, p = 0.104833.
        let before = [1.0_f64, 2.0, 3.0, 4.0].map(f64::exp);
        let after = [3.0_f64, 4.0, 5.0, 8.0].map(f64::exp);
        let found = ratio(&before, &after, [0.0; 2]).unwrap();
        assert!((found.ratio - 2.5_f64.exp()).abs() < 1e-9, "{found:?}");
        assert!((found.p_value - 0.104_833).abs() < 1e-6, "{found:?}");
        assert!(found.ci95[0] < 1.0 && found.ci95[1] > found.ratio, "{found:?}");
        let inverse = ratio(&after, &before, [0.0; 2]).unwrap();
        assert!((inverse.ratio * found.ratio - 1.0).abs() < 1e-9);
        assert!((inverse.p_value - found.p_value).abs() < 1e-12);
    }

    #[test]
    fn the_interval_of_a_ratio_covers_the_truth_in_95_percent() {
        for (launches, spread) in [(5, 0.0), (5, 0.03), (10, 0.15)] {
            let share = coverage([launches; 2], [spread; 2]);
            assert!((0.93..=0.97).contains(&share), "{launches} launches, {spread}: {share}");
        }
        // Welch's degrees make it a little too wide here, never too narrow.
        let share = coverage([3, 3], [0.03, 0.03]);
        assert!((0.94..=0.985).contains(&share), "3 launches: {share}");
        let share = coverage([3, 10], [0.03, 0.03]);
        assert!((0.92..=0.98).contains(&share), "3 and 10 launches: {share}");
        let share = coverage([5, 5], [0.0, 0.15]);
        assert!((0.92..=0.98).contains(&share), "unequal spreads: {share}");
    }

    /// The share of repetitions whose interval holds the true ratio of 1.1.
    fn coverage(launches: [usize; 2], spreads: [f64; 2]) -> f64 {
        let seed = launches[0] * 100 + launches[1];
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let mut covered = 0_u32;
        for _ in 0..REPETITIONS {
            let [before, after] = [(0, 1_000.0), (1, 1_100.0)].map(|(side, truth)| {
                let launch = |_| launch_median(&mut rng, truth, spreads[side]);
                (0..launches[side]).map(launch).collect::<Vec<f64>>()
            });
            let [low, high] = ratio(&before, &after, [0.0; 2]).unwrap().ci95;
            covered += u32::from((low..=high).contains(&1.1));
        }
        f64::from(covered) / f64::from(REPETITIONS)
    }

    const REPETITIONS: u32 = 1_000;

    #[test]
    fn values_without_spread_are_as_sure_as_their_digits() {
        let found = ratio(&[100.0; 5], &[100.0; 5], [0.0; 2]).unwrap();
        assert!((found.ratio - 1.0).abs() < 1e-12 && (found.p_value - 1.0).abs() < 1e-9);
        assert!(found.ci95[0] > 0.998 && found.ci95[1] < 1.002, "{found:?}");
        let coarse = ratio(&[100.0; 5], &[110.0; 5], [20.0; 2]).unwrap();
        assert!(coarse.p_value > 0.9, "a step of the clock is no difference: {coarse:?}");
        assert!(coarse.ci95[0] < 1.0, "{coarse:?}");
    }

    #[test]
    fn too_few_or_impossible_values_give_no_ratio() {
        assert_eq!(ratio(&[1.0], &[1.0, 2.0], [0.0; 2]), None);
        assert_eq!(ratio(&[1.0, 0.0], &[1.0, 2.0], [0.0; 2]), None);
        assert_eq!(ratio(&[1.0, 2.0], &[1.0, f64::INFINITY], [0.0; 2]), None);
    }

    #[test]
    fn a_sample_around_zero_does_not_exclude_it() {
        assert!(excludes_zero(&[0.4, 0.41, 0.39]) && excludes_zero(&[-0.1; 3]));
        assert!(!excludes_zero(&[0.4, -0.7, 0.9]) && !excludes_zero(&[0.4]));
        assert!(!excludes_zero(&[0.0; 3]));
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert!((geometric_mean(&[1.0, 4.0]).unwrap() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn corrected_p_values_meet_a_worked_example() {
        let corrected = benjamini_hochberg(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in corrected.iter().zip([0.02, 0.04, 0.04, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{corrected:?}");
        }
        assert_eq!(benjamini_hochberg(&[]), [0.0; 0]);
        assert_eq!(benjamini_hochberg(&[0.9, 1.0]), [1.0, 1.0]);
    }

    #[test]
    fn more_spread_needs_more_launches() {
        assert!((launches_needed(0.03_f64.powi(2), 1.1) - 4.0).abs() < 1.5);
        assert!(launches_needed(0.15_f64.powi(2), 1.1) > 35.0);
        assert!(launches_needed(0.15_f64.powi(2), 1.03) > 300.0);
    }
}
