//! The whole of nearcall in a simulation: handshakes, channels, loops, clients and servers, with
//! faults from a seed; first safety, then liveness.
//!
//! While things go wrong: what a client knows to have arrived was served exactly once, nothing was
//! served twice, and no byte of one client reaches another. When nothing goes wrong any more: every
//! call ends, every client succeeds, and nothing is left of anything.
//! `cargo xtask simulate --hours N` runs more seeds, `--seed N` one of them. A failure prints its
//! seed. Only with `--cfg simulation`; see `nearcall_os::simulation`.
//!
//! **Invariant:** whatever system calls fail and whichever ends stop or die, a call is served once
//! at most, one that was answered was served, no byte of one client reaches another; and when
//! nothing fails any more, every call ends and nothing is left. *Checked by* `tests/simulation`,
//! which compares the books of both sides at the end; for longer by `cargo xtask simulate`.
#![cfg(simulation)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a run reports")]

use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use nearcall_os::simulation::{self, Report};
use nearcall_os::{Deadline, clock};
use nearcall_testkit::stress;

mod service;
mod simulator;
mod worker;
mod world;

use self::world::Seen;

/// Seeds that failed once.
const FOUND: &[u64] = &[];
/// The steps of a run of the tests.
const STEPS: u64 = 1_000_000;
/// Other numbers: steps, seconds instead of steps, the first seed, and whether it is the only one.
const STEPS_VARIABLE: &str = "NEARCALL_SIMULATION_STEPS";
const SECONDS: &str = "NEARCALL_SIMULATION_S";
const SEED: &str = "NEARCALL_SIMULATION_SEED";
/// A step of a simulation takes microseconds; if none ends for so long, a thread runs on by itself.
const HANG: Duration = Duration::from_secs(120);

#[test]
fn r30_every_call_ends_once_and_nothing_is_left_whatever_goes_wrong() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let _guard = HangGuard::start();
    if let Some(seed) = number(SEED) {
        let (report, seen) = check(seed);
        println!("seed {seed}: {report:?} {seen:?}");
        return;
    }
    let started = clock::now();
    let until = number(SECONDS).map(|seconds| Deadline::after(Duration::from_secs(seconds)));
    let steps = number(STEPS_VARIABLE).unwrap_or(STEPS);
    let first = if until.is_some() { fastrand::u64(..) >> 16 } else { 0 };
    let mut total = Total::default();
    for seed in FOUND.iter().copied().chain(first..) {
        total += check(seed);
        let is_done = match until {
            Some(until) => until.has_passed(),
            None => total.steps >= steps,
        };
        if is_done {
            break;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("from seed {first} in {seconds:.1} s: {total:?}");
    if total.steps >= STEPS {
        total.check();
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 1000..1000 + REPEATED {
        let first = world::run(seed);
        let again = world::run(seed);
        assert_eq!(first, again, "seed {seed}");
    }
}

/// Seeds that are run twice.
const REPEATED: u64 = 8;

/// Runs a seed; fails with the seed if anything is wrong.
fn check(seed: u64) -> (Report, Seen) {
    let run = catch_unwind(AssertUnwindSafe(|| world::run(seed)));
    let again = format!("repeat it by `cargo xtask simulate --seed {seed}`");
    let (report, seen, mut faults) = match run {
        Ok(run) => run,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("seed {seed} failed: {text}\n{again}");
        }
    };
    faults.truncate(FAULTS_SHOWN);
    assert!(faults.is_empty(), "seed {seed} failed: {faults:#?}\n{again}");
    (report, seen)
}

/// The first of them say what is wrong.
const FAULTS_SHOWN: usize = 8;

/// What all runs have seen.
#[derive(Debug, Default)]
struct Total {
    seeds: u64,
    steps: u64,
    elapsed_ns: u64,
    injected: [u64; 10],
    seen: [u64; 10],
}

impl AddAssign<(Report, Seen)> for Total {
    fn add_assign(&mut self, (report, seen): (Report, Seen)) {
        self.seeds += 1;
        self.steps += report.steps;
        self.elapsed_ns += report.elapsed_ns;
        let injected = report.injected.counts();
        self.injected.iter_mut().zip(injected).for_each(|(total, count)| *total += count);
        let seen = [
            seen.answered,
            seen.oneways,
            seen.items,
            seen.cancelled,
            seen.failed,
            seen.client_deaths,
            seen.server_deaths,
            seen.drains,
            seen.stops,
            seen.hostile,
        ];
        self.seen.iter_mut().zip(seen).for_each(|(total, count)| *total += count);
    }
}

impl Total {
    /// A million steps see everything.
    fn check(&self) {
        assert!(self.injected.iter().all(|&count| count > 20), "something hardly fails: {self:?}");
        assert!(self.seen.iter().all(|&count| count > 5), "something hardly happens: {self:?}");
    }
}

/// Ends the program if a simulation stands still, since its threads cannot be ended.
struct HangGuard {
    _end: mpsc::Sender<()>,
}

impl HangGuard {
    fn start() -> Self {
        let (end, is_over) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            let mut before = simulation::progress();
            while is_over.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
                let now = simulation::progress();
                if now == before {
                    eprintln!("a thread of the simulation runs or waits without a step");
                    std::process::abort();
                }
                before = now;
            }
        });
        Self { _end: end }
    }
}
