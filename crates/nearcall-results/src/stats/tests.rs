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

/// The share of repetitions whose interval, as cells get it, holds the truth, and the share below
/// it.
fn coverage(repetitions: u32, mut launches: impl FnMut() -> Vec<f64>, truth: f64) -> [f64; 2] {
    let (mut covered, mut below) = (0, 0);
    for _ in 0..repetitions {
        let [low, high] = estimate(&launches(), &[], 0.0).unwrap().ci95.unwrap();
        covered += u32::from((low..=high).contains(&truth));
        below += u32::from(high < truth);
    }
    [covered, below].map(|count| f64::from(count) / f64::from(repetitions))
}

#[test]
fn intervals_of_cells_cover_the_truth_in_95_percent() {
    for (launches, spread) in [(3, 0.03), (4, 0.15), (5, 0.0), (5, 0.03), (8, 0.15), (20, 0.03)] {
        let mut rng = fastrand::Rng::with_seed(launches);
        let launches = || (0..launches).map(|_| launch_median(&mut rng, 1_000.0, spread)).collect();
        let [share, below] = coverage(2_000, launches, 1_000.0);
        assert!((0.935..=0.965).contains(&share), "spread {spread}: covered {share}");
        assert!((0.015..=0.035).contains(&below), "spread {spread}: too low in {below}");
    }
}

/// What no interval of a few launches can do, as a warning.
#[test]
fn a_rare_second_mode_is_covered_less_often() {
    let mut rng = fastrand::Rng::with_seed(6);
    let mode = |rng: &mut fastrand::Rng| if rng.f64() < 0.1 { 3.0 } else { 1.0 };
    let launches = || (0..5).map(|_| mode(&mut rng) * launch_median(&mut rng, 1e3, 0.03)).collect();
    let [share, below] = coverage(2_000, launches, 1e3 * 3.0_f64.powf(0.1));
    assert!((0.3..0.6).contains(&share) && below > 0.4, "covered {share}, too low in {below}");
}

#[test]
fn an_interval_meets_a_worked_example() {
    // Logarithms 1, 2, 3, 4, 5: deviation 1.581139, error 0.707107, t(4) 2.776445.
    let values = [1.0_f64, 2.0, 3.0, 4.0, 5.0].map(f64::exp);
    let found = estimate(&values, &[], 0.0).unwrap();
    assert!((found.center.ln() - 3.0).abs() < 1e-9, "{found:?}");
    let [low, high] = found.ci95.unwrap().map(f64::ln);
    assert!((3.0 - low - 1.963_243).abs() < 1e-6 && (high - 3.0 - 1.963_243).abs() < 1e-6);
    assert!((half_width(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap() - 1.963_243).abs() < 1e-6);
    assert_eq!(half_width(&[1.0]), None);
    // The end of the interval is where p is 5 %.
    let p = p_of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0], 3.0 + 1.963_243).unwrap();
    assert!((p - 0.05).abs() < 1e-6, "{p}");
    assert_eq!((p_of_mean(&[2.0; 3], 1.0), p_of_mean(&[1.0], 0.0)), (Some(0.0), None));
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
    let found = estimate(&values, &blocks, 0.0).unwrap();
    let (within, between) = (
        found.within_launch_variance.unwrap().sqrt(),
        found.between_launch_variance.unwrap().sqrt(),
    );
    assert!((0.045..0.055).contains(&within), "{within}");
    assert!((0.016..0.024).contains(&between), "{between}");
}

#[test]
fn one_launch_gives_a_figure_without_an_interval() {
    let one = estimate(&[42.0], &[], 1.0).unwrap();
    assert!((one.center - 42.0).abs() < 1e-9);
    assert_eq!((one.ci95, one.between_launch_variance), (None, None));
    assert_eq!(estimate(&[], &[], 0.0), None);
    assert_eq!(estimate(&[1.0, 0.0], &[], 0.0), None);
    assert_eq!(estimate(&[1.0, f64::INFINITY], &[], 0.0), None);
}

#[test]
fn equal_launches_are_as_wide_as_the_timer_is_coarse() {
    let [low, high] = estimate(&[100.0; 5], &[], 10.0).unwrap().ci95.unwrap();
    assert!((low - 95.0).abs() < 1e-9 && (high - 105.0).abs() < 1e-9);
}

#[test]
fn two_groups_of_launches_are_found_and_noise_is_none() {
    assert!(has_two_modes(&[140.0, 440.0, 150.0, 471.0, 145.0]));
    assert!(!has_two_modes(&[140.0, 150.0, 145.0, 141.0, 440.0]), "one is an outlier");
    assert!(!has_two_modes(&[100.0, 140.0, 200.0, 280.0, 400.0]), "spread evenly");
    assert!(!has_two_modes(&[100.0, 101.0, 130.0, 131.0]), "near each other");
    assert!(!has_two_modes(&[1.0, 9.0]) && !has_two_modes(&[0.0; 6]));
    let mut rng = fastrand::Rng::with_seed(3);
    let found = (0..1_000).filter(|_| {
        has_two_modes(&(0..10).map(|_| (0.2 * normal(&mut rng)).exp()).collect::<Vec<f64>>())
    });
    assert!(found.count() <= 20, "noise of 20 % has no two modes");
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
    for (degrees, quantile) in [(4, 2.776_445), (40, 2.021_075), (1_000_000, 1.959_964)] {
        assert!((student_t_975(degrees).unwrap() - quantile).abs() < 1e-5, "{degrees}");
    }
}
