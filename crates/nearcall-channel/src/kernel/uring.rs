//! A unix stream socket driven by io_uring: sends and receives are entries of a ring.
//!
//! A blocking send or receive of a small message is one `io_uring_enter`. Spinning looks at the
//! completion queue, and makes a system call only when the kernel has work for this thread.
//!
//! **Invariants:** one send and one receive are under way at most; a buffer that the kernel uses is
//! not touched; what came in is judged in our own buffer. A fragment that did not go out in time
//! stays under way, and nothing else is sent before it is done.
//! **Not here:** the ring and its memory (`nearcall_os::uring`), whole messages (`channel.rs`).

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use nearcall_os::poll::poll_one;
use nearcall_os::region::SharedBytes;
use nearcall_os::uring::{Direction, Refusal, StreamRing};
use nearcall_os::{eventfd, poll, socket, uring};

use crate::channel;
use crate::channel::Channel;
use crate::error::{OpenError, Unsupported};
use crate::error::{ReceiveError, SendError};
use crate::fds::ChannelFds;
use crate::fragment::{FragmentHeader, HEADER_BYTES};
use crate::limits::SPINS_PER_LIFE_CHECK;
use crate::open::{Accepted, Offer};
use crate::settings::Settings;
use crate::transport::Transport;
use crate::wait::{Deadline, Interest, Readiness, SpinYield, WaitPolicy};

/// One end.
struct UringTransport {
    ring: StreamRing,
    /// Counts completions, for a thread that sleeps on a descriptor. Made at the first request.
    bell: OnceLock<OwnedFd>,
    wait: WaitPolicy,
    /// Length of the reserved fragment. It lies in the send buffer, behind its header.
    reserved_bytes: usize,
    /// The part of the send buffer that the socket has not taken yet.
    unsent: Range<usize>,
    /// The part of the receive buffer that has come and was not consumed.
    buffered: Range<usize>,
    /// The unread rest of the current fragment.
    fragment_left_bytes: usize,
    /// The rest of a fragment that was finished before all of it had come.
    skip_bytes: usize,
    /// The other end has closed.
    ended: bool,
}

/// Returns whether this kernel lets us use io_uring.
pub(crate) fn probe() -> Result<(), Unsupported> {
    uring::probe().map_err(Unsupported::Uring)
}

/// Makes the server's end.
pub(crate) fn offer(settings: &Settings) -> Result<Offer, OpenError> {
    let pair = socket::unix_pair(socket::Kind::Stream);
    let (here, there) = pair.map_err(OpenError::doing("making a socket pair"))?;
    for end in [&here, &there] {
        let room = Some(settings.buffer_bytes as usize);
        socket::set_buffer_bytes(end, room, None)
            .map_err(OpenError::doing("sizing the socket's buffers"))?;
    }
    let channel = open(here, settings)?;
    let finish = move |answer: ChannelFds| answer.expect_nothing_more().map(|()| channel);
    let parts = ChannelFds { bytes: Vec::new(), descriptors: vec![there] };
    Ok(Offer { parts, finish: Box::new(finish) })
}

/// Makes the client's end.
pub(crate) fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Accepted, OpenError> {
    let [socket] = parts.take_descriptors()?;
    parts.expect_nothing_more()?;
    let channel = open(socket, settings)?;
    Ok(Accepted { parts: ChannelFds::default(), channel })
}

fn open(socket: OwnedFd, settings: &Settings) -> Result<Box<dyn Channel>, OpenError> {
    let ring = StreamRing::create(socket, HEADER_BYTES + FRAGMENT_BYTES_MAX, RECEIVE_BYTES);
    let ring = ring.map_err(|refusal| match refusal {
        Refusal::Os(error) => OpenError::Os { doing: "making an io_uring", error },
        refusal => Unsupported::Uring(refusal).into(),
    })?;
    let transport = UringTransport {
        ring,
        bell: OnceLock::new(),
        wait: settings.wait,
        reserved_bytes: 0,
        unsent: 0..0,
        buffered: 0..0,
        fragment_left_bytes: 0,
        skip_bytes: 0,
        ended: false,
    };
    if settings.wait == WaitPolicy::Poll {
        transport.bell().map_err(OpenError::doing("making an eventfd for an io_uring"))?;
    }
    Ok(channel::over(transport, settings.message_bytes_max))
}

