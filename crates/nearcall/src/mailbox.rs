//! Where other threads post to a loop's thread, with a descriptor that wakes it.
//!
//! **Invariants:** what was posted before the loop looked is found by that look; the descriptor is
//! written only while the loop sleeps, once for all posts until it looks; after the loop has closed
//! nothing is queued.
//! **Not here:** who wakes whom (`mailbox/wake_flags.rs`), what is done with a post
//! (`reactor/posts.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearcall_channel::{Endpoint, HandshakeError};
use nearcall_os::eventfd;
use nearcall_wire::IncomingCall;

use crate::codec::Encoded;
use crate::service_task::ServiceTask;
use crate::status::Status;

mod wake_flags;

use self::wake_flags::WakeFlags;

/// Something for a loop, from another thread.
pub(crate) enum Post {
    /// A handshake on a thread of its own has ended.
    Handshaked(Box<Handshaked>),
    /// A call that came over a connection of the loop was answered.
    Reply(PostedReply),
    /// A task of the loop's executor is to be polled.
    Poll(TaskKey),
    /// A task for the loop's executor.
    Spawn(ServiceTask),
    /// To be run in the loop's thread.
    Run(Box<dyn FnOnce() + Send>),
}

/// The outcome of a handshake on a thread of its own.
pub(crate) struct Handshaked {
    /// Which handshake.
    pub(crate) number: u64,
    pub(crate) outcome: Result<Endpoint, HandshakeError>,
}

/// The answer to a call.
pub(crate) struct PostedReply {
    pub(crate) connection: ConnectionKey,
    pub(crate) call: IncomingCall,
    pub(crate) answer: Result<Encoded, Status>,
}

/// Names a connection of a loop. No later connection of the loop has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionKey(pub(crate) u64);

impl ConnectionKey {
    /// The key of connections that have ended: it names none.
    pub(crate) const NONE: Self = Self(0);
}

/// Names a task of a loop's executor. No later task of the loop has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The loop has closed and takes no posts.
#[derive(Debug)]
pub(crate) struct LoopClosed;

/// Shared by a loop and all threads that post to it.
pub(crate) struct Mailbox {
    eventfd: OwnedFd,
    flags: WakeFlags,
    /// No call in the loop's own thread takes this lock.
    posts: Mutex<Posts>,
    stop: AtomicBool,
}

#[derive(Default)]
struct Posts {
    queue: Vec<Post>,
    is_closed: bool,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let eventfd = eventfd::create(eventfd::Kind::Counter)?;
        let stop = AtomicBool::new(false);
        Ok(Self { eventfd, flags: WakeFlags::new(), posts: Mutex::default(), stop })
    }

    /// Posts something, from any thread.
    ///
    /// # Errors
    ///
    /// The loop has closed. The outcome of a handshake is taken even then: a client of the loop's
    /// thread may still wait for it.
    pub(crate) fn post(&self, post: Post) -> Result<(), LoopClosed> {
        let mut posts = self.lock();
        if posts.is_closed && !matches!(post, Post::Handshaked(_)) {
            drop(posts);
            // Outside the lock: the end of a closure may post.
            drop(post);
            return Err(LoopClosed);
        }
        posts.queue.push(post);
        drop(posts);
        self.wake();
        Ok(())
    }

    /// Asks the loop to stop, from any thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// Has the loop look once more before it sleeps, from any thread.
    pub(crate) fn wake(&self) {
        if self.flags.note_post() {
            // It counts a few wake-ups at most: the loop reads it after each sleep that they end.
            let _ = eventfd::add_one(&self.eventfd);
        }
    }

    /// Returns whether something was posted since the last `take`. One load.
    #[inline]
    pub(crate) fn has_posts(&self) -> bool {
        self.flags.has_posts()
    }

    /// Takes what was posted.
    pub(crate) fn take(&self) -> Vec<Post> {
        self.flags.begin_take();
        std::mem::take(&mut self.lock().queue)
    }

    /// Clears the descriptor.
    pub(crate) fn silence(&self) {
        let _ = eventfd::try_read(&self.eventfd);
    }

    /// Returns whether the loop was asked to stop since the last time.
    pub(crate) fn take_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire) && self.stop.swap(false, Ordering::AcqRel)
    }

    /// Announces a sleep of the loop, which posts have to end. False: look first.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.flags.begin_sleep()
    }

    /// Ends what [`begin_sleep`](Self::begin_sleep) announced.
    pub(crate) fn end_sleep(&self) {
        self.flags.end_sleep();
    }

    /// Takes no posts from now on, and drops those that are left.
    pub(crate) fn close(&self) {
        let mut posts = self.lock();
        posts.is_closed = true;
        let left = std::mem::take(&mut posts.queue);
        drop(posts);
        // Outside the lock: the end of a closure may post.
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, Posts> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}
