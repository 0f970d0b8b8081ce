//! Futexes: sleeping on a word of memory and waking the sleepers, also across processes.
//!
//! **Invariants:** the calls are the process-shared form, and sleeping works on a read-only
//! mapping. A wake-up is a hint: check the word again after [`wait`].
//! **Not here:** when to sleep and how long to spin first (`nearcall-channel`).

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};

use crate::deadline::Deadline;

/// A word to sleep on: one of this process (`&AtomicU32`), or one in a peer's read-only memory.
///
/// It cannot be stored to, because the memory may be read-only.
#[derive(Debug, Clone, Copy)]
pub struct FutexWord<'a>(&'a AtomicU32);

impl FutexWord<'_> {
    /// Loads the word, once.
    ///
    /// # Panics
    ///
    /// If `order` is not one of a load.
    #[must_use]
    #[inline]
    pub fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }
}

impl<'a> From<&'a AtomicU32> for FutexWord<'a> {
    #[inline]
    fn from(word: &'a AtomicU32) -> Self {
        Self(word)
    }
}

/// The end of a [`wait`]. In every case, check the word again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A wake-up, a signal, or a spurious return.
    Woken,
    /// The word was not `expected`, so the thread did not sleep.
    Changed,
    /// The time is over.
    TimedOut,
}

/// Sleeps until `word` is woken, if it still has the value `expected`, at most until `deadline`.
///
/// One system call, which takes a `Deadline` as it is; a `Duration` costs a reading of the clock. A
/// signal ends it early as [`Wait::Woken`]: call it again. With [`Deadline::NEVER`] a dead peer is
/// never noticed.
#[inline]
pub fn wait<'a>(
    word: impl Into<FutexWord<'a>>,
    expected: u32,
    deadline: impl Into<Deadline>,
) -> Wait {
    let (word, deadline) = (word.into(), deadline.into());
    #[cfg(simulation)]
    if let Some(is_in_time) = crate::simulation::futex_wait(word.0, expected, deadline.as_ns()) {
        return match is_in_time {
            Some(true) => Wait::Woken,
            Some(false) => Wait::TimedOut,
            None => Wait::Changed,
        };
    }
    let end = match deadline {
        Deadline::NEVER => None,
        deadline => Some(deadline.absolute_timespec()),
    };
    // This form counts an absolute CLOCK_MONOTONIC; any waker matches all bits.
    let any_waker = NonZeroU32::MAX;
    match futex::wait_bitset(word.0, Flags::empty(), expected, end.as_ref(), any_waker) {
        Err(Errno::AGAIN) => Wait::Changed,
        Err(Errno::TIMEDOUT) => Wait::TimedOut,
        // Any other errno would mean that the page could not be read: the caller's next load
        // meets the same fate, and it has a deadline.
        Ok(()) | Err(_) => Wait::Woken,
    }
}

/// Wakes up to `count` sleepers of `word`, and returns how many there were.
///
/// One system call, also without sleepers. It never blocks.
#[inline]
pub fn wake<'a>(word: impl Into<FutexWord<'a>>, count: u32) -> usize {
    let count = count.min(i32::MAX.unsigned_abs()); // The kernel takes an int.
    let word = word.into();
    #[cfg(simulation)]
    if let Some(woken) = crate::simulation::futex_wake(word.0, count) {
        return woken;
    }
    futex::wake(word.0, Flags::empty(), count).unwrap_or(0)
}
