//! The event loop: serves calls and reports timers, signals and ready descriptors.
//!
//! Calls are served inside; what concerns the user comes out of [`EventLoop::next`] as an
//! [`Event`], so there are no callbacks.
//! **Invariants:** a loop with nothing to do sleeps.
//! **Not here:** how it waits (`reactor.rs`), closures from other threads (`event_loop/poster.rs`).

pub(crate) mod poster;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub use nearcall_os::poll::{Interest, Ready};
use nearcall_os::signal::{self, SignalSet};
pub use nearcall_os::signal::{Signal, SignalInfo};

pub use self::poster::{PostError, Poster};
use crate::deadline::Deadline;
use crate::limits::ROUNDS_PER_TURN_MAX;
pub use crate::reactor::{DescriptorId, Event, TimerId};
use crate::reactor::{Reactor, UserFd};
use crate::tasks::mailbox::Mailbox;
use crate::thread_marker::BelongsToItsThread;

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
/// use nearcall::{Deadline, EventLoop, Server};
/// use nearcall::event_loop::Event;
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
///
/// It stays in its thread: see [`BelongsToItsThread`].
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<nearcall::EventLoop>();
/// ```
pub struct EventLoop {
    _thread: BelongsToItsThread,
    reactor: Rc<Reactor>,
    /// It closes with this; not so what a posted closure gets.
    is_owner: bool,
}

/// Stops a loop from any thread.
///
/// Returned by [`EventLoop::stopper`].
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
    /// Creates a loop with nothing to wait for.
    ///
    /// # Errors
    ///
    /// No descriptor is free: it needs two.
    pub fn new() -> io::Result<Self> {
        Self::with_mailbox(Arc::new(Mailbox::new()?))
    }

    /// Creates a loop that other threads reach by `mailbox` before it exists.
    pub(crate) fn with_mailbox(mailbox: Arc<Mailbox>) -> io::Result<Self> {
        Ok(Self::of(Reactor::new(mailbox)?, true))
    }

    /// Returns the loop of this thread that has this mailbox, for a closure that runs in it.
    pub(crate) fn of_thread(mailbox: &Arc<Mailbox>) -> Option<Self> {
        Reactor::of_thread(mailbox).map(|reactor| Self::of(reactor, false))
    }

    fn of(reactor: Rc<Reactor>, is_owner: bool) -> Self {
        Self { _thread: BelongsToItsThread::default(), reactor, is_owner }
    }

    pub(crate) fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
    }

    /// Serves calls until [`Stopper::stop`] is called. Events of the user are dropped: with timers,
    /// signals or descriptors call [`next`](Self::next) instead.
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
    /// The kernel's, when waiting itself fails. The loop was made before this process was forked.
    pub fn next(&self, deadline: Deadline) -> io::Result<Option<Event>> {
        let reactor = &*self.reactor;
        if let Some(event) = reactor.take_event() {
            return Ok(Some(event));
        }
        reactor.watch_again(true);
        // One round at least, so that `NOW` looks once, and a file, which is always ready, keeps
        // nothing else from its turn.
        let event = loop {
            let deadline = if reactor.has_event() { Deadline::NOW } else { deadline };
            reactor.round(deadline)?;
            if let Some(event) = reactor.take_event() {
                break Some(event);
            }
            if deadline.has_passed() {
                break None;
            }
        };
        reactor.activity.notify_host();
        Ok(event)
    }

    /// Serves what is ready, without waiting, and leaves the loop so that its descriptor becomes
    /// readable when there is something to do. For the host of this loop.
    ///
    /// Over `shm-signal` a client without a loop, another hosted loop, and the loop of a library
    /// may take a signal of this thread without a notice to this one: use `shm` there.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn turn(&self) -> io::Result<Vec<Event>> {
        let reactor = &*self.reactor;
        let mut events = Vec::new();
        reactor.begin_turn();
        reactor.watch_again(true);
        for _ in 0..ROUNDS_PER_TURN_MAX {
            reactor.round(Deadline::NOW)?;
            events.extend(std::iter::from_fn(|| reactor.take_event()));
        }
        reactor.prepare_for_host()?;
        Ok(events)
    }

    /// Returns a handle that stops the loop from any thread, also from a service of this loop.
    pub fn stopper(&self) -> Stopper {
        Stopper { mailbox: Arc::clone(&self.reactor.mailbox) }
    }

    /// Adds a timer that is due in `first`, and then every `every`. One that was late is due once,
    /// and keeps its beat.
    pub fn add_timer(&self, first: Duration, every: Option<Duration>) -> TimerId {
        self.reactor.add_timer(first, every)
    }

    /// Removes a timer. Returns whether there was one that would still have been reported.
    pub fn remove_timer(&self, timer: TimerId) -> bool {
        self.reactor.remove_timer(timer)
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
        self.reactor.add_user(UserFd { fd, interest, always_ready: false })
    }

    /// Waits for a descriptor no more. Returns whether there was one.
    pub fn remove_descriptor(&self, descriptor: DescriptorId) -> bool {
        self.reactor.remove_user(descriptor)
    }

    /// Waits for signals, and blocks them in this thread. Call it once, before other threads start:
    /// they inherit it, and a thread that does not block a signal would take it.
    /// [`Server::run_until_signal`](crate::Server::run_until_signal) waits for SIGTERM and SIGINT
    /// without this condition.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`: it was called before. The kernel's.
    pub fn add_signals(&self, signals: &[Signal]) -> io::Result<()> {
        let set = SignalSet::new(signals);
        signal::block(&set)?;
        self.reactor.add_signals(&set)
    }
}

impl AsFd for EventLoop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reactor.as_fd()
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop").finish_non_exhaustive()
    }
}

impl Drop for EventLoop {
    /// Closes all connections, though clients and servers still hold the loop's state.
    fn drop(&mut self) {
        if self.is_owner {
            self.reactor.close_all();
        }
    }
}
