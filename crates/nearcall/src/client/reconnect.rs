//! What a call does that finds no connection to its server.
//!
//! **Not here:** connecting (`client/connecting.rs`).

use std::time::Duration;

/// What a call does that finds no connection, or one that has ended since the last call. A call
/// that was started is never repeated, so no method runs twice.
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
}
