//! The event loop: serves calls, and tells the user of his timers, signals and descriptors.
//!
//! Calls are served inside; what concerns the user comes out of [`EventLoop::next`] as an
//! [`Event`], so there are no callbacks. Always true: a loop with nothing to do sleeps.
//! Not here: how it waits (`reactor.rs`).

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nearcall_channel::Deadline;
pub use nearcall_os::poll::Interest;
pub use nearcall_os::signal::Signal;
use nearcall_os::signal::{self, SignalSet};
use nearcall_wire::Time;

use crate::core::Core;
use crate::options;
pub use crate::reactor::{DescriptorId, Event, TimerId};
use crate::reactor::{Mailbox, Reactor, UserFd};

/// Waits for everything that concerns one thread. Belongs to the thread that made it.
///
/// After a message over `shm`, whose wait is adaptive by default, it spins over the connections
/// that were busy lately for as long as that has paid, at most some tens of microseconds, before it
/// sleeps; ask for `?wait=poll` if it must not. Hosted by another loop it never spins.
///
/// Another loop (tokio, glib, libuv, ...) can host it: wait until its descriptor is readable, then
/// call [`turn`](Self::turn), and call it once before the first wait. Whatever is done between two
/// turns, such as starting a call, makes the descriptor readable if the loop has to know of it.
///
/// # Examples
///
/// A timer beside the calls:
///
/// ```
/// use std::time::Duration;
///
/// use nearcall::{Deadline, Event, EventLoop, Server};
///
/// let event_loop = EventLoop::new()?;
/// let _server = Server::new(&event_loop); // Its calls are served inside `next`.
/// let beat = event_loop.add_timer(Duration::from_millis(1), Some(Duration::from_millis(5)));
/// let stopper = event_loop.stopper();
/// let mut beats = 0;
/// loop {
///     match event_loop.next(Deadline::NEVER)? {
///         Some(Event::Timer(timer)) if timer == beat => beats += 1,
///         Some(Event::Stopped) => break,
///         _ => {}
///     }
///     if beats == 3 {
///         stopper.stop(); // Any thread may do this.
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct EventLoop {
    core: Rc<Core>,
}

/// Stops a loop from any thread.
#[derive(Clone)]
pub struct Stopper {
    mailbox: Arc<Mailbox>,
}

impl Stopper {
    /// The loop's [`run`](EventLoop::run) returns; its [`next`](EventLoop::next) gives
    /// [`Event::Stopped`].
    pub fn stop(&self) {
        self.mailbox.stop();
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopper")
    }
}

impl EventLoop {
    /// A loop with nothing to wait for.
    ///
    /// # Errors
    ///
    /// No descriptor is free: it needs two.
    pub fn new() -> io::Result<Self> {
        Ok(Self { core: Core::new(Some(Reactor::new()?)) })
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    #[expect(clippy::expect_used, reason = "`new` puts it there and nothing takes it away")]
    fn reactor(&self) -> &Reactor {
        self.core.reactor.as_ref().expect("a loop has a reactor")
    }

    /// Serves calls until somebody calls [`Stopper::stop`]. Events of the user are dropped; who has
    /// timers, signals or descriptors calls [`next`](Self::next) instead.
    ///
    /// # Errors
    ///
    /// The kernel's, when waiting itself fails.
    pub fn run(&self) -> io::Result<()> {
        while !matches!(self.next(Deadline::NEVER)?, Some(Event::Stopped)) {}
        Ok(())
    }

    /// Serves calls until something concerns the user, or until the deadline: `None`.
    ///
    /// # Errors
    ///
    /// The kernel's, when waiting itself fails.
    pub fn next(&self, until: Deadline) -> io::Result<Option<Event>> {
        let reactor = self.reactor();
        let until = Time::from_ns(until.as_ns());
        if let Some(event) = reactor.take_event() {
            return Ok(Some(event));
        }
        reactor.watch_reported();
        // One round at least, so that `Now` looks once, and a file, which is always ready, keeps
        // nothing else from its turn.
        let event = loop {
            let until = if reactor.has_event() { Time::from_ns(0) } else { until };
            reactor.round(&self.core, until)?;
            if let Some(event) = reactor.take_event() {
                break Some(event);
            }
            if until != Time::NEVER && options::now() >= until {
                break None;
            }
        };
        reactor.settle_host();
        Ok(event)
    }

    /// Serves what is ready, without waiting, and leaves the loop so that its descriptor becomes
    /// readable when there is something to do. For the host of this loop.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn turn(&self) -> io::Result<Vec<Event>> {
        let reactor = self.reactor();
        let mut events = Vec::new();
        reactor.begin_turn();
        reactor.watch_reported();
        for _ in 0..ROUNDS_PER_TURN_MAX {
            reactor.round(&self.core, Time::from_ns(0))?;
            events.extend(std::iter::from_fn(|| reactor.take_event()));
        }
        reactor.prepare_for_host(&self.core)?;
        Ok(events)
    }

    /// For [`Stopper::stop`] from any thread, also from a service of this loop.
    pub fn stopper(&self) -> Stopper {
        Stopper { mailbox: Arc::clone(&self.reactor().mailbox) }
    }

    /// A timer that is due in `first`, and then `every` so often. One that was late is due once,
    /// and keeps its beat.
    pub fn add_timer(&self, first: Duration, every: Option<Duration>) -> TimerId {
        let first = options::after(first);
        let timer = self.reactor().timers.borrow_mut().add(first, every);
        self.reactor().wake_host();
        timer
    }

    /// Forgets a timer. Whether there was one that would still have been reported.
    pub fn remove_timer(&self, timer: TimerId) -> bool {
        self.reactor().remove_timer(timer)
    }

    /// Waits for a descriptor of yours, or rather a duplicate: close yours whenever you like.
    ///
    /// What cannot be waited for, such as a file, is always ready.
    ///
    /// # Errors
    ///
    /// The kernel's, such as no free descriptor.
    pub fn add_descriptor(&self, fd: impl AsFd, interest: Interest) -> io::Result<DescriptorId> {
        let fd = fd.as_fd().try_clone_to_owned()?;
        self.reactor().add_user(UserFd { fd, interest, always_ready: false })
    }

    /// Waits for a descriptor no more. Whether there was one.
    pub fn remove_descriptor(&self, descriptor: DescriptorId) -> bool {
        self.reactor().remove_user(descriptor)
    }

    /// Waits for signals, and blocks them in this thread. Call it once, before other threads start:
    /// they inherit it, and a thread that does not block a signal would take it.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`: it was called before. The kernel's.
    pub fn add_signals(&self, signals: &[Signal]) -> io::Result<()> {
        let set = SignalSet::of(signals);
        signal::block(&set)?;
        self.reactor().add_signals(&set)
    }
}

impl AsFd for EventLoop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reactor().as_fd()
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop").finish_non_exhaustive()
    }
}

impl Drop for EventLoop {
    /// Closes all connections: clients and servers hold the core, the core holds connections.
    fn drop(&mut self) {
        self.reactor().close_all();
    }
}

/// Rounds of one turn. A host that has more to do gets its turn between ours.
const ROUNDS_PER_TURN_MAX: usize = 4;
