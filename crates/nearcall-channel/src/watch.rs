//! Notices that the other end of a connection is gone, for mechanisms whose objects do not tell.
//!
//! A futex, a semaphore, a queue and a signal do not know that the process behind them has died.
//! One thread of this process watches the control lines of all such connections, and the peers'
//! pidfds, since a process may hand its end of a line to another. When one of them tells of an end
//! it marks the [`Life`] as gone and wakes the end that may be asleep, again and again until that
//! end is awake: the sleeper looks at its `Life` before it sleeps, and a wake-up that comes between
//! that look and the sleep would be lost if it came only once.
//! Always true: once `Life::is_gone` has said true it says so for ever.
//! Not here: pipes and sockets, which tell of a hang-up themselves.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearcall_os::clock;
use nearcall_os::epoll::{Epoll, Events};
use nearcall_os::poll::Interest;

use crate::control::Control;
use crate::settings::Settings;
use crate::sync::{AtomicBool, Ordering, fence};

/// How long the watcher leaves a sleeper that did not wake up before it tries again.
const NAG_INTERVAL: Duration = Duration::from_millis(1);

/// Whether the other end lives, and whether this end sleeps.
#[derive(Debug, Default)]
pub struct Life {
    gone: AtomicBool,
    sleeping: AtomicBool,
}

impl Life {
    /// Whether the other end has closed or died. One load.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Marks the other end as gone.
    pub fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Runs `sleep` unless the other end is gone, and lets the watcher know that it may have to
    /// wake it. Returns `None` if the other end was gone before.
    #[inline]
    pub fn sleep_with<T>(&self, sleep: impl FnOnce() -> T) -> Option<T> {
        // With the fence in `may_sleep`: either we see `gone`, or the watcher sees `sleeping`.
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let outcome = (!self.is_gone()).then(sleep);
        self.sleeping.store(false, Ordering::Release);
        outcome
    }

    /// After `set_gone` and a wake-up: whether this end may sleep and needs another wake-up.
    pub(crate) fn may_sleep(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleeping.load(Ordering::Relaxed)
    }
}

/// Ends the watch over one connection when it is dropped.
pub(crate) struct WatchGuard {
    token: u64,
}

struct Watched {
    control: Arc<Control>,
    /// Tells of the other process's end even if somebody else still holds its end of the line.
    pidfd: Option<Arc<OwnedFd>>,
    life: Arc<Life>,
    wake: Box<dyn Fn() + Send>,
}

struct Watcher {
    epoll: Epoll,
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
    wake: impl Fn() + Send + 'static,
) -> io::Result<WatchGuard> {
    static NEXT_TOKEN: AtomicU64 = AtomicU64::new(1);
    let watcher = watcher()?;
    let token = NEXT_TOKEN.fetch_add(1, Ordering::Relaxed);
    let (control, pidfd) = (Arc::clone(&settings.control), settings.peer.pidfd.clone());
    let watched =
        Watched { control, pidfd, life: Arc::clone(&settings.life), wake: Box::new(wake) };
    watcher.lock().insert(token, watched);
    // From here on its drop takes everything back.
    let guard = WatchGuard { token };
    watcher.epoll.add(settings.control.as_fd(), Interest::HangUp, token)?;
    if let Some(pidfd) = &settings.peer.pidfd {
        watcher.epoll.add(pidfd, Interest::Readable, token)?;
    }
    Ok(guard)
}

fn watcher() -> io::Result<Arc<Watcher>> {
    static WATCHER: Mutex<Option<Arc<Watcher>>> = Mutex::new(None);
    let mut slot = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(watcher) = &*slot {
        return Ok(Arc::clone(watcher));
    }
    let watcher = Arc::new(Watcher { epoll: Epoll::create()?, watched: Mutex::default() });
    let running = Arc::clone(&watcher);
    std::thread::Builder::new().name("nearcall-watch".into()).spawn(move || running.run())?;
    Ok(Arc::clone(slot.insert(watcher)))
}

impl Watcher {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears no more of a connection: what has hung up stays so.
    fn forget(&self, watched: &Watched) {
        let _ = self.epoll.delete(watched.control.as_fd());
        if let Some(pidfd) = &watched.pidfd {
            let _ = self.epoll.delete(pidfd);
        }
    }

    fn run(&self) {
        let mut events = Events::with_capacity(64);
        // Connections that hung up and may still have a sleeper.
        let mut nagged: Vec<u64> = Vec::new();
        loop {
            let timeout = (!nagged.is_empty()).then_some(NAG_INTERVAL);
            let Ok(hung_up) = self.epoll.wait(&mut events, timeout) else {
                // Only a broken descriptor table can do this; do not take a CPU for it.
                clock::pause(Duration::from_millis(100));
                continue;
            };
            let watched = self.lock();
            for event in hung_up {
                let Some(entry) = watched.get(&event.token) else { continue };
                self.forget(entry);
                entry.life.set_gone();
                nagged.push(event.token);
            }
            nagged.retain(|token| match watched.get(token) {
                Some(entry) => {
                    (entry.wake)();
                    true
                }
                None => false,
            });
            nagged.retain(|token| watched.get(token).is_some_and(|entry| entry.life.may_sleep()));
        }
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        if let Ok(watcher) = watcher() {
            let mut watched = watcher.lock();
            if let Some(entry) = watched.remove(&self.token) {
                watcher.forget(&entry);
            }
        }
    }
}
