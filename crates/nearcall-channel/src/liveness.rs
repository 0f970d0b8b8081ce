//! Whether the other end of a connection lives, and whether this end sleeps or may sleep on.
//!
//! **Invariants:** once [`PeerLiveness::is_gone`] has returned true it always does.
//! **Not here:** noticing a death and waking (`watcher.rs`), arming an interruption
//! (`interrupt.rs`).
//!
//! **Invariant:** every sleep ends. It has a deadline, or the death of the peer wakes it. *Checked
//! by* `tests/it/killed_peer.rs`, over every mechanism and either end.

use std::sync::atomic::AtomicU64;

use crate::sync::{AtomicBool, Ordering, fence};

/// Records whether the other end lives, and whether this end sleeps or may sleep on.
#[derive(Debug, Default)]
pub struct PeerLiveness {
    gone: AtomicBool,
    sleeping: AtomicBool,
    /// This end is interrupted.
    interrupted: AtomicBool,
    /// An `Interrupt` exists.
    interruptible: AtomicBool,
    /// Amid a message: an interruption now would lose it. Changed by the sleeping thread only.
    masked: AtomicBool,
    /// The connection's token at the watcher; zero while the connection is not watched.
    token: AtomicU64,
}

impl PeerLiveness {
    /// Returns whether the other end has closed or died. One load.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Marks the other end as gone.
    pub fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Runs `sleep` unless the other end is gone or this one is interrupted, and lets the watcher
    /// know that it may have to wake it. Returns `None` if it was so before.
    #[inline]
    pub fn sleep_while_alive<T>(&self, sleep: impl FnOnce() -> T) -> Option<T> {
        // With the fence in `may_sleep`: either we see the mark, or the watcher sees `sleeping`.
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let outcome = (!self.is_gone() && !self.is_interrupted()).then(sleep);
        self.sleeping.store(false, Ordering::Release);
        outcome
    }

    /// As [`sleep_while_alive`](Self::sleep_while_alive), for what must be done although this end
    /// is interrupted.
    #[inline]
    pub(crate) fn work_while_alive<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let outcome = (!self.is_gone()).then(work);
        self.sleeping.store(false, Ordering::Release);
        outcome
    }

    /// After a mark: whether this end may sleep and needs a wake-up, or another.
    pub(crate) fn may_sleep(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleeping.load(Ordering::Relaxed)
    }

    /// Returns whether a wait has to end as if its deadline had passed. Looked at around sleeps
    /// only.
    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire) && !self.masked.load(Ordering::Relaxed)
    }

    /// Returns whether interruptions may come. One load.
    #[inline]
    pub(crate) fn may_be_interrupted(&self) -> bool {
        self.interruptible.load(Ordering::Relaxed) && !self.masked.load(Ordering::Relaxed)
    }

    /// Sets whether waits of this end may be interrupted: amid a message they must not.
    #[inline]
    pub(crate) fn set_interruptible(&self, interruptible: bool) {
        self.masked.store(!interruptible, Ordering::Relaxed);
    }

    /// Sets the token with which the watcher knows this connection.
    pub(crate) fn set_token(&self, token: u64) {
        self.token.store(token, Ordering::Relaxed);
    }

    /// Returns the token with which the watcher knows this connection.
    pub(crate) fn token(&self) -> Option<u64> {
        Some(self.token.load(Ordering::Relaxed)).filter(|token| *token != 0)
    }

    /// Takes an interruption's mark away. Whether it was there.
    pub(crate) fn take_interruption(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) && self.interrupted.swap(false, Ordering::AcqRel)
    }

    /// From now on interruptions may come. False: so it was before.
    pub(crate) fn begin_interruptions(&self) -> bool {
        !self.interruptible.swap(true, Ordering::AcqRel)
    }

    /// Ends interruptions and takes the mark of one away.
    pub(crate) fn end_interruptions(&self) {
        self.interrupted.store(false, Ordering::Relaxed);
        self.interruptible.store(false, Ordering::Release);
    }

    /// Marks this end as interrupted if interruptions may come.
    pub(crate) fn interrupt(&self) -> bool {
        let may_come = self.interruptible.load(Ordering::Acquire);
        if may_come {
            self.interrupted.store(true, Ordering::Release);
        }
        may_come
    }

    /// Returns whether this end is interrupted and may sleep all the same.
    pub(crate) fn needs_interrupting(&self) -> bool {
        let may_sleep = self.may_sleep();
        may_sleep && self.is_interrupted()
    }
}
