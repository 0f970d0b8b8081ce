//! No ring, on processors for which the crate `io-uring` has no tables, such as those of 32 bits.
//!
//! **Invariants:** no value of [`StreamRing`] exists, so its functions are never called.
//! **Not here:** the ring (`ring.rs`), of which each function is described there.

use std::convert::Infallible;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Direction, Refusal};
use crate::deadline::Deadline;

/// Never exists on this processor.
#[derive(Debug)]
pub struct StreamRing(Infallible);

/// Refuses: no [`StreamRing`] can be created on this processor.
///
/// # Errors
///
/// Always [`Refusal::Processor`].
pub fn probe() -> Result<(), Refusal> {
    Err(Refusal::Processor)
}

impl StreamRing {
    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always [`Refusal::Processor`].
    pub fn create(_: OwnedFd, _: usize, _: usize) -> Result<Self, Refusal> {
        Err(Refusal::Processor)
    }

    /// Never called.
    pub fn send_buffer(&mut self) -> Option<&mut [u8]> {
        match self.0 {}
    }

    /// Never called.
    #[must_use]
    pub fn receive_buffer(&self) -> Option<&[u8]> {
        match self.0 {}
    }

    /// Never called.
    pub fn receive_buffer_mut(&mut self) -> Option<&mut [u8]> {
        match self.0 {}
    }

    /// Never called.
    pub fn queue_send(&mut self, _: Range<usize>) {
        match self.0 {}
    }

    /// Never called.
    pub fn queue_receive(&mut self, _: Range<usize>, _: bool) {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    ///
    /// None.
    pub fn submit(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    ///
    /// None.
    pub fn wait(&mut self, _: Direction, _: impl Into<Deadline>) -> io::Result<bool> {
        match self.0 {}
    }

    /// Never called.
    pub fn is_done(&mut self, _: Direction) -> bool {
        match self.0 {}
    }

    /// Never called.
    #[must_use]
    pub fn is_under_way(&self, _: Direction) -> bool {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    ///
    /// None.
    pub fn take(&mut self, _: Direction) -> io::Result<Option<usize>> {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    ///
    /// None.
    pub fn register_eventfd(&self, _: impl AsFd) -> io::Result<()> {
        match self.0 {}
    }

    /// Never called.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}
