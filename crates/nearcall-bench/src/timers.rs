//! Measures every clock before anything else is measured, and judges what it may time.
//!
//! **Invariants:** a figure per operation below ten steps of its clock is refused ([`allowed`]).
//! Reading clocks is in `nearcall_os::clock` and `nearcall_os::tsc`.

use nearcall_os::clock::{self, Clock, ClockCost};
use nearcall_os::tsc::{Tsc, TscRefusal};

use crate::run::Timer;
use crate::stats;

/// Measures all clocks. Takes about a third of a second, most of it the calibration of the TSC.
///
/// The one to use is marked: the TSC if it can be trusted, otherwise the monotonic clock.
#[must_use]
pub fn measure() -> Vec<Timer> {
    measure_with(&Tsc::calibrate())
}

/// As [`measure`], with a TSC that was calibrated before. Takes about 50 ms.
#[must_use]
pub fn measure_with(tsc: &Result<Tsc, TscRefusal>) -> Vec<Timer> {
    let mut timers = Vec::new();
    let tsc_step_ns = match tsc {
        Ok(tsc) => {
            let read = || tsc.to_ns(tsc.stop().ticks);
            let timer = timer("tsc", clock::measure_with(read), fine_step_ns(read));
            let step_ns = timer.granularity_ns;
            timers.push(Timer { used: true, ..timer });
            step_ns
        }
        Err(refusal) => {
            let source = "tsc".to_owned();
            let unusable = Some(refusal.to_string());
            timers.push(Timer { source, unusable, ..Timer::default() });
            None
        }
    };
    for clock in MEASURED {
        let cost = clock::measure(clock);
        let mut timer = timer(clock.name(), cost, fine_step_ns(|| clock.read_ns()));
        // The kernel computes nanoseconds from the counter: rounding makes steps that are smaller
        // than those of the counter itself, and no measure of it.
        timer.granularity_ns = match (timer.granularity_ns, tsc_step_ns) {
            (Some(own), Some(counter)) => Some(own.max(counter)),
            (own, _) => own,
        };
        timer.used = clock == Clock::Monotonic && tsc.is_err();
        timers.push(timer);
    }
    timers
}

/// Whether a figure of `ns` per operation may be given that comes from one pair of readings of this
/// clock. Otherwise it must come from a batch, whose whole time is judged instead.
#[must_use]
pub fn allowed(ns: f64, timer: &Timer) -> bool {
    timer.granularity_ns.is_some_and(|step| ns >= step * STEPS_MIN)
}

fn timer(source: &str, cost: ClockCost, fine_step_ns: Option<f64>) -> Timer {
    // A coarse clock stands between two readings, so its own steps are the truth. A fine one
    // moves at every reading, so the steps tell only what a reading costs.
    let coarse_step_ns = cost.granularity_ns.filter(|&step| step as f64 > cost.overhead_ns * 4.0);
    Timer {
        source: source.to_owned(),
        overhead_ns: Some(cost.overhead_ns),
        granularity_ns: coarse_step_ns.map(|step| step as f64).or(fine_step_ns),
        used: false,
        unusable: None,
    }
}

/// The step of a clock that moves at every reading: reads it in pairs with more and more work in
/// between, and looks at which lengths there are.
fn fine_step_ns(mut read: impl FnMut() -> u64) -> Option<f64> {
    let mut lengths = Vec::with_capacity(PAIRS_PER_WORK * WORK_MAX);
    for work in 0..WORK_MAX {
        for _ in 0..PAIRS_PER_WORK {
            let start = read();
            for step in 0..work {
                std::hint::black_box(step);
            }
            lengths.push(read().saturating_sub(start));
        }
    }
    step_units(lengths)
}

/// Returns the step of a clock that gave these times: the distance of groups, if times come in
/// groups; else their smallest difference, zero being a time.
#[must_use]
pub fn step_units(mut times: Vec<u64>) -> Option<f64> {
    times.sort_unstable();
    let shortest = times.iter().copied().find(|&time| time > 0);
    // What an interrupt made long stands alone at the end.
    times.truncate(times.len() - times.len() / 10);
    let mut groups: Vec<Vec<u64>> = Vec::new();
    for &time in &times {
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(|&last| time - last <= 1) => group.push(time),
            _ => groups.push(vec![time]),
        }
    }
    let middle = |group: &Vec<u64>| group.iter().sum::<u64>() as f64 / group.len() as f64;
    let gaps: Vec<f64> =
        groups.windows(2).map(|pair| middle(&pair[1]) - middle(&pair[0])).collect();
    let widths: Vec<f64> =
        groups.iter().map(|group| (group[group.len() - 1] - group[0]) as f64).collect();
    if let (Some(gap), Some(width)) = (stats::median(&gaps), stats::median(&widths))
        && groups.len() >= GROUPS_MIN
        && gap >= (width * GAP_WIDTHS_MIN).max(GAP_WIDTHS_MIN)
    {
        return Some(gap);
    }
    times.insert(0, 0);
    times.dedup();
    let step = times.windows(2).map(|pair| pair[1] - pair[0]).min();
    // A coarse clock seldom moves within work this short.
    step.or(shortest).map(|units| units as f64)
}

