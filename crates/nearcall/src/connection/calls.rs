//! The calls that this end made, each waiting for its end or holding it.
//!
//! The protocol's table of calls has one of these for each call, until it is released.
//! **Invariants:** the outcome of a call is taken once, or dropped with the call.
//! **Not here:** ids and deadlines (`nearcall-wire`).

use std::ops::Range;
use std::task::Waker;

use crate::borrowed::BorrowedSegments;
use crate::status::Status;

/// The end of a call: the buffer that its reply came in, or why it failed.
pub(crate) type Outcome = Result<Reply, Status>;

/// A reply as it came.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) buffer: Vec<u8>,
    /// The range of the result in the buffer.
    pub(crate) body: Range<usize>,
    /// The part of the result that lies in memory of the peer.
    pub(crate) borrowed: Option<Box<BorrowedSegments>>,
}

/// The state of a call. A waker is dropped where nothing is borrowed: its end may run a task's.
#[derive(Debug)]
pub(crate) enum CallState {
    Waiting(Option<Waker>),
    Done(Outcome),
}

impl Default for CallState {
    fn default() -> Self {
        Self::Waiting(None)
    }
}
