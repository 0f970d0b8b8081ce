//! The loop of this thread that clients without a loop use in a service of
//! [`service_main!`](crate::service_main): while the service waits for a call of its own, it
//! serves.
//!
//! In a program that is the loop that serves. In a library it is one of the library's own, since
//! the loop that serves is the host's, of another build: it waits inside that one. **Invariants:**
//! a loop is used in its own thread only; in other threads such clients block. **Not here:**
//! clients that were made in a loop (`clients.rs`), how a loop waits inside the host's
//! (`reactor/hosting.rs`).
//!
//! **Invariant:** a service of `service_main!` serves while it waits for a call of its own. Its
//! clients use the loop of their thread (`clients/own_loop.rs` of `nearcall`): in a program the one
//! that serves, in a library one that waits inside that of the host. *Checked by*
//! `a_service_that_is_called_back_serves_in_every_set_up`.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use nearcall_os::library::HostLink;

use crate::reactor::Reactor;
use crate::status::Status;
use crate::tasks::mailbox::Mailbox;

thread_local! {
    static OWN: RefCell<Weak<Reactor>> = const { RefCell::new(Weak::new()) };
    /// Keeps the loop of a library.
    static GUEST: RefCell<Option<Rc<Reactor>>> = const { RefCell::new(None) };
    /// Of the library whose method runs.
    static HOST: Cell<Option<HostLink>> = const { Cell::new(None) };
}

/// Has clients without a loop that are first used in this thread from now on use this one.
pub(crate) fn adopt(reactor: &Rc<Reactor>) {
    // Where the thread is ending there is nothing to use it for.
    let _ = OWN.try_with(|own| own.replace(Rc::downgrade(reactor)));
}

/// Returns the loop that was adopted in this thread.
pub(crate) fn adopted() -> Option<Rc<Reactor>> {
    OWN.try_with(|own| own.borrow().upgrade()).ok().flatten()
}

/// Returns the loop for clients without one, if this thread has any. A library's is made for the
/// first.
///
/// # Errors
///
/// `RESOURCE_EXHAUSTED`: no descriptor is free.
pub(super) fn own_loop() -> Result<Option<Rc<Reactor>>, Status> {
    if let Some(reactor) = adopted() {
        return Ok(Some(reactor));
    }
    let Some(host) = hosted_by() else { return Ok(None) };
    let made = Mailbox::new().and_then(|mailbox| Reactor::new(Arc::new(mailbox)));
    let reactor = made.map_err(|error| {
        Status::resource_exhausted(format!("this thread gets no loop for its calls: {error}"))
    })?;
    reactor.wait_inside(host);
    adopt(&reactor);
    let _ = GUEST.try_with(|guest| guest.replace(Some(Rc::clone(&reactor))));
    Ok(Some(reactor))
}

/// Returns the host of the library whose method runs in this thread.
pub(crate) fn hosted_by() -> Option<HostLink> {
    HOST.try_with(Cell::get).ok().flatten()
}

/// While it lives, this thread runs a method of a library for its host.
pub(crate) struct HostScope {
    outer: Option<HostLink>,
}

impl HostScope {
    pub(crate) fn enter(host: HostLink) -> Self {
        Self { outer: HOST.try_with(|now| now.replace(Some(host))).ok().flatten() }
    }
}

impl Drop for HostScope {
    fn drop(&mut self) {
        let _ = HOST.try_with(|now| now.set(self.outer));
    }
}
