//! Two pipes that refer to the sender's pages instead of holding copies; only the receiver copies.
//!
//! ```text
//! two buffers, filled in turn, frames without gaps: | header | fragment | header | fragment | ...
//! vmsplice(2) hands each frame to the pipe, read(2) at the other end copies it out
//! ```
//!
//! A page may be written again when its bytes have been read. The kernel says so itself: what has
//! been handed over and is no longer queued in the pipe (FIONREAD) was copied out, under the
//! pipe's lock. So the receiver reports nothing, and it has nothing to lie about.
//! Each frame takes one of the pipe's slots for each page that it touches. A buffer holds more than
//! all slots can refer to, so when the second is full, nothing of the first is queued any more;
//! all waiting is for a slot.
//!
//! **Invariants:** bytes that are queued are never written.
//! **Not here:** the pages (`nearcall_os::vmsplice`), whole messages (`channel.rs`).

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use nearcall_os::poll::poll_one;
use nearcall_os::region::SharedBytes;
use nearcall_os::vmsplice::SpliceBuffer;
use nearcall_os::{pipe, poll};

use crate::channel;
use crate::channel::Channel;
use crate::error::{OpenError, Unsupported};
use crate::error::{ReceiveError, SendError, Violation};
use crate::fds::ChannelFds;
use crate::fragment::{FragmentHeader, HEADER_BYTES};
use crate::limits::BUFFER_BYTES_MAX;
use crate::open::{Accepted, Offer};
use crate::settings::Settings;
use crate::transport::Transport;
use crate::wait::{Deadline, Interest, Readiness, SpinYield, WaitPolicy};

/// One end.
struct SpliceTransport {
    sender: Sender,
    receiver: Receiver,
}

struct Sender {
    pipe: OwnedFd,
    wait: WaitPolicy,
    /// Each is filled from its beginning and released as a whole.
    buffers: [SpliceBuffer; 2],
    /// Which of them is being filled.
    filling: usize,
    /// Length of the reserved fragment. It lies behind what was handed over, after its header.
    reserved_bytes: usize,
    /// Published bytes that the pipe has not taken yet.
    unsent: Range<usize>,
}

struct Receiver {
    pipe: OwnedFd,
    wait: WaitPolicy,
    buffer: Box<[u8]>,
    /// The part of `buffer` that has come and was not consumed.
    buffered: Range<usize>,
    /// The unread rest of the current fragment.
    fragment_left_bytes: usize,
    /// The rest of a fragment that was finished before all of it had come.
    skip_bytes: usize,
}

/// Returns whether pages can be handed to a pipe here.
pub(crate) fn probe() -> Result<(), Unsupported> {
    let pipe = pipe::create().map_err(Unsupported::doing("making a pipe"))?;
    let buffer = SpliceBuffer::create(HEADER_BYTES);
    let mut buffer = buffer.map_err(Unsupported::doing("taking pages"))?;
    let spliced = buffer.try_splice(&pipe.write, 0..HEADER_BYTES);
    spliced.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported => Unsupported::Missing("this kernel has no vmsplice"),
        io::ErrorKind::PermissionDenied => {
            Unsupported::Missing("vmsplice is forbidden, probably by seccomp")
        }
        _ => Unsupported::Os { doing: "vmsplice", error },
    })
}

/// Makes the server's end.
pub(crate) fn offer(settings: &Settings) -> Result<Offer, OpenError> {
    probe()?;
    let (to_client, to_server) = (make_pipe(settings)?, make_pipe(settings)?);
    let channel = open(to_server.read, to_client.write, settings)?;
    let finish = move |answer: ChannelFds| answer.expect_nothing_more().map(|()| channel);
    let descriptors = vec![to_client.read, to_server.write];
    Ok(Offer { parts: ChannelFds { bytes: Vec::new(), descriptors }, finish: Box::new(finish) })
}

/// Makes the client's end.
pub(crate) fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Accepted, OpenError> {
    probe()?;
    let [read, write] = parts.take_descriptors()?;
    parts.expect_nothing_more()?;
    let channel = open(read, write, settings)?;
    Ok(Accepted { parts: ChannelFds::default(), channel })
}

/// A pipe with as many slots as the connection's room has pages, or as many as the limits allow.
///
/// Never fewer than a new pipe has, because the smallest frame takes a whole slot.
fn make_pipe(settings: &Settings) -> Result<pipe::Pipe, OpenError> {
    let pipe = pipe::create().map_err(OpenError::doing("making a pipe"))?;
    let usual = pipe::size_bytes(&pipe.write).map_err(OpenError::doing("sizing a pipe"))?;
    let wanted = settings.buffer_bytes as usize;
    if wanted > usual {
        // Refused above /proc/sys/fs/pipe-max-size; the size that it has will do.
        let _ = pipe::set_size_bytes(&pipe.write, wanted);
    }
    Ok(pipe)
}

