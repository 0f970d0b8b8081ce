//! The control line: the unix socket on which two ends met and which stays open between them.
//!
//! It is a SOCK_SEQPACKET socket: one packet is one message with its descriptors, so there is no
//! framing that a stranger could attack. It carries the handshake, then descriptors that the
//! users pass to each other. Its hang-up is how an end learns that the other is gone.
//! Always true: sending never waits; what comes in is at most `HANDSHAKE_PACKET_BYTES_MAX` bytes
//! with as many descriptors as were asked for, else the peer is broken.
//! Not here: what the packets of the handshake mean (`handshake.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nearcall_os::descriptor;
use nearcall_os::poll::{Interest, poll_one};

use crate::error::{Misdeed, ReceiveError, SendError};
use crate::limits::{HANDSHAKE_PACKET_BYTES_MAX, PASSED_DESCRIPTORS_MAX};
use crate::settings::Parts;
use crate::wait::Deadline;

/// First byte of a packet that passes descriptors between the users of a connection.
const PASSED: u8 = 0xD5;

/// One end of a control line.
#[derive(Debug)]
pub(crate) struct Control {
    socket: OwnedFd,
}

impl Control {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Sends one packet, or fails at once with `WouldBlock`.
    pub(crate) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match descriptor::send_with_fds_now(self, bytes, descriptors)? {
            Some(sent) if sent == bytes.len() => Ok(()),
            Some(_) => Err(io::ErrorKind::WriteZero.into()),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Waits for one packet with at most `descriptors_max` descriptors.
    pub(crate) fn receive(
        &self,
        until: Deadline,
        descriptors_max: usize,
    ) -> Result<Parts, ReceiveError> {
        if poll_one(self, Interest::Readable, until.timeout())?.is_none() {
            return Err(ReceiveError::Empty);
        }
        let mut buffer = [0; HANDSHAKE_PACKET_BYTES_MAX];
        let mut receive = || descriptor::receive_with_fds_now(self, &mut buffer, descriptors_max);
        let received = match receive() {
            // An end that left something unread is told of once, before the packets still here.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => receive(),
            received => received,
        };
        let received = received?.ok_or(ReceiveError::Empty)?;
        if received.truncated {
            return Err(Misdeed::BadPacket.into());
        }
        if received.bytes == 0 {
            return Err(ReceiveError::PeerGone);
        }
        Ok(Parts { bytes: buffer[..received.bytes].to_vec(), descriptors: received.fds })
    }

    pub(crate) fn pass_descriptors(&self, fds: &[BorrowedFd<'_>]) -> Result<(), SendError> {
        if fds.len() > PASSED_DESCRIPTORS_MAX {
            return Err(SendError::TooLarge {
                message_bytes: fds.len(),
                message_bytes_max: PASSED_DESCRIPTORS_MAX,
            });
        }
        Ok(self.send(&[PASSED], fds)?)
    }

    pub(crate) fn take_descriptors(&self, until: Deadline) -> Result<Vec<OwnedFd>, ReceiveError> {
        let parts = self.receive(until, PASSED_DESCRIPTORS_MAX)?;
        match parts.bytes[..] {
            [PASSED] => Ok(parts.descriptors),
            _ => Err(Misdeed::BadPacket.into()),
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
