//! Epoll, level-triggered: many descriptors, each with a token of the caller's.
//!
//! Always true: an interrupted wait goes on with the time that remains.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;

use crate::deadline::Deadline;
use crate::poll::{Interest, Ready};

/// A set of descriptors to wait for.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

/// Room for what one wait reports. Allocates once, when made.
#[derive(Debug)]
pub struct Events {
    list: Vec<MaybeUninit<epoll::Event>>,
    filled: Vec<Event>,
}

/// One ready descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What [`Epoll::add`] was given.
    pub token: u64,
    /// What the descriptor is ready for.
    pub ready: Ready,
}

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// EMFILE when this process has no room for a descriptor.
    pub fn create() -> io::Result<Self> {
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches `fd`. It leaves the set when the last duplicate of it is closed, so delete it
    /// before.
    ///
    /// # Errors
    ///
    /// EEXIST when it is watched already, EPERM for what cannot be polled (files).
    pub fn add(&self, fd: impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), flags(interest))?)
    }

    /// Changes what `fd` is watched for, and its token.
    ///
    /// # Errors
    ///
    /// ENOENT when it is not watched.
    pub fn modify(&self, fd: impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, fd, epoll::EventData::new_u64(token), flags(interest))?)
    }

    /// Stops watching `fd`.
    ///
    /// # Errors
    ///
    /// ENOENT when it is not watched.
    pub fn delete(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, fd)?)
    }

    /// Waits and gives what is ready; nothing when not in time. One system call, no allocation.
    ///
    /// The kernel's unit here is the millisecond: a timeout is rounded up to it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn wait<'events>(
        &self,
        events: &'events mut Events,
        timeout: Option<Duration>,
    ) -> io::Result<&'events [Event]> {
        let deadline = Deadline::after(timeout);
        events.filled.clear();
        loop {
            let remaining = deadline.remaining_timespec();
            match epoll::wait(&self.fd, events.list.as_mut_slice(), remaining.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                outcome => {
                    let (ready, _) = outcome?;
                    events.filled.extend(ready.iter().map(|event| Event {
                        token: event.data.u64(),
                        ready: from_flags(event.flags),
                    }));
                    return Ok(&events.filled);
                }
            }
        }
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Events {
    /// Room for `count` events per wait; the rest comes with the next.
    ///
    /// # Panics
    ///
    /// When `count` is zero.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        assert!(count > 0, "an epoll wait needs room for one event");
        let mut list = Vec::new();
        list.resize_with(count, MaybeUninit::uninit);
        Self { list, filled: Vec::with_capacity(count) }
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Readable => epoll::EventFlags::IN,
        Interest::Writable => epoll::EventFlags::OUT,
        Interest::Both => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        Interest::HangUp => epoll::EventFlags::RDHUP,
    }
}

fn from_flags(flags: epoll::EventFlags) -> Ready {
    Ready {
        readable: flags.contains(epoll::EventFlags::IN),
        writable: flags.contains(epoll::EventFlags::OUT),
        hung_up: flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::RDHUP),
        error: flags.contains(epoll::EventFlags::ERR),
    }
}
