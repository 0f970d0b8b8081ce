//! What a client does between two attempts to connect to a server that may not listen yet.
//!
//! The file of a server's socket is waited for: a listener of this library touches it once it
//! listens. One of another library may be found before it listens, so that for a while after each
//! change attempts follow by themselves.
//! **Invariants:** a server that begins to listen after an attempt has begun ends the wait that
//! follows; whoever changes a directory without end causes no more attempts than there would be
//! without a watch.
//! **Not here:** the attempts (`client/connecting.rs`, `async_call/connecting.rs`), the directories
//! (`async_connection/driver/appearances.rs`).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use nearcall_channel::has_lock;
use nearcall_os::clock;

use crate::address::At;
use crate::async_connection::Appearance;
use crate::deadline::{Deadline, Pauses};
use crate::limits::{HUNT_CHANGES_MAX, HUNT_RETRY_TIME};

/// A wait for a server, over several attempts.
pub(crate) struct Hunt {
    /// None: there is nothing to wait for but the next attempt.
    appearance: Option<Appearance>,
    pauses: Pauses,
    /// Until when to try again by itself while no server listens.
    retry_until: Deadline,
    /// Changes that may end a pause until then.
    changes_left: u32,
}

/// When to try again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextTry {
    pub(crate) at: Deadline,
    /// Earlier, if something changes.
    pub(crate) or_at_change: bool,
}

impl Hunt {
    /// Begins to wait for a server that listens at `at`. Attempts from before may have missed it.
    pub(crate) fn start(at: &At) -> Self {
        let appearance = watch(at).inspect_err(|error| report_no_watch(at, error)).ok();
        let path = appearance.as_ref().map(Appearance::path);
        // It is stale, or of a listener that does not touch it once it listens.
        let may_come_unseen = path.is_some_and(|path| path.exists() && !has_lock(path));
        let retry_until = match may_come_unseen {
            true => Deadline::after(HUNT_RETRY_TIME),
            false => Deadline::NOW,
        };
        Self { appearance, pauses: Pauses::HUNT, retry_until, changes_left: HUNT_CHANGES_MAX }
    }

    /// Begins an attempt: what changes from now on ends the next wait. Returns whether anything has
    /// since the last one.
    pub(crate) fn begin_attempt(&mut self, at: &At) -> bool {
        let Some(appearance) = &mut self.appearance else { return false };
        match appearance.arm() {
            Ok(has_changed) => {
                if has_changed {
                    self.note_change();
                }
                has_changed
            }
            Err(error) => {
                report_no_watch(at, &error);
                self.appearance = None;
                true
            }
        }
    }

    fn note_change(&mut self) {
        if self.retry_until.has_passed() {
            (self.pauses, self.changes_left) = (Pauses::HUNT, HUNT_CHANGES_MAX);
        } else {
            self.changes_left = self.changes_left.saturating_sub(1);
        }
        self.retry_until = Deadline::after(HUNT_RETRY_TIME);
    }

    /// Returns when to try again after an attempt that has found no listener, or that has failed in
    /// another way that may pass.
    pub(crate) fn next_try(&mut self, is_absent: bool) -> NextTry {
        let is_watched = self.appearance.is_some();
        if is_watched && is_absent && self.retry_until.has_passed() {
            return NextTry { at: Deadline::NEVER, or_at_change: true };
        }
        let or_at_change = is_watched && self.changes_left > 0;
        NextTry { at: self.pauses.next(), or_at_change }
    }

    /// Returns whether something has changed since the last attempt began; if not, `waker` is woken
    /// by the next change.
    pub(crate) fn poll_change(&mut self, waker: &Waker) -> bool {
        self.appearance.as_mut().is_some_and(|appearance| appearance.poll(waker))
    }

    /// Blocks this thread until the next attempt is due.
    pub(super) fn block(&mut self, next: NextTry) {
        if !next.or_at_change {
            return clock::pause(next.at.remaining().unwrap_or_default());
        }
        self.block_until(next, &Arc::default(), || false);
    }

