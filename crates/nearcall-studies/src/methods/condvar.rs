//! The bounded buffer of the textbooks: a mutex, two condition variables, copies under the lock.
//!
//! The order within the lock is the textbook's: wait, copy, signal, unlock.
//!
//! One study's times grow by about 7 cycles for each byte and direction, as those of a loop over
//! single bytes do; so there is that variant, and one with memcpy that is the same in all else.
//!
//! The lock is robust, so that it comes back from a killed process; waits are in slices. Who is
//! killed inside a condition variable may leave it broken, and then the runner ends the other end.
//! Not here: the buffers and their memory (`buffered.rs`).

use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nearcall_bench::custom::Failure;
use nearcall_os::pshared::{Condvar, CondvarWait, Lock, Mutex, MutexGuard};
use nearcall_os::region::LockRegion;

use crate::methods::buffered::Buffer;
use crate::methods::counter_process::{CounterProcess, SLICE, gone};

/// How bytes get into and out of the buffer.
pub(super) trait Copying {
    fn copy_in(region: &LockRegion, at: usize, bytes: &[u8]);
    fn copy_out(region: &LockRegion, at: usize, into: &mut [u8]);
}

/// By memcpy.
pub(super) struct AtOnce;

/// One after the other. Each access is one of a byte, and the place goes through memory as in a
/// program that was compiled without optimisation.
pub(super) struct ByBytes;

impl Copying for AtOnce {
    #[inline]
    fn copy_in(region: &LockRegion, at: usize, bytes: &[u8]) {
        region.write(at, bytes);
    }

    #[inline]
    fn copy_out(region: &LockRegion, at: usize, into: &mut [u8]) {
        region.read(at, into);
    }
}

impl Copying for ByBytes {
    #[inline]
    fn copy_in(region: &LockRegion, at: usize, bytes: &[u8]) {
        let mut place = 0;
        while place < bytes.len() {
            region.byte(at + place).store(bytes[place], Ordering::Relaxed);
            place = black_box(place + 1);
        }
    }

    #[inline]
    fn copy_out(region: &LockRegion, at: usize, into: &mut [u8]) {
        let mut place = 0;
        while place < into.len() {
            into[place] = region.byte(at + place).load(Ordering::Relaxed);
            place = black_box(place + 1);
        }
    }
}

/// One direction.
pub(super) struct Condvars<C> {
    region: Arc<LockRegion>,
    at: usize,
    mutex: Mutex,
    /// Waited for by the receiver.
    filled: Condvar,
    /// Waited for by the sender.
    emptied: Condvar,
    copying: PhantomData<C>,
}

impl<C: Copying> Buffer for Condvars<C> {
    const HEAD_BYTES: usize = DATA;

    fn init(region: &Arc<LockRegion>, at: usize) -> Result<(), Failure> {
        Mutex::init(region, at + MUTEX)?;
        Condvar::init(region, at + FILLED)?;
        Condvar::init(region, at + EMPTIED)?;
        Ok(())
    }

    fn attach(region: &Arc<LockRegion>, at: usize) -> Self {
        Self {
            region: Arc::clone(region),
            at,
            mutex: Mutex::attach(region, at + MUTEX),
            filled: Condvar::attach(region, at + FILLED),
            emptied: Condvar::attach(region, at + EMPTIED),
            copying: PhantomData,
        }
    }

    #[inline]
    fn put(&self, other: CounterProcess<'_>, bytes: &[u8]) -> Result<(), Failure> {
        let _guard = self.enter(other, &self.emptied, false)?;
        C::copy_in(&self.region, self.at + DATA, bytes);
        self.region.word32(self.at + IS_FULL).store(1, Ordering::Relaxed);
        Ok(self.filled.signal()?)
    }

    #[inline]
    fn take(&self, other: CounterProcess<'_>, into: &mut [u8]) -> Result<(), Failure> {
        let _guard = self.enter(other, &self.filled, true)?;
        C::copy_out(&self.region, self.at + DATA, into);
        self.region.word32(self.at + IS_FULL).store(0, Ordering::Relaxed);
        Ok(self.emptied.signal()?)
    }
}

impl<C> Condvars<C> {
    /// Takes the lock when the buffer is full, or is not.
    #[inline]
    fn enter(
        &self,
        other: CounterProcess<'_>,
        changed: &Condvar,
        is_full: bool,
    ) -> Result<MutexGuard<'_>, Failure> {
        let mut guard = match self.mutex.try_lock()? {
            Some(guard) => guard,
            None => other.wait_for(|| Ok(self.mutex.lock_timeout(SLICE)?))?,
        };
        // The lock orders everything.
        let full = self.region.word32(self.at + IS_FULL);
        other.wait_for(|| {
            loop {
                if guard.lock_state() == Lock::OwnerDied {
                    return Err(gone());
                }
                if (full.load(Ordering::Relaxed) != 0) == is_full {
                    return Ok(Some(()));
                }
                if changed.wait_timeout(&mut guard, SLICE)? == CondvarWait::TimedOut {
                    return Ok(None);
                }
            }
        })?;
        Ok(guard)
    }
}

/// Each in a pair of cache lines of its own.
const MUTEX: usize = 0;
const FILLED: usize = 128;
const EMPTIED: usize = 256;
const IS_FULL: usize = 384;
const DATA: usize = 512;

const _: () = assert!(Mutex::SIZE <= FILLED && Condvar::SIZE <= EMPTIED - FILLED);
