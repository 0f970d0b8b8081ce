//! Calls of libraries that do not return: found and reported, since nothing can end them.
//!
//! Each thread notes which calls of watched libraries it is in, one inside another, without a
//! clock; one thread of the group looks a few times in the time that a call may take, and reports a
//! call that it has seen for as long as that.
//! **Invariants:** a call is reported once; a group without a watchdog has no thread for it, and
//! its calls note nothing.
//! **Not here:** what becomes of the group then, which its host decides (`supervisor`).

use std::cell::Cell;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall::service::Interface;
use nearcall_os::Deadline;

/// How often the watchdog looks in the time that a call may take: a call is reported after at most
/// a quarter more than that.
const LOOKS_PER_LIMIT: u32 = 4;

/// The shortest pause between two looks, so that a tiny limit costs no processor: four of them are
/// the shortest limit that is kept.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// What the watchdog knows of a service.
pub(super) struct Watched {
    pub(super) name: String,
    /// How long a call may take. `None`: it is not watched.
    pub(super) limit: Option<Duration>,
    /// Those of its objects, in the order of their numbers.
    pub(super) interfaces: Vec<&'static Interface>,
    /// Calls that took longer.
    pub(super) overdue: AtomicU64,
}

/// The calls that a thread is in, each made inside the one before.
struct ThreadSlot {
    calls: Mutex<Vec<Call>>,
}

#[derive(Clone)]
struct Call {
    /// Counts the calls of the thread.
    sequence: u64,
    service: Arc<Watched>,
    object: u32,
    method: u32,
}

static SLOTS: Mutex<Vec<Weak<ThreadSlot>>> = Mutex::new(Vec::new());

thread_local! {
    static LAST: Cell<u64> = const { Cell::new(0) };
    static SLOT: Arc<ThreadSlot> = {
        let slot = Arc::new(ThreadSlot { calls: Mutex::new(Vec::new()) });
        let mut slots = lock(&SLOTS);
        slots.retain(|other| other.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        drop(slots);
        slot
    };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, this thread is in a call of a library.
pub(super) struct CallGuard {
    is_noted: bool,
}

impl CallGuard {
    /// Notes the call, if its service is watched.
    pub(super) fn enter(service: &Arc<Watched>, object: u32, method: u32) -> Self {
        if service.limit.is_none() {
            return Self { is_noted: false };
        }
        let sequence = LAST.get() + 1;
        LAST.set(sequence);
        let call = Call { sequence, service: Arc::clone(service), object, method };
        // Where the thread is ending, nothing is noted.
        Self { is_noted: SLOT.try_with(|slot| lock(&slot.calls).push(call)).is_ok() }
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if self.is_noted {
            let ended = SLOT.try_with(|slot| lock(&slot.calls).pop());
            drop(ended);
        }
    }
}

/// The thread that looks. Dropping it ends it.
pub(super) struct Watchdog {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the watchdog of a group, if one of its services is watched.
    ///
    /// # Errors
    ///
    /// No thread is free.
    pub(super) fn start(limits: impl Iterator<Item = Duration>) -> std::io::Result<Option<Self>> {
        let Some(shortest) = limits.min() else { return Ok(None) };
        let pause = (shortest / LOOKS_PER_LIMIT).max(PAUSE_MIN);
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let of_thread = Arc::clone(&stop);
        let thread = thread::Builder::new().name("nearcall-watchdog".into());
        let thread = thread.spawn(move || {
            let mut seen = Vec::new();
            let (is_stopped, changed) = &*of_thread;
            let mut stopped = lock(is_stopped);
            while !*stopped {
                let waited = changed.wait_timeout(stopped, pause);
                stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
                look(&mut seen);
            }
        })?;
        Ok(Some(Self { stop, thread: Some(thread) }))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A call that was seen in a thread.
struct Seen {
    slot: Weak<ThreadSlot>,
    sequence: u64,
    /// `None`: it was reported.
    overdue_at: Option<Deadline>,
}

/// Looks at what every thread does.
fn look(seen: &mut Vec<Seen>) {
    seen.retain(|it| it.slot.strong_count() > 0);
    let slots: Vec<_> = lock(&SLOTS).iter().filter_map(Weak::upgrade).collect();
    for slot in slots {
        let calls = lock(&slot.calls).clone();
        let of_slot = |it: &Seen| it.slot.as_ptr() == Arc::as_ptr(&slot);
        seen.retain(|it| !of_slot(it) || calls.iter().any(|call| call.sequence == it.sequence));
        for call in &calls {
            let known = seen.iter_mut().find(|it| of_slot(it) && it.sequence == call.sequence);
            match known {
                Some(known) if known.overdue_at.is_some_and(Deadline::has_passed) => {
                    known.overdue_at = None;
                    report(call);
                }
                Some(_) => {}
                None => {
                    let overdue_at = call.service.limit.map(Deadline::after);
                    let (slot, sequence) = (Arc::downgrade(&slot), call.sequence);
                    seen.push(Seen { slot, sequence, overdue_at });
                }
            }
        }
    }
}

/// Reports that a call does not return.
fn report(call: &Call) {
    let Watched { name, limit, interfaces, overdue } = &*call.service;
    let interface = usize::try_from(call.object).ok().and_then(|object| interfaces.get(object));
    let method = interface.and_then(|interface| interface.method(call.method));
    let interface = interface.map_or("?", |interface| interface.name);
    let method = method.map_or("?", |method| method.name);
    let count = overdue.fetch_add(1, Ordering::Relaxed) + 1;
    let limit = limit.unwrap_or_default();
    // One write, so that the line stays whole.
    let text = format!(
        "service `{name}`: {interface}/{method} has not returned for {limit:?} (overdue calls: \
         {count}); the service serves nothing else meanwhile, the others go on; nothing but the \
         end of this process ends the call\n"
    );
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_overdue_also_if_it_calls_its_watched_neighbours_meanwhile() {
        let watched = |name: &str, limit| {
            let overdue = AtomicU64::new(0);
            let (name, interfaces) = (name.to_owned(), Vec::new());
            Arc::new(Watched { name, limit: Some(limit), interfaces, overdue })
        };
        let outer = watched("outer", Duration::ZERO);
        let inner = watched("inner", Duration::from_secs(3600));
        let mut seen = Vec::new();
        let call = CallGuard::enter(&outer, 0, 0);
        look(&mut seen);
        let nested = CallGuard::enter(&inner, 0, 0);
        look(&mut seen);
        drop(nested);
        for _ in 0..3 {
            let _nested = CallGuard::enter(&inner, 0, 0);
            look(&mut seen);
        }
        assert_eq!(outer.overdue.load(Ordering::Relaxed), 1, "once");
        assert_eq!(inner.overdue.load(Ordering::Relaxed), 0);
        drop(call);
        look(&mut seen);
        assert!(seen.is_empty());
    }
}
