//! One thread that notices that the other ends of connections are gone, for mechanisms whose
//! objects do not report it.
//!
//! A futex, a semaphore, a queue and a signal do not know that the process behind them has died.
//! The thread watches the control lines of all such connections, and the peers' pidfds, since a
//! process may hand its end of a line to another. When one of them hangs up, it marks the
//! [`PeerLiveness`] as gone and wakes the end that may be asleep, again and again until that end is
//! awake: the sleeper checks its `PeerLiveness` before it sleeps, and a single wake-up between that
//! check and the sleep would be lost.
//! The same thread interrupts the sleep of an end when a descriptor of its user becomes readable:
//! an [`Interrupt`] has it watched, once for each time that it is armed.
//!
//! **Invariants:** a forked process has a watcher of its own, or none; an interruption is marked
//! once for each arming, and only while its `Interrupt` lives.
//! **Not here:** the marks themselves (`liveness.rs`); pipes and sockets, which report a hang-up
//! themselves; arming (`interrupt.rs`).
//!
//! [`Interrupt`]: crate::interrupt::Interrupt

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearcall_os::epoll::{Epoll, Events};
use nearcall_os::fork::Epoch;
use nearcall_os::poll::Interest;
use nearcall_os::{clock, thread};

use crate::control::Control;
use crate::limits::WAKE_RETRY_INTERVAL;
use crate::liveness::PeerLiveness;
use crate::settings::Settings;
use crate::sync::Ordering;

/// The bit in a token that distinguishes an interruption from a hang-up.
const INTERRUPTION: u64 = 1;

/// Why the watcher wakes an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The other end has gone.
    Gone,
    /// The other end may live; this one is interrupted.
    Interrupted,
}

/// Ends the watch over one connection when it is dropped.
pub(crate) struct WatchGuard {
    token: u64,
    epoch: Epoch,
}

impl WatchGuard {
    /// Returns the process that the connection belongs to.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }
}

struct Watched {
    control: Arc<Control>,
    /// Reports the end of the other process even if another one still holds its end of the line.
    pidfd: Option<Arc<OwnedFd>>,
    liveness: Arc<PeerLiveness>,
    wake: Box<dyn Fn(Cause) + Send>,
}

pub(crate) struct Watcher {
    epoll: Epoll,
    epoch: Epoch,
    /// By token. A lock, because connections come and go; nothing of a call's path takes it.
    watched: Mutex<HashMap<u64, Watched>>,
}

/// Watches over the other end of a connection; `wake` must wake this end from whatever it may
/// sleep in, and may be called at any time, more than once, from another thread.
///
/// # Errors
///
/// The thread or its descriptor could not be made.
pub(crate) fn watch(
    settings: &Settings,
    wake: impl Fn(Cause) + Send + 'static,
) -> io::Result<WatchGuard> {
    // Even numbers: the odd one after each is that of its interruptions.
    static NEXT_TOKEN: AtomicU64 = AtomicU64::new(2);
    let watcher = watcher()?;
    let token = NEXT_TOKEN.fetch_add(2, Ordering::Relaxed);
    settings.liveness.set_token(token);
    let (control, pidfd) = (Arc::clone(&settings.control), settings.peer.pidfd().cloned());
    let watched =
        Watched { control, pidfd, liveness: Arc::clone(&settings.liveness), wake: Box::new(wake) };
    watcher.lock().insert(token, watched);
    // From here on its drop takes everything back.
    let guard = WatchGuard { token, epoch: settings.control.epoch() };
    watcher.epoll.add(settings.control.as_fd(), Interest::HangUp, token)?;
    if let Some(pidfd) = settings.peer.pidfd() {
        watcher.epoll.add(pidfd, Interest::Readable, token)?;
    }
    Ok(guard)
}

/// The one watcher of this process.
#[cfg(not(simulation))]
pub(crate) fn watcher() -> io::Result<Arc<Watcher>> {
    static WATCHER: Mutex<Option<Arc<Watcher>>> = Mutex::new(None);
    let mut slot = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
    // The thread of the parent is not in a forked process.
    if let Some(watcher) = slot.as_ref().filter(|watcher| watcher.epoch.is_current()) {
        return Ok(Arc::clone(watcher));
    }
    Ok(Arc::clone(slot.insert(Watcher::start()?)))
}

