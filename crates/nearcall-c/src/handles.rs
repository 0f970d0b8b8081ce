//! What the numbers of handles mean.
//!
//! A number is never used twice in a process, and that of another copy of this library in it
//! differs in its first 16 bits, which are random.
//! **Invariants:** a number that means nothing here is an error.
//! **Not here:** what the things do.
//!
//! **Invariant:** a handle that is 0, was freed or is of another library is an error, and so are
//! null and lengths that nothing can have. *Checked by* `what_no_program_should_do_is_an_error`.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock, Weak};

use nearcall::Status;

/// Something that a handle names.
pub(crate) trait Kind: 'static {
    /// For people.
    const NAME: &'static str;
    /// Whether threads remember what they have used last of it.
    const IS_REMEMBERED: bool = false;
}

/// What any thread may use.
type Shared = Arc<dyn Any + Send + Sync>;
type WeakShared = Weak<dyn Any + Send + Sync>;

static SHARED: LazyLock<RwLock<HashMap<u64, Shared>>> = LazyLock::new(RwLock::default);

/// How often something was freed that threads remember, which holds while this is the same.
static FREED: AtomicU64 = AtomicU64::new(0);

static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
    let copy = RandomState::new().hash_one(0) << 48;
    AtomicU64::new(copy | 1)
});

/// What a thread has used last by `with`.
struct Last {
    id: u64,
    /// `FREED` at that time.
    freed: u64,
    held: WeakShared,
}

thread_local! {
    static LOCAL: LocalTable = LocalTable::default();
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    static IDS: Ids = const { Ids::new() };
}

/// Numbers of a thread: the next one, and the first that is not its own.
pub(crate) struct Ids(Cell<(u64, u64)>);

/// How many numbers a thread takes at once, so that threads that serve calls do not write to the
/// same cache line for each. Of 2^48 numbers few are lost when a thread ends.
const IDS_AT_ONCE: u64 = 256;

impl Ids {
    pub(crate) const fn new() -> Self {
        Self(Cell::new((0, 0)))
    }

    #[inline]
    pub(crate) fn next(&self) -> u64 {
        let (mut id, mut end) = self.0.get();
        if id == end {
            id = NEXT.fetch_add(IDS_AT_ONCE, Ordering::Relaxed);
            end = id + IDS_AT_ONCE;
        }
        self.0.set((id + 1, end));
        id
    }
}

pub(crate) fn next_id() -> u64 {
    IDS.with(Ids::next)
}

#[cold]
fn unknown<T: Kind>(id: u64) -> Status {
    let name = T::NAME;
    Status::failed_precondition(match id {
        0 => format!("this {name} is none: its handle is 0"),
        _ => format!("there is no such {name}: it was freed, or is not this library's"),
    })
}

#[cold]
fn not_here<T: Kind>(id: u64) -> Status {
    if id == 0 {
        return unknown::<T>(id);
    }
    let name = T::NAME;
    let text = format!("there is no such {name} in this thread: it was freed, or is another's");
    Status::failed_precondition(text)
}

pub(crate) fn add<T: Kind + Send + Sync>(held: T) -> u64 {
    let id = next_id();
    add_as(id, held);
    id
}

/// Gives a number that means nothing yet its meaning.
pub(crate) fn add_as<T: Kind + Send + Sync>(id: u64, held: T) {
    SHARED.write().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::new(held));
}

pub(crate) fn get<T: Kind + Send + Sync>(id: u64) -> Result<Arc<T>, Status> {
    let entries = SHARED.read().unwrap_or_else(PoisonError::into_inner);
    let found = entries.get(&id).cloned();
    found.and_then(|held| held.downcast().ok()).ok_or_else(|| unknown::<T>(id))
}

/// Takes something out. What uses it at this time keeps it until it has done so.
pub(crate) fn take<T: Kind + Send + Sync>(id: u64) -> Result<Arc<T>, Status> {
    let held = get::<T>(id)?;
    let entry = SHARED.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    if T::IS_REMEMBERED {
        FREED.fetch_add(1, Ordering::Release);
        let _ = LAST.try_with(|last| last.borrow_mut().take());
    }
    // Two threads that take the same at once: one of them does.
    entry.map(|_| held).ok_or_else(|| unknown::<T>(id))
}

/// Counts what was freed: while it is the same, what a thread remembers is there.
#[inline]
pub(crate) fn freed() -> u64 {
    FREED.load(Ordering::Acquire)
}

/// Uses something. What this thread has used last is found without a lock.
pub(crate) fn with<T: Kind + Send + Sync, R>(
    id: u64,
    use_it: impl FnOnce(&T) -> Result<R, Status>,
) -> Result<R, Status> {
    let freed = freed();
    let again = |last: &RefCell<Option<Last>>| match &*last.borrow() {
        Some(last) if last.id == id && last.freed == freed => last.held.upgrade(),
        _ => None,
    };
    // After the thread's own end there is no such place.
    let held = match LAST.try_with(again).ok().flatten() {
        Some(held) => held,
        None => look_up::<T>(id, freed)?,
    };
    match held.downcast_ref() {
        Some(held) => use_it(held),
        None => Err(unknown::<T>(id)),
    }
}

#[inline(never)]
fn look_up<T: Kind + Send + Sync>(id: u64, freed: u64) -> Result<Shared, Status> {
    let held: Shared = get::<T>(id)?;
    let last = Last { id, freed, held: Arc::downgrade(&held) };
    let _ = LAST.try_with(|place| place.replace(Some(last)));
    Ok(held)
}

/// Numbers of what belongs to threads, of all threads.
static LOCAL_IDS: LazyLock<RwLock<HashSet<u64>>> = LazyLock::new(RwLock::default);

/// What belongs to this thread.
#[derive(Default)]
struct LocalTable(RefCell<HashMap<u64, Rc<dyn Any>>>);

impl Drop for LocalTable {
    fn drop(&mut self) {
        for id in self.0.get_mut().keys() {
            LOCAL_IDS.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
    }
}

/// Returns whether the number names something of this or another thread.
pub(crate) fn is_alive(id: u64) -> bool {
    LOCAL_IDS.read().unwrap_or_else(PoisonError::into_inner).contains(&id)
}

pub(crate) fn add_local<T: Kind>(held: T) -> Result<u64, Status> {
    let id = next_id();
    let held = Rc::new(held);
    let added = LOCAL.try_with(|table| table.0.borrow_mut().insert(id, held));
    added.map_err(|_| Status::failed_precondition("this thread has ended"))?;
    LOCAL_IDS.write().unwrap_or_else(PoisonError::into_inner).insert(id);
    Ok(id)
}

pub(crate) fn get_local<T: Kind>(id: u64) -> Result<Rc<T>, Status> {
    let found = LOCAL.try_with(|table| table.0.borrow().get(&id).cloned()).ok().flatten();
    found.and_then(|held| held.downcast().ok()).ok_or_else(|| not_here::<T>(id))
}

pub(crate) fn take_local<T: Kind>(id: u64) -> Result<Rc<T>, Status> {
    let held = get_local::<T>(id)?;
    // Dropped when nothing is borrowed: what it does then may come back here.
    let entry = LOCAL.try_with(|table| table.0.borrow_mut().remove(&id));
    LOCAL_IDS.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    drop(entry);
    Ok(held)
}
