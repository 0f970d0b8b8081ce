//! How far a known sleep is off by each clock, as study 003 did it.
//!
//! The study gives mean and deviation of measured minus asked for each clock, from sleeps of its
//! own. That is mostly the wake-up, which is late by what the timer and the scheduler need. Here
//! all clocks read the same sleeps, so what they see alike is the wake-up's, and the rest theirs.

use nearcall_os::clock;
use nearcall_os::tsc::Tsc;
use nearcall_results::findings::clocks::{ClockName, SleepError, SleepFinding};

use super::reader::Moment;
use crate::stats;

/// Sleeps `count` times until a time that lies `asked_us` after the first reading. `None` if
/// interrupted before the second sleep ended.
pub(super) fn measure(
    asked_us: f64,
    count: u32,
    tsc: Option<Tsc>,
    interrupted: &dyn Fn() -> bool,
) -> Option<SleepFinding> {
    #[allow(clippy::cast_possible_truncation, reason = "below a second, and whole")]
    let asked_ns = (asked_us * 1_000.0) as u64;
    let mut errors_ns = Vec::new();
    for _ in 0..count {
        if interrupted() {
            break;
        }
        let _ = Moment::read(tsc.as_ref());
        let begin = Moment::read(tsc.as_ref());
        // The first of the readings is the clock that the timer counts in.
        clock::pause_until(begin.clock_gettime_ns.saturating_add(asked_ns));
        // A processor that slept has forgotten much: the first readings are slow, each by its own.
        let _ = Moment::read(tsc.as_ref());
        let end = Moment::read(tsc.as_ref());
        let error = |measured: Option<f64>| Some(measured? - asked_ns as f64);
        errors_ns.push(end.since_ns(&begin, tsc.as_ref()).map(error));
    }
    judge(asked_us, &errors_ns)
}

/// Splits the errors of each sleep, by each clock, in the wake-up's part and the clock's. `None`
/// with fewer than two sleeps.
fn judge(asked_us: f64, errors_ns: &[[Option<f64>; 3]]) -> Option<SleepFinding> {
    if errors_ns.len() < 2 {
        return None;
    }
    let alike = |errors: &[Option<f64>; 3]| {
        let known: Vec<f64> = errors.iter().copied().flatten().collect();
        stats::median(&known)
    };
    let wake_ups: Vec<f64> = errors_ns.iter().filter_map(alike).collect();
    let (wake_up_mean, wake_up_sd) = stats::mean_and_deviation(&wake_ups)?;
    let of_clock = |(at, clock): (usize, ClockName)| {
        let errors: Option<Vec<f64>> = errors_ns.iter().map(|errors| errors[at]).collect();
        let errors = errors?;
        let own: Vec<f64> =
            errors.iter().zip(&wake_ups).map(|(error, alike)| error - alike).collect();
        let (mean_error, error_sd) = stats::mean_and_deviation(&errors)?;
        let (own_mean, own_sd) = stats::mean_and_deviation(&own)?;
        Some(SleepError {
            clock,
            mean_error_us: mean_error / NS_PER_US,
            error_sd_us: error_sd / NS_PER_US,
            own_mean_us: own_mean / NS_PER_US,
            own_sd_us: own_sd / NS_PER_US,
        })
    };
    Some(SleepFinding {
        asked_us,
        sleeps: u32::try_from(errors_ns.len()).unwrap_or(u32::MAX),
        wake_up_mean_us: wake_up_mean / NS_PER_US,
        wake_up_sd_us: wake_up_sd / NS_PER_US,
        clocks: ClockName::ALL.into_iter().enumerate().filter_map(of_clock).collect(),
    })
}

/// Length in microseconds and number; two seconds in all.
pub(super) const SLEEPS: [(f64, u32); 4] =
    [(100.0, 200), (1_000.0, 100), (10_000.0, 100), (50_000.0, 16)];

/// With `quick`.
pub(super) const SLEEPS_QUICK: [(f64, u32); 2] = [(1_000.0, 20), (10_000.0, 20)];

const NS_PER_US: f64 = 1_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_clocks_see_is_the_wake_up_and_the_rest_is_the_clocks() {
        // Wake-ups 60 and 80 µs late; the second clock goes wrong by 1 µs, to and fro.
        let errors = [
            [Some(60_000.0), Some(61_000.0), Some(60_000.0)],
            [Some(80_000.0), Some(79_000.0), Some(80_000.0)],
        ];
        let found = judge(10_000.0, &errors).unwrap();
        assert_eq!((found.sleeps, found.wake_up_mean_us), (2, 70.0));
        let [exact, coarse, counter] = &found.clocks[..] else { panic!("{found:?}") };
        assert_eq!((exact.mean_error_us, exact.own_sd_us), (70.0, 0.0));
        assert_eq!((coarse.mean_error_us, coarse.own_mean_us), (70.0, 0.0));
        assert!((coarse.own_sd_us - 2_f64.sqrt()).abs() < 1e-9, "{coarse:?}");
        assert!((counter.error_sd_us - 200_f64.sqrt()).abs() < 1e-9, "{counter:?}");
    }

    #[test]
    fn a_clock_that_is_refused_is_left_out() {
        let errors = [[Some(60_000.0), Some(61_000.0), None]; 2];
        let found = judge(1_000.0, &errors).unwrap();
        let names: Vec<ClockName> = found.clocks.iter().map(|error| error.clock).collect();
        assert_eq!(names, [ClockName::ClockGettime, ClockName::Gettimeofday]);
        assert_eq!(judge(1_000.0, &errors[..1]), None);
    }
}
