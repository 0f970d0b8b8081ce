//! Runs closures on a loop, from any thread.
//!
//! **Invariants:** a closure runs once, in the thread of its loop, or is dropped with the loop.
//! **Not here:** waking the loop (`tasks/mailbox.rs`).

use std::fmt;
use std::sync::Arc;

use crate::event_loop::EventLoop;
use crate::tasks::mailbox::{Mailbox, Post};

/// Runs closures on an [`EventLoop`], from any thread. Cheap to clone.
///
/// # Examples
///
/// A thread that has something for what only the loop's thread may use:
///
/// ```
/// use std::cell::Cell;
///
/// use nearcall::{Deadline, EventLoop};
///
/// thread_local! {
///     static CELSIUS: Cell<f64> = const { Cell::new(18.0) };
/// }
///
/// let event_loop = EventLoop::new()?;
/// let poster = event_loop.poster();
/// let sensor = std::thread::spawn(move || {
///     poster.post(|_event_loop| CELSIUS.set(21.5)).expect("the loop runs");
/// });
/// while CELSIUS.get() != 21.5 {
///     event_loop.next(Deadline::after(std::time::Duration::from_millis(10)))?;
/// }
/// # sensor.join().unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Poster {
    mailbox: Arc<Mailbox>,
}

/// Why a closure was not posted: its loop has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostError;

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the event loop has closed and runs nothing any more; post to one that lives")
    }
}

impl std::error::Error for PostError {}

impl EventLoop {
    /// Returns a handle that runs closures on this loop, from any thread.
    pub fn poster(&self) -> Poster {
        Poster { mailbox: Arc::clone(&self.reactor().mailbox) }
    }
}

impl Poster {
    /// Has the loop run `run` in one of its next rounds, in the order of the posts of this thread,
    /// also inside a service that waits, whose deadline calls of the closure do not inherit. Does
    /// not wait. A panic in it ends the closure only.
    ///
    /// What was posted and has not run yet is not bounded: a thread that posts faster than the loop
    /// runs closures has to bound that itself, by a count that the closures lower. Closures that
    /// wait for calls of their own run inside each other, at most 32 deep; the others run after
    /// them.
    ///
    /// # Errors
    ///
    /// The loop has closed; `run` was dropped. One that closes later drops what it has not run.
    pub fn post(&self, run: impl FnOnce(&EventLoop) + Send + 'static) -> Result<(), PostError> {
        let mailbox = Arc::downgrade(&self.mailbox);
        let run = move || {
            let event_loop = mailbox.upgrade().and_then(|mailbox| EventLoop::of_thread(&mailbox));
            if let Some(event_loop) = event_loop {
                run(&event_loop);
            }
        };
        self.mailbox.post(Post::Run(Box::new(run))).map_err(|_| PostError)
    }
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Poster")
    }
}
