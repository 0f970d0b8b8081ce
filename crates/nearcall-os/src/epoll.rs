//! Epoll: many descriptors, each with a token of the caller's; level-triggered unless the interest
//! says otherwise.
//!
//! **Invariants:** a set that a forked process has got from its parent can be closed there and
//! nothing else, since the kernel keeps one set for both; an interrupted wait goes on with the time
//! that remains; a timeout is exact to
//! the timer slack of the thread (50 us unless it was changed) where the kernel has epoll_pwait2.
#![allow(unsafe_code, reason = "rustix calls epoll_pwait2 only where it may not fall back")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;

use crate::deadline::Deadline;
use crate::fork::Epoch;
use crate::poll::{Interest, PollFlags, Ready};
use crate::seam::{self, Call};

/// A set of descriptors to wait for.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    /// A forked process has the same set as its parent, whose watches it must not change.
    epoch: Epoch,
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
    /// The token passed to [`Epoll::add`].
    pub token: u64,
    /// The readiness of the descriptor.
    pub ready: Ready,
}

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// EMFILE when this process has no room for a descriptor.
    pub fn create() -> io::Result<Self> {
        seam::enter(Call::Descriptor)?;
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC)?, epoch: Epoch::current() })
    }

    /// Returns an error unless this is the process that has made the set.
    ///
    /// # Errors
    ///
    /// It was made before this process was forked.
    #[inline]
    pub fn check_process(&self) -> io::Result<()> {
        self.epoch.check()
    }

    /// Watches `fd`. It leaves the set when the last duplicate of it is closed, so delete it
    /// before.
    ///
    /// # Errors
    ///
    /// EEXIST when it is watched already, EPERM for what cannot be polled (files).
    pub fn add(&self, fd: impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        self.epoch.check()?;
        seam::enter(Call::Watch)?;
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), flags(interest))?)
    }

    /// Changes what `fd` is watched for, and its token.
    ///
    /// # Errors
    ///
    /// ENOENT when it is not watched.
    pub fn modify(&self, fd: impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        self.epoch.check()?;
        Ok(epoll::modify(&self.fd, fd, epoll::EventData::new_u64(token), flags(interest))?)
    }

    /// Watches `fd` until it is first reported. It stays in the set, silent, until
    /// [`modify_once`](Self::modify_once) wakes it up or [`delete`](Self::delete) takes it out.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    pub fn add_once(&self, fd: impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        self.epoch.check()?;
        let flags = flags(interest) | epoll::EventFlags::ONESHOT;
        seam::enter(Call::Watch)?;
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), flags)?)
    }

    /// Watches `fd`, which is in the set, until it is next reported; at once if it is ready now.
    ///
    /// # Errors
    ///
    /// As for [`modify`](Self::modify).
    pub fn modify_once(&self, fd: impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        self.epoch.check()?;
        let flags = flags(interest) | epoll::EventFlags::ONESHOT;
        Ok(epoll::modify(&self.fd, fd, epoll::EventData::new_u64(token), flags)?)
    }

    /// Stops watching `fd`.
    ///
    /// # Errors
    ///
    /// ENOENT when it is not watched.
    pub fn delete(&self, fd: impl AsFd) -> io::Result<()> {
        self.epoch.check()?;
        Ok(epoll::delete(&self.fd, fd)?)
    }

    /// Waits and gives what is ready; nothing when not in time. One system call, no allocation.
    ///
    /// The deadline has nanoseconds. Before Linux 5.11 it is rounded up to milliseconds.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn wait<'events>(
        &self,
        events: &'events mut Events,
        deadline: impl Into<Deadline>,
    ) -> io::Result<&'events [Event]> {
        let deadline = deadline.into();
        events.filled.clear();
        self.epoch.check()?;
        loop {
            let has_waited = seam::wait_ready(self.fd.as_fd(), PollFlags::IN, deadline.as_ns());
            let deadline = if has_waited { Deadline::NOW } else { deadline };
            let mut asked_exactly = false;
            let outcome = match deadline.remaining() {
                _ if seam::enter(Call::Wait).is_err() => Err(Errno::INTR),
                Some(remaining)
                    if !remaining.is_zero() && !LACKS_PWAIT2.load(Ordering::Relaxed) =>
                {
                    asked_exactly = true;
                    wait_exactly(self.fd.as_fd(), &mut events.list, remaining)
                }
                remaining => {
                    let timeout = remaining.map(crate::deadline::timespec);
                    epoll::wait(&self.fd, events.list.as_mut_slice(), timeout.as_ref())
                        .map(|(ready, _)| ready)
                }
            };
            match outcome {
                Err(Errno::INTR) => {}
                // EPERM comes from a filter that does not know the call; the call itself never
                // returns it. Another thread may have found that out at the same time.
                Err(Errno::NOSYS | Errno::PERM) if asked_exactly => {
                    LACKS_PWAIT2.store(true, Ordering::Relaxed);
                }
                outcome => {
                    events.filled.extend(outcome?.iter().map(|event| Event {
                        token: event.data.u64(),
                        ready: from_flags(event.flags),
                    }));
                    return Ok(&events.filled);
                }
            }
        }
    }
}

/// Set once this kernel, or a filter before it, has refused epoll_pwait2.
static LACKS_PWAIT2: AtomicBool = AtomicBool::new(false);

/// The argument of epoll_pwait2 on every machine, whatever the C library's `timespec` is.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

/// One epoll_pwait2, which has nanoseconds.
fn wait_exactly<'list>(
    epoll: BorrowedFd<'_>,
    list: &'list mut [MaybeUninit<epoll::Event>],
    timeout: Duration,
) -> Result<&'list mut [epoll::Event], Errno> {
    let timeout = KernelTimespec {
        seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: i64::from(timeout.subsec_nanos()),
    };
    let room = libc::c_int::try_from(list.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: `list` has room for `room` events and `timeout` is a kernel timespec; both outlive
    // the call. rustix promises that its `Event` is the kernel's `epoll_event`. No signal mask.
    let ready = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            list.as_mut_ptr(),
            room,
            &raw const timeout,
            std::ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    let Ok(ready) = usize::try_from(ready) else {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    };
    let filled: *mut [MaybeUninit<epoll::Event>] = &raw mut list[..ready];
    // SAFETY: the kernel filled the first `ready` events of `list`.
    Ok(unsafe { &mut *(filled as *mut [epoll::Event]) })
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
        Interest::ReadableEdge => {
            epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET
        }
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
