#![allow(unsafe_code, reason = "calls the C library's mutexes, and may send the handle")]
//! A robust mutex in shared memory: when its owner is killed, the next one gets it and sees that in
//! [`Lock`].
//!
//! **Invariants:** a lock that comes from a dead owner was made consistent again before it is
//! returned; the memory of a held mutex stays mapped, even if the guard was forgotten.
//! **Not here:** repairing what the dead owner left half done (the caller, who sees [`Lock`]).

use std::io;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, pthread_mutex_t, pthread_mutexattr_t};

use super::{Place, c_timespec, check};
use crate::deadline::Deadline;
use crate::platform::pthread_mutex_clocklock;
use crate::region::LockRegion;

/// A lock that threads of both processes take in turn.
#[derive(Debug)]
pub struct Mutex {
    place: Place<pthread_mutex_t>,
    /// A thread of this process holds it through this handle. Written only by the holder.
    held: AtomicBool,
}

// SAFETY: the object is made for use by any thread of any process that maps it.
unsafe impl Send for Mutex {}
// SAFETY: as for Send.
unsafe impl Sync for Mutex {}

/// In what state the lock was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// The last owner has unlocked it.
    Clean,
    /// The last owner died with it: what it guards may be half written. The lock is usable again.
    OwnerDied,
}

/// Holds the lock until it is dropped. Stays on its thread.
#[derive(Debug)]
pub struct MutexGuard<'a> {
    mutex: &'a Mutex,
    found: Lock,
    /// A condition variable's wait gave the lock back and could not take it again.
    lost: bool,
    /// A mutex must be unlocked by the thread that locked it.
    not_send: PhantomData<*const ()>,
}

impl Mutex {
    /// Bytes that it takes in the region.
    pub const SIZE: usize = size_of::<pthread_mutex_t>();
    /// The alignment of its offset, in bytes.
    pub const ALIGN: usize = align_of::<pthread_mutex_t>();

    /// Makes an unlocked mutex at `offset`. Once, before the peer attaches.
    ///
    /// # Errors
    ///
    /// When the C library has no robust or no shared mutexes.
    ///
    /// # Panics
    ///
    /// If `offset` is misaligned or there is no room.
    #[track_caller]
    pub fn init(region: &Arc<LockRegion>, offset: usize) -> io::Result<Self> {
        let place = Place::<pthread_mutex_t>::new(region, offset);
        let mut attributes = Attributes::new()?;
        attributes.set_shared_and_robust()?;
        // SAFETY: `Place` proves room and alignment and keeps the memory; the attributes are
        // initialised.
        check(unsafe { libc::pthread_mutex_init(place.as_ptr(), &raw const attributes.0) })?;
        Ok(Self { place, held: AtomicBool::new(false) })
    }

    /// The mutex that the peer has made at `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` is misaligned or there is no room.
    #[must_use]
    #[track_caller]
    pub fn attach(region: &Arc<LockRegion>, offset: usize) -> Self {
        Self { place: Place::new(region, offset), held: AtomicBool::new(false) }
    }

    /// Takes the lock, and sleeps until it is free. The death of the owner frees it.
    ///
    /// A thread that already holds it sleeps without end.
    ///
    /// # Errors
    ///
    /// When the mutex can never be locked again, or the memory holds none.
    #[inline]
    pub fn lock(&self) -> io::Result<MutexGuard<'_>> {
        // SAFETY: `Place` keeps the memory; `init` (of this process or the trusted peer) made the
        // mutex.
        self.guard(unsafe { libc::pthread_mutex_lock(self.place.as_ptr()) })
    }

    /// Takes the lock if it is free. `Ok(None)`: it is held.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock).
    #[inline]
    pub fn try_lock(&self) -> io::Result<Option<MutexGuard<'_>>> {
        // SAFETY: as in `lock`.
        match unsafe { libc::pthread_mutex_trylock(self.place.as_ptr()) } {
            libc::EBUSY => Ok(None),
            result => self.guard(result).map(Some),
        }
    }

    /// Takes the lock, and sleeps at most until `deadline`. `Ok(None)`: time is over.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock).
    pub fn lock_timeout(
        &self,
        deadline: impl Into<Deadline>,
    ) -> io::Result<Option<MutexGuard<'_>>> {
        let end = c_timespec(deadline.into().absolute_timespec());
        let mutex = self.place.as_ptr();
        // SAFETY: as in `lock`; `end` is a valid time that lives during the call.
        match unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_MONOTONIC, &raw const end) } {
            libc::ETIMEDOUT => Ok(None),
            result => self.guard(result).map(Some),
        }
    }

    #[inline]
    fn guard(&self, result: c_int) -> io::Result<MutexGuard<'_>> {
        let found = self.take_over(result)?;
        self.held.store(true, Ordering::Relaxed);
        Ok(MutexGuard { mutex: self, found, lost: false, not_send: PhantomData })
    }

    /// Makes the mutex of a dead owner usable; `result` is that of a locking function.
    #[inline]
    fn take_over(&self, result: c_int) -> io::Result<Lock> {
        if result != libc::EOWNERDEAD {
            return check(result).map(|()| Lock::Clean);
        }
        // SAFETY: as in `lock`; EOWNERDEAD means that this thread holds it.
        check(unsafe { libc::pthread_mutex_consistent(self.place.as_ptr()) })?;
        Ok(Lock::OwnerDied)
    }
}

impl Drop for Mutex {
    fn drop(&mut self) {
        if *self.held.get_mut() {
            // A guard was forgotten: the C library's list of held mutexes points into the region,
            // so the region must stay mapped until the process ends.
            mem::forget(Arc::clone(&self.place.region));
        }
    }
}

impl MutexGuard<'_> {
    /// In what state the lock was found when it was taken, or when a condition variable's wait
    /// took it again.
    #[must_use]
    #[inline]
    pub fn lock_state(&self) -> Lock {
        self.found
    }

    /// For a condition variable: the mutex that this thread holds.
    pub(super) fn as_ptr(&self) -> *mut pthread_mutex_t {
        self.mutex.place.as_ptr()
    }

    /// For a condition variable: `result` is how its wait took the lock again.
    pub(super) fn retake(&mut self, result: c_int) -> io::Result<()> {
        match self.mutex.take_over(result) {
            Ok(found) => {
                self.found = found;
                self.mutex.held.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                self.lost = true;
                Err(error)
            }
        }
    }
}

impl Drop for MutexGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.lost {
            return;
        }
        self.mutex.held.store(false, Ordering::Relaxed);
        // SAFETY: this thread holds the lock: the guard proves it and cannot be sent. If a peer
        // has overwritten the owner, the call refuses and there is nothing left to unlock.
        let _ = unsafe { libc::pthread_mutex_unlock(self.mutex.place.as_ptr()) };
    }
}

struct Attributes(pthread_mutexattr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the pointer is to room for the attributes.
        check(unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: the call above has initialised them.
        Ok(Self(unsafe { attributes.assume_init() }))
    }

    fn set_shared_and_robust(&mut self) -> io::Result<()> {
        let attributes = &raw mut self.0;
        let shared = libc::PTHREAD_PROCESS_SHARED;
        // SAFETY: `new` initialised the attributes.
        check(unsafe { libc::pthread_mutexattr_setpshared(attributes, shared) })?;
        let robust = libc::PTHREAD_MUTEX_ROBUST;
        // SAFETY: as above.
        check(unsafe { libc::pthread_mutexattr_setrobust(attributes, robust) })
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: `new` initialised them, and nothing uses them afterwards.
        let _ = unsafe { libc::pthread_mutexattr_destroy(&raw mut self.0) };
    }
}
