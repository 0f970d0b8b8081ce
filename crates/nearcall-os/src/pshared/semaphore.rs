#![allow(unsafe_code, reason = "calls the C library's semaphores, and may send the handle")]
//! A POSIX semaphore in shared memory (`sem_t`).
//!
//! **Invariants:** every wait without a limit is documented as such; signals do not end one.
//! **Not here:** named semaphores, which would be left behind by a killed process.

use std::io;
use std::sync::Arc;

use libc::{c_int, sem_t};

use super::{Place, c_timespec};
use crate::deadline::Deadline;
use crate::platform::sem_clockwait;
use crate::region::LockRegion;

/// A counter that [`wait`](Self::wait) takes one from and [`post`](Self::post) adds one to.
#[derive(Debug)]
pub struct Semaphore {
    place: Place<sem_t>,
}

// SAFETY: the object is made for use by any thread of any process that maps it.
unsafe impl Send for Semaphore {}
// SAFETY: as for Send.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    /// Bytes that it takes in the region.
    pub const SIZE: usize = size_of::<sem_t>();
    /// The alignment of its offset, in bytes.
    pub const ALIGN: usize = align_of::<sem_t>();

    /// Makes a semaphore of `value` at `offset`. Once, before the peer attaches.
    ///
    /// # Errors
    ///
    /// When `value` is above the C library's limit.
    ///
    /// # Panics
    ///
    /// If `offset` is misaligned or there is no room.
    #[track_caller]
    pub fn init(region: &Arc<LockRegion>, offset: usize, value: u32) -> io::Result<Self> {
        let place = Place::<sem_t>::new(region, offset);
        // SAFETY: `Place` proves room and alignment, and keeps the memory.
        check_minus_one(unsafe { libc::sem_init(place.as_ptr(), PROCESS_SHARED, value) })?;
        Ok(Self { place })
    }

    /// The semaphore that the peer has made at `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` is misaligned or there is no room.
    #[must_use]
    #[track_caller]
    pub fn attach(region: &Arc<LockRegion>, offset: usize) -> Self {
        Self { place: Place::new(region, offset) }
    }

    /// Takes one, and sleeps until there is one: without end if the peer is dead.
    ///
    /// # Errors
    ///
    /// When the memory holds no semaphore.
    #[inline]
    pub fn wait(&self) -> io::Result<()> {
        loop {
            // SAFETY: `Place` keeps the memory; `init` (of this process or the trusted peer) made
            // it.
            match check_minus_one(unsafe { libc::sem_wait(self.place.as_ptr()) }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Takes one, and sleeps at most until `deadline`. `Ok(false)`: there was none.
    ///
    /// # Errors
    ///
    /// When the memory holds no semaphore.
    pub fn wait_timeout(&self, deadline: impl Into<Deadline>) -> io::Result<bool> {
        let end = c_timespec(deadline.into().absolute_timespec());
        loop {
            let semaphore = self.place.as_ptr();
            // SAFETY: as in `wait`; `end` is a valid time that lives during the call.
            let result = unsafe { sem_clockwait(semaphore, libc::CLOCK_MONOTONIC, &raw const end) };
            match check_minus_one(result) {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes one if there is one. Never sleeps, no system call.
    ///
    /// # Errors
    ///
    /// When the memory holds no semaphore.
    #[inline]
    pub fn try_wait(&self) -> io::Result<bool> {
        loop {
            // SAFETY: as in `wait`.
            match check_minus_one(unsafe { libc::sem_trywait(self.place.as_ptr()) }) {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds one, and wakes a sleeper if there is one. A system call only then.
    ///
    /// # Errors
    ///
    /// When the counter is full: a peer forged it, or no thread waits.
    #[inline]
    pub fn post(&self) -> io::Result<()> {
        // SAFETY: as in `wait`.
        check_minus_one(unsafe { libc::sem_post(self.place.as_ptr()) })
    }
}

/// Turns the result of a `sem_` function, which sets `errno`, into a `Result`.
#[inline]
fn check_minus_one(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const PROCESS_SHARED: c_int = 1;
