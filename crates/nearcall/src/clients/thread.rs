//! What a thread has of all clients: a table of where objects are, and one of the clients' parts.
//!
//! **Invariants:** no table is borrowed while anything of it is dropped, since that may run code of
//! users that calls; when the thread ends, its connections end, whoever still holds them.
//! **Not here:** finding out where an object is (`call.rs`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::binding::{Binding, Slot};
use super::core::ClientCore;
use super::own_loop::own_loop;
use super::shared::{ClientShared, closed_clients};
use crate::status::Status;

struct ThreadTable {
    /// By the index of the slot.
    bindings: RefCell<Vec<Option<Entry>>>,
    cores: RefCell<Vec<Rc<ClientCore>>>,
    /// Closed clients that were looked for here.
    closed_seen: Cell<u64>,
}

struct Entry {
    serial: u64,
    binding: Rc<Binding>,
}

thread_local! {
    static TABLE: ThreadTable = const {
        ThreadTable {
            bindings: RefCell::new(Vec::new()),
            cores: RefCell::new(Vec::new()),
            closed_seen: Cell::new(0),
        }
    };
}

/// Returns where the object with this slot is for this thread, if that is known and still so.
#[inline]
pub(crate) fn current_binding(slot: &Slot) -> Option<Rc<Binding>> {
    let binding = TABLE.try_with(|table| {
        let bindings = table.bindings.borrow();
        let entry = bindings.get(slot.index as usize)?.as_ref()?;
        let is_current = entry.serial == slot.serial && entry.binding.is_current();
        is_current.then(|| Rc::clone(&entry.binding))
    });
    binding.ok().flatten()
}

/// Notes where an object is for this thread.
pub(crate) fn bind(slot: &Slot, binding: Rc<Binding>) {
    let index = slot.index as usize;
    let has_dropped = binding.core.take_has_dropped();
    let entry = Entry { serial: slot.serial, binding };
    let before = TABLE.try_with(|table| {
        let mut bindings = table.bindings.borrow_mut();
        if bindings.len() <= index {
            bindings.resize_with(index + 1, || None);
        }
        bindings[index].replace(entry)
    });
    drop(before);
    if has_dropped {
        forget_stale();
    }
}

/// Forgets where an object is that is being dropped. Other threads overwrite what they know of it.
pub(crate) fn unbind(slot: &Slot) {
    let before = TABLE.try_with(|table| {
        let mut bindings = table.bindings.borrow_mut();
        let place = bindings.get_mut(slot.index as usize)?;
        place.take_if(|entry| entry.serial == slot.serial)
    });
    drop(before);
}

/// Returns this thread's part of a client, made at its first use.
///
/// # Errors
///
/// `FAILED_PRECONDITION`: the thread is ending, or the process was forked. `RESOURCE_EXHAUSTED`: no
/// descriptor is free.
pub(super) fn core_of(shared: &Arc<ClientShared>) -> Result<Rc<ClientCore>, Status> {
    shared.check_process()?;
    forget_closed_clients();
    if let Some(known) = known_core(shared)? {
        return Ok(known);
    }
    let core = ClientCore::new(shared, own_loop()?);
    add_core(&core);
    Ok(core)
}

/// Returns this thread's part of a client, if it has one.
pub(super) fn known_core(shared: &Arc<ClientShared>) -> Result<Option<Rc<ClientCore>>, Status> {
    let find = |table: &ThreadTable| {
        let cores = table.cores.borrow();
        cores.iter().find(|core| Arc::ptr_eq(&core.shared, shared)).map(Rc::clone)
    };
    TABLE.try_with(find).map_err(|_| {
        Status::failed_precondition(
            "this thread is ending and its connections were closed; call before its thread-local \
             values are dropped",
        )
    })
}

/// Adds this thread's part of a client.
pub(super) fn add_core(core: &Rc<ClientCore>) {
    // Where the thread is ending, the part goes with its last user.
    let _ = TABLE.try_with(|table| table.cores.borrow_mut().push(Rc::clone(core)));
}

/// Drops what this thread has of clients that were closed, if there are any.
pub(super) fn forget_closed_clients() {
    let closed = closed_clients();
    let seen = TABLE.try_with(|table| table.closed_seen.replace(closed));
    if seen.is_ok_and(|seen| seen != closed) {
        forget_stale();
    }
}

/// Drops what this thread has of clients that were closed, and what it knows of connections that
/// have ended and of objects that may be gone.
#[cold]
pub(crate) fn forget_stale() {
    let stale = TABLE.try_with(|table| {
        let is_stale = |entry: &mut Entry| {
            entry.binding.core.shared.is_closed() || !entry.binding.is_current()
        };
        let mut bindings = table.bindings.borrow_mut();
        let bindings: Vec<_> =
            bindings.iter_mut().filter_map(|place| place.take_if(is_stale)).collect();
        let mut cores = table.cores.borrow_mut();
        let cores: Vec<_> = cores.extract_if(.., |core| core.shared.is_closed()).collect();
        (bindings, cores)
    });
    drop(stale);
}

impl Drop for ThreadTable {
    fn drop(&mut self) {
        let (bindings, cores) = (self.bindings.take(), self.cores.take());
        drop(bindings);
        for core in cores {
            core.close("the thread that the connection belonged to has ended");
        }
    }
}

/// Keeps the connections of a thread open for a call that was started, although the last handle of
/// the client may be dropped meanwhile.
pub(crate) struct InUse {
    binding: Rc<Binding>,
}

impl InUse {
    pub(crate) fn new(binding: Rc<Binding>) -> Self {
        binding.core.pending.begin();
        Self { binding }
    }

    pub(crate) fn binding(&self) -> &Rc<Binding> {
        &self.binding
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let core = &self.binding.core;
        // Either this thread hangs up, or the one that closes.
        if core.pending.end(core.shared.closed()) {
            forget_stale();
        }
    }
}