/// The watcher of this process of the simulation, as long as its thread lives.
#[cfg(simulation)]
pub(crate) fn watcher() -> io::Result<Arc<Watcher>> {
    use std::collections::BTreeMap;
    use std::sync::Weak;

    use nearcall_os::simulation::{Process, current_process};

    static WATCHERS: Mutex<BTreeMap<Option<Process>, Weak<Watcher>>> = Mutex::new(BTreeMap::new());
    let mut watchers = WATCHERS.lock().unwrap_or_else(PoisonError::into_inner);
    watchers.retain(|_, watcher| watcher.strong_count() > 0);
    let process = current_process();
    if let Some(watcher) = watchers.get(&process).and_then(Weak::upgrade) {
        return Ok(watcher);
    }
    let watcher = Watcher::start()?;
    watchers.insert(process, Arc::downgrade(&watcher));
    Ok(watcher)
}

impl Watcher {
    fn start() -> io::Result<Arc<Self>> {
        let (epoll, epoch) = (Epoll::create()?, Epoch::current());
        let watcher = Arc::new(Self { epoll, epoch, watched: Mutex::default() });
        let running = Arc::clone(&watcher);
        thread::start("nearcall-watch", move || running.run())?;
        Ok(watcher)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops watching a connection: one that has hung up stays so.
    fn forget(&self, watched: &Watched) {
        let _ = self.epoll.delete(watched.control.as_fd());
        if let Some(pidfd) = &watched.pidfd {
            let _ = self.epoll.delete(pidfd);
        }
    }

    /// Interrupts the connection of `token` once `fd` is readable; once only.
    pub(crate) fn add_interruption(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.epoll.add_once(fd, Interest::Readable, token | INTERRUPTION)
    }

    /// The same once more.
    pub(crate) fn renew_interruption(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.epoll.modify_once(fd, Interest::Readable, token | INTERRUPTION)
    }

    /// No interruption of the connection of `life` comes any more, and none is left.
    pub(crate) fn end_interruptions(&self, fd: BorrowedFd<'_>, liveness: &PeerLiveness) {
        if !self.epoch.is_current() {
            return;
        }
        let _ = self.epoll.delete(fd);
        // What was reported before that is marked under the lock.
        let _watched = self.lock();
        liveness.end_interruptions();
    }

    fn run(&self) {
        let mut events = Events::with_capacity(64);
        // Connections that hung up and may still have a sleeper, and those that are interrupted.
        let mut gone: Vec<u64> = Vec::new();
        let mut interrupted: Vec<u64> = Vec::new();
        loop {
            let idle = gone.is_empty() && interrupted.is_empty();
            let Ok(reported) = self.epoll.wait(&mut events, (!idle).then_some(WAKE_RETRY_INTERVAL))
            else {
                // Only a broken descriptor table can do this; do not take a CPU for it.
                clock::pause(Duration::from_millis(100));
                continue;
            };
            let watched = self.lock();
            for event in reported {
                let token = event.token & !INTERRUPTION;
                let Some(entry) = watched.get(&token) else { continue };
                if event.token == token {
                    self.forget(entry);
                    entry.liveness.set_gone();
                    gone.push(token);
                } else if entry.liveness.interrupt() {
                    interrupted.push(token);
                }
            }
            gone.retain(|token| match watched.get(token) {
                Some(entry) => {
                    (entry.wake)(Cause::Gone);
                    true
                }
                None => false,
            });
            gone.retain(|token| watched.get(token).is_some_and(|entry| entry.liveness.may_sleep()));
            // Who is not asleep sees the mark before it sleeps, so it needs no wake-up.
            interrupted.retain(|token| match watched.get(token) {
                Some(entry) if entry.liveness.needs_interrupting() => {
                    (entry.wake)(Cause::Interrupted);
                    true
                }
                _ => false,
            });
        }
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        if !self.epoch.is_current() {
            return;
        }
        if let Ok(watcher) = watcher() {
            let mut watched = watcher.lock();
            if let Some(entry) = watched.remove(&self.token) {
                watcher.forget(&entry);
            }
        }
    }
}
