//! A signal with a handler that counts it, wakes waiting threads, and puts a message into a queue.
//!
//! For what is measured: published studies call each other by signals. One at a time in a process.
//! **Invariants:** the handler makes system calls only, none of which waits, and keeps errno.
#![allow(unsafe_code, reason = "rustix has no signal handlers")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use super::{NO_FD, Signal};
use crate::futex;

/// A signal that is caught as long as this lives. Dropped, what held before holds again.
pub struct Caught {
    signal: Signal,
    before: libc::sigaction,
    /// The queue of the handler; open while it may run.
    _queue: Option<OwnedFd>,
}

impl Caught {
    /// Catches `signal`, and sends an empty message to `queue`, a POSIX message queue, for each. A
    /// full queue loses it.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`: this process catches one already. The kernel's.
    pub fn new(signal: Signal, queue: Option<impl AsFd>) -> io::Result<Self> {
        let queue = queue.map(|queue| crate::descriptor::duplicate(queue)).transpose()?;
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        QUEUE.store(queue.as_ref().map_or(NO_FD, AsRawFd::as_raw_fd), Ordering::Release);
        // SAFETY: all zeros is a valid sigaction: default handler, no flags, empty mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let handler: extern "C" fn(libc::c_int) = on_signal;
        action.sa_sigaction = handler as libc::sighandler_t;
        let mut before = MaybeUninit::zeroed();
        // SAFETY: both pointers are to locals. The handler adds to a number and makes two system
        // calls that may be made in a handler, and keeps errno.
        let outcome =
            unsafe { libc::sigaction(signal.as_raw(), &raw const action, before.as_mut_ptr()) };
        if outcome != 0 {
            let error = io::Error::last_os_error();
            release();
            return Err(error);
        }
        // SAFETY: filled by the call above.
        let before = unsafe { before.assume_init() };
        Ok(Self { signal, before, _queue: queue })
    }

    /// Returns the number of signals caught since the process began, modulo 2^32.
    #[must_use]
    #[inline]
    pub fn count(&self) -> u32 {
        COUNT.load(Ordering::Acquire)
    }

    /// Sleeps while the count is `seen`, at most for `timeout`; gives the count.
    ///
    /// A system call, and another one for each signal that comes.
    #[inline]
    pub fn wait(&self, seen: u32, timeout: Duration) -> u32 {
        if self.count() == seen {
            futex::wait(&COUNT, seen, Some(timeout));
        }
        self.count()
    }
}

impl std::fmt::Debug for Caught {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Caught").field(&self.signal).finish()
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        let before = &raw const self.before;
        // SAFETY: the pointer is to an action that the kernel returned; it may be put back.
        unsafe { libc::sigaction(self.signal.as_raw(), before, ptr::null_mut()) };
        release();
    }
}

fn release() {
    QUEUE.store(NO_FD, Ordering::Release);
    TAKEN.store(false, Ordering::Release);
}

extern "C" fn on_signal(_signal: libc::c_int) {
    COUNT.fetch_add(1, Ordering::AcqRel);
    // SAFETY: glibc's errno is a thread-local integer whose address is always valid.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    futex::wake(&COUNT, u32::MAX);
    let queue = QUEUE.load(Ordering::Acquire);
    if queue != NO_FD {
        let long_past = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let message = [0u8; 1];
        let (bytes, priority) = (0usize, 0u32);
        // SAFETY: the pointers are to locals that outlive the call; no byte of the message is
        // read. A number that is no queue any more is refused.
        unsafe {
            libc::syscall(
                libc::SYS_mq_timedsend,
                queue,
                message.as_ptr(),
                bytes,
                priority,
                &raw const long_past,
            )
        };
    }
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// Signals caught in this process.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The queue of the handler.
static QUEUE: AtomicI32 = AtomicI32::new(NO_FD);
/// A `Caught` lives.
static TAKEN: AtomicBool = AtomicBool::new(false);

#[cfg(all(test, not(miri)))]
mod tests {
    use rustix::process::PidfdFlags;

    use super::*;
    use crate::mqueue;
    use crate::poll::{Interest, poll_one};

    #[test]
    fn a_signal_is_counted_and_reported_to_the_queue() {
        let queue = mqueue::create_unlinked(2, 8).unwrap();
        let caught = Caught::new(Signal::USR1, Some(&queue)).unwrap();
        let second = Caught::new(Signal::USR2, None::<OwnedFd>).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
        let seen = caught.count();
        assert_eq!(caught.wait(seen, Duration::ZERO), seen);
        for sent in 1..=3 {
            let (pid, flags) = (rustix::process::getpid(), PidfdFlags::empty());
            let process = rustix::process::pidfd_open(pid, flags).unwrap();
            super::super::send_by_pidfd(process, Signal::USR1).unwrap();
            // Some other thread of the tests may be the one that takes it.
            while caught.wait(seen, Duration::from_secs(5)) != seen.wrapping_add(sent) {}
        }
        // The third found the queue full, and did not wait.
        let mut into = [0; 8];
        for _ in 0..2 {
            let ready = poll_one(&queue, Interest::Readable, Some(Duration::from_secs(5)));
            assert!(ready.unwrap().is_some());
            assert_eq!(mqueue::try_receive(&queue, &mut into).unwrap(), Some(0));
        }
        drop(caught);
        assert!(Caught::new(Signal::USR2, None::<OwnedFd>).is_ok());
    }
}
