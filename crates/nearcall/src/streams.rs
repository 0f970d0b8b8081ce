//! The two ends of a stream inside one process: what was received and not read yet, and what is to
//! be sent.
//!
//! **Not here:** credit (`nearcall-wire`), the handles that services and callers hold
//! (`services/streams.rs`, `call/`, `async_call/`).

use std::sync::{Condvar, MutexGuard, PoisonError};

use crate::deadline::Deadline;

pub(crate) mod call_stream;
pub(crate) mod item_outlet;
pub(crate) mod item_queue;

/// Blocks this thread while `waits`, which is asked after each change, until `deadline` at most.
fn wait_while<'a, T>(
    changed: &Condvar,
    state: MutexGuard<'a, T>,
    deadline: Deadline,
    mut waits: impl FnMut(&T) -> bool,
) -> MutexGuard<'a, T> {
    let waits = |state: &mut T| waits(state);
    match deadline.remaining() {
        None => changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner),
        Some(left) => {
            let waited = changed.wait_timeout_while(state, left, waits);
            waited.unwrap_or_else(PoisonError::into_inner).0
        }
    }
}
