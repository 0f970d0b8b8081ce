//! A mutex with two condition variables that two processes share, though either may be killed.
//!
//! The C library's condition variable was not made for that. A process that is killed inside a
//! signal, or inside a wait that has timed out, leaves the lock that the variable has of its own
//! taken forever, and the thread that signals or times out next hangs (all of glibc); before 2.41 a
//! signal also waits for dead waiters of an earlier group. The remedies:
//! - each variable has one waiter only, so that a signal never waits for a dead one;
//! - a wait lasts at most [`MONITOR_SLICE`], so that no waiter needs a wake-up to notice a death;
//! - once the other end is gone this end neither waits nor signals any more;
//! - a thread that is inside all the same, and does not come out within [`MONITOR_STUCK`], is freed
//!   by the watcher: it makes the variables anew and wakes every thread in them ([`rescue`]). The
//!   standard does not allow that. No process but ours is left to be hurt by it, and the variables
//!   are never used again.
//!
//! An interruption (`interrupt.rs`) signals the variable in which this end waits. The signal may
//! hang in a variable that the other end broke, so it is given by a thread that is not waited for,
//! one at a time; then the end of the slice is what interrupts.
//!
//! **Invariants:** a death is noticed within `MONITOR_SLICE`, or `MONITOR_STUCK` and a few
//! milliseconds if it left a variable broken. The robust mutex goes to the survivor. An end that is
//! stopped while it holds the mutex, or writes nonsense into it, stops the other end, too: no
//! isolation is claimed. For the same reason `Deadline::NOW` may wait for one copy of the other
//! end, at most a slice.
//! **Not here:** what the mutex guards (`condvar.rs`, `queue.rs`), whole
//! fragments (`monitor/transport.rs`).

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nearcall_os::pshared::{Condvar, Lock, Mutex, MutexGuard};
use nearcall_os::region::LockRegion;
use nearcall_os::{clock, futex};

use crate::error::Violation;
use crate::limits::{MONITOR_SLICE, MONITOR_STUCK};
use crate::liveness::PeerLiveness;
use crate::shm::layout::monitor::{MUTEX, NOT_EMPTY, NOT_FULL, RECEIVER_WAITS, SENDER_WAITS};
use crate::wait::Deadline;

pub(crate) mod transport;

/// The condition that a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Waited for by the receiver only.
    NotEmpty,
    /// Waited for by the sender only.
    NotFull,
}

/// One end's handle on a monitor.
pub(crate) struct Monitor {
    region: Arc<LockRegion>,
    at: usize,
    mutex: Mutex,
    not_empty: Condvar,
    not_full: Condvar,
    liveness: Arc<PeerLiveness>,
}

impl Monitor {
    /// Makes a monitor at `at`, before the other end attaches.
    pub(crate) fn init(
        region: &Arc<LockRegion>,
        at: usize,
        liveness: &Arc<PeerLiveness>,
    ) -> io::Result<Self> {
        Mutex::init(region, at + MUTEX)?;
        Condvar::init(region, at + NOT_EMPTY)?;
        Condvar::init(region, at + NOT_FULL)?;
        Ok(Self::attach(region, at, liveness))
    }

    /// The monitor that the other end has made at `at`.
    pub(crate) fn attach(
        region: &Arc<LockRegion>,
        at: usize,
        liveness: &Arc<PeerLiveness>,
    ) -> Self {
        Self {
            region: Arc::clone(region),
            at,
            mutex: Mutex::attach(region, at + MUTEX),
            not_empty: Condvar::attach(region, at + NOT_EMPTY),
            not_full: Condvar::attach(region, at + NOT_FULL),
            liveness: Arc::clone(liveness),
        }
    }

    /// Enters, asks `attempt` until it gives something, and leaves, waiting for `condition` in
    /// between. Then wakes the waiter of `wakes`. `None`: too late, or the other end is gone.
    #[inline]
    pub(crate) fn enter<T, E: From<io::Error> + From<Violation>>(
        &self,
        condition: Condition,
        wakes: Option<Condition>,
        deadline: Deadline,
        mut attempt: impl FnMut() -> Result<Option<T>, Violation>,
    ) -> Result<Option<T>, E> {
        let Some(mut guard) = self.lock(deadline)? else { return Ok(None) };
        loop {
            if let Some(found) = attempt()? {
                let wake = wakes.filter(|wakes| self.take_waiter(*wakes));
                drop(guard);
                if let Some(condition) = wake {
                    self.signal(condition);
                }
                return Ok(Some(found));
            }
            // No end publishes while we hold the lock, so what was sent before a death was seen.
            if self.liveness.is_gone() || self.liveness.is_interrupted() || deadline.has_passed() {
                return Ok(None);
            }
            self.wait(&mut guard, condition, deadline)?;
        }
    }