/// A figure has at least this many steps of its clock, so that the step is at most 10 % of it.
const STEPS_MIN: f64 = 10.0;

/// Clocks that a run could use, and the coarse one for comparison.
const MEASURED: [Clock; 3] = [Clock::Monotonic, Clock::MonotonicRaw, Clock::MonotonicCoarse];

/// Amounts of work between the readings of a pair: their lengths overlap, so every step shows up.
const WORK_MAX: usize = 200;

/// Pairs for each amount of work.
const PAIRS_PER_WORK: usize = 20;

/// Fewer groups tell nothing of their distance.
const GROUPS_MIN: usize = 3;

/// Groups are so many of their widths, or units, apart: otherwise they are chance.
const GAP_WIDTHS_MIN: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn clock_of(granularity_ns: Option<f64>) -> Timer {
        Timer { source: "made up".to_owned(), granularity_ns, ..Timer::default() }
    }

    #[test]
    fn a_clock_of_one_microsecond_times_nothing_below_ten() {
        let mut now_ns = 0;
        let mut read = || {
            now_ns += 37;
            now_ns / 1_000 * 1_000
        };
        let cost = ClockCost { overhead_ns: 37.0, granularity_ns: Some(1_000) };
        let timer = timer("made up", cost, fine_step_ns(&mut read));
        assert_eq!(timer.granularity_ns, Some(1_000.0));
        assert!(!allowed(9_999.0, &timer) && !allowed(140.0, &timer));
        assert!(allowed(10_000.0, &timer));
    }

    #[test]
    fn a_fine_clock_is_not_blamed_for_the_cost_of_reading_it() {
        let (mut now_ns, mut readings) = (0, 0_u64);
        let mut read = || {
            readings += 1;
            now_ns += 25 + readings % 3;
            now_ns
        };
        let cost = ClockCost { overhead_ns: 25.0, granularity_ns: Some(25) };
        assert_eq!(timer("made up", cost, fine_step_ns(&mut read)).granularity_ns, Some(1.0));
    }

    #[test]
    fn nothing_is_allowed_where_the_step_is_unknown() {
        assert!(!allowed(1e9, &clock_of(None)));
    }

    #[test]
    fn one_clock_of_this_machine_is_the_one_to_use() {
        let timers = measure_with(&Err(TscRefusal::NoCounter));
        let used: Vec<_> = timers.iter().filter(|timer| timer.used).collect();
        assert_eq!(used.len(), 1);
        assert_eq!(used[0].source, "monotonic");
        assert!(used[0].overhead_ns.is_some_and(|ns| ns > 0.0), "{used:?}");
        assert!(timers[0].unusable.is_some());
        let coarse = timers.iter().find(|timer| timer.source == "monotonic_coarse").unwrap();
        assert!(!allowed(1_000_000.0, coarse), "{coarse:?}");
    }

    #[test]
    fn a_counter_that_moves_by_many_ticks_at_once_has_that_step() {
        // 24.45 ticks at a time, as where 100 MHz are counted at 2.445 GHz.
        let times = (0..4_000_u64).map(|at| (at % 7 + 2, at % 3 / 2));
        let ticks = |(steps, one): (u64, u64)| steps * 2_445 / 100 + one;
        let found = step_units(times.map(ticks).collect()).unwrap();
        assert!((found - 24.45).abs() < 0.5, "{found}");
    }

    #[test]
    fn a_step_is_a_unit_where_times_come_in_all_lengths() {
        assert_eq!(step_units((0..4_000).map(|at| 25 + at % 90).collect()), Some(1.0));
        assert_eq!(step_units((0..4_000).map(|at| 24 + at % 90 * 2).collect()), Some(2.0));
        assert_eq!(step_units((0..4_000).map(|at| at % 2).collect()), Some(1.0));
        assert_eq!(step_units(vec![0; 100]), None);
        assert_eq!(step_units(Vec::new()), None);
    }
}
