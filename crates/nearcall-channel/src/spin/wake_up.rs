//! What it costs on this machine to wake a thread that sleeps on another CPU, from the call to the
//! thread's first step; and how many CPUs there are.
//!
//! **Invariants:** measured once in a process, by two threads that wake each other, within a few
//! milliseconds; until then a guess is known. The two run on CPUs of their own for that time,
//! wherever the caller is pinned: what is measured is the way between two ends on two CPUs. Where
//! it is stored it is known from the start, and no process measures it; only the CPUs are counted.
//! **Not here:** what is done with it (`spin.rs`), what is stored where (`spin/tuning.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall_os::{clock, cpu, futex};

use super::tuning::{self, WAKE_UP_NS_MAX, WAKE_UP_NS_MIN};

/// The cost in nanoseconds; zero while it was not measured.
static COST_NS: AtomicU64 = AtomicU64::new(0);

/// The number of CPUs that this process could use; as the cost.
static CPUS: AtomicU32 = AtomicU32::new(0);

/// The costs that are known of this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) cost_ns: u64,
    /// Number of CPUs that this process may use; taken as more than one until it is looked up.
    pub(super) cpus: u32,
    /// The time to spin, if it is stored.
    pub(super) spin_ns: Option<u64>,
}

/// Returns the cost of a wake-up on this machine. A [stored](super::tuning) cost is used; otherwise
/// it is measured at the first call, which takes a few milliseconds and two threads. Later calls
/// cost one load. After it no end that spins starts a thread for that.
pub fn wake_up_cost() -> Duration {
    let is_known = COST_NS.load(Ordering::Acquire) != 0;
    if !is_known && let Some(measuring) = begin(measure) {
        let _ = measuring.join();
    }
    Duration::from_nanos(known().cost_ns)
}

/// Measures it anew, whatever is known or stored. Takes a few milliseconds and two threads.
/// `None` if they could not be had.
#[must_use]
pub fn measure_wake_up_cost() -> Option<Duration> {
    let cost_ns = thread::scope(|scope| {
        let measuring = thread::Builder::new().spawn_scoped(scope, || look(None).0);
        measuring.ok()?.join().ok()?
    });
    cost_ns.map(Duration::from_nanos)
}

/// Returns what is known without measuring.
pub(super) fn known() -> Known {
    if cfg!(simulation) {
        // There is no machine to measure, and nothing happens while one thread spins.
        return Known { cost_ns: GUESS_NS, cpus: 2, spin_ns: Some(SIMULATED_SPIN_NS) };
    }
    let stored = tuning::stored();
    let spin_ns = stored.and_then(|stored| stored.spin_ns);
    match COST_NS.load(Ordering::Acquire) {
        0 => {
            let cost_ns = stored.map_or(GUESS_NS, |stored| stored.wake_up_ns);
            Known { cost_ns, cpus: 2, spin_ns }
        }
        cost_ns => Known { cost_ns, cpus: CPUS.load(Ordering::Relaxed), spin_ns },
    }
}

/// Has it measured by another thread, once. Whether it was.
pub(super) fn measure_beside() -> bool {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if cfg!(simulation) {
        return false;
    }
    let is_known = COST_NS.load(Ordering::Acquire) != 0;
    if !is_known && !BEGUN.swap(true, Ordering::Relaxed) {
        // Without a thread the guess has to do.
        drop(begin(measure));
    }
    is_known
}

fn begin(work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    thread::Builder::new().name("nearcall-wakeup".into()).spawn(work).ok()
}

/// In a thread of its own.
fn measure() {
    let (cost_ns, cpus) = look(tuning::stored().map(|stored| stored.wake_up_ns));
    CPUS.store(cpus, Ordering::Relaxed);
    COST_NS.store(cost_ns.unwrap_or(GUESS_NS), Ordering::Release);
}

