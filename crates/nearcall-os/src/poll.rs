//! Waiting until descriptors are ready: one, or a few. For many, `epoll.rs`.
//!
//! **Invariants:** an interrupted wait goes on with the time that remains.

use std::io;
use std::os::fd::AsFd;

pub use rustix::event::{PollFd, PollFlags};

use crate::deadline::Deadline;
use crate::seam::{self, Call};

/// The readiness to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Something can be read, or the other end has closed.
    Readable,
    /// The same, which an epoll set reports once for what has come, whether it is read or not.
    ReadableEdge,
    /// Something can be written, or the other end has closed.
    Writable,
    /// Something can be read or written.
    Both,
    /// Neither: only the other end's hang-up.
    HangUp,
}

/// The readiness of a descriptor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready {
    /// A read would not block.
    pub readable: bool,
    /// A write would not block.
    pub writable: bool,
    /// The other end has closed. There may still be something to read.
    pub hung_up: bool,
    /// An error is pending, or (pipes) the reader has gone.
    pub error: bool,
}

/// Waits until `fd` is ready for `interest`, has hung up or has an error; `None` when not in time.
///
/// A hang-up is always reported. Costs one system call.
///
/// # Errors
///
/// The error of the kernel.
pub fn poll_one(
    fd: impl AsFd,
    interest: Interest,
    deadline: impl Into<Deadline>,
) -> io::Result<Option<Ready>> {
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), interest.into())];
    match poll(&mut fds, deadline)? {
        0 => Ok(None),
        _ => Ok(Some(fds[0].revents().into())),
    }
}

/// Waits until at least one of `fds` is ready, and returns the number of those that are (zero: not
/// in time). What each is ready for stands in its `revents`; [`Ready::from`] reads it.
///
/// # Errors
///
/// The error of the kernel.
pub fn poll(fds: &mut [PollFd<'_>], deadline: impl Into<Deadline>) -> io::Result<usize> {
    let deadline = deadline.into();
    loop {
        let has_waited = seam::wait_any_ready(fds, deadline.as_ns());
        let deadline = if has_waited { Deadline::NOW } else { deadline };
        let poll = |()| rustix::event::poll(fds, deadline.remaining_timespec().as_ref());
        match seam::enter(Call::Wait).and_then(poll) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return Ok(outcome?),
        }
    }
}

impl From<Interest> for PollFlags {
    fn from(interest: Interest) -> Self {
        match interest {
            Interest::Readable | Interest::ReadableEdge => Self::IN,
            Interest::Writable => Self::OUT,
            Interest::Both => Self::IN | Self::OUT,
            Interest::HangUp => Self::RDHUP,
        }
    }
}

impl From<PollFlags> for Ready {
    fn from(flags: PollFlags) -> Self {
        Self {
            readable: flags.contains(PollFlags::IN),
            writable: flags.contains(PollFlags::OUT),
            hung_up: flags.intersects(PollFlags::HUP | PollFlags::RDHUP),
            error: flags.intersects(PollFlags::ERR | PollFlags::NVAL),
        }
    }
}
