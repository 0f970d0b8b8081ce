//! Decides who ends what one thread uses and another one closes: the last use, or the closing.
//!
//! The user counts down, then looks whether it is closed; who closes says so, then looks whether it
//! is in use. Each has a fence in between, so at least one of them sees the other.
//! **Invariants:** what was closed is ended by whoever closes it, or by the end of its last use.
//! **Not here:** what is used and how it ends (`nearcall`'s clients and their connections). It
//! stands in this crate since loom tries each interleaving here.

use crate::sync::{AtomicBool, AtomicU32, Ordering, fence};

/// Set once, when nothing begins a use any more.
#[derive(Debug, Default)]
pub struct ClosedFlag(AtomicBool);

/// How often something is in use. Only one thread writes it.
#[derive(Debug, Default)]
pub struct UseCount(AtomicU32);

impl ClosedFlag {
    /// Closes. Look at each [`UseCount`] afterwards.
    pub fn close(&self) {
        self.0.store(true, Ordering::Relaxed);
        // With that of `UseCount::end`.
        fence(Ordering::SeqCst);
    }

    /// Returns whether it is closed.
    #[must_use]
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl UseCount {
    // A load and a store, since there is one writer: no other thread waits for the cache line.
    /// Begins a use.
    #[inline]
    pub fn begin(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Ends a use. Returns whether `flag` is closed, so that what was used has to end.
    #[must_use]
    #[inline]
    pub fn end(&self, flag: &ClosedFlag) -> bool {
        self.0.store(self.0.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        // With that of `ClosedFlag::close`.
        fence(Ordering::SeqCst);
        flag.is_closed()
    }

    /// Returns whether it is in use, after it was closed.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_use_sees_that_it_is_closed() {
        let (flag, uses) = (ClosedFlag::default(), UseCount::default());
        uses.begin();
        uses.begin();
        assert!(!uses.end(&flag) && uses.is_in_use());
        flag.close();
        assert!(uses.end(&flag) && !uses.is_in_use());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn loom_what_is_closed_is_ended_by_one_side_at_least() {
        loom::model(|| {
            let (flag, uses) = (Arc::new(ClosedFlag::default()), Arc::new(UseCount::default()));
            uses.begin();
            uses.begin();
            let (closes, used) = (Arc::clone(&flag), Arc::clone(&uses));
            let closing = thread::spawn(move || {
                closes.close();
                !used.is_in_use()
            });
            let _ = uses.end(&flag);
            let is_ended_here = uses.end(&flag);
            let is_ended_there = closing.join().unwrap();
            assert!(is_ended_here || is_ended_there);
        });
    }
}
