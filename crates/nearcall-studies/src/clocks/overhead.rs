//! What reading a clock costs: 100,000 readings back to back, as study 002 did it.
//!
//! The study says that it removed outliers by a heuristic, and not which. Ours is stated in
//! [`Overhead::outlier_above_ns`]: wide enough that the ticks of a coarse clock are none.

use nearcall_results::findings::clocks::Overhead;

use super::reader::Read;
use crate::stats;

/// Reads `count` times. `step_ns` is the step of the clock, `batch_ns` what was found by batches.
pub(super) fn measure(
    reader: &impl Read,
    count: usize,
    step_ns: Option<f64>,
    batch_ns: Option<f64>,
) -> Option<Overhead> {
    // Twice: the first time touches the memory and warms the code.
    let mut readings = vec![1; count];
    for _ in 0..2 {
        readings.iter_mut().for_each(|reading| *reading = reader.read());
    }
    let unit_ns = reader.unit_ns();
    let differences = readings.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64);
    let times_ns: Vec<f64> = differences.map(|units| units * unit_ns).collect();
    judge(&times_ns, step_ns.unwrap_or(unit_ns), batch_ns)
}

/// Makes figures of the times between readings. `None` without any.
fn judge(times_ns: &[f64], step_ns: f64, batch_ns: Option<f64>) -> Option<Overhead> {
    let median_ns = stats::median(times_ns)?;
    let deviation_ns = stats::median_absolute_deviation(times_ns)?;
    let slack_ns = (OUTLIER_MEDIANS * median_ns)
        .max(OUTLIER_DEVIATIONS * deviation_ns)
        .max(OUTLIER_STEPS * step_ns);
    let outlier_above_ns = median_ns + slack_ns;
    let kept: Vec<f64> = times_ns.iter().copied().filter(|&ns| ns <= outlier_above_ns).collect();
    let (mean_ns, sd_ns) = stats::mean_and_deviation(&kept)?;
    Some(Overhead {
        readings: times_ns.len() as u64 + 1,
        min_ns: times_ns.iter().copied().fold(f64::INFINITY, f64::min),
        mean_ns,
        sd_ns,
        median_ns,
        outliers: (times_ns.len() - kept.len()) as u64,
        outlier_above_ns,
        batch_ns,
    })
}

/// A reading that takes four times as long as usual was interrupted.
const OUTLIER_MEDIANS: f64 = 3.0;

/// Where readings differ much by themselves.
const OUTLIER_DEVIATIONS: f64 = 10.0;

/// A coarse clock stands mostly and moves by one step, which is its way and no outlier.
const OUTLIER_STEPS: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_an_outlier_and_a_slow_reading_is_none() {
        let mut times_ns = vec![25.0; 990];
        times_ns.extend([40.0; 8]);
        times_ns.extend([9_000.0, 250_000.0]);
        let found = judge(&times_ns, 1.0, Some(24.0)).unwrap();
        assert_eq!((found.outliers, found.readings), (2, 1_001));
        assert_eq!((found.min_ns, found.median_ns), (25.0, 25.0));
        assert!((found.mean_ns - 25.12).abs() < 0.01 && found.sd_ns < 2.0, "{found:?}");
        assert_eq!(found.outlier_above_ns, 100.0);
    }

    #[test]
    fn the_ticks_of_a_coarse_clock_are_no_outliers() {
        let times_ns: Vec<f64> =
            (0..1_000).map(|at| if at % 40 == 0 { 1_000.0 } else { 0.0 }).collect();
        let found = judge(&times_ns, 1_000.0, None).unwrap();
        assert_eq!((found.outliers, found.median_ns, found.mean_ns), (0, 0.0, 25.0));
        assert_eq!(judge(&[], 1.0, None), None);
    }
}
