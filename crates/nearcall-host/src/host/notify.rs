//! What a host says to systemd, where that has started it.
//!
//! **Invariants:** without systemd nothing happens; a message that is not delivered is no error, as
//! the service manager sees by its own means whether the host lives.

use sd_notify::NotifyState;

/// Every service is up, or has failed once.
pub(super) fn ready(summary: &str) {
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(summary)]);
}

/// The services are being stopped.
pub(super) fn stopping() {
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
}
