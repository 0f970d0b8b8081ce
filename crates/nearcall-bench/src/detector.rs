//! Watches how quiet the used CPUs are: a fixed loop on each, and what the kernel counted.
//!
//! Meant to run before and after a cell, while its ends do not: [`watch`] occupies the CPUs.
//! **Invariants:** what the machine does not tell is `None`. How facts become a grade is in
//! `noise.rs`; switches and waiting of the two ends come from the ends themselves.

use std::thread;
use std::time::Duration;

use nearcall_os::cpu_load::{self, CpuTimes, Pressure, RunQueue, Throttling};
use nearcall_os::{clock, cpu};

use crate::noise::{Gaps, NoiseFacts};

/// What the loops saw, one per CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// In the order asked for. A CPU that could not be used is left out.
    pub cpus: Vec<CpuWatch>,
}

impl Watch {
    /// Whether something else had a fifth of the time of one of these CPUs, or more: figures of a
    /// launch that begins now would be those of its neighbour.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        let share = |gaps: &Gaps| gaps.total_ns as f64 / gaps.observed_ns.max(1) as f64;
        self.cpus.iter().any(|cpu| share(&cpu.gaps) > TAKEN_SHARE)
    }
}

/// The share of a CPU that makes a D of the tails of a cell.
const TAKEN_SHARE: f64 = 0.2;

/// What the loop on one CPU saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuWatch {
    /// The CPU.
    pub cpu: usize,
    /// Its gaps.
    pub gaps: Gaps,
    /// How long the fixed work took, at best of some tries: the inverse of the clock speed.
    pub work_ns: u64,
}

/// Runs the loops on all of `cpus` at once, for `duration` after the fixed work (below 1 ms).
///
/// Starts a thread per CPU. Without CPUs, or where none can be used, the watch is empty.
#[must_use]
pub fn watch(cpus: &[usize], duration: Duration) -> Watch {
    let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let mut distinct = cpus.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let start = |cpu: usize| {
        let work = move || watch_one(cpu, duration_ns);
        thread::Builder::new().name("gap detector".to_owned()).spawn(work).ok()
    };
    // All start before the first is waited for.
    let threads: Vec<_> = distinct.into_iter().filter_map(start).collect();
    let found = threads.into_iter().filter_map(|thread| thread.join().ok().flatten());
    Watch { cpus: found.collect() }
}

fn watch_one(cpu: usize, duration_ns: u64) -> Option<CpuWatch> {
    cpu::pin_current(cpu).ok()?;
    let work_ns = (0..WORK_TRIES).map(|_| fixed_work_ns()).min()?;
    let mut gaps = Gaps::default();
    let mut last = clock::monotonic_ns();
    while gaps.observed_ns < duration_ns {
        let now = clock::monotonic_ns();
        gaps.step(now.saturating_sub(last));
        last = now;
    }
    Some(CpuWatch { cpu, gaps, work_ns })
}

/// Work whose length in cycles is fixed, because each step needs the result of the one before.
fn fixed_work_ns() -> u64 {
    let start = clock::monotonic_ns();
    let mut state = std::hint::black_box(start | 1);
    for _ in 0..WORK_STEPS {
        state = std::hint::black_box(state.wrapping_mul(MULTIPLIER).wrapping_add(1));
    }
    std::hint::black_box(state);
    clock::monotonic_ns().saturating_sub(start)
}

/// How much the clock speed of the CPUs differs between two watches, as a fraction of the faster
/// one; the largest over the CPUs. `None` if no CPU is in both.
#[must_use]
pub fn drift(before: &Watch, after: &Watch) -> Option<f64> {
    let pairs = before.cpus.iter().filter_map(|first| {
        let second = after.cpus.iter().find(|second| second.cpu == first.cpu)?;
        let (fast, slow) = (first.work_ns.min(second.work_ns), first.work_ns.max(second.work_ns));
        (fast > 0).then(|| (slow - fast) as f64 / fast as f64)
    });
    pairs.reduce(f64::max)
}

/// A larger [`drift`] makes the tag "clock_drift".
pub const DRIFT_MAX: f64 = 0.02;

