//! Floors that move bytes through the kernel: unix stream socket, with and without epoll; pipes.
//!
//! A message is its payload and nothing else: both ends know its size. An empty reply is one byte.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nearcall_os::epoll::{Epoll, Events};
use nearcall_os::pipe::Pipe;
use nearcall_os::poll::Interest;
use nearcall_os::{pipe, socket};

use crate::exchange::Failure;
use crate::floor::carrier::Carrier;
use crate::floor::meeting::Meeting;
use crate::launch::Role;
use crate::payload::{Payload, Verifier};

/// A stream each way.
pub trait Stream {
    /// Waits for room and writes some of `bytes`.
    ///
    /// # Errors
    ///
    /// As the system call.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Waits for bytes and reads some; zero at the end.
    ///
    /// # Errors
    ///
    /// As the system call.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;
}

/// Whole messages over a stream.
pub struct Bytes<S> {
    stream: S,
    message_bytes: usize,
    /// Private memory for what is written and read.
    part: Vec<u8>,
}

impl<S: Stream> Bytes<S> {
    /// Moves messages of `message_bytes` over `stream`.
    pub fn new(stream: S, message_bytes: usize) -> Self {
        Self::in_parts(stream, message_bytes, PART_BYTES)
    }

    /// The same with at most `part_bytes` in one call.
    pub fn in_parts(stream: S, message_bytes: usize, part_bytes: usize) -> Self {
        // Written once, so that its pages are present.
        let part = vec![1; message_bytes.min(part_bytes).max(1)];
        Self { stream, message_bytes, part }
    }

    #[inline]
    fn write_part(&mut self, bytes: usize) -> io::Result<()> {
        let mut written = 0;
        while written < bytes {
            written += self.stream.write(&self.part[written..bytes])?;
        }
        Ok(())
    }
}

impl<S: Stream> Carrier for Bytes<S> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        let mut offset = 0;
        while offset < self.message_bytes {
            let bytes = self.part.len().min(self.message_bytes - offset);
            payload.fill(number, offset, &mut self.part[..bytes]);
            self.write_part(bytes)?;
            offset += bytes;
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<(), Failure> {
        let mut left = self.message_bytes;
        while left > 0 {
            let room = self.part.len().min(left);
            let bytes = self.stream.read(&mut self.part[..room])?;
            if bytes == 0 {
                return Err(Failure::other("the other end is gone"));
            }
            verifier.piece(&self.part[..bytes]);
            left -= bytes;
        }
        Ok(verifier.end()?)
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        Ok(self.write_part(1)?)
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        match self.stream.read(&mut self.part[..1])? {
            0 => Err(Failure::other("the other end is gone")),
            _ => Ok(()),
        }
    }
}

/// A unix stream socket that blocks.
pub struct Unix {
    socket: OwnedFd,
}

impl Unix {
    /// Opens an end of a pair that the server makes.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    pub fn meet(meeting: &Meeting, role: Role) -> Result<Self, Failure> {
        Self::meet_over(meeting, role, || Ok(socket::unix_pair(socket::Kind::Stream)?))
    }

    /// An end of any pair of stream sockets, which the server makes.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    pub fn meet_over(
        meeting: &Meeting,
        role: Role,
        make: impl FnOnce() -> Result<(OwnedFd, OwnedFd), Failure>,
    ) -> Result<Self, Failure> {
        match role {
            Role::Server => {
                let (socket, theirs) = make()?;
                meeting.say_with("socket", &[theirs.as_fd()])?;
                Ok(Self { socket })
            }
            Role::Client => {
                let (_, [socket]) = meeting.hear_with::<1>()?;
                Ok(Self { socket })
            }
        }
    }

    /// Returns the socket.
    #[must_use]
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }
}

impl Stream for Unix {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(&self.socket, bytes)
    }

    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        socket::recv(&self.socket, into)
    }
}

/// A unix stream socket in an event loop: epoll, then a read that does not wait.
pub(crate) struct UnixEpoll {
    socket: OwnedFd,
    readable: Epoll,
    writable: Epoll,
    events: Events,
}

impl UnixEpoll {
    pub(crate) fn meet(meeting: &Meeting, role: Role) -> Result<Self, Failure> {
        let socket = Unix::meet(meeting, role)?.into_socket();
        let (readable, writable) = (Epoll::create()?, Epoll::create()?);
        readable.add(&socket, Interest::Readable, 0)?;
        writable.add(&socket, Interest::Writable, 0)?;
        Ok(Self { socket, readable, writable, events: Events::with_capacity(1) })
    }
}

impl Stream for UnixEpoll {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if let Some(written) = socket::try_send(&self.socket, bytes)? {
                return Ok(written);
            }
            self.writable.wait(&mut self.events, None)?;
        }
    }

    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.readable.wait(&mut self.events, None)?;
            if let Some(read) = socket::try_recv(&self.socket, into)? {
                return Ok(read);
            }
        }
    }
}

/// A pipe each way that blocks.
pub struct Pipes {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipes {
    pub(crate) fn meet(meeting: &Meeting, role: Role) -> Result<Self, Failure> {
        Self::meet_over(meeting, role, || Ok(pipe::create()?))
    }

    /// Opens an end of two pipes, which the server makes.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    pub fn meet_over(
        meeting: &Meeting,
        role: Role,
        make: impl Fn() -> Result<Pipe, Failure>,
    ) -> Result<Self, Failure> {
        match role {
            Role::Server => {
                let (there, back) = (make()?, make()?);
                meeting.say_with("pipes", &[back.read.as_fd(), there.write.as_fd()])?;
                Ok(Self { read: there.read, write: back.write })
            }
            Role::Client => {
                let (_, [read, write]) = meeting.hear_with::<2>()?;
                Ok(Self { read, write })
            }
        }
    }
}

impl Stream for Pipes {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        pipe::write(&self.write, bytes)
    }

    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        pipe::read(&self.read, into)
    }
}

/// What one call writes or reads: the size of a pipe, small beside a second-level cache.
const PART_BYTES: usize = 64 << 10;
