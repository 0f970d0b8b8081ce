//! Fragments over packets: what all objects share that keep messages apart.
//!
//! One fragment is one packet with the header in front, written and read in private buffers.
//!
//! **Invariants:** a packet that the kernel has not taken yet stays in the buffer, and nothing is
//! written over it; the length of a packet must be what its header says, else the peer is broken.
//! **Not here:** the objects (`unix.rs`, `udp.rs`, `posix_mq.rs`, `sysv_mq.rs`), the judgement of
//! what the headers mean for a message (`fragment.rs`).

use std::io;
use std::ops::Range;

use nearcall_os::region::SharedBytes;

use crate::error::{ReceiveError, SendError, Violation};
use crate::fragment::{FragmentHeader, HEADER_BYTES};
use crate::kernel::{Attempt, FdPair, WaitStrategy};
use crate::limits::PENDING_INTERVAL;
use crate::transport::Transport;
use crate::wait::{Deadline, Interest, Readiness};

/// The result of a receive.
pub(crate) enum Received {
    /// A packet, in this part of the incoming buffer.
    Packet(Range<usize>),
    /// The other end has closed.
    End,
    /// A packet of the watcher, which ends a sleep. From a peer that lives it is a violation.
    WakeUp,
    /// Something that no correct peer sends.
    Nonsense(Violation),
}

/// The kernel objects of packets, both ways, with their buffers.
pub(crate) trait PacketSocket: FdPair {
    /// The buffer of the packet to send, as long as the longest packet.
    fn outgoing(&mut self) -> &mut [u8];
    /// The buffer of what was received.
    fn incoming(&self) -> &[u8];
    /// Sends the first `packet_bytes` of the outgoing buffer as one packet.
    fn send(&mut self, packet_bytes: usize, how: Attempt) -> io::Result<Option<()>>;
    /// Receives one packet into the incoming buffer.
    fn receive(&mut self, how: Attempt) -> io::Result<Option<Received>>;
    /// Returns whether a packet could be sent now.
    fn has_room(&mut self) -> io::Result<bool> {
        self.wait_for(Interest::Send, Deadline::NOW)
    }
    /// Reads back the capacity of the object.
    fn room_bytes(&self) -> io::Result<usize>;
    /// Returns the descriptor that an event loop waits on.
    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>>;
    /// Returns whether a sleep on `readiness` makes sense.
    fn arm(&mut self, _interest: Interest) -> bool {
        true
    }
}

/// One end of a way for packets.
pub(crate) struct PacketTransport<P> {
    line: P,
    strategy: WaitStrategy,
    packet_bytes_max: usize,
    /// Length of the reserved fragment.
    fragment_bytes: usize,
    /// Length of the packet that the kernel has not taken yet; zero if there is none.
    pending_bytes: usize,
    /// The unread rest of the current fragment, in the incoming buffer.
    current: Range<usize>,
}

impl<P: PacketSocket> PacketTransport<P> {
    pub(crate) fn new(mut line: P, strategy: WaitStrategy) -> Self {
        let packet_bytes_max = line.outgoing().len();
        Self {
            line,
            strategy,
            packet_bytes_max,
            fragment_bytes: 0,
            pending_bytes: 0,
            current: 0..0,
        }
    }

    /// Hands the pending packet to the kernel.
    #[inline]
    fn push(&mut self, deadline: Deadline) -> Result<(), SendError> {
        let packet_bytes = self.pending_bytes;
        if packet_bytes == 0 {
            return Ok(());
        }
        let attempt = |line: &mut P, how| line.send(packet_bytes, how);
        let sent = self.strategy.until_done(&mut self.line, Interest::Send, deadline, attempt);
        sent.map_err(send_error)?.ok_or(SendError::Full)?;
        self.pending_bytes = 0;
        Ok(())
    }

    /// Receives one packet into the incoming buffer.
    #[inline]
    fn pull(&mut self, deadline: Deadline) -> Result<Range<usize>, ReceiveError> {
        loop {
            // The other end may wait for just this before it sends what we wait for.
            let until_now = match self.pending_bytes > 0 {
                true => self.push_aside(deadline),
                false => deadline,
            };
            let attempt = |line: &mut P, how| line.receive(how);
            let interest = Interest::Receive;
            let received = self.strategy.until_done(&mut self.line, interest, until_now, attempt);
            match received? {
                Some(Received::Packet(range)) => return Ok(range),
                Some(Received::End) => return Err(ReceiveError::PeerGone),
                Some(Received::WakeUp) if self.strategy.is_gone() => {}
                Some(Received::WakeUp) => return Err(Violation::BadHeader.into()),
                Some(Received::Nonsense(violation)) => return Err(violation.into()),
                None if self.strategy.is_interrupted() => return Err(ReceiveError::Empty),
                None if self.pending_bytes > 0 && !deadline.has_passed() => {}
                None => return Err(ReceiveError::Empty),
            }
        }
    }