/// What the kernel has counted up to now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// When they were read.
    pub at_ns: u64,
    /// Time of each CPU.
    pub cpu_times: Vec<CpuTimes>,
    /// How long tasks of the whole system waited for a CPU.
    pub pressure: Option<Pressure>,
    /// How long the control group was stopped.
    pub throttling: Option<Throttling>,
    /// What wants to run now.
    pub run_queue: Option<RunQueue>,
    /// The unit of `cpu_times`.
    pub ticks_per_s: u64,
}

impl Counters {
    /// Reads them. Some small files: not while measuring.
    #[must_use]
    pub fn read() -> Self {
        Self {
            at_ns: clock::monotonic_ns(),
            cpu_times: cpu_load::cpu_times(),
            pressure: cpu_load::cpu_pressure(),
            throttling: cpu_load::throttling(),
            run_queue: cpu_load::run_queue(),
            ticks_per_s: cpu_load::ticks_per_s(),
        }
    }
}

/// The noise facts of a cell from watches before and after it, and from counters read at its start
/// and at its end. Of several CPUs the most disturbed one counts.
///
/// Left out, for the runner to fill in from the ends: `involuntary_switches`, `run_delay_ns`.
#[must_use]
pub fn facts(watches: &[&Watch], start: &Counters, end: &Counters, cpus: &[usize]) -> NoiseFacts {
    let gaps = worst_gaps(watches);
    let steal = |&cpu: &usize| {
        let of = |counters: &Counters| {
            counters.cpu_times.iter().find(|times| times.cpu == cpu).map(|times| times.steal)
        };
        Some(of(end)?.saturating_sub(of(start)?))
    };
    let tick_ns = 1_000_000_000_u64.checked_div(end.ticks_per_s);
    let steal_ns = cpus.iter().filter_map(steal).max();
    let waited_us = |counters: &Counters| Some(counters.pressure?.some_total_us);
    let stopped_ns = |counters: &Counters| Some(counters.throttling?.stopped_ns);
    let since = |of: &dyn Fn(&Counters) -> Option<u64>| Some(of(end)?.saturating_sub(of(start)?));
    NoiseFacts {
        observed_ns: gaps.map_or(0, |gaps| gaps.observed_ns),
        gaps: gaps.map(|gaps| gaps.count),
        gap_ns: gaps.map(|gaps| gaps.total_ns),
        steal_ns: steal_ns.zip(tick_ns).map(|(ticks, tick_ns)| ticks.saturating_mul(tick_ns)),
        cell_ns: end.at_ns.saturating_sub(start.at_ns),
        involuntary_switches: None,
        run_delay_ns: None,
        psi_cpu_some_ns: since(&waited_us).map(|us| us.saturating_mul(1_000)),
        throttled_ns: since(&stopped_ns),
        run_queue_others: mean_others(start, end),
    }
}

/// The gaps of the CPU from which the largest share was taken, over all watches together.
fn worst_gaps(watches: &[&Watch]) -> Option<Gaps> {
    let mut sums: Vec<(usize, Gaps)> = Vec::new();
    for found in watches.iter().flat_map(|watch| &watch.cpus) {
        match sums.iter_mut().find(|(cpu, _)| *cpu == found.cpu) {
            Some((_, sum)) => *sum = together(*sum, found.gaps),
            None => sums.push((found.cpu, found.gaps)),
        }
    }
    let share = |gaps: &Gaps| gaps.total_ns as f64 / gaps.observed_ns.max(1) as f64;
    sums.into_iter().map(|(_, gaps)| gaps).max_by(|a, b| share(a).total_cmp(&share(b)))
}

fn together(a: Gaps, b: Gaps) -> Gaps {
    Gaps {
        observed_ns: a.observed_ns.saturating_add(b.observed_ns),
        count: a.count.saturating_add(b.count),
        total_ns: a.total_ns.saturating_add(b.total_ns),
        longest_ns: a.longest_ns.max(b.longest_ns),
    }
}

/// Other tasks that wanted to run at both moments, per CPU of the system. The reader itself is one
/// of those that the kernel counts.
fn mean_others(start: &Counters, end: &Counters) -> Option<f64> {
    let others = |counters: &Counters| {
        let others = counters.run_queue?.runnable.saturating_sub(1);
        let cpus = counters.cpu_times.len();
        (cpus > 0).then(|| others as f64 / cpus as f64)
    };
    Some((others(start)? + others(end)?) / 2.0)
}

