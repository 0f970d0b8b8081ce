//! Where other threads post to the loop's thread, with a descriptor that wakes it.
//!
//! **Invariants:** what was posted before the descriptor was read is found by the next `take`.
//! **Not here:** what is done with a post (`reactor.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use nearcall_channel::{Endpoint, HandshakeError};
use nearcall_os::eventfd;

/// The outcome of a handshake on a thread of its own.
pub(crate) struct Handshaked {
    /// Which handshake.
    pub(crate) number: u64,
    pub(crate) outcome: Result<Endpoint, HandshakeError>,
}

/// Shared with the threads of handshakes and with stoppers.
pub(crate) struct Mailbox {
    eventfd: OwnedFd,
    /// A lock, because handshakes are rare; no call takes it.
    posts: Mutex<Vec<Handshaked>>,
    stop: AtomicBool,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let eventfd = eventfd::create(eventfd::Kind::Counter)?;
        Ok(Self { eventfd, posts: Mutex::default(), stop: AtomicBool::new(false) })
    }

    /// Posts an outcome, from any thread.
    pub(crate) fn post(&self, handshaked: Handshaked) {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner).push(handshaked);
        self.wake();
    }

    /// Asks the loop to stop, from any thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // A counter that is full wakes the loop anyway.
        let _ = eventfd::try_add_one(&self.eventfd);
    }

    /// Takes what was posted and clears the descriptor.
    pub(crate) fn take(&self) -> Vec<Handshaked> {
        let _ = eventfd::try_read(&self.eventfd);
        std::mem::take(&mut *self.posts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the loop was asked to stop since the last time.
    pub(crate) fn take_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire) && self.stop.swap(false, Ordering::AcqRel)
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}