    /// Blocks this thread until the next attempt is due or `is_over`, which is looked at whenever
    /// `alarm` rings.
    pub(super) fn block_until(
        &mut self,
        next: NextTry,
        alarm: &Arc<Alarm>,
        is_over: impl Fn() -> bool,
    ) {
        let waker = Waker::from(Arc::clone(alarm));
        let is_due = |hunt: &mut Self| next.or_at_change && hunt.poll_change(&waker);
        while !is_over() && !is_due(self) && alarm.wait(next.at) {}
    }
}

impl NextTry {
    /// Returns the same, at `end` at the latest.
    pub(crate) fn before(self, end: Deadline) -> Self {
        Self { at: self.at.min(end), ..self }
    }
}

/// Wakes a thread.
#[derive(Default)]
pub(super) struct Alarm {
    has_rung: Mutex<bool>,
    bell: Condvar,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

impl Alarm {
    pub(super) fn ring(&self) {
        *self.has_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_one();
    }

    /// Waits until it rings. Returns false if it has not by `end`.
    pub(super) fn wait(&self, end: Deadline) -> bool {
        let mut has_rung = self.has_rung.lock().unwrap_or_else(PoisonError::into_inner);
        while !std::mem::take(&mut *has_rung) {
            let left = end.remaining();
            if left == Some(Duration::ZERO) {
                return false;
            }
            has_rung = match left {
                None => self.bell.wait(has_rung).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.bell.wait_timeout(has_rung, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        true
    }
}

/// Watches for the socket of a server.
fn watch(at: &At) -> io::Result<Appearance> {
    let path = match at {
        At::Socket(place) => place.awaited_path()?,
        At::InProcess(_) => None,
    };
    let no_file = || {
        let text = "a socket without a file has no directory that could be watched";
        io::Error::new(io::ErrorKind::Unsupported, text)
    };
    Appearance::new(path.ok_or_else(no_file)?)
}

/// Reports that a server is asked for again and again: once for addresses without a file, and once
/// for the first directory that cannot be watched.
#[cold]
fn report_no_watch(at: &At, error: &io::Error) {
    static NO_FILE: AtomicBool = AtomicBool::new(false);
    static NO_WATCH: AtomicBool = AtomicBool::new(false);
    let is_reported = match error.kind() {
        io::ErrorKind::Unsupported => &NO_FILE,
        _ => &NO_WATCH,
    };
    if !is_reported.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            target: "nearcall",
            "waiting for a server at {at} by trying to connect every 1 to 50 ms: {error}; this is \
             reported once"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    /// Any number of changes, by whoever may write to the directory, causes as many attempts as the
    /// pauses allow.
    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn changes_without_end_cut_only_some_pauses_short() {
        let name = format!("nearcall-hunting-{:016x}", fastrand::u64(..));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        let path = directory.join("socket");
        let at = At::Socket(format!("unix:{}", path.display()).parse().unwrap());
        let mut hunt = Hunt::start(&at);
        assert!(!hunt.begin_attempt(&at));
        let silent = hunt.next_try(true);
        assert!(silent.at == Deadline::NEVER && silent.or_at_change, "{silent:?}");
        // A server that can be reached and takes no client is asked again.
        assert!(hunt.next_try(false).at < Deadline::NEVER);
        let cut: Vec<_> = (0..20)
            .map(|_| {
                fs::write(&path, "").unwrap();
                fs::remove_file(&path).unwrap();
                fs::write(&path, "").unwrap();
                hunt.block(NextTry { at: Deadline::NEVER, or_at_change: true });
                assert!(hunt.begin_attempt(&at));
                let next = hunt.next_try(true);
                assert!(next.at < Deadline::NEVER, "it may be about to listen");
                next.or_at_change
            })
            .collect();
        let cut = cut.iter().filter(|cut| **cut).count();
        assert_eq!(cut, HUNT_CHANGES_MAX as usize);
        fs::remove_dir_all(&directory).unwrap();
    }
}
