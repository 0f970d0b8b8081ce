//! POSIX semaphores, robust mutexes and condition variables in memory that two processes share.
//!
//! They exist to be measured (`shm-semaphore`, `shm-condvar`, `shm-mq`) and only between processes
//! that trust each other: the C library keeps pointers inside a robust mutex, so a peer that writes
//! nonsense there can crash this process or worse. Hence a [`LockRegion`], which takes a
//! [`Trust`](crate::region::Trust) to make. This process could do the same to itself by `init` or a
//! plain write over a lock in use: the places come from one layout. The product's channel has no
//! lock.
//!
//! One side calls `init` before the other side gets the descriptor; the other calls `attach`.
//! Offsets are the caller's own numbers and must be multiples of `ALIGN`.
//! **Invariants:** a handle keeps its region mapped, so the object never moves or vanishes; nothing
//! is destroyed at the end, the memory just goes.
//! **Not here:** the memory (`region.rs`), sleeping without a lock (`futex.rs`).

mod condvar;
mod mutex;
mod semaphore;

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::Timespec;

use crate::platform;
use crate::region::LockRegion;

pub use condvar::{Condvar, CondvarWait};
pub use mutex::{Lock, Mutex, MutexGuard};
pub use semaphore::Semaphore;

/// Checks whether the C library has locks that other processes of this machine can use as well.
///
/// # Errors
///
/// Why they cannot.
pub fn probe() -> Result<(), &'static str> {
    match platform::HAS_SHARED_LOCKS {
        true => Ok(()),
        false => Err("the locks of this C library are not those of glibc, which other processes \
                      use, and do not wait by the monotonic clock; use shm"),
    }
}

/// A place for a `T` in a region, which the place keeps mapped.
#[derive(Debug)]
struct Place<T> {
    object: NonNull<T>,
    region: Arc<LockRegion>,
}

impl<T> Place<T> {
    /// # Panics
    ///
    /// If `offset` is misaligned or the object does not fit there.
    #[track_caller]
    fn new(region: &Arc<LockRegion>, offset: usize) -> Self {
        assert!(offset.is_multiple_of(align_of::<T>()), "{offset} is not aligned for the object");
        let object = region.bytes_ptr(offset, size_of::<T>()).cast();
        Self { object, region: Arc::clone(region) }
    }

    fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

/// Turns the result of a `pthread_` function, which returns the error number, into a `Result`.
fn check(errno: libc::c_int) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn c_timespec(time: Timespec) -> libc::timespec {
    let seconds = Duration::from_secs(platform::count(time.tv_sec));
    platform::timespec(seconds + Duration::from_nanos(platform::count(time.tv_nsec)))
}
