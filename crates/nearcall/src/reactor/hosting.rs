//! A loop that another loop hosts: how its descriptor becomes readable when there is something to
//! do. And the loop of a library, which waits inside that of the library's host.
//!
//! **Invariants:** the host is woken only for a reason, but for each reason. The loop of a library
//! looks at its own connections after each round of the host's: a service that ran in there may
//! have served them.
//! **Not here:** waking it between two turns (`connection/activity.rs`).

use std::io;
use std::os::fd::BorrowedFd;

use nearcall_os::library::HostLink;
use nearcall_os::{poll, timerfd};

use super::{Reactor, Source};
use crate::deadline::Deadline;
use crate::limits::GUEST_LOOK_INTERVAL;

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

    /// Has this loop, of a library, wait inside that of its host.
    pub(crate) fn wait_inside(&self, host: HostLink) {
        self.host.set(Some(host));
    }

    /// Lets the host serve in this thread until this loop may have something to do, or until
    /// `deadline`. Returns how long this loop has to wait itself.
    #[inline]
    pub(super) fn wait_in_host(&self, deadline: Deadline) -> Deadline {
        match self.host.get() {
            Some(host) if deadline != Deadline::NOW && host.wait(&self.epoll, deadline) => {
                Deadline::NOW
            }
            _ => deadline,
        }
    }

    /// Serves until the descriptor of another loop is readable, the deadline passes, or something
    /// was done.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub(crate) fn serve_guest(
        &self,
        guest: Option<BorrowedFd<'_>>,
        deadline: Deadline,
    ) -> io::Result<()> {
        if let Some(fd) = guest {
            self.watch_guest(fd)?;
        }
        // The guest has spun for what it waits for.
        self.demote_all();
        let served = self.round(deadline);
        self.activity.notify_host();
        served
    }

    /// Lets the host serve what has come to this thread, while this loop does not wait in the
    /// kernel. Returns until when it may wait elsewhere before it does so again.
    #[inline]
    pub(super) fn look_in_host(&self, deadline: Deadline) -> Deadline {
        match self.host.get() {
            Some(host) => {
                host.wait(&self.epoll, Deadline::NOW);
                deadline.min(Deadline::after(GUEST_LOOK_INTERVAL))
            }
            None => deadline,
        }
    }

    /// Has the next wait end when a descriptor of another loop is readable.
    fn watch_guest(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let add = || self.sources.borrow_mut().add(Source::Guest);
        let token = self.guests.get().unwrap_or_else(add);
        self.guests.set(Some(token));
        match self.epoll.modify_once(fd, poll::Interest::Readable, token) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.epoll.add_once(fd, poll::Interest::Readable, token)
            }
            outcome => outcome,
        }
    }

    /// Returns whether anything that the loop waits for is ready.
    fn has_something(&self) -> io::Result<bool> {
        let ready = poll::poll_one(&self.epoll, poll::Interest::Readable, Deadline::NOW)?;
        Ok(ready.is_some())
    }
}
