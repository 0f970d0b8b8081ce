//! Interrupts the sleep of an end inside its mechanism, for mechanisms that no event loop can wait
//! on.
//!
//! A futex, a semaphore, a condition variable and a System V queue have no descriptor, so an event
//! loop has to sleep in the receive itself. What else it waits for is one descriptor, its epoll;
//! when that becomes readable the receive ends early.
//!
//! **Invariants:** an interruption ends waits between messages only, so no message is lost by it;
//! one interruption comes for each arming at most.
//! **Not here:** the watching and the waking (`watcher.rs`).

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::liveness::PeerLiveness;
use crate::watcher::{Watcher, watcher};

/// Ends waits of its endpoint when a descriptor is readable, until it is dropped.
///
/// After the interruption every wait of the endpoint ends at once, until [`rearm`](Self::rearm).
/// Use it in the thread that uses the endpoint.
pub struct Interrupt {
    watcher: Arc<Watcher>,
    /// Our own duplicate, so that it stays registered as long as we live.
    fd: OwnedFd,
    token: u64,
    liveness: Arc<PeerLiveness>,
}

impl Interrupt {
    pub(crate) fn new(liveness: &Arc<PeerLiveness>, fd: BorrowedFd<'_>) -> io::Result<Self> {
        let token = liveness.token().ok_or(io::ErrorKind::Unsupported)?;
        let (watcher, fd) = (watcher()?, fd.try_clone_to_owned()?);
        if !liveness.begin_interruptions() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // From here on its drop takes everything back.
        let interrupt = Self { watcher, fd, token, liveness: Arc::clone(liveness) };
        interrupt.watcher.add_interruption(interrupt.fd.as_fd(), token)?;
        Ok(interrupt)
    }

    /// Returns whether the interruption has come since the last arming. One load.
    pub fn has_fired(&self) -> bool {
        self.liveness.is_interrupted()
    }

    /// Lets the endpoint wait again, and be interrupted again; at once if the descriptor is still
    /// readable. No system call if no interruption has come since the last time.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn rearm(&mut self) -> io::Result<()> {
        match self.liveness.take_interruption() {
            true => self.watcher.renew_interruption(self.fd.as_fd(), self.token),
            false => Ok(()),
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        // Of a forked process it does nothing but let go.
        self.watcher.end_interruptions(self.fd.as_fd(), &self.liveness);
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("fd", &self.fd).finish_non_exhaustive()
    }
}
