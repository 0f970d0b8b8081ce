//! Known values, and the proof that the intervals cover what they promise.

use super::*;

/// A normal deviate by the Box-Muller method.
pub(crate) fn normal(rng: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// The median of one launch: AR(1) noise within it (each sample keeps 0.9 of the one before),
/// around a level that differs from launch to launch by `launch_spread`.
pub(crate) fn launch_median(rng: &mut fastrand::Rng, truth: f64, launch_spread: f64) -> f64 {
    let level = truth.ln() + launch_spread * normal(rng);
    let mut state = normal(rng) / (1.0_f64 - 0.9 * 0.9).sqrt();
    let mut samples = [0.0; 101];
    for sample in &mut samples {
        state = 0.9 * state + normal(rng);
        *sample = level + 0.01 * state;
    }
    samples.select_nth_unstable_by(50, f64::total_cmp).1.exp()
}

/// The share of repetitions whose interval holds the truth.
fn coverage(launches: usize, launch_spread: f64, repetitions: u32, resamples: usize) -> f64 {
    let truth = 1_000.0_f64;
    let mut rng = fastrand::Rng::with_seed(launches as u64);
    let mut covered = 0;
    for repetition in 0..repetitions {
        let logs: Vec<f64> =
            (0..launches).map(|_| launch_median(&mut rng, truth, launch_spread).ln()).collect();
        let ends = bootstrap_deviations(&logs, u64::from(repetition), resamples).unwrap();
        let [low, high] = ends.map(|end| mean(&logs) + end);
        covered += u32::from((low..=high).contains(&truth.ln()));
    }
    f64::from(covered) / f64::from(repetitions)
}

#[test]
fn five_launches_cover_the_truth_in_95_percent() {
    for launch_spread in [0.0, 0.03] {
        let share = coverage(5, launch_spread, 2_000, 400);
        assert!((0.93..=0.97).contains(&share), "spread {launch_spread}: covered {share}");
    }
}

#[test]
fn three_and_ten_launches_cover_the_truth_about_as_often() {
    for launches in [3, 4, 7, 10] {
        let share = coverage(launches, 0.03, 1_000, 400);
        assert!((0.92..=0.98).contains(&share), "{launches} launches: covered {share}");
    }
}

#[test]
fn an_estimate_is_the_same_for_the_same_seed() {
    let values = [100.0, 103.0, 99.0, 101.0, 98.0];
    let first = estimate(&values, &[], 0.0, 7).unwrap();
    assert_eq!(first, estimate(&values, &[], 0.0, 7).unwrap());
    let [low, high] = first.ci95.unwrap();
    assert!(low < first.center && first.center < high, "{first:?}");
    assert!(low > 95.0 && high < 106.0, "{first:?}");
}

#[test]
fn variance_is_split_between_and_within_launches() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut blocks = Vec::new();
    for _ in 0..200 {
        let level = 0.02 * normal(&mut rng);
        let launch: Vec<f64> =
            (0..20).map(|_| (level + 0.05 * normal(&mut rng)).exp() * 500.0).collect();
        blocks.push(launch);
    }
    let values: Vec<f64> = blocks
        .iter()
        .map(|launch| (launch.iter().map(|b| b.ln()).sum::<f64>() / 20.0).exp())
        .collect();
    let found = estimate(&values, &blocks, 0.0, 1).unwrap();
    let (within, between) = (
        found.within_launch_variance.unwrap().sqrt(),
        found.between_launch_variance.unwrap().sqrt(),
    );
    assert!((0.045..0.055).contains(&within), "{within}");
    assert!((0.016..0.024).contains(&between), "{between}");
}

#[test]
fn one_launch_gives_a_figure_without_an_interval() {
    let one = estimate(&[42.0], &[], 1.0, 0).unwrap();
    assert!((one.center - 42.0).abs() < 1e-9);
    assert_eq!((one.ci95, one.between_launch_variance), (None, None));
    assert_eq!(estimate(&[], &[], 0.0, 0), None);
    assert_eq!(estimate(&[1.0, 0.0], &[], 0.0, 0), None);
    assert_eq!(estimate(&[1.0, f64::INFINITY], &[], 0.0, 0), None);
}

#[test]
fn equal_launches_are_as_wide_as_the_timer_is_coarse() {
    let [low, high] = estimate(&[100.0; 5], &[], 10.0, 0).unwrap().ci95.unwrap();
    assert!((low - 95.0).abs() < 1e-9 && (high - 105.0).abs() < 1e-9);
}

#[test]
fn intervals_agree_when_they_overlap() {
    assert!(agree([1.0, 2.0], [2.0, 3.0]) && agree([2.0, 3.0], [1.0, 2.0]));
    assert!(agree([1.0, 9.0], [4.0, 5.0]));
    assert!(!agree([1.0, 2.0], [2.1, 3.0]) && !agree([2.1, 3.0], [1.0, 2.0]));
}

#[test]
fn medians_and_quantiles_have_their_known_values() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[1.0, f64::NAN]), None);
    assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
    assert_eq!(quantile(&[0.0, 10.0], 7.0), Some(10.0));
    assert_eq!(median_absolute_deviation(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
    assert!((harmonic_mean(&[40.0, 60.0]).unwrap() - 48.0).abs() < 1e-9);
    assert_eq!(harmonic_mean(&[40.0, 0.0]), None);
}

#[test]
fn student_quantiles_meet_the_tables() {
    assert_eq!(student_t_975(0), None);
    assert_eq!(student_t_975(4), Some(2.776_445));
    assert!((student_t_975(40).unwrap() - 2.021_075).abs() < 1e-4);
    assert!((student_t_975(1_000_000).unwrap() - NORMAL_975).abs() < 1e-4);
}
