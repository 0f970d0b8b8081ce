//! Bad input, each case with a clear error for the one at fault, while a good client of the same
//! server calls all the time and none of its calls fails.
//!
//! Not here: processes that die or stop (`two_processes.rs`).

mod addresses;
mod bounds;
mod frames;
mod names;
mod servers;
mod strangers;

use nearcall::{Code, Status};

/// What the one at fault is told.
#[track_caller]
fn expect<T: std::fmt::Debug>(outcome: Result<T, Status>, code: Code, words: &[&str]) {
    let status = outcome.expect_err("refused");
    assert_eq!(status.code(), code, "{status}");
    for word in words {
        assert!(status.message().contains(word), "`{word}` is missing in: {status}");
    }
}
