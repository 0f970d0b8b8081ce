//! Waking and dropping the wakers of tasks, which runs code of users.
//!
//! **Invariants:** a waker that panics ends nothing but itself: the tasks behind it are woken, and
//! the thread that wakes goes on.
//! **Not here:** which tasks are woken, and that no lock is held (`async_connection/waiters.rs`,
//! `tasks/cancellation.rs`).

use std::task::Waker;

use crate::panics::contain;

/// Wakes a task.
pub(crate) fn wake(waker: Waker) {
    contain(|| waker.wake());
}

/// Drops the waker, if there is one, of a task that is not woken any more, which may drop the task.
pub(crate) fn retire(waker: Option<Waker>) {
    contain(|| drop(waker));
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
        retire(Some(Waker::from(Arc::new(Panics))));
        let kept = std::mem::ManuallyDrop::new(Arc::new(Panics));
        wake(Waker::from(Arc::clone(&kept)));
    }
}
