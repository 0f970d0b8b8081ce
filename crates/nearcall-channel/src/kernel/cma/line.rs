//! The socket between two ends of cross-memory attach: records of 16 bytes, both ways.
//!
//! ```text
//! | header of the fragment: 8 bytes | offset: u32 | freed fragments: u16 | fragment or not: u16 |
//! ```
//!
//! **Invariants:** at most one record waits to be sent; what came in is decoded here and nowhere
//! else.
//! **Not here:** what an offset may be (`cma.rs`).

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nearcall_os::poll::{self, poll_one};
use nearcall_os::socket;

use crate::error::{ReceiveError, SendError, Violation};
use crate::fragment::{FragmentHeader, HEADER_BYTES};
use crate::wait::{Deadline, SpinYield, WaitPolicy};

/// A record that one end sends to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// So many fragments of the receiver of this record were read since the last one.
    pub(super) freed: u16,
    /// A fragment and where it lies.
    pub(super) fragment: Option<(FragmentHeader, usize)>,
}

/// One end of the socket.
pub(super) struct FdPair {
    /// `None` only after it was passed on.
    socket: Option<OwnedFd>,
    wait: WaitPolicy,
    inbox: Box<[u8]>,
    /// The part of `inbox` that has come and was not decoded.
    came: Range<usize>,
    outbox: [u8; RECORD_BYTES],
    /// The part of `outbox` that the socket has not taken.
    unsent: Range<usize>,
    ended: bool,
}

impl FdPair {
    pub(super) fn new(socket: OwnedFd, wait: WaitPolicy) -> Self {
        Self {
            socket: Some(socket),
            wait,
            inbox: vec![0; INBOX_BYTES].into_boxed_slice(),
            came: 0..0,
            outbox: [0; RECORD_BYTES],
            unsent: 0..0,
            ended: false,
        }
    }