    #[inline]
    fn lock(&self, deadline: Deadline) -> io::Result<Option<MutexGuard<'_>>> {
        let guard = match self.mutex.try_lock()? {
            Some(guard) => Some(guard),
            None => self.lock_later(deadline)?,
        };
        if let Some(guard) = &guard {
            self.check_owner(guard);
        }
        Ok(guard)
    }

    fn lock_later(&self, deadline: Deadline) -> io::Result<Option<MutexGuard<'_>>> {
        loop {
            let guard = self.mutex.lock_timeout(slice(deadline))?;
            if guard.is_some() || self.liveness.is_gone() || deadline.has_passed() {
                return Ok(guard);
            }
        }
    }

    /// A dead owner's lock is the first sign of its death. What it left is whole: each operation
    /// takes effect by one store.
    #[inline]
    fn check_owner(&self, guard: &MutexGuard<'_>) {
        if guard.lock_state() == Lock::OwnerDied {
            self.liveness.set_gone();
        }
    }

    fn wait(
        &self,
        guard: &mut MutexGuard<'_>,
        condition: Condition,
        deadline: Deadline,
    ) -> io::Result<()> {
        let waits = self.region.word32(self.at + condition.waits());
        // Under the lock, so plain order is enough.
        waits.store(1, Ordering::Relaxed);
        let slept = self
            .liveness
            .sleep_while_alive(|| self.variable(condition).wait_timeout(guard, slice(deadline)));
        waits.store(0, Ordering::Relaxed);
        slept.transpose()?;
        self.check_owner(guard);
        Ok(())
    }

    /// Takes the mark of a thread that waits for `condition`, so that it is signalled once, and
    /// returns whether there was one. The caller holds the lock.
    #[inline]
    fn take_waiter(&self, condition: Condition) -> bool {
        let waits = self.region.word32(self.at + condition.waits());
        let waiting = waits.load(Ordering::Relaxed) != 0;
        if waiting {
            waits.store(0, Ordering::Relaxed);
        }
        waiting
    }

    #[inline]
    fn signal(&self, condition: Condition) {
        // Marked as a sleep: if it hangs, the watcher frees it. It has no other way to fail.
        let _ = self.liveness.work_while_alive(|| self.variable(condition).signal());
    }

    #[inline]
    fn variable(&self, condition: Condition) -> &Condvar {
        match condition {
            Condition::NotEmpty => &self.not_empty,
            Condition::NotFull => &self.not_full,
        }
    }
}

impl Condition {
    fn place(self) -> usize {
        match self {
            Self::NotEmpty => NOT_EMPTY,
            Self::NotFull => NOT_FULL,
        }
    }

    #[inline]
    fn waits(self) -> usize {
        match self {
            Self::NotEmpty => RECEIVER_WAITS,
            Self::NotFull => SENDER_WAITS,
        }
    }
}

/// For the watcher: called again and again after the other end's death while a thread of ours is
/// inside a condition variable of the monitors at `places`.
pub(crate) fn rescue(region: &Arc<LockRegion>, places: [usize; 2]) -> Box<dyn Fn() + Send> {
    let region = Arc::clone(region);
    let first_call = Cell::new(None);
    Box::new(move || {
        let now = clock::now();
        let first = first_call.get().unwrap_or(now);
        first_call.set(Some(first));
        if now.duration_since(first) >= MONITOR_STUCK {
            for at in places.into_iter().flat_map(|at| [at + NOT_EMPTY, at + NOT_FULL]) {
                renew(&region, at);
            }
        }
    })
}

/// For the watcher: called again and again while a thread of ours waits in a variable of the
/// monitors at `sending` or `receiving` and is to be called away.
pub(crate) fn nudge(
    region: &Arc<LockRegion>,
    sending: usize,
    receiving: usize,
) -> Box<dyn Fn() + Send> {
    let region = Arc::clone(region);
    let under_way = Arc::new(AtomicBool::new(false));
    Box::new(move || {
        if under_way.swap(true, Ordering::AcqRel) {
            return;
        }
        let (region, done) = (Arc::clone(&region), Arc::clone(&under_way));
        let signal = move || {
            let waits_in = [(receiving, Condition::NotEmpty), (sending, Condition::NotFull)];
            for (at, condition) in waits_in {
                if region.word32(at + condition.waits()).load(Ordering::Relaxed) != 0 {
                    let _ = Condvar::attach(&region, at + condition.place()).signal();
                }
            }
            done.store(false, Ordering::Release);
        };
        let thread = std::thread::Builder::new().name("nearcall-nudge".into());
        if thread.spawn(signal).is_err() {
            under_way.store(false, Ordering::Release);
        }
    })
}

/// Makes the condition variable at `at` anew under the threads inside, and has them look at it.
///
/// They sleep on one of its words, and each of them looks again after a wake-up: one that waited
/// for the inner lock finds it free, one that waited for a signal runs into the end of its slice.
fn renew(region: &Arc<LockRegion>, at: usize) {
    // It worked when the monitor was made, with the same attributes.
    let _ = Condvar::init(region, at);
    for word in (at..at + Condvar::SIZE).step_by(size_of::<u32>()) {
        futex::wake(region.word32(word), u32::MAX);
    }
}

