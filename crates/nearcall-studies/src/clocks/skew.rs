//! How far the clocks of two CPUs can be apart: a bound from exchanged stamps.
//!
//! Two pinned threads hand a number to and fro through memory. The first reads its clock, asks, the
//! second reads its clock and answers, the first reads again. The second's reading lies between the
//! two, so each exchange bounds the offset from both sides; all bounds must hold, so the tightest
//! of each side counts. Always true: both threads end within the deadline, whatever the other does.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nearcall_os::clock;
use nearcall_os::cpu;
use nearcall_os::tsc::Tsc;
use nearcall_results::findings::clocks::{OffsetBound, PairSkew, SkewFinding};

use super::reader::{Counter, Monotonic, Read};
use crate::machine;

/// Measures the pairs of `allowed`: each, or with the first only if there are many CPUs.
pub(super) fn measure(
    allowed: &[usize],
    tsc: Option<Tsc>,
    quick: bool,
    interrupted: &dyn Fn() -> bool,
) -> SkewFinding {
    let count = allowed.len() as u64;
    let pairs_in_all = count * count.saturating_sub(1) / 2;
    let mut found = SkewFinding { pairs_in_all, ..SkewFinding::default() };
    if allowed.len() < 2 {
        found.skipped = Some("only one CPU is allowed".to_owned());
        return found;
    }
    let topology = machine::topology();
    let rounds = if quick { ROUNDS_QUICK } else { ROUNDS };
    for [one, other] in pairs(allowed) {
        if interrupted() {
            break;
        }
        let mut failed = None;
        let mut bound = |outcome: Result<OffsetBound, String>| match outcome {
            Ok(bound) => Some(bound),
            Err(reason) => {
                failed = Some(reason);
                None
            }
        };
        let counter = tsc.and_then(|tsc| bound(exchange(Counter(tsc), [one, other], rounds)));
        let clock_gettime = bound(exchange(Monotonic, [one, other], rounds));
        let number = |cpu: usize| u32::try_from(cpu).unwrap_or(u32::MAX);
        found.pairs.push(PairSkew {
            cpus: [number(one), number(other)],
            class: topology.class(one, other).name().to_owned(),
            tsc: counter,
            clock_gettime,
            failed,
        });
    }
    found
}

/// Every pair, or of many CPUs each with the first.
fn pairs(cpus: &[usize]) -> Vec<[usize; 2]> {
    let firsts = if cpus.len() > CPUS_ALL_PAIRS_MAX { &cpus[..1] } else { cpus };
    let with_later = |(at, &one): (usize, &usize)| {
        let later = cpus[at + 1..].iter().take(PARTNERS_MAX);
        later.map(move |&other| [one, other]).collect::<Vec<_>>()
    };
    firsts.iter().enumerate().flat_map(with_later).collect()
}

/// One exchange: the first CPU's clock before and after, the second's in between.
#[derive(Clone, Copy, Debug)]
struct Round {
    asked: u64,
    answered: u64,
    heard: u64,
}

/// What all rounds together leave for the second clock minus the first. `None` without rounds.
fn bound(rounds: &[Round], unit_ns: f64) -> Option<OffsetBound> {
    let ns = |later: u64, earlier: u64| {
        let units = i128::from(later) - i128::from(earlier);
        units as f64 * unit_ns
    };
    let low_ns = rounds.iter().map(|round| ns(round.answered, round.heard));
    let high_ns = rounds.iter().map(|round| ns(round.answered, round.asked));
    let trip_ns = rounds.iter().map(|round| ns(round.heard, round.asked));
    let (low_ns, high_ns) = (low_ns.reduce(f64::max)?, high_ns.reduce(f64::min)?);
    Some(OffsetBound {
        low_ns,
        high_ns,
        bound_ns: low_ns.abs().max(high_ns.abs()),
        round_trip_min_ns: trip_ns.reduce(f64::min)?,
        rounds: u32::try_from(rounds.len()).unwrap_or(u32::MAX),
    })
}

/// What both threads write. Each line has one writer.
#[derive(Default)]
struct Table {
    asked: Line,
    answered: Line,
    stamp: Line,
    /// One of the two has given up.
    gone: AtomicBool,
}

/// Pairs of cache lines are fetched together.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

fn exchange(
    reader: impl Read + Copy + Send + Sync,
    cpus: [usize; 2],
    rounds: u64,
) -> Result<OffsetBound, String> {
    let table = Table::default();
    let until_ns = clock::monotonic_ns().saturating_add(DEADLINE_NS);
    let [asked, answered] = thread::scope(|scope| {
        let answerer = scope.spawn(|| {
            table.leave_if_failed(|| {
                pin(cpus[1])?;
                table.answer(reader, rounds, until_ns)
            })
        });
        let asker = scope.spawn(|| {
            table.leave_if_failed(|| {
                pin(cpus[0])?;
                table.ask(reader, rounds, until_ns)
            })
        });
        [asker, answerer].map(|thread| thread.join().unwrap_or_else(|_| Err(BROKEN.to_owned())))
    });
    answered?;
    bound(&asked?, reader.unit_ns()).ok_or_else(|| LATE.to_owned())
}

