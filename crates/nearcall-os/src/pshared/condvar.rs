#![allow(unsafe_code, reason = "calls the C library's condition variables, may send the handle")]
//! A condition variable in shared memory, on the monotonic clock.
//!
//! **Invariants:** a wait gives the lock back and takes it again, also when it fails with a
//! time-out. A killed waiter can make a later `signal` or `broadcast` block, because the C library
//! counts waiters in the memory (glibc before 2.41): a test that kills peers bounds these from
//! outside.
//! **Not here:** the condition itself, which the caller checks in a loop.

use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;

use libc::{pthread_cond_t, pthread_condattr_t};

use super::{MutexGuard, Place, c_timespec, check};
use crate::deadline::Deadline;
use crate::region::LockRegion;

/// A condition variable: sleeps until the other side signals a change under the mutex.
#[derive(Debug)]
pub struct Condvar {
    place: Place<pthread_cond_t>,
}

// SAFETY: the object is made for use by any thread of any process that maps it.
unsafe impl Send for Condvar {}
// SAFETY: as for Send.
unsafe impl Sync for Condvar {}

/// The end of a [`Condvar::wait_timeout`]. The lock is held again in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CondvarWait {
    /// A signal, or a spurious wake-up.
    Woken,
    /// The time is over.
    TimedOut,
}

impl Condvar {
    /// Bytes that it takes in the region.
    pub const SIZE: usize = size_of::<pthread_cond_t>();
    /// The alignment of its offset, in bytes.
    pub const ALIGN: usize = align_of::<pthread_cond_t>();

    /// Makes a condition variable at `offset`. Once, before the peer attaches.
    ///
    /// # Errors
    ///
    /// When the C library has no shared ones.
    ///
    /// # Panics
    ///
    /// If `offset` is misaligned or there is no room.
    #[track_caller]
    pub fn init(region: &Arc<LockRegion>, offset: usize) -> io::Result<Self> {
        let place = Place::<pthread_cond_t>::new(region, offset);
        let mut attributes = Attributes::new()?;
        attributes.set_shared_and_monotonic()?;
        // SAFETY: `Place` proves room and alignment and keeps the memory; the attributes are
        // initialised.
        check(unsafe { libc::pthread_cond_init(place.as_ptr(), &raw const attributes.0) })?;
        Ok(Self { place })
    }

    /// The condition variable that the peer has made at `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` is misaligned or there is no room.
    #[must_use]
    #[track_caller]
    pub fn attach(region: &Arc<LockRegion>, offset: usize) -> Self {
        Self { place: Place::new(region, offset) }
    }

    /// Gives the lock back, sleeps until it is signalled, and takes the lock again. May also return
    /// without a signal. Sleeps without end if the peer is dead.
    ///
    /// Then `guard.lock_state()` is the state in which the lock was found.
    ///
    /// # Errors
    ///
    /// When the mutex can never be locked again, or the memory holds none.
    #[inline]
    pub fn wait(&self, guard: &mut MutexGuard<'_>) -> io::Result<()> {
        // SAFETY: `Place` keeps the memory; `init` (of this process or the trusted peer) made the
        // object; the guard proves that this thread holds the mutex.
        let result = unsafe { libc::pthread_cond_wait(self.place.as_ptr(), guard.as_ptr()) };
        guard.retake(result)
    }

    /// As for [`wait`](Self::wait), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    pub fn wait_timeout(
        &self,
        guard: &mut MutexGuard<'_>,
        deadline: impl Into<Deadline>,
    ) -> io::Result<CondvarWait> {
        let end = c_timespec(deadline.into().absolute_timespec());
        let (condvar, mutex) = (self.place.as_ptr(), guard.as_ptr());
        // SAFETY: as in `wait`; `end` is a valid time that lives during the call.
        match unsafe { libc::pthread_cond_timedwait(condvar, mutex, &raw const end) } {
            libc::ETIMEDOUT => {
                guard.retake(0)?;
                Ok(CondvarWait::TimedOut)
            }
            result => guard.retake(result).map(|()| CondvarWait::Woken),
        }
    }

    /// Wakes one sleeper. A system call only if there is a sleeper.
    ///
    /// # Errors
    ///
    /// When the memory holds no condition variable.
    #[inline]
    pub fn signal(&self) -> io::Result<()> {
        // SAFETY: as in `wait`.
        check(unsafe { libc::pthread_cond_signal(self.place.as_ptr()) })
    }

    /// Wakes all sleepers. A system call only if there is a sleeper.
    ///
    /// # Errors
    ///
    /// When the memory holds no condition variable.
    #[inline]
    pub fn broadcast(&self) -> io::Result<()> {
        // SAFETY: as in `wait`.
        check(unsafe { libc::pthread_cond_broadcast(self.place.as_ptr()) })
    }
}

struct Attributes(pthread_condattr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the pointer is to room for the attributes.
        check(unsafe { libc::pthread_condattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: the call above has initialised them.
        Ok(Self(unsafe { attributes.assume_init() }))
    }

    fn set_shared_and_monotonic(&mut self) -> io::Result<()> {
        let attributes = &raw mut self.0;
        let shared = libc::PTHREAD_PROCESS_SHARED;
        // SAFETY: `new` initialised the attributes.
        check(unsafe { libc::pthread_condattr_setpshared(attributes, shared) })?;
        // SAFETY: as above.
        check(unsafe { libc::pthread_condattr_setclock(attributes, libc::CLOCK_MONOTONIC) })
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: `new` initialised them, and nothing uses them afterwards.
        let _ = unsafe { libc::pthread_condattr_destroy(&raw mut self.0) };
    }
}
