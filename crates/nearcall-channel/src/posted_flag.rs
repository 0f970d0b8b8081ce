//! Decides who posts a task to its loop: one flag, set by each wake-up and cleared before a poll.
//!
//! **Invariants:** each wake-up is followed by a poll that sees what was done before it; of the
//! wake-ups between two polls the first one posts the task.
//! **Not here:** the posts and the tasks, which are the loop's own. It stands in this crate since
//! loom tries each interleaving here.

use crate::sync::{AtomicBool, Ordering};

/// Shared by a loop and the wakers of one of its tasks.
#[derive(Debug)]
pub struct PostedFlag(AtomicBool);

impl Default for PostedFlag {
    fn default() -> Self {
        Self::new()
    }
}

impl PostedFlag {
    /// Creates the flag of a task that was not woken.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Notes a wake-up. Returns whether the caller has to post the task.
    #[must_use]
    pub fn note_wake(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Notes that the task is about to be polled: from here on a wake-up is for the next poll.
    pub fn begin_poll(&self) {
        // Not a store: it has to see what the wakers did whose wake-ups it takes away.
        self.0.swap(false, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_wake_up_between_two_polls_posts_the_task() {
        let flag = PostedFlag::new();
        for _ in 0..2 {
            assert!(flag.note_wake() && !flag.note_wake());
            flag.begin_poll();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::atomic::AtomicU32;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// Two threads wake a task, each after it has done a part of what the task waits for, with
    /// nothing else that would order the two.
    #[test]
    fn loom_the_poll_after_a_wake_up_sees_what_was_done_before() {
        loom::model(|| {
            let flag = Arc::new(PostedFlag::new());
            let parts = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let posts = Arc::new(Mutex::new(0));
            let wake = |part: usize| {
                let (flag, parts, posts) = (flag.clone(), parts.clone(), posts.clone());
                move || {
                    parts[part].store(1, Ordering::Relaxed);
                    if flag.note_wake() {
                        *posts.lock().unwrap() += 1;
                    }
                }
            };
            let mut seen = 0;
            let mut poll = || {
                if std::mem::take(&mut *posts.lock().unwrap()) == 0 {
                    return;
                }
                flag.begin_poll();
                seen = parts.iter().map(|part| part.load(Ordering::Relaxed)).sum();
            };
            let wakers = [thread::spawn(wake(0)), thread::spawn(wake(1))];
            poll();
            poll();
            wakers.into_iter().for_each(|waker| waker.join().unwrap());
            // Joining would show the parts to a poll that was due earlier: none may be left out.
            poll();
            assert_eq!(seen, 2);
        });
    }
}
