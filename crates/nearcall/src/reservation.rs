//! The memory that calls of a peer take while they go on after their turn, charged to the peer's
//! user: what tasks, threads of pools and responders keep, items that were not read or not sent,
//! calls inside other calls.
//!
//! A connection charges in steps, so that a small call adds to a number and takes from it again; a
//! step of its own is charged for a large one.
//! **Invariants:** what is charged is never less than what is reserved beyond the memory that
//! counts for every connection; a reservation that is refused changes nothing; whoever drops one
//! gives its bytes back, in any thread; when all are gone at most one step stays charged, until the
//! connection ends.
//! **Not here:** how much a call takes (`decoded_size.rs`), the accounts
//! (`nearcall_channel::account`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use nearcall_channel::Endpoint;
use nearcall_channel::account::{Charge, Exceeded, Resource};

use crate::limits::{CALLS_BYTES_FREE, CALLS_STEP_BYTES};
use crate::refusals::RefusalKind;
use crate::status::Status;

/// What the calls of one connection hold together.
#[derive(Debug)]
pub(crate) struct CallMemory {
    /// What is reserved, in bytes.
    reserved: AtomicU64,
    /// What may be reserved without asking the account.
    allowed: AtomicU64,
    charge: Mutex<Charge>,
}

/// A part of that. Dropping it gives everything back.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    memory: Option<Arc<CallMemory>>,
    bytes: u64,
}

impl CallMemory {
    /// Creates the memory of a connection whose endpoint has an account; none of others.
    pub(crate) fn of(endpoint: &Endpoint) -> Option<Arc<Self>> {
        Some(Self::new(endpoint.account()?.empty_charge(Resource::Bytes)))
    }

    /// Creates the memory of a connection that is charged by `charge`, which has nothing yet.
    pub(crate) fn new(charge: Charge) -> Arc<Self> {
        let (reserved, allowed) = (AtomicU64::new(0), AtomicU64::new(CALLS_BYTES_FREE));
        Arc::new(Self { reserved, allowed, charge: Mutex::new(charge) })
    }

    /// Reserves so many bytes.
    ///
    /// # Errors
    ///
    /// The share of the user does not suffice.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, Exceeded> {
        let bytes = bytes as u64;
        self.add(bytes)?;
        Ok(Reservation { memory: Some(Arc::clone(self)), bytes })
    }

    #[inline]
    fn add(&self, bytes: u64) -> Result<(), Exceeded> {
        // In one order with the change of `allowed` by `shrink`: one of both sees the other.
        let reserved = self.reserved.fetch_add(bytes, Ordering::SeqCst).saturating_add(bytes);
        match reserved <= self.allowed.load(Ordering::SeqCst) {
            true => Ok(()),
            false => self.extend().inspect_err(|_| {
                self.reserved.fetch_sub(bytes, Ordering::SeqCst);
            }),
        }
    }

    /// Charges as much as is reserved, and the rest of a step.
    #[cold]
    fn extend(&self) -> Result<(), Exceeded> {
        let mut charge = self.charge.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = Self::step_above(self.reserved.load(Ordering::SeqCst));
        if wanted > self.allowed.load(Ordering::SeqCst) {
            charge.resize_sparing(wanted - CALLS_BYTES_FREE)?;
            self.allowed.store(wanted, Ordering::SeqCst);
        }
        Ok(())
    }

    #[inline]
    fn remove(&self, bytes: u64) {
        let left = self.reserved.fetch_sub(bytes, Ordering::SeqCst) - bytes;
        if Self::is_ample(self.allowed.load(Ordering::SeqCst), left) {
            self.shrink();
        }
    }

    /// Gives back what is charged and needed no more. Another thread that has the lock charges or
    /// gives back for what it finds; one of a process that was forked is not waited for.
    #[cold]
    fn shrink(&self) {
        let mut charge = match self.charge.try_lock() {
            Ok(charge) => charge,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        loop {
            let reserved = self.reserved.load(Ordering::SeqCst);
            let (allowed, wanted) =
                (self.allowed.load(Ordering::SeqCst), Self::step_above(reserved));
            if !Self::is_ample(allowed, reserved) {
                return;
            }
            self.allowed.store(wanted, Ordering::SeqCst);
            if self.reserved.load(Ordering::SeqCst) <= wanted {
                // Less is never refused.
                let _ = charge.resize(wanted - CALLS_BYTES_FREE);
                return;
            }
            // Something came meanwhile, by what was allowed before.
            self.allowed.store(allowed, Ordering::SeqCst);
        }
    }

    /// Returns whether two steps more are allowed than reserved, so that calls that come and go do
    /// not charge and give back each time.
    #[inline]
    fn is_ample(allowed: u64, reserved: u64) -> bool {
        allowed >= reserved.saturating_add(CALLS_BYTES_FREE + 2 * CALLS_STEP_BYTES)
    }

    fn step_above(reserved: u64) -> u64 {
        let beyond = reserved.saturating_sub(CALLS_BYTES_FREE);
        let steps = beyond.checked_next_multiple_of(CALLS_STEP_BYTES);
        CALLS_BYTES_FREE.saturating_add(steps.unwrap_or(u64::MAX))
    }
}

