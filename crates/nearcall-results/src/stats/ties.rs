//! Samples of launches in groups whose members cannot be told apart, the best group first.
//!
//! A rank of figures that noise has put in order is no information. So the best is compared with
//! each other one, corrected for their number by the procedure of Holm, and for the choice of the
//! best among so many: the chance of any false difference is 5 %. What was measured in the same
//! launches is compared launch by launch, by Student's test, and anything else by Welch's. What
//! cannot be told from the best is as good as it; the rest is compared in the same way among
//! itself.
//!
//! **Invariant:** rows of a table are ranked only as far as they can be told apart, and a claim of
//! a study is refuted by nothing that its number of comparisons gives by chance. *Checked by*
//! `twenty_that_are_the_same_are_one_group`, `what_fails_by_chance_is_said_to`, in worlds without a
//! difference.

use super::two_samples::{self, SIGNIFICANCE};

/// One of those that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The figure.
    pub value: f64,
    /// One value per launch; may be empty.
    pub launches: &'a [f64],
    /// The processes of each launch, by which samples of the same launches are known.
    pub processes: &'a [[u32; 2]],
    /// Where the figure lies with 95 % confidence: decides where there are no launches.
    pub ci95: Option<[f64; 2]>,
}

/// The group of each sample; 0 is that of the best one.
#[must_use]
pub fn groups(samples: &[Sample<'_>], more_is_better: bool) -> Vec<usize> {
    let mut groups = vec![0; samples.len()];
    let mut left: Vec<usize> = (0..samples.len()).collect();
    let mut group = 0;
    let sign = if more_is_better { -1.0 } else { 1.0 };
    let by_value =
        |&a: &usize, &b: &usize| (sign * samples[a].value).total_cmp(&(sign * samples[b].value));
    while let Some(best) = left.iter().copied().min_by(by_value) {
        let p_values: Vec<f64> =
            left.iter().map(|&other| p_value(&samples[best], &samples[other])).collect();
        let others: Vec<usize> = (0..left.len()).filter(|&at| left[at] != best).collect();
        let corrected = holm(&others.iter().map(|&at| p_values[at]).collect::<Vec<f64>>());
        // Any of them might have come out best: as many comparisons as there are pairs.
        let picked = left.len() as f64 / 2.0;
        let is_apart = |at: usize| {
            let found = others.iter().position(|&other| other == at);
            found.is_some_and(|found| corrected[found] * picked < SIGNIFICANCE)
        };
        let (apart, alike): (Vec<usize>, Vec<usize>) =
            (0..left.len()).partition(|&at| is_apart(at));
        alike.iter().for_each(|&at| groups[left[at]] = group);
        left = apart.into_iter().map(|at| left[at]).collect();
        group += 1;
    }
    groups
}

/// Corrects p values for their number: what is below 5 % after it holds all together with 95 %
/// confidence.
pub(crate) fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut most = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        most = most.max(p_values[index] * (p_values.len() - rank) as f64).min(1.0);
        corrected[index] = most;
    }
    corrected
}

/// How likely two that do not differ would look as different as these.
fn p_value(a: &Sample<'_>, b: &Sample<'_>) -> f64 {
    let is_of_launches =
        |one: &Sample<'_>| !one.launches.is_empty() && one.launches.len() == one.processes.len();
    if is_of_launches(a) && is_of_launches(b) && a.processes == b.processes {
        if a.launches == b.launches {
            return 1.0;
        }
        let logs = a.launches.iter().zip(b.launches).map(|(a, b)| (a / b).ln());
        if let Some(p_value) = super::p_of_mean(&logs.collect::<Vec<f64>>(), 0.0) {
            return p_value;
        }
    }
    if let Some(ratio) = two_samples::ratio(a.launches, b.launches, [0.0; 2]) {
        return ratio.p_value;
    }
    let is_apart = a.ci95.zip(b.ci95).is_some_and(|(a, b)| !super::agree(a, b));
    if is_apart { 0.0 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::launch_median;

    fn of(samples: &[Vec<f64>], more_is_better: bool) -> Vec<usize> {
        let samples: Vec<Sample<'_>> = samples
            .iter()
            .map(|launches| Sample {
                value: two_samples::geometric_mean(launches).unwrap(),
                launches,
                processes: &[],
                ci95: None,
            })
            .collect();
        groups(&samples, more_is_better)
    }

    #[test]
    fn twenty_that_are_the_same_are_one_group() {
        let mut rng = fastrand::Rng::with_seed(9);
        let apart = (0..300)
            .filter(|_| {
                let launch = |_| (0..5).map(|_| launch_median(&mut rng, 60e3, 0.15)).collect();
                of(&(0..20).map(launch).collect::<Vec<Vec<f64>>>(), false).contains(&1)
            })
            .count();
        assert!(apart <= 18, "{apart} of 300 worlds without a difference have one");
    }

    #[test]
    fn what_differs_by_half_is_told_apart() {
        let mut rng = fastrand::Rng::with_seed(2);
        let found = (0..100)
            .filter(|_| {
                let mut launch = |ns| (0..8).map(|_| launch_median(&mut rng, ns, 0.1)).collect();
                let samples: [Vec<f64>; 4] = [60.0, 61.0, 90.0, 91.0].map(&mut launch);
                of(&samples, false) == [0, 0, 1, 1] && of(&samples, true) == [1, 1, 0, 0]
            })
            .count();
        assert!(found >= 80, "{found} of 100");
    }

    /// What a launch is slower by falls on both.
    #[test]
    fn what_shares_its_launches_is_told_apart_by_five_percent() {
        let processes = [[1, 2], [3, 4], [5, 6], [7, 8]];
        let sample = |launches, processes| Sample { value: 1.0, launches, processes, ci95: None };
        let (a, b) = ([50.0, 80.0, 65.0, 40.0], [52.6, 83.9, 68.3, 42.1]);
        let shared = [sample(&a, &processes), sample(&b, &processes)];
        assert_eq!(groups(&shared, false), [0, 1]);
        assert_eq!(groups(&[sample(&a, &processes), sample(&b, &[])], false), [0, 0]);
        assert_eq!(groups(&[shared[0], shared[0]], false), [0, 0]);
    }

    #[test]
    fn without_launches_intervals_decide_and_without_those_nothing_is_apart() {
        let sample = |value, ci95| Sample { value, launches: &[], processes: &[], ci95 };
        let samples = [
            sample(3.0, Some([2.5, 3.5])),
            sample(1.0, Some([0.9, 1.1])),
            sample(1.2, Some([1.0, 1.4])),
        ];
        assert_eq!(groups(&samples, false), [1, 0, 0]);
        assert_eq!(groups(&[sample(1.0, None), sample(9.0, None)], false), [0, 0]);
        assert_eq!(groups(&[], false), [0_usize; 0]);
    }

    #[test]
    fn corrected_p_values_meet_a_worked_example() {
        let found = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
