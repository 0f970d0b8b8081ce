//! The few bytes and descriptors that one end hands to the other to open a mechanism.
//!
//! **Invariants:** a mechanism takes exactly the number of descriptors that it needs; anything left
//! over is refused.
//! **Not here:** carrying them (`control.rs`), what they are (`kernel/`, `shm/`).

use std::os::fd::OwnedFd;

use crate::error::OpenError;

/// The parts that one end hands to the other to open a mechanism: a few bytes and descriptors.
#[derive(Debug, Default)]
pub(crate) struct ChannelFds {
    /// At most 256 bytes, in a form that only the mechanism knows.
    pub(crate) bytes: Vec<u8>,
    /// At most [`HANDSHAKE_DESCRIPTORS_MAX`](crate::limits::HANDSHAKE_DESCRIPTORS_MAX).
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl ChannelFds {
    /// Exactly `N` descriptors, no more and no fewer.
    pub(crate) fn take_descriptors<const N: usize>(&mut self) -> Result<[OwnedFd; N], OpenError> {
        let descriptors = std::mem::take(&mut self.descriptors);
        descriptors.try_into().map_err(|_| OpenError::bad_parts("another number of descriptors"))
    }

    /// Checks that nothing is left.
    pub(crate) fn expect_nothing_more(self) -> Result<(), OpenError> {
        match self.bytes.is_empty() && self.descriptors.is_empty() {
            true => Ok(()),
            false => Err(OpenError::bad_parts("more than this mechanism needs")),
        }
    }
}
