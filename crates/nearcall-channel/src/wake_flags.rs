//! Decides who wakes a loop for what was posted to it: two flags in one word.
//!
//! A poster sets "posted"; the loop sets "asleep" before it waits in the kernel. Whoever comes
//! second sees the flag of the other: the loop does not sleep, or the poster wakes it. Of several
//! posters to a loop that sleeps the first one wakes it.
//! **Invariants:** after a post the loop looks before it sleeps, or is woken; a loop that is awake
//! is not woken.
//! **Not here:** the queue of the posts and the descriptor that wakes the loop, which are the
//! loop's own. It stands in this crate since loom tries each interleaving here.

use crate::sync::{AtomicU8, Ordering};

/// Something was posted that the loop has not taken.
const POSTED: u8 = 1;
/// The loop waits in the kernel, or is about to.
const ASLEEP: u8 = 2;

/// Shared by a loop and the threads that post to it.
#[derive(Debug)]
pub struct WakeFlags(AtomicU8);

impl Default for WakeFlags {
    fn default() -> Self {
        Self::new()
    }
}

impl WakeFlags {
    /// Creates the flags of a loop that is awake and has no posts.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Notes a post, after it was queued. Returns whether the caller has to wake the loop.
    #[must_use]
    pub fn note_post(&self) -> bool {
        self.0.fetch_or(POSTED, Ordering::AcqRel) == ASLEEP
    }

    /// Returns whether something was posted. One load.
    #[must_use]
    #[inline]
    pub fn has_posts(&self) -> bool {
        self.0.load(Ordering::Acquire) & POSTED != 0
    }

    /// Forgets that something was posted, before the loop takes it.
    pub fn begin_take(&self) {
        self.0.fetch_and(!POSTED, Ordering::AcqRel);
    }

    /// Announces that the loop is about to sleep. False: something was posted, so it must not; the
    /// announcement stands until [`end_sleep`](Self::end_sleep) in either case.
    #[must_use]
    pub fn begin_sleep(&self) -> bool {
        self.0.fetch_or(ASLEEP, Ordering::AcqRel) & POSTED == 0
    }

    /// Ends the announcement: the loop is awake, and looks for posts before it sleeps.
    pub fn end_sleep(&self) {
        self.0.fetch_and(!ASLEEP, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_post_to_a_sleeping_loop_wakes_it() {
        let flags = WakeFlags::new();
        assert!(!flags.note_post(), "it is awake");
        assert!(!flags.begin_sleep(), "it has to look first");
        flags.end_sleep();
        flags.begin_take();
        assert!(flags.begin_sleep());
        assert!(flags.note_post());
        assert!(!flags.note_post());
        flags.end_sleep();
        assert!(flags.has_posts());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread::{self, JoinHandle};

    /// What a loop and its posters share: the queue, and what the descriptor counts.
    #[derive(Clone)]
    struct Shared {
        flags: Arc<WakeFlags>,
        queue: Arc<Mutex<u32>>,
        rung: Arc<Mutex<u32>>,
    }

    impl Shared {
        fn new() -> Self {
            let (queue, rung) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
            Self { flags: Arc::new(WakeFlags::new()), queue, rung }
        }

        fn start_poster(&self) -> JoinHandle<()> {
            let shared = self.clone();
            thread::spawn(move || {
                *shared.queue.lock().unwrap() += 1;
                if shared.flags.note_post() {
                    *shared.rung.lock().unwrap() += 1;
                }
            })
        }

        fn look(&self) -> u32 {
            if !self.flags.has_posts() {
                return 0;
            }
            self.flags.begin_take();
            std::mem::take(&mut *self.queue.lock().unwrap())
        }

        /// Looks once more, then sleeps until the descriptor is readable, unless something was
        /// posted. Returns what the loop has taken by then.
        fn sleep(&self, posters: Vec<JoinHandle<()>>) -> u32 {
            let taken = self.look();
            let sleeps = self.flags.begin_sleep();
            posters.into_iter().for_each(|poster| poster.join().unwrap());
            let left = *self.queue.lock().unwrap();
            if sleeps {
                assert!(left == 0 || *self.rung.lock().unwrap() > 0, "a post without a wake-up");
            }
            taken + left
        }
    }

    #[test]
    fn loom_every_post_is_taken_or_ends_the_sleep() {
        loom::model(|| {
            let shared = Shared::new();
            let posters = vec![shared.start_poster(), shared.start_poster()];
            assert_eq!(shared.sleep(posters), 2);
            assert!(*shared.rung.lock().unwrap() <= 1, "one wake-up for one sleep");
        });
    }

    /// A sleep that something else has ended, and another one.
    #[test]
    fn loom_a_sleep_that_ends_for_another_reason_loses_no_post() {
        loom::model(|| {
            let shared = Shared::new();
            let posters = vec![shared.start_poster()];
            if shared.flags.begin_sleep() {
                // The descriptor may have been written, and is read.
                *shared.rung.lock().unwrap() = 0;
            }
            shared.flags.end_sleep();
            assert_eq!(shared.sleep(posters), 1);
        });
    }
}
