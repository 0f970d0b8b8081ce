//! Waking and dropping the wakers of tasks, which runs code of users.
//!
//! **Invariants:** a waker that panics ends nothing but itself: the tasks behind it are woken, and
//! the thread that wakes goes on.
//! A task whose operations never wait lets the others of its thread run now and then.
//! **Not here:** which tasks are woken, and that no lock is held (`async_connection/waiters.rs`,
//! `tasks/cancellation.rs`).

use std::cell::Cell;
use std::task::{Poll, Waker};

use crate::limits::ASYNC_OPERATIONS_PER_YIELD;
use crate::panics::contain;

thread_local! {
    /// Operations of tasks that this thread begins before one of them yields.
    static OPERATIONS_LEFT: Cell<u32> = const { Cell::new(ASYNC_OPERATIONS_PER_YIELD) };
}

/// Called before an operation of a task that may end without waiting. Pending: the task yields,
/// and is polled again after others that are ready.
#[inline]
pub(crate) fn poll_proceed(waker: &Waker) -> Poll<()> {
    OPERATIONS_LEFT.with(|left| {
        let is_spent = left.get() == 0;
        left.set(if is_spent { ASYNC_OPERATIONS_PER_YIELD } else { left.get() - 1 });
        if is_spent {
            waker.wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
}

/// Wakes a task.
pub(crate) fn wake(waker: Waker) {
    contain(|| waker.wake());
}

/// Drops the waker, if there is one, of a task that is not woken any more, which may drop the task.
pub(crate) fn retire(waker: Option<Waker>) {
    contain(|| drop(waker));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    /// Counts how often its task is woken.
    #[derive(Default)]
    pub(crate) struct WakeCount(AtomicUsize);

    impl WakeCount {
        pub(crate) fn get(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns a waker, and what counts how often it wakes.
    pub(crate) fn counted() -> (Arc<WakeCount>, Waker) {
        let count = Arc::<WakeCount>::default();
        (Arc::clone(&count), Waker::from(count))
    }

    /// Returns a waker that panics when it is woken and when it is dropped.
    pub(crate) fn panicking() -> Waker {
        Waker::from(Arc::new(Panics))
    }

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
        let waker = panicking();
        wake(waker.clone());
        retire(Some(waker));
    }
}
