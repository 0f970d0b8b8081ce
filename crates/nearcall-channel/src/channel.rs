//! Whole messages over a transport that moves fragments, behind one dynamic call per message.
//!
//! [`Channel`] erases the type of the [`Transport`]; below that call everything is compiled for the
//! mechanism. It has what the path of a message needs and nothing else: [`Endpoint`] reaches the
//! rest through [`Channel::parts`] and [`Channel::transport`].
//!
//! **Invariants:** one message is claimed at a time and one is being received at a time; a claim is
//! ended by a commit or an abort, a received message by a release; messages arrive whole, once and
//! in their order; no operation waits past its deadline or after the other end has gone. Sending
//! and receiving do not touch each other's state; they share the transport only.
//! **Not here:** the order of the calls (the guards of `endpoint.rs`), cutting and staging
//! (`channel/outgoing.rs`), reassembly (`channel/incoming.rs`), the transports (`kernel/`, `shm/`).
//!
//! [`Endpoint`]: crate::endpoint::Endpoint

use nearcall_os::region::CALL_HEADER_BYTES;

use crate::error::{ReceiveError, SendError};
use crate::fragment::FragmentHeader;
use crate::transport::Transport;
use crate::wait::Deadline;

pub(crate) use incoming::{Incoming, ReceiveBuffer};
pub(crate) use outgoing::Outgoing;

mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;

/// One end of a connection, whatever its mechanism.
///
/// All waiting follows the policy with which the mechanism was opened; [`Deadline::NOW`] never
/// waits, except for a lock that a mechanism shares with the other end (`shm/monitor.rs`).
pub(crate) trait Channel: Send {
    /// Sends a copy of `message`: claim, write and commit in one step.
    fn send(&mut self, message: &[u8], deadline: Deadline) -> Result<(), SendError>;

    /// Sends a message of `message_bytes`, one fragment at most, that `write` puts where the
    /// mechanism takes it from: claim, write and commit in one step. Returns what `write` has said,
    /// whether it has written all of it; nothing was sent if not.
    fn send_with(
        &mut self,
        message_bytes: usize,
        deadline: Deadline,
        write: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<bool, SendError>;

    /// Begins a message of `message_bytes` bytes, at most the connection's limit.
    ///
    /// With [`Deadline::NOW`] a success means that the rest of the message will not wait either.
    /// Otherwise the fragments of a long message wait for room until `deadline`.
    fn claim(&mut self, message_bytes: usize, deadline: Deadline) -> Result<(), SendError>;

    /// Returns the next part of the claimed message, to be written in place. Empty once all is
    /// written. After an error the message is lost and must be aborted.
    fn space(&mut self) -> Result<&mut [u8], SendError>;

    /// Makes the first `bytes` of the last [`space`](Self::space) final: they may travel.
    fn written(&mut self, bytes: usize) -> Result<(), SendError>;

    /// Ends the claimed message, all of which was written.
    ///
    /// Unless its deadline is [`Deadline::NEVER`], a part may still wait in this process. It is
    /// lost if the channel is dropped before a flush.
    fn commit(&mut self) -> Result<(), SendError>;

    /// Waits for a message and returns its length.
    ///
    /// With [`Deadline::NOW`] it is there as a whole. Otherwise its fragments may still be on their
    /// way, and reading them waits until `deadline`.
    fn receive(&mut self, deadline: Deadline) -> Result<usize, ReceiveError>;

    /// Receives, reads and releases a message that came in one fragment, and returns its length.
    ///
    /// `DoesNotFit`: it is longer than `into`, or something else than that;
    /// [`receive_long`](Self::receive_long) takes it.
    fn receive_small(&mut self, into: &mut [u8], deadline: Deadline)
    -> Result<usize, ReceiveError>;

    /// As [`receive_small`](Self::receive_small), for a message that it did not take. What has come
    /// of the message when `deadline` passes is kept for the next receive.
    fn receive_long(
        &mut self,
        into: ReceiveBuffer<'_>,
        deadline: Deadline,
    ) -> Result<usize, ReceiveError>;

    /// Copies the next `into.len()` bytes of the received message, which has as many left.
    fn read(&mut self, into: &mut [u8]) -> Result<(), ReceiveError>;

    /// Ends the received message, read or not, and frees its space. Does not wait.
    fn release(&mut self);

    /// Polls up to `spins` times. May return a false positive; a false negative is only temporary.
    fn poll_ready(&mut self, spins: u32) -> bool;

    /// Returns both halves and the transport, for what is not on the path of a message.
    fn parts(&mut self) -> ChannelParts<'_>;

    /// Returns the transport, to ask for its properties.
    fn transport(&self) -> &dyn Transport;
}

/// A channel taken apart.
pub(crate) struct ChannelParts<'a> {
    pub(crate) outgoing: &'a mut Outgoing,
    pub(crate) incoming: &'a mut Incoming,
    pub(crate) transport: &'a mut dyn Transport,
}

