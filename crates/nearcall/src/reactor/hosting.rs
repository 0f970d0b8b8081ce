//! A loop that another loop hosts: how its descriptor becomes readable when there is something to
//! do.
//!
//! **Invariants:** the host is woken only for a reason, but for each reason.
//! **Not here:** waking it between two turns (`connection/activity.rs`).

use std::io;

use nearcall_os::{poll, timerfd};

use super::{Reactor, Source};
use crate::deadline::Deadline;

impl Reactor {
    /// Begins a turn of the host; until it waits again it need not be woken.
    pub(crate) fn begin_turn(&self) {
        self.activity.set_host_waits(false);
    }

    /// Leaves everything so that the loop's descriptor becomes readable when there is something to
    /// do.
    pub(crate) fn prepare_for_host(&self) -> io::Result<()> {
        self.forget_closed();
        self.watch_again(false);
        self.demote_all();
        // From here on a post writes the descriptor.
        self.is_hosted.set(true);
        let has_posts = !self.mailbox.begin_sleep() || self.has_posts();
        let must_look = self.arm_used()
            || has_posts
            || !self.local_oneways.borrow().is_empty()
            || !self.user_events.borrow().is_empty()
            || !self.reported.borrow().is_empty()
            || !self.spinning.borrow().is_empty()
            // It has no descriptor that could be part of the loop's.
            || self.fdless.borrow().is_some();
        let mut timer = self.activity.host_timer().borrow_mut();
        let timer = &*match &mut *timer {
            Some(timer) => timer,
            empty => {
                let fd = timerfd::create()?;
                let token = self.sources.borrow_mut().add(Source::HostTimer);
                self.epoll.add(&fd, poll::Interest::Readable, token)?;
                empty.insert(fd)
            }
        };
        self.activity.set_host_waits(true);
        self.activity.clear_owed();
        if !must_look {
            // What has expired would count as something to do.
            timerfd::disarm(timer)?;
        }
        // A host may be notified of changes only, as tokio is: what this turn has left is none.
        let must_look = must_look || self.has_something()?;
        let due = if must_look { Deadline::NOW } else { self.next_due() };
        match due.remaining() {
            None => Ok(()),
            Some(left) => timerfd::arm(timer, left, None),
        }
    }

    /// Returns whether anything that the loop waits for is ready.
    fn has_something(&self) -> io::Result<bool> {
        let ready = poll::poll_one(&self.epoll, poll::Interest::Readable, Deadline::NOW)?;
        Ok(ready.is_some())
    }
}
