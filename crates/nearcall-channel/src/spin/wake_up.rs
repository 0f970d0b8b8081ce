//! What it costs on this machine to wake a sleeping thread, from the call to its first step.
//!
//! Always true: measured once in a process, by two threads that wake each other, within about a
//! millisecond; until then a guess is known.
//! Not here: what is done with it (`spin.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nearcall_os::{clock, futex};

/// The cost in nanoseconds; zero while it was not measured.
static COST_NS: AtomicU64 = AtomicU64::new(0);

/// What a wake-up costs on this machine. Measured at the first call, which takes about a
/// millisecond and two threads; a load then.
pub fn wake_up_cost() -> Duration {
    if COST_NS.load(Ordering::Relaxed) == 0 {
        COST_NS.store(measure_ns().unwrap_or(GUESS_NS), Ordering::Relaxed);
    }
    Duration::from_nanos(known_ns())
}

/// What is known of it, in nanoseconds, without measuring.
pub(super) fn known_ns() -> u64 {
    match COST_NS.load(Ordering::Relaxed) {
        0 => GUESS_NS,
        cost_ns => cost_ns,
    }
}

/// Has it measured by another thread, once.
pub(super) fn measure_beside() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if COST_NS.load(Ordering::Relaxed) == 0 && !BEGUN.swap(true, Ordering::Relaxed) {
        let thread = thread::Builder::new().name("nearcall-wakeup".into());
        // Without a thread the guess has to do.
        let _ = thread.spawn(wake_up_cost);
    }
}

/// Where the two threads sleep: odd while it is the partner's turn.
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

/// Half of the usual round trip. `None` if no thread could be had.
fn measure_ns() -> Option<u64> {
    let table = Arc::new(Table { turn: AtomicU32::new(0) });
    let theirs = Arc::clone(&table);
    let partner = move || {
        for round in 0..ROUNDS_MAX {
            if !theirs.wait_for(2 * round + 1) {
                break;
            }
            theirs.give(2 * round + 2);
        }
    };
    let partner = thread::Builder::new().name("nearcall-wakeup".into()).spawn(partner).ok()?;
    let mut rounds_ns = Vec::new();
    let started_ns = clock::monotonic_ns();
    for round in 0..ROUNDS_MAX {
        let before_ns = clock::monotonic_ns();
        if before_ns - started_ns > BUDGET_NS && round >= ROUNDS_MIN {
            break;
        }
        table.give(2 * round + 1);
        if !table.wait_for(2 * round + 2) {
            break;
        }
        rounds_ns.push(clock::monotonic_ns() - before_ns);
    }
    table.give(OVER);
    let _ = partner.join();
    rounds_ns.sort_unstable();
    // The lower half: other load makes single rounds longer, never shorter.
    let usual_ns = rounds_ns.get(rounds_ns.len() / 4)? / 2;
    Some(usual_ns.clamp(COST_NS_MIN, COST_NS_MAX))
}

/// Ends the game.
const OVER: u32 = u32::MAX;

const ROUNDS_MIN: u32 = 4;
const ROUNDS_MAX: u32 = 24;

/// How long to measure, in nanoseconds.
const BUDGET_NS: u64 = 1_000_000;

/// Ends a game whose partner was lost.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a wake-up costs on many machines while both CPUs are awake, in nanoseconds.
const GUESS_NS: u64 = 10_000;

/// Below this no kernel wakes anybody.
const COST_NS_MIN: u64 = 1_000;

/// Virtual machines whose idle CPUs have to be fetched from their host come near this; above, it
/// was load.
const COST_NS_MAX: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn the_cost_is_measured_once_and_within_bounds() {
        let first = wake_up_cost();
        assert_eq!(wake_up_cost(), first);
        let bounds = Duration::from_nanos(COST_NS_MIN)..=Duration::from_nanos(COST_NS_MAX);
        assert!(bounds.contains(&first), "{first:?}");
    }
}
