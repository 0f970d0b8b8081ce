//! Keeps the pages of a closed end while the other end may still read what was sent.
//!
//! **Invariants:** the pages go when the other end hangs up, at the latest after [`MAX`]; a bounded
//! number of ends is kept, so a peer that never reads costs a bounded amount.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nearcall_os::pages::Pages;
use nearcall_os::poll::{Interest, poll_one};

/// Time that closing waits for the other end to read what was sent, in this thread: what a busy
/// machine needs to schedule a reader, and no more than noticing a death may take.
pub(super) const BLOCKING_MAX: Duration = Duration::from_millis(100);

/// Longest time that the pages are kept: as long as a handshake step may take.
pub(super) const MAX: Duration = Duration::from_secs(5);

/// Most closed ends that are kept at once.
const KEPT_MAX: usize = 32;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Keeps `pages` until the other end of `socket` hangs up. Starts a thread for it.
pub(super) fn keep(pages: Pages, socket: Option<OwnedFd>) {
    let Some(socket) = socket else { return };
    if KEPT.fetch_add(1, Ordering::Relaxed) >= KEPT_MAX {
        KEPT.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let wait = move || {
        // Late or failed: the other end has had its time.
        let _ = poll_one(&socket, Interest::HangUp, Some(MAX));
        drop((pages, socket));
        KEPT.fetch_sub(1, Ordering::Relaxed);
    };
    let thread = std::thread::Builder::new().name("nearcall-linger".into()).spawn(wait);
    if thread.is_err() {
        // The pages went with the closure.
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}
