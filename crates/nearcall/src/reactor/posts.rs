//! What other threads have posted to the loop: replies, tasks to poll, closures, handshakes.
//!
//! **Invariants:** posts are served in their order, a bounded number in each round; nothing of the
//! loop is borrowed meanwhile, since a closure or a task may run rounds of its own.
//! **Not here:** posting (`mailbox.rs`), tasks (`executor.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Event, Reactor};
use crate::limits::POSTS_PER_ROUND_MAX;
use crate::mailbox::{Post, PostedReply, StreamPost};

impl Reactor {
    /// Returns whether other threads have posted something that was not served yet.
    #[inline]
    pub(super) fn has_posts(&self) -> bool {
        self.mailbox.has_posts() || !self.posted.borrow().is_empty()
    }

    /// Serves what other threads have posted before this round.
    #[inline]
    pub(super) fn serve_posts(&self) {
        if self.has_posts() {
            self.serve_some_posts();
        }
    }

    #[cold]
    fn serve_some_posts(&self) {
        if self.mailbox.has_posts() {
            let posts = self.mailbox.take();
            self.posted.borrow_mut().extend(posts);
            if self.mailbox.take_stop() {
                self.user_events.borrow_mut().push_back(Event::Stopped);
            }
        }
        let count = self.posted.borrow().len().min(POSTS_PER_ROUND_MAX);
        for _ in 0..count {
            // One at a time: a round inside may take the next.
            let Some(post) = self.posted.borrow_mut().pop_front() else { return };
            self.serve_post(post);
        }
    }

    fn serve_post(&self, post: Post) {
        match post {
            Post::Handshaked(handshaked) => self.handshakes.finish(self, *handshaked),
            Post::Reply(PostedReply { connection, call, metadata, answer }) => {
                // None: it has ended, and its calls with it.
                if let Some(connection) = self.activity.connection(connection) {
                    connection.reply_detached(call, &metadata, answer.as_ref());
                }
            }
            Post::Stream(connection, call, post) => {
                let Some(connection) = self.activity.connection(connection) else { return };
                match post {
                    StreamPost::Items => connection.pump(call),
                    StreamPost::Consumed(cost) => connection.consume_items(call.into(), cost),
                }
            }
            Post::Poll(task) => self.activity.executor.poll(task),
            Post::Spawn(task) => self.activity.executor.spawn(task),
            Post::Run(run) => {
                // The panic was reported by its hook. It must not end the loop.
                let _ = catch_unwind(AssertUnwindSafe(run));
            }
        }
    }
}
