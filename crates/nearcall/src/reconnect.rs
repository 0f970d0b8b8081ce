//! What a call does that finds no connection to its server.
//!
//! **Not here:** connecting (`clients/connecting.rs`).

use std::time::Duration;

/// What a call does that finds no connection, or one that has ended since the last call.
///
/// A call that was sent and whose connection ends is sent again, by the same policy and within its
/// deadline, in two cases only: its server drained and has certainly not begun it
/// ([`Status::has_not_begun`](crate::Status::has_not_begun)), or the method is idempotent
/// ([`Method::is_idempotent`](crate::service::Method::is_idempotent)). No other method runs twice.
/// Calls that are started and taken later ([`PendingCall`](crate::client::PendingCall)) and calls
/// that stream are not sent again; their errors tell which of them may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReconnectPolicy {
    /// Connects to an address once in each thread. After that connection has ended, calls fail with
    /// the reason; make another client to connect again. For peers that keep a state for each
    /// connection.
    Never,
    /// Tries once for each call. `UNAVAILABLE`: no server listens.
    #[default]
    Once,
    /// Waits until a server listens, for at most this long within the call's deadline, as
    /// [`Client::hunt`](crate::Client::hunt) does. What gRPC calls wait-for-ready; for one call,
    /// [`CallOptions::wait_for_ready`](crate::CallOptions::wait_for_ready).
    Wait(Duration),
    /// As [`Wait`](Self::Wait); and the connection of async callers is opened again as soon as it
    /// has ended, so that the next call finds it, trying for this long. One that had lived for less
    /// than a second is opened again after a pause, of 1 ms at first and of 1 s at most, and its
    /// time goes on from the one before. As the policy of a client only: for one call it is `Wait`.
    /// Connections of threads, with or without a loop, belong to their threads and are opened by
    /// their next calls.
    AtOnce(Duration),
}

impl ReconnectPolicy {
    /// Returns for how long a call waits for a server.
    pub(crate) fn patience(self) -> Option<Duration> {
        match self {
            Self::Wait(span) | Self::AtOnce(span) => Some(span),
            Self::Never | Self::Once => None,
        }
    }

    /// Returns the policy of a call that waits for no server.
    pub(crate) fn without_patience(self) -> Self {
        match self {
            Self::Never => Self::Never,
            Self::Once | Self::Wait(_) | Self::AtOnce(_) => Self::Once,
        }
    }
}
