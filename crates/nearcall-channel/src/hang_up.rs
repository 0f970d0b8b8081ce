//! Ends a connection from a thread that does not own its endpoint.
//!
//! **Invariants:** a handle keeps no descriptor open, so the drop of the endpoint closes the
//! control line whatever handles there are.
//! **Not here:** the control line (`control.rs`), noticing its hang-up (`watcher.rs`).

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use nearcall_os::socket::{self, Half};

use crate::control::Control;

/// A handle that hangs up the control line of a connection, from any thread.
#[derive(Debug, Clone)]
pub struct HangUp {
    control: Weak<Control>,
    /// That of the mechanism, if the other end waits for its hang-up.
    socket: Option<Weak<OwnedFd>>,
}

impl HangUp {
    pub(crate) fn new(control: &Arc<Control>, socket: Option<&Arc<OwnedFd>>) -> Self {
        Self { control: Arc::downgrade(control), socket: socket.map(Arc::downgrade) }
    }

    /// Hangs up. Over `shm` and `tcp://`, and where an end sleeps on a futex or the like, both ends
    /// see it as they would see the death of the other one; where they wait on other sockets or
    /// pipes, they see the drop of the endpoint only. Nothing happens if it was dropped before.
    pub fn hang_up(&self) {
        // In a forked process the line is the parent's. The other end may have closed it already.
        let Some(control) = self.control.upgrade().filter(|it| it.epoch().is_current()) else {
            return;
        };
        let _ = socket::shutdown(&*control, Half::Both);
        if let Some(socket) = self.socket.as_ref().and_then(Weak::upgrade) {
            let _ = socket::shutdown(&*socket, Half::Both);
        }
    }
}
