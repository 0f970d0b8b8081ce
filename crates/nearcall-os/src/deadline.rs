//! A timeout that survives interruption: turned into a deadline once, asked for what remains.
//!
//! Always true: a deadline is a CLOCK_MONOTONIC time, so a changed wall clock moves nothing.

use std::time::Duration;

use rustix::time::Timespec;

use crate::clock::monotonic_ns;

/// When to give up. `None` inside means never.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<Duration>);

impl Deadline {
    /// The moment `timeout` from now. `None` never comes.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        // A zero timeout is over at once: no clock is read for it.
        Self(timeout.map(|timeout| match timeout.is_zero() {
            true => Duration::ZERO,
            false => monotonic().saturating_add(timeout),
        }))
    }

    /// What is left, zero when it has passed, `None` when it never comes.
    pub(crate) fn remaining(self) -> Option<Duration> {
        self.0.map(|at| match at.is_zero() {
            true => Duration::ZERO,
            false => at.saturating_sub(monotonic()),
        })
    }

    /// `remaining` in the kernel's form.
    pub(crate) fn remaining_timespec(self) -> Option<Timespec> {
        self.remaining().map(timespec)
    }
}

/// A duration in the kernel's form. One too long for it becomes the longest there is.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 999_999_999 })
}

fn monotonic() -> Duration {
    Duration::from_nanos(monotonic_ns())
}