    /// Waits until at least a part of a record has come.
    #[inline]
    pub(super) fn receive(&mut self, deadline: Deadline) -> Result<(), ReceiveError> {
        let Some(socket) = &self.socket else { return Err(ReceiveError::PeerGone) };
        if self.ended {
            return Err(ReceiveError::PeerGone);
        }
        self.inbox.copy_within(self.came.clone(), 0);
        self.came = 0..self.came.len();
        let free = &mut self.inbox[self.came.end..];
        match receive_some(socket, self.wait, free, deadline) {
            Ok(0) => {
                self.ended = true;
                Err(ReceiveError::PeerGone)
            }
            Ok(bytes) => {
                self.came.end += bytes;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Decodes the next record that came whole.
    #[inline]
    pub(super) fn next_record(&mut self) -> Result<Option<Record>, Violation> {
        let came = &self.inbox[self.came.clone()];
        let Some((bytes, _)) = came.split_first_chunk::<RECORD_BYTES>() else { return Ok(None) };
        let record = Record::decode(*bytes)?;
        self.came.start += RECORD_BYTES;
        Ok(Some(record))
    }

    /// Puts `record` up for sending. The one before has gone: [`drain`](FdPair::drain) said so.
    #[inline]
    pub(super) fn queue(&mut self, record: Record) {
        self.outbox = record.encode();
        self.unsent = 0..RECORD_BYTES;
    }

    /// Sends the record that waits. `Full`: not by the deadline.
    #[inline]
    pub(super) fn drain(&mut self, deadline: Deadline) -> Result<(), SendError> {
        while !self.unsent.is_empty() {
            let socket = self.socket.as_ref().ok_or(SendError::PeerGone)?;
            match socket::try_send(socket, &self.outbox[self.unsent.clone()])? {
                Some(bytes) => self.unsent.start += bytes,
                None if deadline == Deadline::NOW => return Err(SendError::Full),
                None => {
                    let ready = poll_one(socket, poll::Interest::Writable, deadline)?;
                    ready.ok_or(SendError::Full)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_waiting_to_send(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns whether the end of the other's records was read.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Nothing more is to be read.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Returns whether the other end has closed, as the kernel says. One system call.
    pub(super) fn has_hung_up(&self) -> bool {
        let Some(socket) = &self.socket else { return true };
        let ready = poll_one(socket, poll::Interest::HangUp, Deadline::NOW);
        self.ended || ready.is_ok_and(|ready| ready.is_some())
    }

    /// Waits in another way from now on.
    pub(super) fn wait_by(&mut self, wait: WaitPolicy) {
        self.wait = wait;
    }

    /// Sends nothing more; the other end reads what is there and then the end.
    pub(super) fn close(&self) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(()), |socket| socket::shutdown(socket, socket::Half::Send))
    }

    /// Passes the socket on.
    pub(super) fn take_socket(&mut self) -> Option<OwnedFd> {
        self.socket.take()
    }

    /// The socket, to wait on.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }
}

impl Record {
    fn encode(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        if let Some((header, offset)) = self.fragment {
            bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
            // An offset of ours lies within BUFFER_BYTES_MAX.
            let offset = u32::try_from(offset).unwrap_or(u32::MAX);
            bytes[8..12].copy_from_slice(&offset.to_le_bytes());
            bytes[14] = 1;
        }
        bytes[12..14].copy_from_slice(&self.freed.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; RECORD_BYTES]) -> Result<Self, Violation> {
        let [h0, h1, h2, h3, h4, h5, h6, h7, o0, o1, o2, o3, f0, f1, kind, zero] = bytes;
        let freed = u16::from_le_bytes([f0, f1]);
        match (kind, zero) {
            (0, 0) if bytes[..12] == [0; 12] => Ok(Self { freed, fragment: None }),
            (1, 0) => {
                let header = FragmentHeader::decode([h0, h1, h2, h3, h4, h5, h6, h7])?;
                let offset = u32::from_le_bytes([o0, o1, o2, o3]) as usize;
                Ok(Self { freed, fragment: Some((header, offset)) })
            }
            _ => Err(Violation::BadHeader),
        }
    }
}

#[inline]
fn receive_some(
    socket: &OwnedFd,
    wait: WaitPolicy,
    into: &mut [u8],
    deadline: Deadline,
) -> io::Result<usize> {
    if wait == WaitPolicy::Block && deadline == Deadline::NEVER {
        match socket::recv(socket, into) {
            // Who keeps a copy of our end can make it non-blocking.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
    }
    let mut spin_yield = SpinYield::default();
    loop {
        if wait != WaitPolicy::Spin && deadline != Deadline::NOW {
            let ready = poll_one(socket, poll::Interest::Readable, deadline)?;
            ready.ok_or(io::ErrorKind::TimedOut)?;
        }
        match socket::try_recv(socket, into)? {
            Some(bytes) => return Ok(bytes),
            None if deadline.has_passed() => return Err(io::ErrorKind::TimedOut.into()),
            None => spin_yield.count(),
        }
    }
}

/// Size of a record, in bytes.
const RECORD_BYTES: usize = 16;

/// Bytes that are read at once: more records than may be on their way.
const INBOX_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_way() {
        for record in [
            Record { freed: 7, fragment: None },
            Record { freed: 0, fragment: Some((FragmentHeader::data(9, 9, 0), 4096)) },
            Record { freed: u16::MAX, fragment: Some((FragmentHeader::aborted(5), 0)) },
        ] {
            assert_eq!(Record::decode(record.encode()), Ok(record));
        }
    }

    #[test]
    fn meaningless_records_are_refused() {
        let mut record = Record { freed: 1, fragment: None }.encode();
        record[3] = 1;
        assert_eq!(Record::decode(record), Err(Violation::BadHeader));
        assert_eq!(Record::decode([0xff; RECORD_BYTES]), Err(Violation::BadHeader));
    }
}