    /// Tries to send what is pending. Until when to receive before the next such try.
    #[cold]
    fn push_aside(&mut self, deadline: Deadline) -> Deadline {
        // An error will be met again by the next send, or shows as the end of what is received.
        let _ = self.push(Deadline::NOW);
        match (self.pending_bytes > 0, deadline) {
            (false, _) | (_, Deadline::NOW) => deadline,
            (true, _) => deadline.min(Deadline::after(PENDING_INTERVAL)),
        }
    }
}

impl<P: PacketSocket> PacketTransport<P> {
    /// Drops a packet whose send has failed: its message may be sent again over another connection.
    #[cold]
    fn give_up(&mut self, error: SendError) -> SendError {
        self.pending_bytes = 0;
        error
    }
}

impl<P: PacketSocket> Transport for PacketTransport<P> {
    fn room_bytes(&self) -> io::Result<usize> {
        self.line.room_bytes()
    }

    fn fragment_bytes_max(&self) -> usize {
        self.packet_bytes_max - HEADER_BYTES
    }

    fn has_room_for(&mut self, _message_bytes: usize) -> bool {
        // The kernel does not say how many packets it would take.
        false
    }

    #[inline]
    fn reserve(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError> {
        if self.strategy.is_gone() {
            return Err(SendError::PeerGone);
        }
        self.push(deadline)?;
        let interruptible = deadline == Deadline::NEVER && self.strategy.may_be_interrupted();
        if deadline.is_moment() || interruptible {
            // So that a claim fails where nothing could go out in time, rather than stay here.
            let attempt = |line: &mut P, _| Ok(line.has_room()?.then_some(()));
            let room = self.strategy.until_done(&mut self.line, Interest::Send, deadline, attempt);
            room.map_err(send_error)?.ok_or(SendError::Full)?;
        }
        self.fragment_bytes = fragment_bytes;
        Ok(())
    }

    #[inline]
    fn room(&mut self) -> &mut [u8] {
        let end = HEADER_BYTES + self.fragment_bytes;
        &mut self.line.outgoing()[HEADER_BYTES..end]
    }

    #[inline]
    fn publish(&mut self, header: FragmentHeader, deadline: Deadline) -> Result<(), SendError> {
        self.line.outgoing()[..HEADER_BYTES].copy_from_slice(&header.encode());
        self.pending_bytes = HEADER_BYTES + self.fragment_bytes;
        self.fragment_bytes = 0;
        self.strategy.set_interruptible(false);
        let pushed = self.push(deadline);
        self.strategy.set_interruptible(true);
        match pushed {
            // It goes out before anything else.
            Err(SendError::Full) => Ok(()),
            Err(error) => Err(self.give_up(error)),
            Ok(()) => Ok(()),
        }
    }

    fn unreserve(&mut self) {
        self.fragment_bytes = 0;
    }

    fn drain(&mut self, deadline: Deadline) -> Result<(), SendError> {
        match self.push(deadline) {
            Err(SendError::Full) => Err(SendError::Full),
            Err(error) => Err(self.give_up(error)),
            Ok(()) => Ok(()),
        }
    }

    #[inline]
    fn next(&mut self, deadline: Deadline) -> Result<FragmentHeader, ReceiveError> {
        let packet = self.pull(deadline)?;
        let bytes = &self.line.incoming()[packet.clone()];
        let Some((header, fragment)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(Violation::BadHeader.into());
        };
        let header = FragmentHeader::decode(*header)?;
        if header.fragment_bytes as usize != fragment.len() {
            return Err(Violation::BadHeader.into());
        }
        self.current = packet.start + HEADER_BYTES..packet.end;
        Ok(header)
    }

    #[inline]
    fn is_whole(&mut self, _fragment_bytes: usize) -> bool {
        true
    }

    #[inline]
    fn bytes(&mut self, _until: Deadline) -> Result<SharedBytes<'_>, ReceiveError> {
        Ok(SharedBytes::from_slice(&self.line.incoming()[self.current.clone()]))
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.current.start += bytes;
    }

    #[inline]
    fn finish(&mut self) {
        self.current = 0..0;
    }

    fn set_interruptible(&mut self, interruptible: bool) {
        self.strategy.set_interruptible(interruptible);
    }

    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>> {
        self.line.readiness(interest)
    }

    #[inline]
    fn arm(&mut self, interest: Interest) -> bool {
        !self.strategy.is_gone() && self.line.arm(interest)
    }
}

/// A violation that a line found while sending, as an `io::Error` that [`send_error`] understands.
pub(crate) fn violation_error(violation: Violation) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, violation)
}

fn send_error(error: io::Error) -> SendError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Violation>()) {
        Some(violation) => SendError::PeerBroken(*violation),
        None => error.into(),
    }
}
