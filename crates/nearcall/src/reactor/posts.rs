//! What other threads have posted to the loop: replies, tasks to poll, closures.
//!
//! **Invariants:** posts are served in their order, a bounded number in each round, and while
//! clients of several users share the loop for a bounded time; nothing of the loop is borrowed
//! meanwhile, since a closure or a task may run rounds of its own; what may do so
//! waits while services, closures and tasks run inside each other to the largest depth.
//! **Not here:** posting (`tasks/mailbox.rs`), tasks (`tasks/executor.rs`).
//!
//! **Invariant:** a post to a loop writes its descriptor only while the loop sleeps, and no post,
//! wake-up of a task, deadline of the driver or end of a closed client's connection is lost.
//! *Checked by* loom in `crates/nearcall-channel/src/wake_flags.rs`,
//! `crates/nearcall-channel/src/posted_flag.rs`, `crates/nearcall-channel/src/due_time.rs` and
//! `crates/nearcall-channel/src/last_use.rs`, and by `tests/it/services`.

use std::collections::VecDeque;

use super::{Event, Reactor};
use crate::deadline::Deadline;
use crate::limits::POSTS_PER_ROUND_MAX;
use crate::nesting::{Handler, NestingGuard, may_nest};
use crate::panics::contain;
use crate::refusals::RefusalKind;
use crate::tasks::mailbox::{Post, PostedReply, StreamPost};

/// What other threads have posted, until its turn.
#[derive(Default)]
pub(super) struct Posted {
    queue: VecDeque<Post>,
    /// Came before the queue, and runs when fewer services run inside each other.
    deferred: VecDeque<Post>,
}

impl Posted {
    #[inline]
    fn has_any(&self) -> bool {
        !self.queue.is_empty() || !self.deferred.is_empty() && may_nest()
    }

    /// Returns how many are served in one round.
    fn per_round(&self) -> usize {
        let deferred = if may_nest() { self.deferred.len() } else { 0 };
        (deferred + self.queue.len()).min(POSTS_PER_ROUND_MAX)
    }

    /// Takes the next one: what was deferred goes first as soon as it may run.
    fn pop(&mut self) -> Option<Post> {
        let deferred = if may_nest() { self.deferred.pop_front() } else { None };
        deferred.or_else(|| self.queue.pop_front())
    }
}

impl Reactor {
    /// Returns whether other threads have posted something that was not served yet.
    #[inline]
    pub(super) fn has_posts(&self) -> bool {
        self.mailbox.has_posts() || self.posted.borrow().has_any()
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
            self.posted.borrow_mut().queue.extend(posts);
            if self.mailbox.take_stop() {
                self.user_events.borrow_mut().push_back(Event::Stopped);
            }
        }
        let count = self.posted.borrow().per_round();
        let end = self.end_of_turn();
        for _ in 0..count {
            // One at a time: a round inside may take the next.
            let Some(post) = self.posted.borrow_mut().pop() else { return };
            match post {
                Post::Poll(_) | Post::Spawn(_) | Post::Run(_) if !may_nest() => {
                    self.posted.borrow_mut().deferred.push_back(post);
                }
                post => self.serve_post(post),
            }
            if end.has_passed() {
                return; // The rest has its turn in the next round.
            }
        }
    }

    fn serve_post(&self, post: Post) {
        match post {
            Post::Reply(PostedReply { connection, call, extras, answer, reservation }) => {
                // None: it has ended, and its calls with it.
                if let Some(connection) = self.activity.connection(connection) {
                    connection.reply_detached(call, extras, answer.as_ref());
                }
                drop(reservation);
            }
            Post::Stream(connection, call, post) => {
                let Some(connection) = self.activity.connection(connection) else { return };
                match post {
                    StreamPost::Items => connection.pump(call),
                    StreamPost::Refused(why) => {
                        connection.note_refusal(RefusalKind::ResourceLimit, &why);
                    }
                    StreamPost::Consumed(cost) => connection.consume_items(call.into(), cost),
                }
            }
            Post::Poll(task) => self.activity.executor.poll(task),
            Post::Spawn(task) => self.activity.executor.spawn(task),
            Post::Run(run) => run_closure(run),
        }
    }
}

fn run_closure(run: Box<dyn FnOnce() + Send>) {
    // It may run inside a service that waits, whose deadline is none of its own.
    let _guard = NestingGuard::enter(Handler::own(Deadline::NEVER));
    contain(run);
}
