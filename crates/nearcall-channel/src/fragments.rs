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
    transport: W,
    outgoing: Outgoing,
    incoming: Incoming,
}

impl<W: Transport> FragmentChannel<W> {
    pub(crate) fn new(transport: W, message_bytes_max: u32) -> Self {
        Self {
            transport,
            outgoing: Outgoing::default(),
            incoming: Incoming::new(message_bytes_max),
        }
    }
}

impl<W: Transport> Channel for FragmentChannel<W> {
    #[inline]
    fn claim(&mut self, message_bytes: usize, deadline: Deadline) -> Result<(), SendError> {
        self.outgoing.claim(&mut self.transport, message_bytes, deadline)
    }

    #[inline]
    fn space(&mut self) -> Result<&mut [u8], SendError> {
        self.outgoing.space(&mut self.transport)
    }

    #[inline]
    fn written(&mut self, bytes: usize) -> Result<(), SendError> {
        self.outgoing.written(&mut self.transport, bytes)
    }

    #[inline]
    fn commit(&mut self) -> Result<(), SendError> {
        self.outgoing.commit(&mut self.transport)
    }

    fn abort(&mut self) {
        self.outgoing.abort(&mut self.transport);
    }

    #[inline]
    fn send(&mut self, message: &[u8], deadline: Deadline) -> Result<(), SendError> {
        self.outgoing.send(&mut self.transport, message, deadline)
    }

    fn flush(&mut self, deadline: Deadline) -> Result<(), SendError> {
        self.outgoing.settle(&mut self.transport, deadline)?;
        self.transport.drain(deadline)
    }

    #[inline]
    fn receive(&mut self, deadline: Deadline) -> Result<usize, ReceiveError> {
        self.incoming.receive(&mut self.transport, deadline)
    }

    #[inline]
    fn poll_ready(&mut self, spins: u32) -> bool {
        self.incoming.is_amid_message() || self.transport.poll_ready(spins)
    }

    fn fragment(&mut self) -> Result<SharedBytes<'_>, ReceiveError> {
        self.incoming.fragment(&mut self.transport)
    }

    fn consume(&mut self, bytes: usize) {
        self.incoming.consume(&mut self.transport, bytes);
    }

    #[inline]
    fn read(&mut self, into: &mut [u8]) -> Result<(), ReceiveError> {
        self.incoming.read(&mut self.transport, into)
    }

    #[inline]
    fn receive_into(&mut self, into: &mut [u8], deadline: Deadline) -> Result<usize, ReceiveError> {
        self.incoming.receive_into(&mut self.transport, into, deadline)
    }

    #[inline]
    fn receive_small(
        &mut self,
        into: &mut [u8],
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        self.incoming.receive_small(&mut self.transport, into, deadline)
    }

    #[inline]
    fn receive_vec(
        &mut self,
        into: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        self.incoming.receive_vec(&mut self.transport, into, deadline)
    }

    fn swap_buffer(&mut self, buffer: &mut Vec<u8>) {
        self.incoming.swap_buffer(buffer);
    }

    #[inline]
    fn release(&mut self) {
        self.incoming.release(&mut self.transport);
    }

    fn set_whole_messages_only(&mut self) {
        self.incoming.set_whole_messages_only();
    }

    fn discard_unsent(&mut self) {
        self.transport.discard_unsent();
    }

    fn room_bytes(&self) -> std::io::Result<usize> {
        self.transport.room_bytes()
    }

    fn fragment_bytes_max(&self) -> usize {
        self.transport.fragment_bytes_max()
    }

    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>> {
        self.transport.readiness(interest)
    }

    #[inline]
    fn arm(&mut self, interest: Interest) -> bool {
        self.transport.arm(interest)
    }
}
