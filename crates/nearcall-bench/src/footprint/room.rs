//! What can be allocated beside services, as the thesis measured their memory.
//!
//! Available memory may fall by a budget, whatever services leave of it being allocated.
//! **Invariants:** a sum counts only if the machine has the same again afterwards, so that
//! memory of another process is not taken for that of services.

use std::time::Duration;

use super::Stop;
use super::allocator::{Allocated, Limit, Stopped};
use super::helper::{CONNECT_TIMEOUT, Helper};
use crate::launch::{WorkerMessage, WorkerRequest};
use crate::runner::RunContext;

/// Whether no other process has taken or given back more than the error of the kernel's counting.
pub(super) fn is_quiet(before_bytes: Option<u64>, after_bytes: Option<u64>) -> bool {
    let moved = before_bytes.zip(after_bytes).map(|(before, after)| before.abs_diff(after));
    moved.is_some_and(|moved| moved <= MOVED_BYTES_MAX)
}

/// What can be allocated beside what runs. `None` if something else than the floor ended it.
pub(super) fn allocate(
    before_bytes: u64,
    budget_bytes: u64,
    context: &RunContext<'_>,
) -> Result<Option<u64>, Stop> {
    let floor_bytes = before_bytes.saturating_sub(budget_bytes);
    // Others may free memory meanwhile: what they give must not all be taken.
    let limit = Limit { floor_bytes, bytes_max: budget_bytes + budget_bytes / 4 };
    let mut allocator = Helper::start(&WorkerRequest::Allocate(limit), context)?;
    let reported = allocator.receive(CONNECT_TIMEOUT)?;
    allocator.end();
    match reported {
        WorkerMessage::Allocated(Allocated { bytes, by: Stopped::Floor }) => Ok(Some(bytes)),
        WorkerMessage::Allocated(_) => Ok(None),
        other => Err(Stop::Failed(format!("the allocator reported {other:?}"))),
    }
}

pub(super) fn limit_words(budget_bytes: Option<u64>) -> String {
    match budget_bytes {
        Some(bytes) => format!(
            "the machine's available memory may fall by {} MiB (no more than a quarter of what \
             machine and control group have left); RLIMIT_AS stands behind that. A control \
             group of our own would count more exactly and needs privileges",
            bytes >> 20
        ),
        None => "none: the machine does not say what it has, or has too little; nothing was \
                 allocated"
            .to_owned(),
    }
}

/// The kernel counts pages per CPU and sums up seldom; more than this was somebody else.
const MOVED_BYTES_MAX: u64 = 2 << 20;

/// What processes leave to do when they begin or end is done by then.
pub(super) const SETTLE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_others_use_meanwhile_is_not_quiet() {
        assert!(is_quiet(Some(10 << 20), Some(9 << 20)));
        assert!(!is_quiet(Some(10 << 20), Some(13 << 20)));
        assert!(!is_quiet(Some(13 << 20), Some(10 << 20)));
        assert!(!is_quiet(None, Some(10 << 20)));
    }
}
