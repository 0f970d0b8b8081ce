//! Whole messages over a way that moves fragments.
//!
//! Always true: sending and receiving do not touch each other's state; the way is the only thing
//! that they share.
//! Not here: cutting and staging (`fragments/outgoing.rs`), assembling (`fragments/incoming.rs`), the
//! ways (`kernel/`, `shm/`), the judgement of headers (`fragment.rs`).

use nearcall_os::region::SharedBytes;

use crate::channel::{Channel, Interest, Readiness};
use crate::error::{ReceiveError, SendError};
use crate::fragments::incoming::Incoming;
use crate::fragments::outgoing::Outgoing;
use crate::transport::Transport;
use crate::wait::Deadline;

mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;

/// A [`Channel`] made of a [`Transport`].
pub(crate) struct FragmentChannel<W> {
    way: W,
    outgoing: Outgoing,
    incoming: Incoming,
}

impl<W: Transport> FragmentChannel<W> {
    pub(crate) fn new(way: W, message_bytes_max: u32) -> Self {
        Self { way, outgoing: Outgoing::default(), incoming: Incoming::new(message_bytes_max) }
    }
}

impl<W: Transport> Channel for FragmentChannel<W> {
    #[inline]
    fn claim(&mut self, message_bytes: usize, until: Deadline) -> Result<(), SendError> {
        self.outgoing.claim(&mut self.way, message_bytes, until)
    }

    #[inline]
    fn space(&mut self) -> Result<&mut [u8], SendError> {
        self.outgoing.space(&mut self.way)
    }

    #[inline]
    fn written(&mut self, bytes: usize) -> Result<(), SendError> {
        self.outgoing.written(&mut self.way, bytes)
    }

    #[inline]
    fn commit(&mut self) -> Result<(), SendError> {
        self.outgoing.commit(&mut self.way)
    }

    fn abort(&mut self) {
        self.outgoing.abort(&mut self.way);
    }

    #[inline]
    fn send(&mut self, message: &[u8], until: Deadline) -> Result<(), SendError> {
        self.outgoing.send(&mut self.way, message, until)
    }

    fn flush(&mut self, until: Deadline) -> Result<(), SendError> {
        self.outgoing.settle(&mut self.way, until)?;
        self.way.drain(until)
    }

    #[inline]
    fn receive(&mut self, until: Deadline) -> Result<usize, ReceiveError> {
        self.incoming.receive(&mut self.way, until)
    }

    #[inline]
    fn poll_ready(&mut self, spins: u32) -> bool {
        self.incoming.is_amid_message() || self.way.poll_ready(spins)
    }

    fn fragment(&mut self) -> Result<SharedBytes<'_>, ReceiveError> {
        self.incoming.fragment(&mut self.way)
    }

    fn consume(&mut self, bytes: usize) {
        self.incoming.consume(&mut self.way, bytes);
    }

    #[inline]
    fn read(&mut self, into: &mut [u8]) -> Result<(), ReceiveError> {
        self.incoming.read(&mut self.way, into)
    }

    #[inline]
    fn receive_into(&mut self, into: &mut [u8], until: Deadline) -> Result<usize, ReceiveError> {
        self.incoming.receive_into(&mut self.way, into, until)
    }

    #[inline]
    fn receive_small(&mut self, into: &mut [u8], until: Deadline) -> Result<usize, ReceiveError> {
        self.incoming.receive_small(&mut self.way, into, until)
    }

    #[inline]
    fn receive_vec(&mut self, into: &mut Vec<u8>, until: Deadline) -> Result<usize, ReceiveError> {
        self.incoming.receive_vec(&mut self.way, into, until)
    }

    fn swap_buffer(&mut self, buffer: &mut Vec<u8>) {
        self.incoming.swap_buffer(buffer);
    }

    #[inline]
    fn release(&mut self) {
        self.incoming.release(&mut self.way);
    }

    fn set_whole_messages_only(&mut self) {
        self.incoming.set_whole_messages_only();
    }

    fn discard_unsent(&mut self) {
        self.way.discard_unsent();
    }

    fn room_bytes(&self) -> std::io::Result<usize> {
        self.way.room_bytes()
    }

    fn fragment_bytes_max(&self) -> usize {
        self.way.fragment_bytes_max()
    }

    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>> {
        self.way.readiness(interest)
    }

    #[inline]
    fn arm(&mut self, interest: Interest) -> bool {
        self.way.arm(interest)
    }
}
