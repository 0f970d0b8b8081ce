//! Decides who wakes a thread that sleeps until the earliest of many moments: one word.
//!
//! Whoever waits for a moment puts it where the thread looks, then notes it here. The thread
//! forgets what was noted, looks, and notes the earliest moment that is left.
//! **Invariants:** the thread sleeps until the earliest moment that was noted at the latest, or is
//! woken; it is not woken for a later one.
//! **Not here:** where the moments are, and what wakes the thread (`nearcall`'s driver of async
//! connections). It stands in this crate since loom tries each interleaving here.

use crate::sync::{AtomicU64, Ordering};
use crate::wait::Deadline;

/// Shared by a thread that sleeps and those that note moments for it.
#[derive(Debug)]
pub struct DueTime(AtomicU64);

impl Default for DueTime {
    fn default() -> Self {
        Self::new()
    }
}

impl DueTime {
    /// Creates the word of a thread that waits for no moment.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(Deadline::NEVER.as_ns()))
    }

    /// Returns when the thread has to look, at the latest.
    #[must_use]
    pub fn get(&self) -> Deadline {
        Deadline::from_ns(self.0.load(Ordering::Acquire))
    }

    /// Notes a moment, after it was put where the thread looks. Returns whether it is earlier than
    /// what the thread may sleep until, so that the thread must be woken. One load if it is not.
    #[must_use]
    #[inline]
    pub fn note(&self, due: Deadline) -> bool {
        let ns = due.as_ns();
        ns < self.0.load(Ordering::Acquire) && ns < self.0.fetch_min(ns, Ordering::AcqRel)
    }

    /// Forgets what was noted, before the thread looks: what is noted from here on is noted anew,
    /// what was noted before is found by that look.
    pub fn begin_look(&self) {
        self.0.store(Deadline::NEVER.as_ns(), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_moment_wakes() {
        let [early, late] = [1, 2].map(Deadline::from_ns);
        let due = DueTime::new();
        assert!(!due.note(Deadline::NEVER) && due.note(late) && !due.note(late));
        assert!(due.note(early) && !due.note(late));
        assert_eq!(due.get(), early);
        due.begin_look();
        assert_eq!(due.get(), Deadline::NEVER);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread::{self, JoinHandle};

    /// What the thread and those that wait for moments share: the moments, and the bell.
    #[derive(Clone)]
    struct Shared {
        due: Arc<DueTime>,
        moments: Arc<Mutex<Vec<u64>>>,
        rung: Arc<Mutex<bool>>,
    }

    impl Shared {
        fn start_waiter(&self, moment: u64) -> JoinHandle<()> {
            let shared = self.clone();
            thread::spawn(move || {
                shared.moments.lock().unwrap().push(moment);
                if shared.due.note(Deadline::from_ns(moment)) {
                    *shared.rung.lock().unwrap() = true;
                }
            })
        }

        /// What the thread does when it wakes up at `now`.
        fn look(&self, now: u64) {
            if now < self.due.get().as_ns() {
                return;
            }
            self.due.begin_look();
            let mut moments = self.moments.lock().unwrap();
            moments.retain(|moment| *moment > now);
            if let Some(next) = moments.iter().min() {
                let _ = self.due.note(Deadline::from_ns(*next));
            }
        }

        fn earliest(&self) -> u64 {
            self.moments.lock().unwrap().iter().copied().min().unwrap_or(u64::MAX)
        }
    }

    /// The thread wakes up for the first of `moments`; others are noted meanwhile.
    fn none_is_slept_through(moments: [u64; 2]) {
        let mut model = loom::model::Builder::new();
        // Without the bound it takes minutes.
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Shared {
                due: Arc::new(DueTime::new()),
                moments: Arc::new(Mutex::new(vec![5])),
                rung: Arc::new(Mutex::new(false)),
            };
            assert!(shared.due.note(Deadline::from_ns(5)));
            let waiters = moments.map(|moment| shared.start_waiter(moment));
            shared.look(5);
            let sleeps_until = shared.due.get().as_ns();
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            let is_woken = *shared.rung.lock().unwrap();
            assert!(is_woken || sleeps_until <= shared.earliest(), "slept through a moment");
            // Woken, it sees what was noted.
            assert!(shared.due.get().as_ns() <= shared.earliest());
        });
    }

    #[test]
    fn loom_no_moment_is_slept_through() {
        none_is_slept_through([7, 6]);
    }

    #[test]
    fn loom_a_moment_that_has_come_meanwhile_is_not_slept_through() {
        none_is_slept_through([4, 6]);
    }
}
