//! The resolution of a clock, found in the ways of two studies.
//!
//! Study 002 took the smallest run of `i++` that registers; the readings alone must not, so a run
//! counts that lasts longer than none. Study 003 shrank the code between two readings; what is left
//! is the shortest time above zero, readings included. Both are functions of a clock and of work,
//! so that invented ones can be judged.

use std::hint::black_box;

use nearcall_results::findings::clocks::Interval;

use super::reader::Read;
use crate::timers::step_units;

/// The work of both studies. Each step goes through memory, as without an optimising compiler.
pub(super) fn increments(count: u64) {
    let mut number = 0_u64;
    while number < count {
        number = black_box(number + 1);
    }
}

/// The smallest run of `work` whose median time, and that of the next longer one, is above that of
/// no work; and by how much. `None` if no run up to a million steps is. Less than half a step of
/// the clock is its rounding.
pub(super) fn smallest_run(
    reader: &impl Read,
    step_ns: Option<f64>,
    work: &impl Fn(u64),
) -> Option<Interval> {
    let empty = median_units(reader, work, 0);
    let rounding = step_ns.unwrap_or(0.0) / reader.unit_ns() / 2.0;
    let longer = |count| {
        let units = median_units(reader, work, count).saturating_sub(empty);
        if units as f64 >= rounding { units } else { 0 }
    };
    let mut count = 1;
    let mut before: Option<(u64, u64)> = None;
    while count < RUN_MAX {
        let units = longer(count);
        match before {
            Some((count, units_before)) if units > 0 => {
                let ns = units_before as f64 * reader.unit_ns();
                return Some(Interval { increments: count, ns });
            }
            _ => before = (units > 0).then_some((count, units)),
        }
        count += 1 + count / 8;
    }
    None
}

/// The shortest time above zero that is read around less and less work, down to none.
pub(super) fn shrunk(reader: &impl Read, work: &impl Fn(u64)) -> Option<Interval> {
    let mut count = SHRUNK_FROM;
    let mut smallest: Option<(u64, u64)> = None;
    loop {
        for _ in 0..REPEATS {
            let units = time(reader, work, count);
            if units > 0 && smallest.is_none_or(|(_, known)| units < known) {
                smallest = Some((count, units));
            }
        }
        if count == 0 {
            break;
        }
        count /= 2;
    }
    let (increments, units) = smallest?;
    Some(Interval { increments, ns: units as f64 * reader.unit_ns() })
}

/// The step in which a clock moves, in nanoseconds. `None` if it stands.
///
/// Short works of many lengths are timed: their times come in steps of the clock. The smallest
/// difference of two times is no measure of that where a step is no whole number of units: the
/// counter of some processors moves by 24 or 25 ticks, so times differ by a single tick too.
pub(super) fn step_ns(reader: &impl Read, work: &impl Fn(u64)) -> Option<f64> {
    let mut times = Vec::with_capacity(STEP_WORKS * STEP_REPEATS);
    for count in 0..STEP_WORKS as u64 {
        times.extend((0..STEP_REPEATS).map(|_| time(reader, work, count)));
    }
    step_units(times).map(|units| units * reader.unit_ns())
}

fn median_units(reader: &impl Read, work: &impl Fn(u64), count: u64) -> u64 {
    let mut times: Vec<u64> = (0..REPEATS).map(|_| time(reader, work, count)).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

#[inline(always)]
fn time(reader: &impl Read, work: &impl Fn(u64), count: u64) -> u64 {
    let begin = reader.read();
    work(count);
    reader.read().saturating_sub(begin)
}

/// Lengths of work to find a step with: their times overlap and cover some steps.
const STEP_WORKS: usize = 200;

/// Times of each.
const STEP_REPEATS: usize = 20;

/// Repeats of each run: odd, so that the median is one of them.
const REPEATS: usize = 401;

/// A run of some milliseconds. A clock that does not show it is of no use here.
const RUN_MAX: u64 = 1_000_000;

/// Some microseconds: every clock here shows them.
const SHRUNK_FROM: u64 = 4_096;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A clock that a reading moves by `reading_ns`, a step of work by 1 ns.
    struct Invented<'a> {
        now_ns: &'a Cell<u64>,
        reading_ns: u64,
        step_ns: u64,
    }

    impl Read for Invented<'_> {
        fn read(&self) -> u64 {
            self.now_ns.set(self.now_ns.get() + self.reading_ns);
            self.now_ns.get() / self.step_ns
        }

        fn unit_ns(&self) -> f64 {
            self.step_ns as f64
        }

        fn read_ns(&self) -> u64 {
            self.read() * self.step_ns
        }
    }

    #[test]
    fn a_clock_of_one_microsecond_resolves_1000_ns_both_ways() {
        let now_ns = Cell::new(0);
        let clock = Invented { now_ns: &now_ns, reading_ns: 37, step_ns: 1_000 };
        let work = |count| now_ns.set(now_ns.get() + count);
        let run = smallest_run(&clock, Some(clock.unit_ns()), &work).unwrap();
        assert_eq!(run.ns, 1_000.0);
        assert!((400..600).contains(&run.increments), "{run:?}");
        assert_eq!(shrunk(&clock, &work).unwrap().ns, 1_000.0);
    }

    #[test]
    fn a_fine_clock_shows_one_step_but_not_less_than_a_reading() {
        let now_ns = Cell::new(0);
        let clock = Invented { now_ns: &now_ns, reading_ns: 25, step_ns: 1 };
        let work = |count| now_ns.set(now_ns.get() + count);
        let run = Interval { increments: 1, ns: 1.0 };
        assert_eq!(smallest_run(&clock, Some(clock.unit_ns()), &work), Some(run));
        assert_eq!(shrunk(&clock, &work), Some(Interval { increments: 0, ns: 25.0 }));
    }

    #[test]
    fn a_clock_that_stands_resolves_nothing() {
        let now_ns = Cell::new(5);
        let clock = Invented { now_ns: &now_ns, reading_ns: 0, step_ns: 1 };
        assert_eq!(smallest_run(&clock, None, &|_| ()), None);
        assert_eq!(shrunk(&clock, &|_| ()), None);
    }
}
