//! Fragments over a byte stream: what pipes and stream sockets share.
//!
//! A fragment is its header and its bytes, contiguous in a private buffer, so that one system call
//! sends both. The receiver reads ahead into a private buffer: one system call takes a header with
//! its small fragment and as many following messages as are there. The rest of a large fragment
//! goes from the kernel straight into the caller's memory.
//!
//! **Invariants:** `pending` is the part of a published fragment that the kernel has not taken yet;
//! nothing else is sent before it. What is read ahead is private, so a peer cannot change it.
//! **Not here:** the objects (`pipe.rs`, `fifo.rs`, `unix.rs`, `tcp.rs`), the judgement of headers
//! (`fragment.rs`).

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use nearcall_os::pipe::queued_bytes;
use nearcall_os::poll::{PollFd, PollFlags, poll, poll_one};
use nearcall_os::region::SharedBytes;

use crate::error::{OpenError, ReceiveError, SendError};
use crate::fragment::{FragmentHeader, HEADER_BYTES};
use crate::growing::open_buffer;
use crate::kernel::{Attempt, FdPair, WaitStrategy, poll_interest};
use crate::transport::Transport;
use crate::wait::{Deadline, Interest, Readiness, WaitPolicy};

/// The kernel objects of a stream, both ways.
pub(crate) trait ByteStream: Send {
    /// Reads what is there, at most `into.len()` bytes, in one system call where the object allows
    /// it. Zero: the other end has closed.
    fn read(&self, into: &mut [u8], how: Attempt) -> io::Result<Option<usize>>;
    /// Writes, perhaps less than all.
    fn write(&self, bytes: &[u8], how: Attempt) -> io::Result<Option<usize>>;
    /// Reads back the capacity of the object.
    fn room_bytes(&self) -> io::Result<usize>;
    /// Returns the descriptor that becomes readable.
    fn reader(&self) -> BorrowedFd<'_>;
    /// Returns the descriptor that becomes writable.
    fn writer(&self) -> BorrowedFd<'_>;
    /// Returns whether the other end is known to be gone although a write would still succeed.
    fn is_gone(&self) -> bool {
        false
    }
}

impl<B: ByteStream> FdPair for B {
    fn wait_for(&mut self, interest: Interest, deadline: Deadline) -> io::Result<bool> {
        let fd = match interest {
            Interest::Receive => self.reader(),
            Interest::Send => self.writer(),
        };
        Ok(poll_one(fd, poll_interest(interest), deadline)?.is_some())
    }
}

/// One end of a stream.
pub(crate) struct StreamTransport<B> {
    line: B,
    strategy: WaitStrategy,
    outbox: Outbox,
    inbox: Inbox,
}

/// The message that is being sent.
struct Outbox {
    /// A header and the longest fragment.
    buffer: Box<[u8]>,
    fragment_bytes: usize,
    pending: Range<usize>,
    /// A fragment was given up, perhaps in its middle, or the other end has closed: nothing may
    /// follow.
    is_over: bool,
}

/// The bytes that have been read ahead.
struct Inbox {
    buffer: Box<[u8]>,
    filled: Range<usize>,
    /// The unread rest of the current fragment, in the buffer or still to come.
    left_bytes: usize,
    /// The rest of finished fragments that were not read to their end, still to come.
    skip_bytes: usize,
}

impl<B: ByteStream> StreamTransport<B> {
    /// # Errors
    ///
    /// There is no memory for its buffers.
    pub(crate) fn new(line: B, wait: WaitPolicy) -> Result<Self, OpenError> {
        Ok(Self {
            line,
            strategy: WaitStrategy { wait, liveness: None },
            outbox: Outbox {
                buffer: open_buffer(STREAM_FRAGMENT_BYTES)?,
                fragment_bytes: 0,
                pending: 0..0,
                is_over: false,
            },
            inbox: Inbox {
                buffer: open_buffer(AHEAD_BYTES)?,
                filled: 0..0,
                left_bytes: 0,
                skip_bytes: 0,
            },
        })
    }

