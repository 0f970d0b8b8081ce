//! What happens to a message that finds no room, and why a request was not sent.
//!
//! **Invariants:** a request that was not sent has not run and will not, so it may be sent again.
//! **Not here:** sending (`sending.rs`), waiting until it may be sent again
//! (`call/backpressure.rs`).

use crate::deadline::Deadline;
use crate::status::Status;

/// What happens to a message that finds no room in the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// It is kept here, up to the bounds of the outbox, and moved on when there is room: for
    /// replies, and for a loop, which never waits in one connection.
    Keep,
    /// It is refused at once, unless all before it is in the channel. Of a message longer than the
    /// room of the channel, and of one that a socket took in part, the rest is kept here, which may
    /// be all of it: for whatever moves it on by itself, such as a loop, and waits until
    /// [`Connection::has_pending_writes`](super::Connection::has_pending_writes) is false.
    Try,
    /// The caller waits in the channel until this moment at most.
    WaitUntil(Deadline),
}

impl SendMode {
    /// It is refused at once, as a whole: for a client without a loop, where nothing moves a rest
    /// on.
    pub(crate) const TRY_WHOLE: Self = Self::WaitUntil(LONG_AGO);

    /// Returns until when the channel may wait. `NOW` has it keep the rest of a long message.
    #[inline(always)]
    pub(super) fn channel_deadline(self) -> Deadline {
        match self {
            Self::Keep | Self::Try => Deadline::NOW,
            Self::WaitUntil(Deadline::NOW) => LONG_AGO,
            Self::WaitUntil(deadline) => deadline,
        }
    }
}

/// A moment that has passed. To a channel it means something else than `NOW`: nothing of a message
/// is kept.
const LONG_AGO: Deadline = Deadline::from_ns(1);

/// Why a request was not sent. It has not run, and will not.
#[derive(Debug)]
pub(crate) struct NotSent {
    pub(crate) status: Status,
    /// What to wait for, if it may be sent then.
    pub(crate) need: Option<Need>,
}

/// What a request that was not sent has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Until [`Connection::has_pending_writes`] is false, and then for room for a message of so
    /// many bytes.
    Room(usize),
    /// Until [`Connection::make_call_slot`] is true.
    CallSlot,
}

impl From<Status> for NotSent {
    fn from(status: Status) -> Self {
        Self { status, need: None }
    }
}