/// Steps of the fixed work: about 30 µs, so that most tries meet no timer tick.
const WORK_STEPS: u32 = 20_000;

/// Tries, of which the shortest counts.
const WORK_TRIES: u32 = 8;

/// Any odd number with many bits set; this one is Knuth's.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Grade, grade};

    fn seen(cpu: usize, observed_ns: u64, total_ns: u64, work_ns: u64) -> CpuWatch {
        CpuWatch { cpu, gaps: Gaps { observed_ns, count: 1, total_ns, longest_ns: 9 }, work_ns }
    }

    fn counters(at_ns: u64, steal: [u64; 2], waited_us: u64, runnable: u64) -> Counters {
        let times = |(cpu, steal)| CpuTimes { cpu, busy: 0, idle: 0, steal };
        Counters {
            at_ns,
            cpu_times: (0..).zip(steal).map(times).collect(),
            pressure: Some(Pressure { some_percent_10s: 0.0, some_total_us: waited_us }),
            throttling: None,
            run_queue: Some(RunQueue { load_1min: 0.0, runnable, threads: 99 }),
            ticks_per_s: 100,
        }
    }

    #[test]
    fn the_most_disturbed_cpu_gives_the_facts() {
        let before = Watch { cpus: vec![seen(0, 1_000, 10, 1), seen(1, 1_000, 300, 1)] };
        let after = Watch { cpus: vec![seen(0, 1_000, 20, 1), seen(1, 1_000, 500, 1)] };
        let (start, end) = (counters(5, [3, 7], 100, 1), counters(1_005, [4, 10], 300, 5));
        let found = facts(&[&before, &after], &start, &end, &[0, 1]);
        assert_eq!((found.observed_ns, found.gaps, found.gap_ns), (2_000, Some(2), Some(800)));
        assert_eq!(found.steal_ns, Some(30_000_000));
        assert_eq!((found.cell_ns, found.psi_cpu_some_ns), (1_000, Some(200_000)));
        assert_eq!((found.throttled_ns, found.run_queue_others), (None, Some(1.0)));
    }

    #[test]
    fn a_machine_that_tells_nothing_gives_no_facts() {
        let nothing = Counters::default();
        let found = facts(&[&Watch::default()], &nothing, &nothing, &[0]);
        assert_eq!(found, NoiseFacts::default());
        assert_eq!(watch(&[], Duration::from_millis(1)), Watch::default());
        assert_eq!(watch(&[100_000], Duration::from_millis(1)), Watch::default());
    }

    #[test]
    fn drift_is_the_largest_of_the_cpus_in_both() {
        let before = Watch { cpus: vec![seen(0, 1, 0, 1_000), seen(1, 1, 0, 1_000)] };
        let after = Watch { cpus: vec![seen(1, 1, 0, 1_030), seen(0, 1, 0, 990)] };
        let found = drift(&before, &after).unwrap();
        assert!((found - 0.03).abs() < 1e-9 && found > DRIFT_MAX, "{found}");
        assert_eq!(drift(&before, &Watch::default()), None);
    }

    /// Needs no quiet machine: only that a busy CPU looks worse than not at all.
    #[test]
    fn a_burner_on_the_same_cpu_is_seen_as_gaps() {
        let Some(&cpu) = cpu::allowed().first() else { return };
        let stop = &std::sync::atomic::AtomicBool::new(false);
        let (tell, told) = std::sync::mpsc::channel();
        let seen = thread::scope(|scope| {
            scope.spawn(move || {
                cpu::pin_current(cpu).unwrap();
                tell.send(()).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    clock::spin_hint();
                }
            });
            told.recv().unwrap();
            let seen = watch(&[cpu], Duration::from_millis(200));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            seen
        });
        let nothing = Counters::default();
        let found = facts(&[&seen], &nothing, &nothing, &[cpu]);
        assert_eq!(grade(&found).unwrap().grade, Grade::D, "{found:?}");
        assert!(seen.is_taken() && !Watch::default().is_taken());
    }
}
