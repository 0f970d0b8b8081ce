//! Eventfd: a counter that can be polled, as a doorbell or a semaphore.
//!
//! A process that shares it can fill it or change its file flags, and then a blocking write here
//! waits. Use it only between processes that trust each other.
//! **Not here:** waiting for several descriptors (`epoll.rs`, `poll.rs`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::io::{Errno, retry_on_intr};

use crate::deadline::Deadline;
use crate::descriptor::none_if_blocked;
use crate::poll::{Interest, poll_one};
use crate::seam::{self, Call};

/// The amount that a read takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything: a read gives the sum and sets it to zero.
    Counter,
    /// One: a read takes one off and gives 1.
    Semaphore,
}

/// A new eventfd at zero, blocking, close-on-exec.
///
/// # Errors
///
/// EMFILE when this process has no room for a descriptor.
pub fn create(kind: Kind) -> io::Result<OwnedFd> {
    let flags = match kind {
        Kind::Counter => EventfdFlags::CLOEXEC,
        Kind::Semaphore => EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE,
    };
    seam::enter(Call::Descriptor)?;
    Ok(rustix::event::eventfd(0, flags)?)
}

/// Adds one; waits in the rare case that the counter is full (2^64 - 2).
///
/// # Errors
///
/// The error of the kernel.
pub fn add_one(eventfd: impl AsFd) -> io::Result<()> {
    retry_on_intr(|| rustix::io::write(&eventfd, &1u64.to_ne_bytes()))?;
    Ok(())
}

/// Adds one unless the counter is full: then false. Costs a poll before the write.
///
/// # Errors
///
/// The error of the kernel.
pub fn try_add_one(eventfd: impl AsFd) -> io::Result<bool> {
    match poll_one(&eventfd, Interest::Writable, Deadline::NOW)? {
        Some(ready) if ready.writable => Ok(none_if_blocked(add_one(eventfd))?.is_some()),
        _ => Ok(false),
    }
}

/// Waits until the counter is not zero and takes it, or one of it (see [`Kind`]).
///
/// # Errors
///
/// The error of the kernel.
pub fn read(eventfd: impl AsFd) -> io::Result<u64> {
    let mut count = [0; 8];
    retry_on_intr(|| rustix::io::read(&eventfd, &mut count))?;
    Ok(u64::from_ne_bytes(count))
}

/// [`read`] that does not wait; `None` when the counter is zero.
///
/// # Errors
///
/// The error of the kernel.
pub fn try_read(eventfd: impl AsFd) -> io::Result<Option<u64>> {
    let mut count = [0; 8];
    let outcome = retry_on_intr(|| {
        let mut parts = [io::IoSliceMut::new(&mut count)];
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        rustix::io::preadv2(&eventfd, &mut parts, u64::MAX, flags)
    });
    if outcome == Err(Errno::OPNOTSUPP) {
        // Before Linux 5.10: ask, then read. Only the single reader is sure not to wait.
        return match poll_one(&eventfd, Interest::Readable, Deadline::NOW)? {
            None => Ok(None),
            Some(_) => none_if_blocked(read(eventfd)),
        };
    }
    let bytes = none_if_blocked(outcome.map_err(io::Error::from))?;
    Ok(bytes.map(|_| u64::from_ne_bytes(count)))
}
