//! The channel that a connection had before it moved to another one.
//!
//! **Invariants:** while the last message of the peer has not come by it, messages are received by
//! it and by nothing else.
//! **Not here:** when a connection moves (`switching.rs`).

use nearcall_channel::{Endpoint, SendError};

use super::Inner;
use crate::deadline::Deadline;

/// The channel before a switch.
pub(super) struct OldChannel {
    pub(super) endpoint: Endpoint,
    /// A part of its last message is still in this process.
    pub(super) unflushed: bool,
    /// The last message of the peer has not come.
    pub(super) receives: bool,
}

impl OldChannel {
    /// Moves its last message on. False: not all of it.
    #[inline]
    pub(super) fn flush(
        old: &mut Option<Box<Self>>,
        deadline: Deadline,
    ) -> Result<bool, SendError> {
        match old {
            Some(old) if old.unflushed => {
                old.unflushed = !flush_channel(&mut old.endpoint, deadline)?;
                Ok(!old.unflushed)
            }
            _ => Ok(true),
        }
    }
}

/// Returns the channel that the next message comes by.
#[inline(always)]
pub(super) fn receiver<'a>(
    endpoint: &'a mut Endpoint,
    old: &'a mut Option<Box<OldChannel>>,
) -> &'a mut Endpoint {
    match old {
        Some(old) if old.receives => &mut old.endpoint,
        _ => endpoint,
    }
}

impl Inner {
    /// Returns the channel that the next message comes by.
    #[inline(always)]
    pub(super) fn receiver(&mut self) -> &mut Endpoint {
        receiver(&mut self.endpoint, &mut self.old)
    }
}

/// True: nothing is left in this process.
#[inline]
pub(super) fn flush_channel(
    endpoint: &mut Endpoint,
    deadline: Deadline,
) -> Result<bool, SendError> {
    match endpoint.flush(deadline) {
        Ok(()) => Ok(true),
        Err(SendError::Full) => Ok(false),
        Err(error) => Err(error),
    }
}
