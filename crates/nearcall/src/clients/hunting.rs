//! How a client watches for a server that may not listen yet, between two attempts to connect.
//!
//! The file of a server's socket is waited for: a listener of this library touches it once it
//! listens. One of another library may be found before it listens, so that for a while after each
//! change attempts follow by themselves.
//! **Invariants:** a server that begins to listen after the watch was set ends the wait that
//! follows.
//! **Not here:** when to try again (`clients/attempts.rs`), the attempts (`clients/connecting.rs`,
//! `async_call/connecting.rs`), the directories (`async_connection/driver/appearances.rs`).
//!
//! **Invariant:** a client that waits for a server that has a file sleeps until the file appears or
//! changes, whatever else happens in its directory, and a server that begins to listen meanwhile is
//! not missed. *Checked by* `tests/idle.rs`, `tests/it/hunts.rs`, and for limits of the kernel
//! `tests/faults/hunts.rs`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use nearcall_channel::has_lock;

use super::attempts::{NextTry, SocketWatch};
use crate::address::At;
use crate::async_connection::Appearance;
use crate::deadline::Deadline;

/// A watch for a server, over several attempts.
pub(crate) struct Hunt {
    /// None: there is nothing to wait for but the next attempt.
    appearance: Option<Appearance>,
    /// As [`SocketWatch::may_come_unseen`] has it, until that is reported.
    may_come_unseen: bool,
}

impl Hunt {
    /// Begins to watch for a server that listens at `at`. Attempts from before may have missed it.
    pub(crate) fn start(at: &At) -> Self {
        let appearance = watch(at).inspect_err(|error| report_no_watch(at, error)).ok();
        let path = appearance.as_ref().map(Appearance::path);
        // It is stale, or of a listener that does not touch it once it listens.
        let may_come_unseen = path.is_some_and(|path| path.exists() && !has_lock(path));
        Self { appearance, may_come_unseen }
    }

    /// Sets the watch for an attempt that follows: what changes from now on ends the next wait.
    pub(crate) fn arm(&mut self, at: &At) -> SocketWatch {
        let may_come_unseen = std::mem::take(&mut self.may_come_unseen);
        let (is_set, has_changed) = match self.appearance.as_mut().map(Appearance::arm) {
            None => (false, false),
            Some(Ok(has_changed)) => (true, has_changed),
            Some(Err(error)) => {
                report_no_watch(at, &error);
                self.appearance = None;
                (false, true)
            }
        };
        SocketWatch { is_set, has_changed, may_come_unseen }
    }

    /// Returns whether something has changed since the last attempt began; if not, `waker` is woken
    /// by the next change.
    pub(crate) fn poll_change(&mut self, waker: &Waker) -> bool {
        self.appearance.as_mut().is_some_and(|appearance| appearance.poll(waker))
    }

    /// Blocks this thread until the next attempt is due.
    pub(super) fn block(&mut self, next: NextTry) {
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
        At::InProcess(_) | At::Remote(_) => None,
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

    /// What is changed three times between two attempts is one change.
    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn each_attempt_gets_the_changes_since_the_one_before() {
        let name = format!("nearcall-hunting-{:016x}", fastrand::u64(..));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        let path = directory.join("socket");
        let at = At::Socket(format!("unix:{}", path.display()).parse().unwrap());
        let mut hunt = Hunt::start(&at);
        let unchanged = SocketWatch { is_set: true, ..SocketWatch::default() };
        assert_eq!((hunt.arm(&at), hunt.arm(&at)), (unchanged, unchanged));
        for _ in 0..20 {
            fs::write(&path, "").unwrap();
            fs::remove_file(&path).unwrap();
            fs::write(&path, "").unwrap();
            hunt.block(NextTry { at: Deadline::NEVER, or_at_change: true });
            assert_eq!(hunt.arm(&at), SocketWatch { has_changed: true, ..unchanged });
        }
        assert_eq!(hunt.arm(&at), unchanged);
        // The file that is there now belongs to no listener that would touch it.
        let stale = SocketWatch { may_come_unseen: true, ..unchanged };
        let mut hunt = Hunt::start(&at);
        assert_eq!((hunt.arm(&at), hunt.arm(&at)), (stale, unchanged));
        fs::remove_dir_all(&directory).unwrap();
    }
}
