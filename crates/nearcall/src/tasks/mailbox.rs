//! Where other threads post to a loop's thread, with a descriptor that wakes it.
//!
//! **Invariants:** what was posted before the loop looked is found by that look; the descriptor is
//! written only while the loop sleeps, once for all posts until it looks; after the loop has closed
//! nothing is queued.
//! **Not here:** which side wakes the other (`nearcall-channel`), what is done with a post
//! (`reactor/posts.rs`).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearcall_channel::WakeFlags;
use nearcall_os::eventfd;
use nearcall_wire::IncomingCall;

use crate::codec::Encoded;
use crate::limits::ONEWAYS_DETACHED_MAX;
use crate::peer::User;
use crate::reservation::Reservation;
use crate::status::Status;
use crate::tasks::reply_extras::ReplyExtras;
use crate::tasks::service_task::ServiceTask;

/// Something for a loop, from another thread.
pub(crate) enum Post {
    /// A call that came over a connection of the loop was answered.
    Reply(PostedReply),
    /// A call that streams over a connection of the loop is used in another thread.
    Stream(ConnectionKey, IncomingCall, StreamPost),
    /// A task of the loop's executor is to be polled.
    Poll(TaskKey),
    /// A task for the loop's executor.
    Spawn(ServiceTask),
    /// To be run in the loop's thread.
    Run(Box<dyn FnOnce() + Send>),
}

/// The answer to a call.
pub(crate) struct PostedReply {
    pub(crate) connection: ConnectionKey,
    pub(crate) call: IncomingCall,
    pub(crate) extras: Option<Box<ReplyExtras>>,
    pub(crate) answer: Result<Encoded, Status>,
    /// Of the answer, until the loop has sent it.
    pub(crate) reservation: Reservation,
}

/// What another thread has done with a stream.
pub(crate) enum StreamPost {
    /// Items wait to be sent.
    Items,
    /// Items were read that cost so much together.
    Consumed(u64),
    /// An item was refused for the share of the user, with this text.
    Refused(String),
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
    /// One-way messages whose method has returned and goes on, and [`AWAITED`].
    oneways: AtomicUsize,
    /// The same by their users.
    oneways_by_user: Mutex<BTreeMap<User, usize>>,
}

/// Set while the loop waits for the end of its one-way messages.
const AWAITED: usize = 1 << (usize::BITS - 1);

/// The place of a one-way message whose method has returned and goes on.
pub(crate) struct OnewayPermit(Arc<Mailbox>, User);

#[derive(Default)]
struct Posts {
    queue: Vec<Post>,
    is_closed: bool,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let eventfd = eventfd::create(eventfd::Kind::Counter)?;
        let (flags, posts) = (WakeFlags::new(), Mutex::default());
        let (stop, oneways) = (AtomicBool::new(false), AtomicUsize::new(0));
        let oneways_by_user = Mutex::default();
        Ok(Self { eventfd, flags, posts, stop, oneways, oneways_by_user })
    }

    /// Posts something, from any thread.
    ///
    /// # Errors
    ///
    /// The loop has closed.
    pub(crate) fn post(&self, post: Post) -> Result<(), LoopClosed> {
        let mut posts = self.lock();
        if posts.is_closed {
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

    /// Returns a place for a one-way message of this user whose method goes on, if there is room
    /// for one more.
    pub(crate) fn permit_oneway(self: &Arc<Self>, user: User) -> Option<OnewayPermit> {
        let mut users = self.lock_oneways();
        let all: usize = users.values().sum();
        let own = users.get(&user).copied().unwrap_or_default();
        if own >= user.share(ONEWAYS_DETACHED_MAX, all - own) {
            return None;
        }
        users.insert(user, own + 1);
        self.oneways.fetch_add(1, Ordering::Relaxed);
        Some(OnewayPermit(Arc::clone(self), user))
    }

    fn lock_oneways(&self) -> MutexGuard<'_, BTreeMap<User, usize>> {
        self.oneways_by_user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no one-way message goes on. If one does, the end of the last wakes the loop,
    /// once.
    pub(crate) fn have_oneways_ended(&self) -> bool {
        let await_last = |oneways| (oneways != 0).then_some(oneways | AWAITED);
        self.oneways.fetch_update(Ordering::Acquire, Ordering::Acquire, await_last).is_err()
    }

    fn lock(&self) -> MutexGuard<'_, Posts> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OnewayPermit {
    fn drop(&mut self) {
        let mut users = self.0.lock_oneways();
        if let Some(own) = users.get_mut(&self.1) {
            *own -= 1;
            if *own == 0 {
                users.remove(&self.1);
            }
        }
        drop(users);
        // What the method has done is seen by whoever has waited for its end.
        let end_one = |oneways| Some(if oneways == AWAITED | 1 { 0 } else { oneways - 1 });
        let ended = self.0.oneways.fetch_update(Ordering::Release, Ordering::Relaxed, end_one);
        if ended == Ok(AWAITED | 1) {
            self.0.wake();
        }
    }
}

/// Has the loop look once more.
impl std::task::Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        Self::wake(&self);
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_one_way_messages_wakes_the_loop_only_while_it_waits_for_that() {
        let mailbox = Arc::new(Mailbox::new().unwrap());
        assert!(mailbox.have_oneways_ended());
        drop(mailbox.permit_oneway(User::Own));
        assert!(!mailbox.has_posts(), "it waited for none");
        let permits = [User::Own, User::Other(None)].map(|user| mailbox.permit_oneway(user));
        assert!(!mailbox.have_oneways_ended());
        for (permit, is_last) in permits.into_iter().zip([false, true]) {
            assert!(permit.is_some());
            drop(permit);
            assert_eq!(mailbox.has_posts(), is_last);
        }
        mailbox.take();
        drop(mailbox.permit_oneway(User::Own));
        assert!(!mailbox.has_posts(), "it does not wait any more");
        assert!(mailbox.have_oneways_ended());
    }

    #[test]
    fn one_way_messages_of_one_user_leave_room_to_those_of_another() {
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let fill = |user| std::iter::from_fn(|| mailbox.permit_oneway(user)).collect::<Vec<_>>();
        let (one, two) = (fill(User::Other(Some(1))), fill(User::Other(None)));
        assert_eq!([one.len(), two.len()], [ONEWAYS_DETACHED_MAX / 2, ONEWAYS_DETACHED_MAX / 4]);
        assert_eq!(fill(User::Own).len(), ONEWAYS_DETACHED_MAX / 4);
        drop((one, two));
        assert_eq!(fill(User::Own).len(), ONEWAYS_DETACHED_MAX);
        assert!(mailbox.have_oneways_ended() && mailbox.lock_oneways().is_empty());
    }
}
