//! How a recording is replayed.
//!
//! **Not here:** what they mean for a call (`player.rs`).

use std::time::Duration;

/// How a recording is replayed.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// How fast.
    pub speed: Speed,
    /// Whether ends and items are compared with the recorded ones.
    pub compare: bool,
    /// Whether calls of other methods than idempotent ones are left out.
    pub only_idempotent: bool,
    /// Connections at most; further recorded connections share them.
    pub connections_max: usize,
    /// Deadline of calls that had none.
    pub timeout: Duration,
}

/// How fast a recording is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// So many times as fast as it was recorded; above 0.
    Times(f64),
    /// Each connection without pauses, so that the order between connections is another one.
    Max,
}