fn pin(cpu: usize) -> Result<(), String> {
    cpu::pin_current(cpu).map_err(|error| format!("cannot use CPU {cpu}: {error}"))
}

impl Table {
    fn leave_if_failed(
        &self,
        part: impl FnOnce() -> Result<Vec<Round>, String>,
    ) -> Result<Vec<Round>, String> {
        let outcome = part();
        if outcome.is_err() {
            self.gone.store(true, Ordering::Release);
        }
        outcome
    }

    fn ask(&self, reader: impl Read, rounds: u64, until_ns: u64) -> Result<Vec<Round>, String> {
        let mut found = Vec::with_capacity(usize::try_from(rounds).unwrap_or(0));
        for number in 1..=rounds {
            let asked = reader.read();
            self.asked.0.store(number, Ordering::Release);
            self.wait(&self.answered, number, until_ns)?;
            let heard = reader.read();
            let answered = self.stamp.0.load(Ordering::Relaxed);
            found.push(Round { asked, answered, heard });
        }
        Ok(found)
    }

    fn answer(&self, reader: impl Read, rounds: u64, until_ns: u64) -> Result<Vec<Round>, String> {
        for number in 1..=rounds {
            self.wait(&self.asked, number, until_ns)?;
            self.stamp.0.store(reader.read(), Ordering::Relaxed);
            self.answered.0.store(number, Ordering::Release);
        }
        Ok(Vec::new())
    }

    /// Waits until `line` holds `number`.
    #[inline(always)]
    fn wait(&self, line: &Line, number: u64, until_ns: u64) -> Result<(), String> {
        let mut looks = 0_u32;
        while line.0.load(Ordering::Acquire) != number {
            hint::spin_loop();
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS_PER_CHECK) {
                if self.gone.load(Ordering::Acquire) {
                    return Err("the other thread gave up".to_owned());
                }
                if clock::monotonic_ns() >= until_ns {
                    return Err(LATE.to_owned());
                }
            }
        }
        Ok(())
    }
}

/// Some hundred nanoseconds each.
const ROUNDS: u64 = 50_000;

/// With `quick`.
const ROUNDS_QUICK: u64 = 5_000;

/// Up to so many CPUs every pair is measured: 28 pairs.
const CPUS_ALL_PAIRS_MAX: usize = 8;

/// Of more CPUs the first is measured with so many others.
const PARTNERS_MAX: usize = 64;

/// A CPU that is busy otherwise must not hold us up.
const DEADLINE_NS: u64 = 2_000_000_000;

/// Some microseconds.
const LOOKS_PER_CHECK: u32 = 1_024;

const LATE: &str = "the two CPUs did not run at the same time for long enough";
const BROKEN: &str = "a thread has panicked";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_lies_between_the_tightest_bounds_of_all_rounds() {
        // The second clock is ahead by 30; ways of 50 and 70, then of 10 and 200.
        let rounds = [
            Round { asked: 1_000, answered: 1_080, heard: 1_120 },
            Round { asked: 2_000, answered: 2_040, heard: 2_210 },
        ];
        let found = bound(&rounds, 0.5).unwrap();
        assert_eq!((found.low_ns, found.high_ns), (-20.0, 20.0));
        assert_eq!((found.bound_ns, found.round_trip_min_ns, found.rounds), (20.0, 60.0, 2));
        assert_eq!(bound(&[], 1.0), None);
    }

    #[test]
    fn a_clock_far_behind_gives_a_negative_offset() {
        let found = bound(&[Round { asked: 5_000, answered: 1_000, heard: 5_100 }], 1.0).unwrap();
        assert_eq!((found.low_ns, found.high_ns, found.bound_ns), (-4_100.0, -4_000.0, 4_100.0));
    }

    #[test]
    fn many_cpus_are_measured_with_the_first_only() {
        assert_eq!(pairs(&[0, 2, 5]), [[0, 2], [0, 5], [2, 5]]);
        let many: Vec<usize> = (0..200).collect();
        let found = pairs(&many);
        assert_eq!(found.len(), PARTNERS_MAX);
        assert!(found.iter().all(|pair| pair[0] == 0));
    }

    #[test]
    fn one_cpu_is_skipped_with_the_reason() {
        let found = measure(&[3], None, true, &|| false);
        assert_eq!(found.skipped.as_deref(), Some("only one CPU is allowed"));
    }

    #[test]
    fn a_cpu_that_is_not_there_ends_both_threads() {
        let failed = exchange(Monotonic, [cpu::allowed()[0], 1 << 20], 10).unwrap_err();
        assert!(failed.contains("CPU 1048576") || failed.contains("gave up"), "{failed}");
    }
}
