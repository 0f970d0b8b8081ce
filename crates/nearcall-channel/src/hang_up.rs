//! Ends a connection from a thread that does not own its endpoint.
//!
//! **Invariants:** a handle keeps no descriptor open, so the drop of the endpoint closes the control
//! line whatever handles there are.
//! **Not here:** the control line (`control.rs`), noticing its hang-up (`watcher.rs`).

use std::sync::{Arc, Weak};

use nearcall_os::socket::{self, Half};

use crate::control::Control;

/// A handle that hangs up the control line of a connection, from any thread.
#[derive(Debug, Clone)]
pub struct HangUp {
    control: Weak<Control>,
}

impl HangUp {
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        Self { control: Arc::downgrade(control) }
    }

    /// Hangs up. Both ends see it as they would see the death of the other one; ends that wait on
    /// sockets or pipes of the mechanism see it when the endpoint is dropped. Nothing happens if
    /// the endpoint was dropped before.
    pub fn hang_up(&self) {
        if let Some(control) = self.control.upgrade() {
            // The other end may have closed the line already.
            let _ = socket::shutdown(&*control, Half::Both);
        }
    }
}
