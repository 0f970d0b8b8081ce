//! Where other threads post to the loop's thread, with a descriptor that wakes it.
//!
//! **Invariants:** what was posted before the descriptor was read is found by the next `take`; a
//! client that is handed to a loop that has ended is refused, and does not wait in a mailbox.
//! **Not here:** what is done with a post (`reactor.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearcall_channel::{Endpoint, HandshakeError};
use nearcall_os::eventfd;

use crate::acceptor::Admission;
use crate::trust::Trust;

/// The outcome of a handshake on a thread of its own.
pub(crate) struct Handshaked {
    /// Which handshake.
    pub(crate) number: u64,
    pub(crate) outcome: Result<Endpoint, HandshakeError>,
}

/// A client of a server with several loops, whose handshake another loop made.
pub(crate) struct HandedOver {
    pub(crate) endpoint: Endpoint,
    pub(crate) trust: Trust,
    /// Its place in the loop that it is handed to.
    pub(crate) admission: Admission,
}

/// Something that another thread has for the loop.
pub(crate) enum Post {
    /// A handshake of this loop has ended.
    Handshaked(Handshaked),
    /// A client, for this loop.
    Client(HandedOver),
}

/// Shared with the threads of handshakes, with stoppers, and with the other loops of a server.
pub(crate) struct Mailbox {
    eventfd: OwnedFd,
    /// A lock, because posts are rare; no call takes it.
    posts: Mutex<Posts>,
    stop: AtomicBool,
}

#[derive(Default)]
struct Posts {
    list: Vec<Post>,
    /// The loop was closed: no client is served any more.
    is_closed: bool,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let eventfd = eventfd::create(eventfd::Kind::Counter)?;
        Ok(Self { eventfd, posts: Mutex::default(), stop: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, Posts> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts something, from any thread. The connection of a client that comes too late is closed.
    pub(crate) fn post(&self, post: Post) {
        let mut posts = self.lock();
        if posts.is_closed && matches!(post, Post::Client(_)) {
            drop(posts);
            return drop(post);
        }
        posts.list.push(post);
        drop(posts);
        self.wake();
    }

    /// Closes the connections of the clients that were not taken, and of those that come later.
    pub(crate) fn close(&self) {
        let mut posts = self.lock();
        posts.is_closed = true;
        let is_client = |post: &mut Post| matches!(post, Post::Client(_));
        let clients: Vec<_> = posts.list.extract_if(.., is_client).collect();
        drop(posts);
        drop(clients);
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
    pub(crate) fn take(&self) -> Vec<Post> {
        let _ = eventfd::try_read(&self.eventfd);
        std::mem::take(&mut self.lock().list)
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
