//! What a host of libraries needs of this crate beside its public interface: the loop that a thread
//! serves in, and a log for what libraries report.
//!
//! **Not here:** the host (`nearcall-host`), the side of a library (`served.rs`).

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use nearcall_os::library::LogLevel;
use tracing::subscriber::NoSubscriber;

use super::subscriber::HostSubscriber;
use crate::clients::own_loop;
use crate::deadline::Deadline;
use crate::reactor::Reactor;

/// The loop of a server with [`nest_calls`](crate::server::ServerBuilder::nest_calls) that this
/// thread serves in.
pub struct ThreadLoop {
    reactor: Rc<Reactor>,
}

impl ThreadLoop {
    /// Returns the loop of this thread.
    pub fn current() -> Option<Self> {
        own_loop::adopted().map(|reactor| Self { reactor })
    }

    /// Serves until `fd` is readable, `deadline` passes, the waker wakes, or something was served.
    ///
    /// # Errors
    ///
    /// The kernel's: it cannot wait, or not for this descriptor.
    pub fn serve(&self, fd: Option<BorrowedFd<'_>>, deadline: Deadline) -> io::Result<()> {
        self.reactor.serve_guest(fd, deadline)
    }

    /// Returns what ends a [`serve`](Self::serve) from another thread.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.reactor.mailbox))
    }
}

impl fmt::Debug for ThreadLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadLoop").finish_non_exhaustive()
    }
}

/// Gives a message of a library to the subscriber of `tracing`, with the target `nearcall::library`
/// and the name of the service. Returns `false` if this program has none.
pub fn log(service: &str, level: LogLevel, text: &str) -> bool {
    const TARGET: &str = "nearcall::library";
    // Where a library shares the runtime of its host, its subscriber is that of the host, too, and
    // leads back to here.
    let is_for_host = |dispatch: &tracing::Dispatch| {
        !dispatch.is::<NoSubscriber>() && !dispatch.is::<HostSubscriber>()
    };
    if !tracing::dispatcher::get_default(is_for_host) {
        return false;
    }
    match level {
        LogLevel::Error => tracing::error!(target: TARGET, service, "{text}"),
        LogLevel::Warn => tracing::warn!(target: TARGET, service, "{text}"),
        LogLevel::Info => tracing::info!(target: TARGET, service, "{text}"),
        LogLevel::Debug => tracing::debug!(target: TARGET, service, "{text}"),
    }
    true
}
