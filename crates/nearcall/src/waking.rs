//! Waking and dropping the wakers of tasks, which runs code of users.
//!
//! **Invariants:** a waker that panics ends nothing but itself: the tasks behind it are woken, and
//! the thread that wakes goes on. The panic was reported by the hook of the process.
//! **Not here:** which tasks are woken, and that no lock is held (`async_connection/waiters.rs`,
//! `tasks/cancellation.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes a task.
pub(crate) fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

/// Drops the waker, if there is one, of a task that is not woken any more, which may drop the task.
pub(crate) fn retire(waker: Option<Waker>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(waker)));
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use std::task::Wake;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("asked for it");
        }
    }

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("asked for it");
        }
    }

    #[test]
    fn a_waker_that_panics_ends_nothing_else() {
        let waker = Waker::from(Arc::new(Panics));
        wake(waker.clone());
        retire(Some(waker));
    }
}