    /// Hands the pending bytes to the kernel. `Full`: not all of them by the deadline. After any
    /// other error they are never sent: their message may be sent again over another connection.
    #[inline]
    fn push(&mut self, deadline: Deadline) -> Result<(), SendError> {
        let Outbox { buffer, pending, is_over, .. } = &mut self.outbox;
        while pending.start < pending.end {
            let rest = &buffer[pending.clone()];
            let attempt = |line: &mut B, how| line.write(rest, how);
            let line = &mut self.line;
            match self.strategy.until_done(line, Interest::Send, deadline, attempt) {
                Ok(Some(bytes)) => pending.start += bytes,
                Ok(None) => return Err(SendError::Full),
                Err(error) => {
                    (*pending, *is_over) = (0..0, true);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Reads once into the buffer behind what is there, at most `bytes_max`.
    #[inline]
    fn fill(&mut self, bytes_max: usize, deadline: Deadline) -> Result<(), ReceiveError> {
        let Inbox { buffer, filled, .. } = &mut self.inbox;
        if filled.start == filled.end {
            *filled = 0..0;
        } else if filled.end == buffer.len() || filled.len() < HEADER_BYTES {
            buffer.copy_within(filled.clone(), 0);
            *filled = 0..filled.len();
        }
        let end = filled.end.saturating_add(bytes_max).min(buffer.len());
        let into = &mut buffer[filled.end..end];
        let bytes = read_once(&mut self.line, &self.strategy, &mut self.outbox, into, deadline)?;
        filled.end += bytes;
        Ok(())
    }

    /// Throws away what is left of fragments that were finished before their end.
    #[cold]
    fn skip(&mut self, deadline: Deadline) -> Result<(), ReceiveError> {
        while self.inbox.skip_bytes > 0 {
            if self.inbox.filled.is_empty() {
                self.fill(AHEAD_BYTES, deadline)?;
            }
            let bytes = self.inbox.filled.len().min(self.inbox.skip_bytes);
            self.inbox.filled.start += bytes;
            self.inbox.skip_bytes -= bytes;
        }
        Ok(())
    }
}

/// Reads once. Waits as `deadline` says; never gives zero.
#[inline]
fn read_once<B: ByteStream>(
    line: &mut B,
    strategy: &WaitStrategy,
    outbox: &mut Outbox,
    into: &mut [u8],
    deadline: Deadline,
) -> Result<usize, ReceiveError> {
    if !outbox.pending.is_empty() {
        return read_while_sending(line, outbox, into, deadline);
    }
    let attempt = |line: &mut B, how| line.read(into, how);
    match strategy.until_done(line, Interest::Receive, deadline, attempt)? {
        Some(0) => Err(ended(outbox)),
        Some(bytes) => Ok(bytes),
        None => Err(ReceiveError::Empty),
    }
}

/// The other end has closed, and everything from it was read. TCP would still take a message.
#[cold]
fn ended(outbox: &mut Outbox) -> ReceiveError {
    outbox.is_over = true;
    ReceiveError::PeerGone
}

/// Reads once, and moves on what earlier sends left here: the other end may wait for just that
/// before it sends what we wait for.
#[cold]
fn read_while_sending<B: ByteStream>(
    line: &mut B,
    outbox: &mut Outbox,
    into: &mut [u8],
    deadline: Deadline,
) -> Result<usize, ReceiveError> {
    loop {
        let mut flags = PollFlags::IN;
        if !outbox.pending.is_empty() {
            match line.write(&outbox.buffer[outbox.pending.clone()], Attempt::NonBlocking) {
                Ok(bytes) => {
                    outbox.pending.start += bytes.unwrap_or(0);
                    flags |= PollFlags::OUT;
                }
                Err(error) => match ReceiveError::from(error) {
                    // An end that has closed still has to be read out; reading will tell.
                    ReceiveError::PeerGone => outbox.pending = 0..0,
                    // Such as no memory: what is pending was promised, and would be lost.
                    error => return Err(error),
                },
            }
        }
        match line.read(into, Attempt::NonBlocking)? {
            Some(0) => return Err(ended(outbox)),
            Some(bytes) => return Ok(bytes),
            None if deadline.has_passed() => return Err(ReceiveError::Empty),
            None => {}
        }
        let mut both = [
            PollFd::from_borrowed_fd(line.reader(), PollFlags::IN),
            PollFd::from_borrowed_fd(line.writer(), flags & PollFlags::OUT),
        ];
        let fds = if outbox.pending.is_empty() { &mut both[..1] } else { &mut both[..] };
        poll(fds, deadline)?;
    }
}

impl<B: ByteStream> Transport for StreamTransport<B> {
    fn room_bytes(&self) -> io::Result<usize> {
        self.line.room_bytes()
    }

    fn fragment_bytes_max(&self) -> usize {
        STREAM_FRAGMENT_BYTES - HEADER_BYTES
    }

    fn has_room_for(&mut self, _message_bytes: usize) -> bool {
        // A stream does not say how much it would take.
        false
    }

    #[inline]
    fn reserve(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError> {
        if self.line.is_gone() || self.outbox.is_over {
            return Err(SendError::PeerGone);
        }
        self.push(deadline)?;
        if deadline.is_moment() {
            // So that a claim fails where nothing could go out in time, rather than stay here.
            let attempt = |line: &mut B, _| {
                let ready = line.wait_for(Interest::Send, Deadline::NOW)?;
                Ok(ready.then_some(()))
            };
            let ready =
                self.strategy.until_done(&mut self.line, Interest::Send, deadline, attempt)?;
            ready.ok_or(SendError::Full)?;
        }
        self.outbox.fragment_bytes = fragment_bytes;
        Ok(())
    }

    #[inline]
    fn room(&mut self) -> &mut [u8] {
        &mut self.outbox.buffer[HEADER_BYTES..HEADER_BYTES + self.outbox.fragment_bytes]
    }

    #[inline]
    fn publish(&mut self, header: FragmentHeader, deadline: Deadline) -> Result<(), SendError> {
        self.outbox.buffer[..HEADER_BYTES].copy_from_slice(&header.encode());
        self.outbox.pending = 0..HEADER_BYTES + self.outbox.fragment_bytes;
        self.outbox.fragment_bytes = 0;
        match self.push(deadline) {
            // The fragment is under way: the rest goes out before anything else.
            Err(SendError::Full) => Ok(()),
            outcome => outcome,
        }
    }

    fn unreserve(&mut self) {
        self.outbox.fragment_bytes = 0;
    }

    fn drain(&mut self, deadline: Deadline) -> Result<(), SendError> {
        self.push(deadline)
    }

    fn unsent_bytes(&self) -> usize {
        self.outbox.pending.len()
    }

    #[inline]
    fn next(&mut self, deadline: Deadline) -> Result<FragmentHeader, ReceiveError> {
        if self.inbox.skip_bytes > 0 {
            self.skip(deadline)?;
        }
        while self.inbox.filled.len() < HEADER_BYTES {
            self.fill(HEADER_READ_BYTES, deadline)?;
        }
        let start = self.inbox.filled.start;
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&self.inbox.buffer[start..start + HEADER_BYTES]);
        self.inbox.filled.start += HEADER_BYTES;
        let header = FragmentHeader::decode(header)?;
        self.inbox.left_bytes = header.fragment_bytes as usize;
        Ok(header)
    }

    #[inline]
    fn is_whole(&mut self, fragment_bytes: usize) -> bool {
        let here = self.inbox.filled.len();
        here >= fragment_bytes
            || queued_bytes(self.line.reader()).is_ok_and(|queued| here + queued >= fragment_bytes)
    }

    #[inline]
    fn bytes(&mut self, deadline: Deadline) -> Result<SharedBytes<'_>, ReceiveError> {
        if self.inbox.filled.is_empty() {
            self.fill(AHEAD_BYTES, deadline)?;
        }
        let Inbox { buffer, filled, left_bytes, .. } = &self.inbox;
        let bytes = filled.len().min(*left_bytes);
        Ok(SharedBytes::from_slice(&buffer[filled.start..filled.start + bytes]))
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.inbox.filled.start += bytes;
        self.inbox.left_bytes -= bytes;
    }

    #[inline]
    fn read(&mut self, into: &mut [u8], deadline: Deadline) -> Result<(), ReceiveError> {
        let mut rest = into;
        loop {
            let Inbox { buffer, filled, left_bytes, .. } = &mut self.inbox;
            let bytes = filled.len().min(rest.len());
            let (now, later) = rest.split_at_mut(bytes);
            now.copy_from_slice(&buffer[filled.start..filled.start + bytes]);
            filled.start += bytes;
            *left_bytes -= bytes;
            rest = later;
            if rest.is_empty() {
                return Ok(());
            }
            if rest.len() < DIRECT_READ_BYTES_MIN {
                self.fill(HEADER_READ_BYTES, deadline)?;
                continue;
            }
            let outbox = &mut self.outbox;
            let bytes = read_once(&mut self.line, &self.strategy, outbox, rest, deadline)?;
            self.inbox.left_bytes -= bytes;
            rest = &mut rest[bytes..];
        }
    }

    fn read_some(&mut self, into: &mut [u8], deadline: Deadline) -> Result<usize, ReceiveError> {
        let Self { line, strategy, outbox, inbox, .. } = self;
        if !inbox.filled.is_empty() || into.len() < DIRECT_READ_BYTES_MIN {
            let here = self.bytes(deadline)?;
            let bytes = here.len().min(into.len());
            here.slice(0..bytes).copy_to(&mut into[..bytes]);
            self.consume(bytes);
            return Ok(bytes);
        }
        let bytes = read_once(line, strategy, outbox, into, deadline)?;
        inbox.left_bytes -= bytes;
        Ok(bytes)
    }

    #[inline]
    fn finish(&mut self) {
        let Inbox { filled, left_bytes, skip_bytes, .. } = &mut self.inbox;
        if *left_bytes > 0 {
            let here = filled.len().min(*left_bytes);
            filled.start += here;
            *skip_bytes += *left_bytes - here;
            *left_bytes = 0;
        }
    }

    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>> {
        Some(match interest {
            Interest::Receive => Readiness::level(self.line.reader(), false),
            Interest::Send => Readiness::level(self.line.writer(), true),
        })
    }

    #[inline]
    fn arm(&mut self, interest: Interest) -> bool {
        let Inbox { filled, left_bytes, skip_bytes, .. } = &self.inbox;
        let worth_asking = match (left_bytes + skip_bytes, filled.len()) {
            (0, here) => here >= HEADER_BYTES,
            (_, here) => here > 0,
        };
        interest == Interest::Send || !worth_asking
    }
}

/// A fragment with its header, in bytes: one system call each. Fewer calls than with the 16 KiB of
/// shared memory matter more here than a copy that stays in the first-level cache.
const STREAM_FRAGMENT_BYTES: usize = 64 << 10;

/// Most bytes that are read ahead.
const AHEAD_BYTES: usize = 64 << 10;

/// Most bytes that are read together with a header. More would be copied twice when a large
/// fragment follows; less would cost small messages more calls.
const HEADER_READ_BYTES: usize = 8 << 10;

/// A rest of a fragment from this length on, in bytes, is read straight into the caller's memory;
/// below, the copy is cheaper than the system call that it may save for the next message.
const DIRECT_READ_BYTES_MIN: usize = 1 << 10;

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::os::fd::{AsFd, OwnedFd};

    use nearcall_os::socket::{Kind, unix_pair};

    use super::*;

    /// A stream whose writes end as a test says, and that always has a whole message to read.
    struct Line {
        socket: OwnedFd,
        writes: RefCell<VecDeque<io::Result<Option<usize>>>>,
    }

    impl ByteStream for Line {
        fn read(&self, into: &mut [u8], _: Attempt) -> io::Result<Option<usize>> {
            into[..HEADER_BYTES].copy_from_slice(&FragmentHeader::data(0, 0, 0).encode());
            Ok(Some(HEADER_BYTES))
        }

        fn write(&self, _: &[u8], _: Attempt) -> io::Result<Option<usize>> {
            self.writes.borrow_mut().pop_front().unwrap()
        }

        fn room_bytes(&self) -> io::Result<usize> {
            Ok(usize::MAX)
        }

        fn reader(&self) -> BorrowedFd<'_> {
            self.socket.as_fd()
        }

        fn writer(&self) -> BorrowedFd<'_> {
            self.socket.as_fd()
        }
    }