fn open(read: OwnedFd, write: OwnedFd, settings: &Settings) -> Result<Box<dyn Channel>, OpenError> {
    // Reading something else could wait forever, whatever becomes of the other end.
    pipe::size_bytes(&read).map_err(|_| OpenError::bad_parts("no pipe"))?;
    let queue_bytes = pipe::size_bytes(&write).map_err(|_| OpenError::bad_parts("no pipe"))?;
    if queue_bytes > BUFFER_BYTES_MAX as usize {
        return Err(OpenError::bad_parts("a pipe above every limit"));
    }
    // Full means: no room for the next frame. So much as all slots can refer to is in it then.
    let buffer_bytes = queue_bytes + FRAME_BYTES_MAX;
    let buffer = || SpliceBuffer::create(buffer_bytes);
    let buffers = [buffer(), buffer()];
    let [first, second] = buffers.map(|buffer| buffer.map_err(OpenError::doing("taking pages")));
    let transport = SpliceTransport {
        sender: Sender {
            pipe: write,
            wait: settings.wait,
            buffers: [first?, second?],
            filling: 0,
            reserved_bytes: 0,
            unsent: 0..0,
        },
        receiver: Receiver {
            pipe: read,
            wait: settings.wait,
            buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            buffered: 0..0,
            fragment_left_bytes: 0,
            skip_bytes: 0,
        },
    };
    Ok(channel::over(transport, settings.message_bytes_max))
}

impl Sender {
    /// Returns the position of the next frame.
    #[inline]
    fn at(&self) -> usize {
        self.buffers[self.filling].handed_over()
    }

    /// Goes over to the other buffer, all of which has been read.
    #[cold]
    fn change_buffers(&mut self) -> Result<(), SendError> {
        let other = 1 - self.filling;
        let queued_bytes = pipe::queued_bytes(&self.pipe)?;
        if queued_bytes > self.at() {
            // More than our slots can refer to: the other end has enlarged the pipe.
            return Err(Violation::BadIndex.into());
        }
        let read_bytes = self.buffers[other].handed_over();
        self.buffers[other].release(read_bytes);
        self.filling = other;
        Ok(())
    }

    /// Has the pipe take what it has not taken yet.
    #[inline]
    fn send_rest(&mut self, deadline: Deadline) -> Result<(), SendError> {
        let mut spin_yield = SpinYield::default();
        while !self.unsent.is_empty() {
            let (buffer, range) = (&mut self.buffers[self.filling], self.unsent.clone());
            let taken = match (self.wait, deadline) {
                (WaitPolicy::Block, Deadline::NEVER) => Some(buffer.splice(&self.pipe, range)?),
                _ => buffer.try_splice(&self.pipe, range)?,
            };
            match taken {
                Some(bytes) => self.unsent.start += bytes,
                None => self.wait_for_slot(deadline, &mut spin_yield)?,
            }
        }
        Ok(())
    }

    fn wait_for_slot(
        &self,
        deadline: Deadline,
        spin_yield: &mut SpinYield,
    ) -> Result<(), SendError> {
        if self.wait == WaitPolicy::Spin || deadline == Deadline::NOW {
            spin_yield.count();
            return if deadline.has_passed() { Err(SendError::Full) } else { Ok(()) };
        }
        match poll_one(&self.pipe, poll::Interest::Writable, deadline)? {
            Some(_) => Ok(()),
            None => Err(SendError::Full),
        }
    }
}

