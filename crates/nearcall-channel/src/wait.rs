//! How a channel waits: the policy that a user chooses and the deadline of one operation.
//!
//! **Invariants:** a policy is fixed when a channel opens, because it decides whether descriptors
//! are blocking; a deadline belongs to one operation.
//! **Not here:** being woken (`shm/doorbell.rs`
//! and the kernel's own objects), noticing death (`liveness.rs`).

use std::fmt;
use std::os::fd::BorrowedFd;
use std::str::FromStr;

pub use nearcall_os::Deadline;
use thiserror::Error;

use crate::error::debug_as_display;

use crate::limits::CHECKS_PER_YIELD;

/// The policy by which an end waits for messages and for room.
///
/// A [`Mechanism`](crate::Mechanism) has some of them: `Mechanism::waits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitPolicy {
    /// Spin as long as that pays on this machine, then sleep; see [`Spinner`](crate::Spinner).
    Adaptive,
    /// Ask again and again; the fastest answer for a whole CPU.
    Spin,
    /// Sleep in a blocking call of the mechanism.
    Block,
    /// Sleep until a descriptor is ready, as an event loop does, then ask without blocking.
    Poll,
}

impl WaitPolicy {
    /// All policies, in the order in which they are listed to users.
    pub const ALL: [Self; 4] = [Self::Adaptive, Self::Spin, Self::Block, Self::Poll];

    /// The word for it on the command line and in addresses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Spin => "spin",
            Self::Block => "block",
            Self::Poll => "poll",
        }
    }
}

impl fmt::Display for WaitPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How often the two ends of a channel have woken each other.
///
/// Returned by [`Endpoint::wakes`](crate::Endpoint::wakes). An end that is awake is not woken, and
/// costs the other one no system call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WakeCounts {
    /// System calls of this end that were made to wake the other one. `None`: the kernel wakes a
    /// reader by each send of the mechanism, and does not report whether one slept.
    pub given: Option<u64>,
    /// Sleeps of this end in a call that are over, for mechanisms that report `given`. Sleeps on a
    /// descriptor are those of whoever waits on it.
    pub taken: u64,
}

impl WakeCounts {
    /// Returns the sum of what two channels have counted.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let given = match (self.given, other.given) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        Self { given, taken: self.taken + other.taken }
    }
}

/// A word that names no wait policy.
#[derive(Error, Clone, PartialEq, Eq)]
#[error("unknown wait policy `{0}`: use adaptive, spin, block or poll")]
pub struct UnknownWaitPolicy(pub String);

debug_as_display!(UnknownWaitPolicy);

impl FromStr for WaitPolicy {
    type Err = UnknownWaitPolicy;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let policy = Self::ALL.into_iter().find(|policy| policy.name() == word);
        policy.ok_or_else(|| UnknownWaitPolicy(word.to_owned()))
    }
}

/// Yields the CPU of a spinning waiter now and then: the other end may need that very CPU.
#[derive(Debug, Default)]
pub(crate) struct SpinYield {
    checks: u32,
}

impl SpinYield {
    /// Counts one check of the other end's life, or one poll that is a system call, and yields the
    /// CPU after each [`CHECKS_PER_YIELD`] of them.
    #[inline]
    pub(crate) fn count(&mut self) {
        self.checks = self.checks.wrapping_add(1);
        match self.checks.is_multiple_of(CHECKS_PER_YIELD) {
            true => std::thread::yield_now(),
            false => std::hint::spin_loop(),
        }
    }
}

/// The condition that a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interest {
    /// A message.
    Receive,
    /// Room for a message, or for the rest of the one that is on its way.
    Send,
}

/// A descriptor to wait on, and which of its events means that a channel may have become ready.
#[derive(Debug, Clone, Copy)]
pub struct Readiness<'a> {
    /// Belongs to the channel: wait on it, never read or close it.
    pub fd: BorrowedFd<'a>,
    /// Wait for writability instead of readability.
    pub writable: bool,
    /// Watch it edge-triggered, as [`Endpoint::watch_edges`](crate::Endpoint::watch_edges) has it.
    pub edge: bool,
}

impl<'a> Readiness<'a> {
    /// To wait level-triggered.
    pub(crate) fn level(fd: BorrowedFd<'a>, writable: bool) -> Self {
        Self { fd, writable, edge: false }
    }
}
