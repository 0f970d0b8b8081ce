//! Two anonymous pipes, one for each direction.
//!
//! **Invariants:** each end holds one reading and one writing descriptor and nothing of the
//! other's, so the end of file reports the death of the other end.
//! **Not here:** fragments (`stream.rs`), pipes with a name (`fifo.rs`), pages instead of copies
//! (`vmsplice.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nearcall_os::descriptor::set_nonblocking;
use nearcall_os::pipe;
use nearcall_os::poll::{Interest, poll_one};

use crate::channel;
use crate::channel::Channel;
use crate::error::OpenError;
use crate::fds::ChannelFds;
use crate::kernel::stream::{ByteStream, StreamTransport};
use crate::kernel::{Attempt, nonblocking};
use crate::open::{Accepted, Offer};
use crate::settings::Settings;
use crate::wait::Deadline;

/// One end's descriptors of two pipes or FIFOs.
pub(crate) struct PipeLine {
    read: OwnedFd,
    write: OwnedFd,
    now: HowNow,
}

/// How a call that must not wait is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HowNow {
    /// The descriptors do not block (O_NONBLOCK), so each call is such a one. Only for open files
    /// that are this end's alone: a process that shares one can clear the flag.
    NeverBlocks,
    /// Uses RWF_NOWAIT, whatever the flags are.
    NoWait,
    /// Asks first, because FIFOs have no RWF_NOWAIT.
    AskFirst,
}

impl PipeLine {
    pub(crate) fn new(read: OwnedFd, write: OwnedFd, now: HowNow) -> io::Result<Self> {
        for fd in [&read, &write] {
            set_nonblocking(fd, now == HowNow::NeverBlocks)?;
        }
        Ok(Self { read, write, now })
    }
}

impl ByteStream for PipeLine {
    fn room_bytes(&self) -> io::Result<usize> {
        pipe::size_bytes(&self.write)
    }

    #[inline]
    fn read(&self, into: &mut [u8], how: Attempt) -> io::Result<Option<usize>> {
        match (how, self.now) {
            (Attempt::Blocking, _) | (Attempt::NonBlocking, HowNow::NeverBlocks) => {
                nonblocking(pipe::read(&self.read, into))
            }
            (Attempt::NonBlocking, HowNow::NoWait) => pipe::try_read(&self.read, into),
            (Attempt::NonBlocking, HowNow::AskFirst) => {
                match poll_one(&self.read, Interest::Readable, Deadline::NOW)? {
                    None => Ok(None),
                    Some(_) => nonblocking(pipe::read(&self.read, into)),
                }
            }
        }
    }

    #[inline]
    fn write(&self, bytes: &[u8], how: Attempt) -> io::Result<Option<usize>> {
        match (how, self.now) {
            (Attempt::Blocking, _) | (Attempt::NonBlocking, HowNow::NeverBlocks) => {
                nonblocking(pipe::write(&self.write, bytes))
            }
            (Attempt::NonBlocking, HowNow::NoWait) => pipe::try_write(&self.write, bytes),
            (Attempt::NonBlocking, HowNow::AskFirst) => {
                let bytes = &bytes[..bytes.len().min(pipe::ATOMIC_BYTES_MAX)];
                match poll_one(&self.write, Interest::Writable, Deadline::NOW)? {
                    None => Ok(None),
                    // A FIFO that is writable takes so much at once, and no other process writes.
                    Some(_) => nonblocking(pipe::write(&self.write, bytes)),
                }
            }
        }
    }

    fn reader(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    fn writer(&self) -> BorrowedFd<'_> {
        self.write.as_fd()
    }
}

/// Opens the server's end.
pub(crate) fn offer(settings: &Settings) -> Result<Offer, OpenError> {
    let doing = "making a pipe";
    let to_server = pipe::create().map_err(OpenError::doing(doing))?;
    let to_client = pipe::create().map_err(OpenError::doing(doing))?;
    for end in [&to_server.write, &to_client.write] {
        ask_for_size(end, settings);
    }
    let parts =
        ChannelFds { bytes: Vec::new(), descriptors: vec![to_client.read, to_server.write] };
    let settings = settings.clone();
    let finish = move |answer: ChannelFds| {
        answer.expect_nothing_more()?;
        // The server may have kept the client's open files, so neither end trusts their flags.
        channel(to_server.read, to_client.write, &settings, HowNow::NoWait)
    };
    Ok(Offer { parts, finish: Box::new(finish) })
}

/// Opens the client's end.
pub(crate) fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Accepted, OpenError> {
    let [read, write] = parts.take_descriptors()?;
    parts.expect_nothing_more()?;
    for end in [&read, &write] {
        pipe::size_bytes(end).map_err(|_| OpenError::bad_parts("no pipe"))?;
    }
    let channel = channel(read, write, settings, HowNow::NoWait)?;
    Ok(Accepted { parts: ChannelFds::default(), channel })
}

/// A channel over two pipes or FIFOs.
pub(crate) fn channel(
    read: OwnedFd,
    write: OwnedFd,
    settings: &Settings,
    now: HowNow,
) -> Result<Box<dyn Channel>, OpenError> {
    let line = PipeLine::new(read, write, now).map_err(OpenError::doing("preparing a pipe"))?;
    let transport = StreamTransport::new(line, settings.wait)?;
    Ok(channel::over(transport, settings.message_bytes_max))
}

/// Sizes a pipe as agreed. Where the kernel refuses (pipe-max-size, the user's pages in pipes),
/// the pipe works with the size that it has.
pub(crate) fn ask_for_size(end: impl AsFd, settings: &Settings) {
    let _ = pipe::set_size_bytes(end, settings.buffer_bytes as usize);
}