/// The cost, measured unless it is known, and the CPUs. In a thread of its own, which is pinned
/// where it likes.
fn look(known_ns: Option<u64>) -> (Option<u64>, u32) {
    // More than any machine has: the kernel leaves those that we may use.
    let _ = cpu::unpin_current(&(0..CPUS_ASKED_FOR).collect::<Vec<_>>());
    let (all, here) = (cpu::allowed(), cpu::current_cpu());
    let there = all.iter().copied().find(|&cpu| cpu != here).unwrap_or(here);
    let measured = || {
        let _ = cpu::pin_current(here);
        measure_ns(there)
    };
    (known_ns.or_else(measured), all.len().try_into().unwrap_or(u32::MAX).max(1))
}

/// The word on which the two threads sleep: odd while it is the partner's turn.
struct Table {
    turn: AtomicU32,
}

impl Table {
    /// Sleeps until the turn is `wanted`, or for so long that something must be wrong.
    fn wait_for(&self, wanted: u32) -> bool {
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            if turn == wanted || turn == OVER {
                return turn == wanted;
            }
            if futex::wait(&self.turn, turn, Some(PATIENCE)) == futex::Wait::TimedOut {
                return false;
            }
        }
    }

    fn give(&self, turn: u32) {
        self.turn.store(turn, Ordering::Release);
        futex::wake(&self.turn, 1);
    }
}

/// Half of the usual round trip to a thread on `there`. `None` if no thread could be had.
fn measure_ns(there: usize) -> Option<u64> {
    let table = Arc::new(Table { turn: AtomicU32::new(0) });
    let theirs = Arc::clone(&table);
    let partner = move || {
        let _ = cpu::pin_current(there);
        for round in 0..ROUNDS {
            if !theirs.wait_for(2 * round + 1) {
                break;
            }
            theirs.give(2 * round + 2);
        }
    };
    let partner = begin(partner)?;
    let mut rounds_ns = Vec::new();
    for round in 0..ROUNDS {
        // Its CPU has nothing to do meanwhile, as it is between calls.
        clock::pause(IDLE);
        let before_ns = clock::monotonic_ns();
        table.give(2 * round + 1);
        if !table.wait_for(2 * round + 2) {
            break;
        }
        rounds_ns.push(clock::monotonic_ns() - before_ns);
    }
    table.give(OVER);
    let _ = partner.join();
    rounds_ns.sort_unstable();
    // The lower half: other load makes rounds longer, never shorter.
    let usual_ns = rounds_ns.get(rounds_ns.len() / 4)? / 2;
    Some(usual_ns.clamp(WAKE_UP_NS_MIN, WAKE_UP_NS_MAX))
}

/// Ends the game.
const OVER: u32 = u32::MAX;

/// Enough that a quarter of them is undisturbed.
const ROUNDS: u32 = 12;

/// Between two rounds: an idle CPU sleeps the deeper the longer, and 50 us is a short pause between
/// calls.
const IDLE: Duration = Duration::from_micros(50);

/// As many as a set of CPUs has room for.
const CPUS_ASKED_FOR: usize = 1024;

/// Ends a game whose partner was lost.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a wake-up costs on many machines while both CPUs are awake, in nanoseconds.
const GUESS_NS: u64 = 10_000;

/// The time to spin in a simulation, in nanoseconds: a few readings of its clock.
const SIMULATED_SPIN_NS: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn the_cost_is_measured_within_bounds_and_leaves_the_caller_where_it_is() {
        let pinned = || {
            cpu::pin_current(cpu::allowed()[0]).unwrap();
            let cost = wake_up_cost();
            (cost, cpu::allowed().len())
        };
        let (cost, allowed) = thread::spawn(pinned).join().unwrap();
        assert_eq!(allowed, 1);
        let bounds = Duration::from_nanos(WAKE_UP_NS_MIN)..=Duration::from_nanos(WAKE_UP_NS_MAX);
        assert!(bounds.contains(&cost), "{cost:?}");
        assert!(known().cpus >= 1);
        let anew = measure_wake_up_cost().unwrap();
        assert!(bounds.contains(&anew), "{anew:?}");
    }
}
