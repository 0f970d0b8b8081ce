//! Where a task waits for the outcome of the switch that it has begun.
//!
//! **Invariants:** no waker is woken or dropped while it is locked.
//! **Not here:** the switch (`async_connection/switching.rs`).

use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

use crate::status::Status;
use crate::waking;

/// What the task that has begun a switch waits for.
#[derive(Debug, Default)]
pub(crate) struct SwitchSlot(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    outcome: Option<Result<(), Status>>,
    waker: Option<Waker>,
}

impl SwitchSlot {
    fn with<T>(&self, step: impl FnOnce(&mut Waiting) -> T) -> T {
        step(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the outcome, if it is there; `waker` is woken when it is.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<(), Status>> {
        let (outcome, before) = self.with(|waiting| match waiting.outcome.take() {
            Some(outcome) => (Poll::Ready(outcome), None),
            None => (Poll::Pending, waiting.waker.replace(waker.clone())),
        });
        waking::retire(before);
        outcome
    }

    /// The task does not wait any more.
    pub(crate) fn leave(&self) {
        let waker = self.with(|waiting| waiting.waker.take());
        waking::retire(waker);
    }

    /// Gives the outcome. Returns the task to wake.
    pub(super) fn end(&self, outcome: Result<(), Status>) -> Option<Waker> {
        self.with(|waiting| {
            waiting.outcome = Some(outcome);
            waiting.waker.take()
        })
    }
}
