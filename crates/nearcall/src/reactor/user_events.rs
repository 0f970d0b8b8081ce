//! What concerns the user of a loop: timers, descriptors and signals.
//!
//! **Invariants:** a timer is reported once until the user has seen it; a descriptor that was
//! reported is watched again when the user asks for the next event.
//! **Not here:** how the user gets them (`event_loop.rs`).

use std::io;
use std::rc::Rc;
use std::time::Duration;

use nearcall_os::poll::{self, Ready};
use nearcall_os::signal;

use super::{DescriptorId, Event, Reactor, Source, TimerId, UserFd};
use crate::deadline::{self, Deadline};

impl Reactor {
    /// Adds a timer that is due in `first`, and then every `every`.
    pub(crate) fn add_timer(&self, first: Duration, every: Option<Duration>) -> TimerId {
        let first = deadline::later(deadline::now(), first);
        let timer = self.timers.borrow_mut().add(first, every);
        self.activity.wake_host();
        timer
    }

    /// Removes a timer. Returns whether there was one, or a report of it that the user has not
    /// seen.
    pub(crate) fn remove_timer(&self, timer: TimerId) -> bool {
        let removed = self.timers.borrow_mut().remove(timer);
        let mut events = self.user_events.borrow_mut();
        let before = events.len();
        events.retain(|event| !matches!(event, Event::Timer(other) if *other == timer));
        removed || events.len() < before
    }

    /// Reports the timers that are due, unless the user has not seen their last report: while a
    /// call waits the user sees none, and they must not pile up.
    pub(super) fn report_timers(&self, now: Deadline) {
        while let Some(timer) = self.timers.borrow_mut().take_due(now) {
            let mut events = self.user_events.borrow_mut();
            if !events.iter().any(|event| matches!(event, Event::Timer(other) if *other == timer)) {
                events.push_back(Event::Timer(timer));
            }
        }
    }

    /// Returns whether there is something that concerns the user.
    pub(crate) fn has_event(&self) -> bool {
        !self.user_events.borrow().is_empty()
    }

    /// Takes the next thing that concerns the user.
    pub(crate) fn take_event(&self) -> Option<Event> {
        self.user_events.borrow_mut().pop_front()
    }

    /// Waits for a descriptor of the user.
    pub(crate) fn add_user(&self, user: UserFd) -> io::Result<DescriptorId> {
        let user = Rc::new(user);
        let token = self.sources.borrow_mut().add(Source::User(Rc::clone(&user)));
        match self.epoll.add_once(&user.fd, user.interest, token) {
            Ok(()) => Ok(DescriptorId(token)),
            // A file: it is always ready.
            Err(error) if error.raw_os_error() == Some(EPERM) => {
                self.sources.borrow_mut().remove(token);
                let user = UserFd {
                    fd: user.fd.try_clone()?,
                    interest: user.interest,
                    always_ready: true,
                };
                let token = self.sources.borrow_mut().add(Source::User(Rc::new(user)));
                self.reported.borrow_mut().push(token);
                Ok(DescriptorId(token))
            }
            Err(error) => {
                self.sources.borrow_mut().remove(token);
                Err(error)
            }
        }
    }

    /// Forgets a descriptor of the user. Returns whether there was one.
    pub(crate) fn remove_user(&self, id: DescriptorId) -> bool {
        let Some(Source::User(user)) = self.sources.borrow().get(id.0).cloned() else {
            return false;
        };
        self.sources.borrow_mut().remove(id.0);
        if !user.always_ready {
            let _ = self.epoll.delete(&user.fd);
        }
        self.user_events
            .borrow_mut()
            .retain(|event| !matches!(event, Event::Descriptor(other, _) if *other == id));
        true
    }

    pub(super) fn report(&self, token: u64, ready: Ready) {
        self.reported.borrow_mut().push(token);
        self.user_events.borrow_mut().push_back(Event::Descriptor(DescriptorId(token), ready));
    }

    /// Watches the user's descriptors again that were reported. Files are reported only when the
    /// user asks.
    pub(crate) fn watch_again(&self, user_asks: bool) {
        let reported = std::mem::take(&mut *self.reported.borrow_mut());
        for token in reported {
            let Some(Source::User(user)) = self.sources.borrow().get(token).cloned() else {
                continue;
            };
            if user.always_ready && !user_asks {
                self.reported.borrow_mut().push(token);
            } else if user.always_ready {
                let ready = Ready { readable: true, writable: true, ..Ready::default() };
                self.report(token, ready);
            } else {
                let _ = self.epoll.modify_once(&user.fd, user.interest, token);
            }
        }
    }

    /// Waits for signals, which must be blocked in all threads.
    pub(crate) fn add_signals(&self, set: &signal::SignalSet) -> io::Result<()> {
        if self.signals.borrow().is_some() {
            let text = "this loop waits for signals already; name all of them in one call";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let fd = signal::signalfd(set)?;
        let token = self.sources.borrow_mut().add(Source::Signal);
        self.epoll.add(&fd, poll::Interest::Readable, token)?;
        *self.signals.borrow_mut() = Some(fd);
        Ok(())
    }

    pub(super) fn read_signal(&self) -> io::Result<()> {
        if let Some(fd) = &*self.signals.borrow()
            && poll::poll_one(fd, poll::Interest::Readable, Deadline::NOW)?.is_some()
        {
            let info = signal::signalfd_read(fd)?;
            self.user_events.borrow_mut().push_back(Event::Signal(info));
        }
        Ok(())
    }
}

/// EPERM of asm-generic.
const EPERM: i32 = 1;
