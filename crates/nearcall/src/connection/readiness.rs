//! How an event loop watches a connection: plain data that the loop keeps with it.
//!
//! **Not here:** what the loop does with it (`reactor/watching.rs`, `reactor/busy.rs`).

use std::cell::Cell;

use nearcall_channel::{self as channel, WakeCounts};
use nearcall_os::poll::Interest;

use crate::deadline::Deadline;
use crate::tasks::mailbox::ConnectionKey;

/// The state of a connection in its loop.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) state: Cell<ReadinessState>,
    pub(crate) tokens: Cell<Tokens>,
    /// It is in the list of connections that were used.
    pub(crate) is_listed: Cell<bool>,
    /// The key of the connection for other threads, once it has one.
    pub(crate) key: Cell<Option<ConnectionKey>>,
    /// Polls that found nothing since it was last used.
    pub(crate) misses: Cell<u32>,
    /// It has moved to another channel, and the one before is still watched.
    pub(crate) is_stale: Cell<bool>,
    /// It is counted among those of its user.
    pub(crate) is_counted: Cell<bool>,
    pub(crate) empty_wakes: EmptyWakes,
    /// Reports of its descriptor while it was armed, each of which ends a sleep of the loop.
    pub(crate) wakes: Cell<u64>,
    /// Those of the channels before the last switch.
    pub(crate) wakes_before: Cell<WakeCounts>,
}

impl Readiness {
    /// Returns how often the ends have woken each other, by whatever channels.
    pub(crate) fn all_wakes(&self, of_channel: WakeCounts) -> WakeCounts {
        let channels = self.wakes_before.get().plus(of_channel);
        WakeCounts { taken: channels.taken + self.wakes.get(), ..channels }
    }
}

/// Turns of a connection for which it had nothing.
#[derive(Debug)]
pub(crate) struct EmptyWakes {
    /// Those of late that count: one less after each interval without.
    pub(crate) spent: Cell<u32>,
    /// When they were counted last.
    pub(crate) at: Cell<Deadline>,
    /// The bytes of a message that had come then and was not whole.
    pub(crate) collected: Cell<usize>,
    /// Its descriptor is not watched at present.
    pub(crate) is_paused: Cell<bool>,
    /// The server has counted that as a refusal.
    pub(crate) is_noted: Cell<bool>,
}

impl Default for EmptyWakes {
    fn default() -> Self {
        let (is_paused, is_noted) = (Cell::new(false), Cell::new(false));
        let (spent, at) = (Cell::new(0), Cell::new(Deadline::from_ns(0)));
        Self { spent, at, collected: Cell::new(0), is_paused, is_noted }
    }
}

impl EmptyWakes {
    /// Forgets them: there was a message.
    #[inline]
    pub(crate) fn forget(&self) {
        self.spent.set(0);
    }
}

/// The source that reports a connection as ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReadinessState {
    /// It was used, and must be armed or looked at before the loop sleeps.
    #[default]
    Used,
    /// It was armed and not used since: its descriptor wakes the loop.
    Armed,
    /// It is in the queue of those that may have something.
    Ready,
    /// It is in the busy set: polled before the loop sleeps.
    Busy,
    /// It is in the busy set and in the queue.
    BusyReady,
}

impl ReadinessState {
    #[inline]
    pub(crate) fn is_busy(self) -> bool {
        matches!(self, Self::Busy | Self::BusyReady)
    }

    /// Returns the state of a connection that entered the queue. `None`: it is there already.
    #[inline]
    pub(crate) fn queued(self) -> Option<Self> {
        match self {
            Self::Used | Self::Armed => Some(Self::Ready),
            Self::Busy => Some(Self::BusyReady),
            Self::Ready | Self::BusyReady => None,
        }
    }

    /// Returns the state of a connection that left the queue.
    #[inline]
    pub(crate) fn dequeued(self) -> Self {
        match self {
            Self::Ready => Self::Used,
            Self::BusyReady => Self::Busy,
            other => other,
        }
    }

    /// Returns the state of a connection that entered the busy set.
    #[inline]
    pub(crate) fn promoted(self) -> Self {
        match self {
            Self::Used | Self::Armed => Self::Busy,
            Self::Ready => Self::BusyReady,
            other => other,
        }
    }

    /// Returns the state of a connection that left the busy set.
    #[inline]
    pub(crate) fn demoted(self) -> Self {
        match self {
            Self::Busy => Self::Used,
            Self::BusyReady => Self::Ready,
            other => other,
        }
    }
}

/// The registration of a connection in the loop's epoll.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tokens {
    /// Of the descriptor that reports messages.
    pub(crate) receive: Option<u64>,
    /// Of the descriptor that reports room, while it is waited for and is another one.
    pub(crate) send: Option<u64>,
    /// The descriptor of messages is watched for room as well.
    pub(crate) both: bool,
    /// Of the descriptor that reports room in the channel before a switch, while that is waited
    /// for.
    pub(crate) before: Option<u64>,
    /// The descriptor of messages is not watched for them: the peer has to read first.
    pub(crate) is_muted: bool,
}

impl Tokens {
    /// Returns the channel that is watched for room.
    #[inline]
    pub(crate) fn room(self) -> RoomWanted {
        match self {
            Self { before: Some(_), .. } => RoomWanted::Before,
            Self { both: true, .. } | Self { send: Some(_), .. } => RoomWanted::Here,
            _ => RoomWanted::Nowhere,
        }
    }
}

/// Where something waits for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoomWanted {
    Nowhere,
    /// In the channel that messages come by.
    Here,
    /// In the channel before a switch, while messages come by the new one already.
    Before,
}

/// Returns what an epoll set watches for what an endpoint waits for.
pub(crate) fn kernel_interest(readiness: &channel::Readiness<'_>) -> Interest {
    match readiness {
        channel::Readiness { writable: true, .. } => Interest::Writable,
        channel::Readiness { edge: true, .. } => Interest::ReadableEdge,
        _ => Interest::Readable,
    }
}