impl UringTransport {
    /// The eventfd that the kernel rings at each completion.
    fn bell(&self) -> io::Result<&OwnedFd> {
        if let Some(bell) = self.bell.get() {
            return Ok(bell);
        }
        let bell = eventfd::create(eventfd::Kind::Counter)?;
        self.ring.register_eventfd(&bell)?;
        Ok(self.bell.get_or_init(|| bell))
    }

    /// Submits what is queued and waits until `direction` is done; false when not in time.
    #[inline]
    fn complete(&mut self, direction: Direction, deadline: Deadline) -> io::Result<bool> {
        if self.ring.is_done(direction) {
            return Ok(true);
        }
        match self.wait {
            WaitPolicy::Block if deadline != Deadline::NOW => {
                return self.ring.wait(direction, deadline);
            }
            _ => self.ring.submit()?,
        }
        match self.wait {
            _ if deadline == Deadline::NOW => Ok(self.ring.is_done(direction)),
            WaitPolicy::Spin => Ok(self.spin(direction, deadline)),
            _ => self.sleep(direction, deadline),
        }
    }

    fn spin(&mut self, direction: Direction, deadline: Deadline) -> bool {
        let mut spin_yield = SpinYield::default();
        loop {
            for _ in 0..SPINS_PER_LIFE_CHECK {
                if self.ring.is_done(direction) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if deadline.has_passed() {
                return self.ring.is_done(direction);
            }
            spin_yield.count();
        }
    }

    fn sleep(&mut self, direction: Direction, deadline: Deadline) -> io::Result<bool> {
        loop {
            // Completions from now on ring again; those before are seen by the look below.
            self.clear()?;
            if self.ring.is_done(direction) {
                return Ok(true);
            }
            if poll_one(self.bell()?, poll::Interest::Readable, deadline)?.is_none() {
                return Ok(self.ring.is_done(direction));
            }
        }
    }

    fn clear(&self) -> io::Result<()> {
        match self.bell.get() {
            Some(bell) => eventfd::try_read(bell).map(drop),
            None => Ok(()),
        }
    }

    /// Returns whether an operation in `direction` is queued, under way, or done and not taken.
    #[inline]
    fn has_begun(&mut self, direction: Direction) -> bool {
        self.ring.is_under_way(direction) || self.ring.is_done(direction)
    }

    /// Takes the outcome of what is done in `direction`. `None`: it was cancelled, ask again.
    #[inline]
    fn outcome(&mut self, direction: Direction) -> io::Result<Option<usize>> {
        match self.ring.take(direction) {
            // The thread that submitted it has ended, and the kernel cancels what it had asked for.
            Err(error) if error.raw_os_error() == Some(CANCELLED) => Ok(None),
            outcome => outcome,
        }
    }

    /// Queues a receive behind what is buffered, which moves to the front for it.
    #[inline]
    fn queue_receive(&mut self) {
        let Range { start, end } = self.buffered;
        let Some(buffer) = self.ring.receive_buffer_mut() else { return };
        let capacity = buffer.len();
        if start > 0 {
            buffer.copy_within(start..end, 0);
        }
        self.buffered = 0..end - start;
        self.ring.queue_receive(end - start..capacity, false);
    }

    /// Receives until `want_bytes` are buffered, which is at most a header.
    #[inline]
    fn fill(&mut self, want_bytes: usize, deadline: Deadline) -> Result<(), ReceiveError> {
        while self.buffered.len() < want_bytes {
            if self.ended {
                return Err(ReceiveError::PeerGone);
            }
            if !self.has_begun(Direction::Receive) {
                self.queue_receive();
            }
            if !self.complete(Direction::Receive, deadline)? {
                return Err(ReceiveError::Empty);
            }
            match self.outcome(Direction::Receive) {
                Ok(Some(0)) => self.ended = true,
                Ok(Some(bytes)) => self.buffered.end += bytes,
                Ok(None) => {}
                // Only a peer that made our socket non-blocking can have this. Waiting again would
                // take a whole CPU.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(ReceiveError::Os(error));
                }
                Err(error) => return Err(error.into()),
            }
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

    fn try_arm(&mut self, interest: Interest) -> io::Result<bool> {
        // Completions from now on ring; those before are seen by the looks below.
        self.clear()?;
        let direction = match interest {
            Interest::Send if self.unsent.is_empty() => return Ok(false),
            Interest::Send => Direction::Send,
            Interest::Receive => {
                let inside = self.fragment_left_bytes > 0 || self.skip_bytes > 0;
                let want_bytes = if inside { 1 } else { HEADER_BYTES };
                if self.ended || self.buffered.len() >= want_bytes {
                    return Ok(false);
                }
                if !self.has_begun(Direction::Receive) {
                    self.queue_receive();
                }
                Direction::Receive
            }
        };
        self.ring.submit()?;
        if interest == Interest::Receive && self.ring.is_done(Direction::Send) {
            // It has rung the bell that was taken back here. Taken once, or nothing would sleep.
            let _ = self.send_rest(Deadline::NOW);
            return Ok(false);
        }
        Ok(self.ring.is_under_way(direction) && !self.ring.is_done(direction))
    }

    /// Has the socket take what it has not taken yet.
    #[inline]
    fn send_rest(&mut self, deadline: Deadline) -> Result<(), SendError> {
        while !self.unsent.is_empty() {
            if !self.has_begun(Direction::Send) {
                self.ring.queue_send(self.unsent.clone());
            }
            if !self.complete(Direction::Send, deadline)? {
                return Err(SendError::Full);
            }
            match self.outcome(Direction::Send) {
                Ok(bytes) => self.unsent.start += bytes.unwrap_or(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(SendError::Os(error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Transport for UringTransport {
    fn room_bytes(&self) -> io::Result<usize> {
        Ok(socket::buffer_bytes(self.ring.socket())?.send)
    }

    fn fragment_bytes_max(&self) -> usize {
        FRAGMENT_BYTES_MAX
    }

    fn has_room_for(&mut self, message_bytes: usize) -> bool {
        // The kernel does not tell how much of a second fragment the socket would take.
        message_bytes <= FRAGMENT_BYTES_MAX && self.unsent.is_empty()
    }

    #[inline]
    fn reserve(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError> {
        self.send_rest(deadline)?;
        self.reserved_bytes = fragment_bytes;
        Ok(())
    }

    #[inline]
    fn room(&mut self) -> &mut [u8] {
        let end = HEADER_BYTES + self.reserved_bytes;
        match self.ring.send_buffer() {
            Some(buffer) => &mut buffer[HEADER_BYTES..end],
            // Not while a fragment is reserved: `reserve` waited for the end of the send.
            None => &mut [],
        }
    }

    #[inline]
    fn publish(&mut self, header: FragmentHeader, deadline: Deadline) -> Result<(), SendError> {
        if let Some(buffer) = self.ring.send_buffer() {
            buffer[..HEADER_BYTES].copy_from_slice(&header.encode());
        }
        self.unsent = 0..HEADER_BYTES + self.reserved_bytes;
        self.reserved_bytes = 0;
        let idle = self.buffered.is_empty() && !self.has_begun(Direction::Receive) && !self.ended;
        if self.wait == WaitPolicy::Spin && idle {
            // An answer is likely: its receive goes to the kernel in the system call of this send.
            self.queue_receive();
        }
        match self.send_rest(deadline) {
            // It is under way and goes out when there is room.
            Err(SendError::Full) => Ok(()),
            outcome => outcome,
        }
    }

    fn unreserve(&mut self) {
        self.reserved_bytes = 0;
    }

    fn drain(&mut self, deadline: Deadline) -> Result<(), SendError> {
        self.send_rest(deadline)
    }

    #[inline]
    fn next(&mut self, deadline: Deadline) -> Result<FragmentHeader, ReceiveError> {
        self.skip(deadline)?;
        self.fill(HEADER_BYTES, deadline)?;
        let start = self.buffered.start;
        let header = self.ring.receive_buffer().and_then(|buffer| {
            let (header, _) = buffer[start..].split_first_chunk::<HEADER_BYTES>()?;
            Some(*header)
        });
        let header = FragmentHeader::decode(header.ok_or(ReceiveError::Empty)?)?;
        self.buffered.start += HEADER_BYTES;
        self.fragment_left_bytes = header.fragment_bytes as usize;
        Ok(header)
    }

    fn is_whole(&mut self, fragment_bytes: usize) -> bool {
        fragment_bytes <= self.buffered.len()
    }

    #[inline]
    fn bytes(&mut self, deadline: Deadline) -> Result<SharedBytes<'_>, ReceiveError> {
        self.fill(1, deadline)?;
        let end = self.buffered.start + self.buffered.len().min(self.fragment_left_bytes);
        let here = self.ring.receive_buffer().map(|buffer| &buffer[self.buffered.start..end]);
        Ok(SharedBytes::from_slice(here.ok_or(ReceiveError::Empty)?))
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.buffered.start += bytes;
        self.fragment_left_bytes -= bytes;
    }

    #[inline]
    fn finish(&mut self) {
        self.skip_bytes += self.fragment_left_bytes;
        self.fragment_left_bytes = 0;
    }

    fn readiness(&self, _interest: Interest) -> Option<Readiness<'_>> {
        let bell = self.bell().ok()?;
        Some(Readiness::level(bell.as_fd(), false))
    }

    fn arm(&mut self, interest: Interest) -> bool {
        // After an error the next attempt returns it.
        self.try_arm(interest).unwrap_or(false)
    }
}

/// The longest fragment, in bytes: with its header it fills the send buffer's pages.
const FRAGMENT_BYTES_MAX: usize = (64 << 10) - HEADER_BYTES;

/// Most bytes that are received at once.
const RECEIVE_BYTES: usize = 64 << 10;

/// ECANCELED of asm-generic.
const CANCELLED: i32 = 125;

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::handshake::Options;
    use crate::kernel::tests::connected;
    use crate::mechanism::{Mechanism, MechanismSet};

    fn pair(first_use: impl FnOnce(&mut Endpoint) + Send + 'static) -> (Endpoint, Endpoint) {
        connected(Mechanism::Uring, &Options::offering(MechanismSet::ALL), first_use)
    }

    /// The bell that the receive takes back may have rung for the send.
    #[test]
    fn a_send_that_ends_before_the_sleep_is_seen_by_the_receive() {
        if probe().is_err() {
            return;
        }
        let (mut sender, mut receiver) = pair(|_| {});
        let bell = sender.readiness(Interest::Send).unwrap().fd.try_clone_to_owned().unwrap();
        let mut sent = 0;
        while sender.send(&[0; 60_000], Deadline::NOW).is_ok() {
            sent += 1;
        }
        assert!(sender.arm(Interest::Send));
        let mut bytes = [0; 60_000];
        for _ in 0..sent {
            receiver.receive(Deadline::NEVER).unwrap().read(&mut bytes).unwrap();
        }
        let soon = Deadline::after(std::time::Duration::from_secs(20));
        assert!(poll_one(&bell, poll::Interest::Readable, soon).unwrap().is_some());
        assert!(!sender.arm(Interest::Receive), "a sleep that nothing ends");
        assert!(sender.flush(Deadline::NOW).is_ok() && sender.arm(Interest::Receive));
    }

    #[test]
    fn a_receive_survives_the_thread_that_began_it() {
        if probe().is_err() {
            return;
        }
        let (mut sender, mut receiver) = pair(|receiver| {
            assert!(matches!(receiver.receive(Deadline::NOW), Err(ReceiveError::Empty)));
        });
        sender.send(b"still there", Deadline::NEVER).unwrap();
        let mut bytes = [0; 11];
        let mut message = receiver.receive(Deadline::NEVER).unwrap();
        message.read(&mut bytes).unwrap();
        assert_eq!(&bytes, b"still there");
    }
}
