//! Services that run inside each other on this thread: how many, and the deadline of the innermost.
//!
//! A service that waits for a call of its own may have others served inside that wait.
//! **Invariants:** what a guard changed is as before when it is dropped.
//! **Not here:** running a service (`service/dispatch.rs`).

use std::cell::Cell;

use crate::deadline::Deadline;
use crate::limits::NESTING_MAX;
use crate::status::Status;

struct Nesting {
    /// Services that run right now.
    depth: Cell<u32>,
    /// The deadline of the innermost; calls that it makes end then at the latest.
    deadline: Cell<Deadline>,
}

thread_local! {
    static NESTING: Nesting =
        const { Nesting { depth: Cell::new(0), deadline: Cell::new(Deadline::NEVER) } };
}

/// Returns the deadline that a call made here and now inherits.
#[inline]
pub(crate) fn inherited_deadline() -> Deadline {
    NESTING.with(|nesting| nesting.deadline.get())
}

/// Returns whether a service may run inside those that run now.
pub(crate) fn may_nest() -> bool {
    NESTING.with(|nesting| nesting.depth.get() < NESTING_MAX)
}

/// While it lives a service runs.
pub(crate) struct NestingGuard {
    outer: Deadline,
}

impl NestingGuard {
    /// Enters a service with a deadline.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: too many services run inside each other.
    #[inline]
    pub(crate) fn enter(deadline: Deadline) -> Result<Self, Status> {
        NESTING.with(|nesting| {
            let depth = nesting.depth.get();
            if depth >= NESTING_MAX {
                return Err(too_deep());
            }
            nesting.depth.set(depth + 1);
            // What came in by a call of its own has a deadline of its own.
            Ok(Self { outer: nesting.deadline.replace(deadline) })
        })
    }
}

impl Drop for NestingGuard {
    #[inline]
    fn drop(&mut self) {
        NESTING.with(|nesting| {
            nesting.depth.set(nesting.depth.get() - 1);
            nesting.deadline.set(self.outer);
        });
    }
}

#[cold]
fn too_deep() -> Status {
    Status::resource_exhausted(format!(
        "{NESTING_MAX} calls are being served inside each other; try again later"
    ))
}