impl Receiver {
    /// Reads what is there, or waits for it.
    #[inline]
    fn read_some(
        pipe: &OwnedFd,
        wait: WaitPolicy,
        into: &mut [u8],
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        if wait == WaitPolicy::Block && deadline == Deadline::NEVER {
            match pipe::read(pipe, into) {
                Ok(0) => return Err(ReceiveError::PeerGone),
                Ok(bytes) => return Ok(bytes),
                // Who keeps a copy of our end can make it non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut spin_yield = SpinYield::default();
        loop {
            if wait != WaitPolicy::Spin && deadline != Deadline::NOW {
                let ready = poll_one(pipe, poll::Interest::Readable, deadline)?;
                ready.ok_or(ReceiveError::Empty)?;
            }
            match pipe::try_read(pipe, into)? {
                Some(0) => return Err(ReceiveError::PeerGone),
                Some(bytes) => return Ok(bytes),
                None if deadline.has_passed() => return Err(ReceiveError::Empty),
                None => spin_yield.count(),
            }
        }
    }

    /// Reads until `want_bytes` are buffered, which is at most a header.
    #[inline]
    fn fill(&mut self, want_bytes: usize, deadline: Deadline) -> Result<(), ReceiveError> {
        while self.buffered.len() < want_bytes {
            if self.buffered.start > 0 {
                self.buffer.copy_within(self.buffered.clone(), 0);
                self.buffered = 0..self.buffered.len();
            }
            let free = &mut self.buffer[self.buffered.end..];
            self.buffered.end += Self::read_some(&self.pipe, self.wait, free, deadline)?;
        }
        Ok(())
    }

    fn skip(&mut self, deadline: Deadline) -> Result<(), ReceiveError> {
        while self.skip_bytes > 0 {
            self.fill(1, deadline)?;
            let bytes = self.buffered.len().min(self.skip_bytes);
            self.buffered.start += bytes;
            self.skip_bytes -= bytes;
        }
        Ok(())
    }

    /// Takes what is buffered of the fragment, at most as much as fits.
    #[inline]
    fn take_buffered(&mut self, into: &mut [u8]) -> usize {
        let bytes = self.buffered.len().min(into.len());
        let start = self.buffered.start;
        into[..bytes].copy_from_slice(&self.buffer[start..start + bytes]);
        self.buffered.start += bytes;
        bytes
    }
}

impl Transport for SpliceTransport {
    fn room_bytes(&self) -> io::Result<usize> {
        pipe::size_bytes(&self.sender.pipe)
    }

    fn fragment_bytes_max(&self) -> usize {
        FRAGMENT_BYTES_MAX
    }

    fn has_room_for(&mut self, message_bytes: usize) -> bool {
        // The kernel does not tell how many slots are free.
        message_bytes <= FRAGMENT_BYTES_MAX && self.sender.unsent.is_empty()
    }

    #[inline]
    fn reserve(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError> {
        self.sender.send_rest(deadline)?;
        let frame_bytes = HEADER_BYTES + fragment_bytes;
        let capacity = self.sender.buffers[self.sender.filling].capacity();
        if frame_bytes > capacity - self.sender.at() {
            self.sender.change_buffers()?;
        }
        self.sender.reserved_bytes = fragment_bytes;
        Ok(())
    }

    #[inline]
    fn room(&mut self) -> &mut [u8] {
        let start = self.sender.at() + HEADER_BYTES;
        let end = start + self.sender.reserved_bytes;
        self.sender.buffers[self.sender.filling].slice_mut(start..end)
    }

    #[inline]
    fn publish(&mut self, header: FragmentHeader, deadline: Deadline) -> Result<(), SendError> {
        let sender = &mut self.sender;
        let start = sender.at();
        let place = sender.buffers[sender.filling].slice_mut(start..start + HEADER_BYTES);
        place.copy_from_slice(&header.encode());
        sender.unsent = start..start + HEADER_BYTES + sender.reserved_bytes;
        sender.reserved_bytes = 0;
        match sender.send_rest(deadline) {
            // The rest stays in our pages and goes out before the next fragment.
            Err(SendError::Full) => Ok(()),
            outcome => outcome,
        }
    }

    fn unreserve(&mut self) {
        self.sender.reserved_bytes = 0;
    }

    fn drain(&mut self, deadline: Deadline) -> Result<(), SendError> {
        self.sender.send_rest(deadline)
    }

    #[inline]
    fn next(&mut self, deadline: Deadline) -> Result<FragmentHeader, ReceiveError> {
        self.receiver.skip(deadline)?;
        self.receiver.fill(HEADER_BYTES, deadline)?;
        let mut header = [0; HEADER_BYTES];
        self.receiver.take_buffered(&mut header);
        let header = FragmentHeader::decode(header)?;
        self.receiver.fragment_left_bytes = header.fragment_bytes as usize;
        Ok(header)
    }

    fn is_whole(&mut self, fragment_bytes: usize) -> bool {
        fragment_bytes <= self.receiver.buffered.len()
    }

    fn bytes(&mut self, deadline: Deadline) -> Result<SharedBytes<'_>, ReceiveError> {
        let receiver = &mut self.receiver;
        receiver.fill(1, deadline)?;
        let Range { start, .. } = receiver.buffered;
        let end = start + receiver.buffered.len().min(receiver.fragment_left_bytes);
        Ok(SharedBytes::from_slice(&receiver.buffer[start..end]))
    }

    fn consume(&mut self, bytes: usize) {
        self.receiver.buffered.start += bytes;
        self.receiver.fragment_left_bytes -= bytes;
    }

    #[inline]
    fn read(&mut self, into: &mut [u8], deadline: Deadline) -> Result<(), ReceiveError> {
        let receiver = &mut self.receiver;
        let mut done = receiver.take_buffered(into);
        receiver.fragment_left_bytes -= done;
        while done < into.len() {
            let rest = &mut into[done..];
            let bytes = match rest.len() >= DIRECT_BYTES_MIN {
                true => Receiver::read_some(&receiver.pipe, receiver.wait, rest, deadline)?,
                false => {
                    receiver.fill(1, deadline)?;
                    receiver.take_buffered(rest)
                }
            };
            done += bytes;
            receiver.fragment_left_bytes -= bytes;
        }
        Ok(())
    }

    #[inline]
    fn finish(&mut self) {
        self.receiver.skip_bytes += self.receiver.fragment_left_bytes;
        self.receiver.fragment_left_bytes = 0;
    }

    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>> {
        Some(match interest {
            Interest::Receive => Readiness::level(self.receiver.pipe.as_fd(), false),
            Interest::Send => Readiness::level(self.sender.pipe.as_fd(), true),
        })
    }

    fn arm(&mut self, interest: Interest) -> bool {
        match interest {
            // Only a rest that did not go out has anything to wait for.
            Interest::Send => !self.sender.unsent.is_empty(),
            Interest::Receive => {
                let receiver = &self.receiver;
                let inside = receiver.fragment_left_bytes > 0 || receiver.skip_bytes > 0;
                receiver.buffered.len() < if inside { 1 } else { HEADER_BYTES }
            }
        }
    }
}

/// The longest fragment, in bytes: with its header it fills whole pages.
const FRAGMENT_BYTES_MAX: usize = FRAME_BYTES_MAX - HEADER_BYTES;

/// The longest frame, in bytes.
const FRAME_BYTES_MAX: usize = 64 << 10;

/// Most bytes that are read ahead. Large enough for many small messages; what is read
/// ahead of a large message is copied twice.
const RECEIVE_BYTES: usize = 8 << 10;

/// A rest of at least so many bytes is read straight into the caller's memory.
const DIRECT_BYTES_MIN: usize = 4 << 10;

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::handshake::Options;
    use crate::kernel::tests::connected;
    use crate::mechanism::{Mechanism, MechanismSet};

    fn sender(pipe: OwnedFd) -> Sender {
        let capacity = pipe::size_bytes(&pipe).unwrap() + FRAME_BYTES_MAX;
        let buffers = [(); 2].map(|()| SpliceBuffer::create(capacity).unwrap());
        let (filling, reserved_bytes, unsent) = (0, 0, 0..0);
        Sender { pipe, wait: WaitPolicy::Block, buffers, filling, reserved_bytes, unsent }
    }

    #[test]
    fn a_pipe_that_the_peer_enlarged_is_noticed_before_its_pages_are_written() {
        let pipe = pipe::create().unwrap();
        let mut sender = sender(pipe.write);
        if pipe::set_size_bytes(&pipe.read, 1 << 20).is_err() {
            return;
        }
        let fill = |sender: &mut Sender| {
            for start in [0, FRAME_BYTES_MAX] {
                sender.unsent = start..start + FRAME_BYTES_MAX;
                sender.send_rest(Deadline::NOW).unwrap();
            }
        };
        fill(&mut sender);
        sender.change_buffers().unwrap();
        fill(&mut sender);
        let error = sender.change_buffers().unwrap_err();
        assert!(matches!(error, SendError::PeerBroken(Violation::BadIndex)), "{error}");
    }

    #[test]
    fn messages_stay_as_they_were_sent_round_both_buffers() {
        let options = Options::offering(MechanismSet::ALL);
        let (mut sender, mut receiver) = connected(Mechanism::Vmsplice, &options, |_| {});
        let reader = std::thread::spawn(move || {
            for round in 0..ROUNDS {
                let mut message = receiver.receive(Deadline::NEVER).unwrap();
                let mut bytes = vec![0; message.len()];
                while message.left_bytes() > 0 {
                    let from = bytes.len() - message.left_bytes();
                    message.read(&mut bytes[from..]).unwrap();
                }
                assert!(bytes.iter().all(|byte| *byte == mark(round)), "message {round}");
            }
        });
        for round in 0..ROUNDS {
            let bytes = vec![mark(round); round * 7919 % 200_000];
            sender.send(&bytes, Deadline::NEVER).unwrap();
        }
        reader.join().unwrap();
    }

    fn mark(round: usize) -> u8 {
        u8::try_from(round % 251).unwrap()
    }

    const ROUNDS: usize = 60;
}
