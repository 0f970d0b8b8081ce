//! The two ends of a stream inside one process: what was received and not read yet, and what is to
//! be sent.
//!
//! **Not here:** credit (`nearcall-wire`), the handles that services and callers hold
//! (`services/streams.rs`, `call/`, `async_call/`).
//!
//! **Invariant:** items of a stream arrive in order, none is lost or doubled, and a stream ends
//! exactly once; what a receiver that does not read makes its sender keep is bounded by credit, and
//! other calls of the connection go on. *Checked by* `crates/nearcall-wire/tests/it/simulation.rs`,
//! `tests/it/streams.rs` over every mechanism, `tests/stress`, whose books on both sides must
//! agree.

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
