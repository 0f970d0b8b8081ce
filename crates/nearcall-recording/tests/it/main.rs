//! Recordings as files, and replayed to servers of this process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compare;
mod files;
mod replay;

use std::time::Duration;

/// Runs a test that may block, and fails if it does not end.
fn in_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    nearcall_testkit::observed::within(Duration::from_secs(60), body)
}
