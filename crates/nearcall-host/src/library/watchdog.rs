//! Calls of libraries that do not return: found and said, since nothing can end them.
//!
//! Each thread notes which call of a library it is in, without a clock; one thread of the group
//! looks a few times in the time that a call may take, and says it of a call that it has seen for
//! as long as that.
//! **Invariants:** a call is said once; a group without a watchdog has no thread for it.
//! **Not here:** what becomes of the group then, which its host decides (`supervisor`).

use std::cell::Cell;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall_os::Deadline;

use super::LibraryConfig;
use super::service::Service;

/// How often the watchdog looks in the time that a call may take.
const LOOKS_PER_LIMIT: u32 = 4;

/// The shortest pause between two looks: a limit below four of them is kept less exactly.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// The call that a thread is in.
struct ThreadSlot {
    /// Counts the calls of the thread; 0: in none.
    sequence: AtomicU64,
    /// Of the innermost call. Taken only where a call begins, ends or is looked at.
    call: Mutex<Option<Call>>,
}

#[derive(Clone)]
struct Call {
    service: Weak<Service>,
    object: u32,
    method: u32,
}

static SLOTS: Mutex<Vec<Weak<ThreadSlot>>> = Mutex::new(Vec::new());

/// There is a watchdog in this process.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LAST: Cell<u64> = const { Cell::new(0) };
    static SLOT: Arc<ThreadSlot> = {
        let (sequence, call) = (AtomicU64::new(0), Mutex::new(None));
        let slot = Arc::new(ThreadSlot { sequence, call });
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
    /// What it was in before.
    outer: Option<(u64, Option<Call>)>,
}

impl CallGuard {
    /// Notes the call, if there is a watchdog.
    pub(super) fn enter(service: &Arc<Service>, object: u32, method: u32) -> Self {
        if !IS_WATCHED.load(Ordering::Relaxed) {
            return Self { outer: None };
        }
        let call = Call { service: Arc::downgrade(service), object, method };
        let next = LAST.get() + 1;
        LAST.set(next);
        let outer = SLOT.try_with(|slot| {
            let outer = lock(&slot.call).replace(call);
            (slot.sequence.swap(next, Ordering::Relaxed), outer)
        });
        Self { outer: outer.ok() }
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let Some((sequence, call)) = self.outer.take() else { return };
        // The thread is ending where this fails.
        let _ = SLOT.try_with(|slot| {
            *lock(&slot.call) = call;
            slot.sequence.store(sequence, Ordering::Relaxed);
        });
    }
}

/// The thread that looks. Dropping it ends it.
pub(super) struct Watchdog {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the watchdog of a group, if a service has one.
///
/// # Errors
///
/// No thread is free.
pub(super) fn start(
    libraries: &[LibraryConfig],
    services: &[Arc<Service>],
) -> std::io::Result<Option<Watchdog>> {
    let limits: Vec<_> = libraries
        .iter()
        .zip(services)
        .filter_map(|(config, service)| Some((Arc::downgrade(service), config.watchdog?)))
        .collect();
    let Some(shortest) = limits.iter().map(|(_, limit)| *limit).min() else { return Ok(None) };
    IS_WATCHED.store(true, Ordering::Relaxed);
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
            look(&limits, &mut seen);
        }
    })?;
    Ok(Some(Watchdog { stop, thread: Some(thread) }))
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

/// A call that was seen: when for the first time, and whether it was said.
struct Seen {
    slot: Weak<ThreadSlot>,
    sequence: u64,
    overdue_at: Option<Deadline>,
}

/// Looks at what every thread does.
fn look(limits: &[(Weak<Service>, Duration)], seen: &mut Vec<Seen>) {
    let slots: Vec<_> = lock(&SLOTS).iter().filter_map(Weak::upgrade).collect();
    seen.retain(|it| it.slot.strong_count() > 0);
    for slot in slots {
        let sequence = slot.sequence.load(Ordering::Relaxed);
        let known = seen.iter_mut().find(|it| Weak::as_ptr(&it.slot) == Arc::as_ptr(&slot));
        let known = match known {
            Some(known) => known,
            None => {
                let of_slot = Arc::downgrade(&slot);
                seen.push(Seen { slot: of_slot, sequence: 0, overdue_at: None });
                let last = seen.len() - 1;
                &mut seen[last]
            }
        };
        if known.sequence != sequence {
            known.sequence = sequence;
            let call = lock(&slot.call).clone().filter(|_| sequence != 0);
            let limit = call.and_then(|call| {
                limits.iter().find(|(service, _)| service.ptr_eq(&call.service)).map(|it| it.1)
            });
            known.overdue_at = limit.map(Deadline::after);
        } else if known.overdue_at.is_some_and(Deadline::has_passed) {
            known.overdue_at = None;
            let call = lock(&slot.call).clone();
            // It may have ended since.
            if let Some(call) = call.filter(|_| slot.sequence.load(Ordering::Relaxed) == sequence) {
                report(&call, limits);
            }
        }
    }
}

/// Says that a call does not return.
fn report(call: &Call, limits: &[(Weak<Service>, Duration)]) {
    let Some(service) = call.service.upgrade() else { return };
    let limit = limits.iter().find(|(other, _)| other.ptr_eq(&call.service));
    let limit = limit.map(|(_, limit)| *limit).unwrap_or_default();
    let object = usize::try_from(call.object).ok().and_then(|it| service.objects().get(it));
    let method = object.and_then(|object| object.interface.method(call.method));
    let interface = object.map_or("?", |object| object.interface.name);
    let method = method.map_or("?", |method| method.name);
    let count = service.count_overdue();
    let text = format!(
        "service `{}`: {interface}/{method} has not returned for {limit:?} (overdue calls: \
         {count}); the service serves nothing else meanwhile, the others go on; nothing but the \
         end of this process ends the call\n",
        service.name
    );
    let _ = std::io::stderr().write_all(text.as_bytes());
}