/// The next slice of a wait until `deadline`; whole if `deadline` is now, see the file's head.
fn slice(deadline: Deadline) -> Deadline {
    let slice = Deadline::after(MONITOR_SLICE);
    if deadline == Deadline::NOW { slice } else { deadline.min(slice) }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use std::thread::scope;
    use std::time::Duration;

    use super::*;
    use crate::error::ReceiveError;
    use crate::fuzzing::regions::lock_region;
    use crate::shm::layout::monitor::MONITOR_BYTES;

    /// The word in which glibc before 2.41 keeps a variable's own lock, in the lowest bit.
    /// Elsewhere it is just another word that a dead process left wrong.
    const INNER_LOCK: usize = 32;
    /// The word in which it counts waiters, each as 8.
    const WAITERS: usize = 36;

    /// Ends a test that would otherwise hang.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn one_end() -> (Arc<LockRegion>, Arc<PeerLiveness>, Monitor) {
        let (region, liveness) = (lock_region(4096), Arc::default());
        let monitor = Monitor::init(&region, 0, &liveness).unwrap();
        Monitor::init(&region, MONITOR_BYTES, &liveness).unwrap();
        (region, liveness, monitor)
    }

    fn receive(
        monitor: &Monitor,
        attempt: impl FnMut() -> Result<Option<u8>, Violation>,
    ) -> Option<u8> {
        let entered: Result<_, ReceiveError> =
            monitor.enter(Condition::NotEmpty, None, Deadline::NEVER, attempt);
        entered.unwrap()
    }

    /// Does what the watcher does after a death, until `done`.
    fn retry_wake(region: &Arc<LockRegion>, liveness: &PeerLiveness, done: impl Fn() -> bool) {
        let wake = rescue(region, [0, MONITOR_BYTES]);
        let end = clock::now() + PATIENCE;
        liveness.set_gone();
        while !done() && clock::now() < end {
            wake();
            clock::pause(Duration::from_millis(1));
        }
        // A failed assertion could not end the scope: the thread inside would never be joined.
        if !done() {
            std::process::abort();
        }
    }

    #[test]
    fn a_waiter_leaves_a_variable_that_a_dead_signaller_left_locked() {
        let (region, liveness, monitor) = one_end();
        scope(|scope| {
            let waiter = scope.spawn(|| receive(&monitor, || Ok(None)));
            let waits = region.word32(RECEIVER_WAITS);
            while waits.load(Ordering::Relaxed) == 0 {
                clock::spin_hint();
            }
            region.word32(NOT_EMPTY + INNER_LOCK).fetch_or(1, Ordering::Relaxed);
            retry_wake(&region, &liveness, || waiter.is_finished());
            assert_eq!(waiter.join().unwrap(), None);
        });
    }

    #[test]
    fn a_signaller_leaves_a_variable_that_a_dead_waiter_left_locked() {
        let (region, liveness, monitor) = one_end();
        region.word32(NOT_EMPTY + INNER_LOCK).fetch_or(1, Ordering::Relaxed);
        region.word32(NOT_EMPTY + WAITERS).fetch_add(8, Ordering::Relaxed);
        region.word32(RECEIVER_WAITS).store(1, Ordering::Relaxed);
        scope(|scope| {
            let signaller = scope.spawn(|| {
                let (for_room, wakes) = (Condition::NotFull, Some(Condition::NotEmpty));
                let entered: Result<_, ReceiveError> =
                    monitor.enter(for_room, wakes, Deadline::NEVER, || Ok(Some(5)));
                entered.unwrap()
            });
            while region.word32(RECEIVER_WAITS).load(Ordering::Relaxed) != 0 {
                clock::spin_hint();
            }
            retry_wake(&region, &liveness, || signaller.is_finished());
            assert_eq!(signaller.join().unwrap(), Some(5));
        });
    }

    #[test]
    fn after_a_death_with_the_lock_what_is_there_is_received_and_then_no_more() {
        let (region, liveness, monitor) = one_end();
        scope(|scope| {
            // The lock of a thread that ends without giving it back is that of a dead owner.
            scope.spawn(|| std::mem::forget(Mutex::attach(&region, MUTEX).lock().unwrap()));
        });
        assert_eq!(receive(&monitor, || Ok(Some(7))), Some(7));
        assert!(liveness.is_gone());
        assert_eq!(receive(&monitor, || Ok(None)), None);
    }

    #[test]
    #[cfg_attr(not(target_env = "gnu"), ignore = "its locks cannot wait by the monotonic clock")]
    fn a_held_lock_is_not_waited_for_past_the_deadline() {
        let (_region, _life, monitor) = one_end();
        let _held = monitor.mutex.lock().unwrap();
        scope(|scope| {
            let late = scope.spawn(|| {
                let deadline = Deadline::after(Duration::from_millis(5));
                let entered: Result<_, ReceiveError> =
                    monitor.enter(Condition::NotEmpty, None, deadline, || Ok(Some(5)));
                entered.unwrap()
            });
            assert_eq!(late.join().unwrap(), None);
        });
    }
}
