//! Where other threads leave what the loop's thread has to know, with a descriptor that wakes it.
//!
//! Always true: a post that was left before the descriptor was read is found by the next `take`.
//! Not here: what is done with a post (`reactor.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use nearcall_channel::{Endpoint, HandshakeError};
use nearcall_os::eventfd;

/// How a meeting on a helper thread came out.
pub(crate) struct Met {
    /// Which meeting.
    pub(crate) number: u64,
    pub(crate) outcome: Result<Endpoint, HandshakeError>,
}

/// Shared with helper threads.
pub(crate) struct Mailbox {
    bell: OwnedFd,
    /// A lock, because meetings are rare; no call takes it.
    met: Mutex<Vec<Met>>,
    stop: AtomicBool,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd::create(eventfd::Kind::Counter)?;
        Ok(Self { bell, met: Mutex::default(), stop: AtomicBool::new(false) })
    }

    /// From a helper thread.
    pub(crate) fn post(&self, met: Met) {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).push(met);
        self.ring();
    }

    /// From any thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        // A counter that is full has rung often enough.
        let _ = eventfd::add_one_now(&self.bell);
    }

    /// Takes what was posted and silences the bell.
    pub(crate) fn take(&self) -> Vec<Met> {
        let _ = eventfd::read_now(&self.bell);
        std::mem::take(&mut *self.met.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether somebody has asked the loop to stop, since the last time.
    pub(crate) fn take_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire) && self.stop.swap(false, Ordering::AcqRel)
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