/// Makes a channel of messages of at most `message_bytes_max` bytes over `transport`.
pub(crate) fn over(
    transport: impl Transport + 'static,
    message_bytes_max: u32,
) -> Box<dyn Channel> {
    Box::new(FragmentChannel::new(transport, message_bytes_max))
}

struct FragmentChannel<T> {
    transport: T,
    outgoing: Outgoing,
    incoming: Incoming,
}

impl<T: Transport> FragmentChannel<T> {
    fn new(transport: T, message_bytes_max: u32) -> Self {
        let incoming = Incoming::new(message_bytes_max);
        Self { transport, outgoing: Outgoing::default(), incoming }
    }
}

impl<T: Transport> Channel for FragmentChannel<T> {
    /// For one fragment without a detour through the state.
    #[inline]
    fn send(&mut self, message: &[u8], deadline: Deadline) -> Result<(), SendError> {
        let Self { transport, outgoing, .. } = self;
        let message_bytes = message.len();
        if message_bytes > transport.fragment_bytes_max() {
            return outgoing.send_in_fragments(transport, message, deadline);
        }
        outgoing.settle(transport, deadline)?;
        transport.reserve(message_bytes, deadline)?;
        copy(message, transport.room());
        transport.publish(FragmentHeader::data(message_bytes, message_bytes, 0), deadline)
    }

    #[inline]
    fn send_with(
        &mut self,
        message_bytes: usize,
        deadline: Deadline,
        write: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<bool, SendError> {
        let Self { transport, outgoing, .. } = self;
        outgoing.settle(transport, deadline)?;
        transport.reserve(message_bytes, deadline)?;
        let mut reserved = Reserved(Some(transport));
        if !write(reserved.room()) {
            return Ok(false);
        }
        reserved.publish(FragmentHeader::data(message_bytes, message_bytes, 0), deadline)?;
        Ok(true)
    }

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

    #[inline]
    fn receive(&mut self, deadline: Deadline) -> Result<usize, ReceiveError> {
        self.incoming.receive(&mut self.transport, deadline)
    }

    /// Without a detour through the state. `DoesNotFit`: the message is still there.
    #[inline]
    fn receive_small(
        &mut self,
        into: &mut [u8],
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        let Self { transport, incoming, .. } = self;
        if incoming.is_amid_message() {
            return Err(ReceiveError::DoesNotFit { message_bytes: 0 });
        }
        let header = match transport.next(deadline) {
            Ok(header) => header,
            Err(error) => return Err(incoming.record_violation(error)),
        };
        let message_bytes = header.message_bytes as usize;
        if incoming.is_whole_message(header)
            && message_bytes <= into.len()
            && (deadline == Deadline::NEVER || transport.is_whole(message_bytes))
        {
            let outcome = transport.read(&mut into[..message_bytes], deadline);
            transport.finish();
            return match outcome {
                Ok(()) => Ok(message_bytes),
                Err(error) => Err(incoming.record_violation(error)),
            };
        }
        incoming.offer(transport, header)
    }

    fn receive_long(
        &mut self,
        into: ReceiveBuffer<'_>,
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        self.incoming.receive_long(&mut self.transport, into, deadline)
    }

    #[inline]
    fn read(&mut self, into: &mut [u8]) -> Result<(), ReceiveError> {
        self.incoming.read(&mut self.transport, into)
    }

    #[inline]
    fn release(&mut self) {
        self.incoming.release(&mut self.transport);
    }

    #[inline]
    fn poll_ready(&mut self, spins: u32) -> bool {
        self.incoming.is_amid_message() || self.transport.poll_ready(spins)
    }

    fn parts(&mut self) -> ChannelParts<'_> {
        let Self { transport, outgoing, incoming } = self;
        ChannelParts { outgoing, incoming, transport }
    }

    fn transport(&self) -> &dyn Transport {
        &self.transport
    }
}

/// A transport with a reserved fragment, which goes back unsent if it is dropped: also when what
/// writes it panics.
struct Reserved<'a, T: Transport>(Option<&'a mut T>);

impl<T: Transport> Reserved<'_, T> {
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        self.0.as_mut().map_or(&mut [], |transport| transport.room())
    }

    #[inline]
    fn publish(mut self, header: FragmentHeader, deadline: Deadline) -> Result<(), SendError> {
        self.0.take().map_or(Ok(()), |transport| transport.publish(header, deadline))
    }
}

impl<T: Transport> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        if let Some(transport) = &mut self.0 {
            transport.unreserve();
        }
    }
}

/// Copies all of `from`. One word and an empty call are so common that they have copies of their
/// own, without a function that does any length.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8]) {
    if !copy_exactly::<8>(from, to) && !copy_exactly::<CALL_HEADER_BYTES>(from, to) {
        to.copy_from_slice(from);
    }
}

/// Returns whether both are of this length, and then the copy is done.
#[inline(always)]
fn copy_exactly<const BYTES: usize>(from: &[u8], to: &mut [u8]) -> bool {
    match (<&[u8; BYTES]>::try_from(from), <&mut [u8; BYTES]>::try_from(to)) {
        (Ok(from), Ok(to)) => {
            *to = *from;
            true
        }
        _ => false,
    }
}