impl Reservation {
    /// Has it be of so many bytes, if it is of fewer. One of no connection takes any.
    ///
    /// # Errors
    ///
    /// The share of the user does not suffice; it is as before.
    #[inline]
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let bytes = bytes as u64;
        if let Some(memory) = self.memory.as_ref().filter(|_| bytes > self.bytes) {
            memory.add(bytes - self.bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Gives back what is above so many bytes.
    #[inline]
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if let Some(memory) = self.memory.as_ref().filter(|_| bytes < self.bytes) {
            memory.remove(self.bytes - bytes);
            self.bytes = bytes;
        }
    }

    /// Has it be of this connection from now on, if it is of none yet.
    pub(crate) fn charge_to(&mut self, memory: Option<&Arc<CallMemory>>) {
        if self.memory.is_none() {
            self.memory = memory.cloned();
        }
    }

    /// Returns how many bytes it is of.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns one of nothing yet, of the same connection.
    pub(crate) fn of(memory: Option<&Arc<CallMemory>>) -> Self {
        Self { memory: memory.cloned(), bytes: 0 }
    }
}

/// Returns the status of a call that would hold more than its user may; `note` counts the refusal.
#[cold]
pub(crate) fn refuse(exceeded: &Exceeded, note: impl FnOnce(RefusalKind, &str)) -> Status {
    let text = exceeded.to_string();
    note(RefusalKind::ResourceLimit, &text);
    Status::resource_exhausted(text)
}

impl Drop for Reservation {
    #[inline]
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use nearcall_channel::account::Accounts;
    use nearcall_os::capacity::Capacity;

    /// Of which one user may have half, seven eighths of that for calls.
    const TOTAL: u64 = 64 << 20;

    fn accounts() -> Accounts {
        Accounts::new(&Capacity { descriptors: 0, mappings: 0, bytes: TOTAL })
    }

    fn memory(accounts: &Accounts) -> Arc<CallMemory> {
        CallMemory::new(accounts.user(Some(7)).empty_charge(Resource::Bytes))
    }

    fn used(accounts: &Accounts) -> u64 {
        accounts.used(Resource::Bytes).0
    }

    #[test]
    fn small_calls_charge_a_step_and_large_ones_what_they_take() {
        let accounts = accounts();
        let memory = memory(&accounts);
        let small: Vec<_> = (0..16).map(|_| memory.reserve(1000).unwrap()).collect();
        assert_eq!(used(&accounts), 0, "within what counts for every connection");
        let one_more = memory.reserve(1000).unwrap();
        assert_eq!(used(&accounts), CALLS_STEP_BYTES);
        let large = memory.reserve(10 << 20).unwrap();
        assert!((10 << 20..11 << 20).contains(&used(&accounts)), "{}", used(&accounts));
        drop((large, one_more, small));
        assert!(used(&accounts) <= CALLS_STEP_BYTES, "{}", used(&accounts));
        drop(memory);
        assert_eq!(used(&accounts), 0);
    }

    #[test]
    fn what_is_refused_changes_nothing_and_leaves_room_for_messages_under_way() {
        let accounts = accounts();
        let memory = memory(&accounts);
        let kept = memory.reserve(27 << 20).unwrap();
        let before = used(&accounts);
        let refused = memory.reserve(4 << 20).unwrap_err();
        assert_eq!((refused.share, refused.spared), (TOTAL / 2, TOTAL / 16));
        assert_eq!(used(&accounts), before);
        accounts.user(Some(7)).charge(Resource::Bytes, 4 << 20).unwrap();
        let mut growing = memory.reserve(1).unwrap();
        assert!(growing.grow_to(4 << 20).is_err() && growing.bytes() == 1);
        drop(kept);
        growing.grow_to(4 << 20).unwrap();
        drop(growing);
        assert!(used(&accounts) <= CALLS_STEP_BYTES);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn threads_give_back_what_they_have_reserved() {
        let accounts = accounts();
        let memory = memory(&accounts);
        std::thread::scope(|scope| {
            for seed in 0..4_u64 {
                let (memory, accounts) = (&memory, &accounts);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    let mut kept = Vec::new();
                    for _ in 0..2000 {
                        kept.extend(memory.reserve(random.usize(..1 << 20)));
                        // Nothing that this thread holds is above what is charged.
                        let own: u64 = kept.iter().map(Reservation::bytes).sum();
                        assert!(own <= used(accounts) + CALLS_BYTES_FREE);
                        if random.u8(..4) == 0 {
                            kept.truncate(random.usize(..=kept.len()));
                        }
                    }
                });
            }
        });
        assert_eq!(memory.reserved.load(Ordering::SeqCst), 0);
        // One that found the lock taken has left that to the next.
        drop(memory.reserve(1 + usize::try_from(CALLS_BYTES_FREE).unwrap()));
        assert!(used(&accounts) <= 3 * CALLS_STEP_BYTES, "{}", used(&accounts));
        drop(memory);
        assert_eq!(used(&accounts), 0);
    }
}