    /// Receives while a part of a message is here that a write with this outcome does not take.
    fn receive_while(outcome: io::Error) -> Result<FragmentHeader, ReceiveError> {
        let (socket, _peer) = unix_pair(Kind::Stream).unwrap();
        let writes = RefCell::new([Ok(Some(3)), Ok(None), Err(outcome)].into());
        let mut stream = StreamTransport::new(Line { socket, writes }, WaitPolicy::Poll).unwrap();
        stream.reserve(5, Deadline::NOW).unwrap();
        stream.publish(FragmentHeader::data(5, 5, 0), Deadline::NOW).unwrap();
        stream.next(Deadline::NOW)
    }

    #[test]
    fn a_message_that_cannot_be_sent_on_is_never_dropped_without_an_error() {
        let no_memory = io::Error::from_raw_os_error(105);
        assert!(matches!(receive_while(no_memory), Err(ReceiveError::Os(_))));
    }

    #[test]
    fn nothing_of_a_message_leaves_after_its_send_has_failed() {
        let (socket, _peer) = unix_pair(Kind::Stream).unwrap();
        let no_memory = io::Error::from_raw_os_error(105);
        // A further write would panic.
        let writes = RefCell::new([Ok(Some(3)), Err(no_memory)].into());
        let mut stream = StreamTransport::new(Line { socket, writes }, WaitPolicy::Poll).unwrap();
        stream.reserve(5, Deadline::NOW).unwrap();
        let sent = stream.publish(FragmentHeader::data(5, 5, 0), Deadline::NOW);
        assert!(matches!(sent, Err(SendError::Os(_))));
        stream.drain(Deadline::NOW).unwrap();
        assert!(matches!(stream.reserve(5, Deadline::NOW), Err(SendError::PeerGone)));
    }

    #[test]
    fn what_an_end_sent_before_it_closed_is_received_although_nothing_can_be_sent() {
        assert!(receive_while(io::ErrorKind::BrokenPipe.into()).is_ok());
    }
}
