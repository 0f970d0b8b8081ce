//! What a service may know of the call that it serves.
//!
//! **Invariants:** the identity of the caller comes from the kernel; everything else from the peer.
//! **Not here:** replying later (`responder.rs`), what an async service sees (`call_context.rs`).

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use nearcall_channel::Loan;

use crate::codec::Message;
use crate::deadline::Deadline;
use crate::interface::Interface;
use crate::metadata::Metadata;
use crate::peer::Peer;
use crate::reply_sink::ReplySink;
use crate::responder::Responder;
use crate::status::Status;

/// The call that is being served: its deadline, its caller, what came beside the request.
///
/// Calls that the service makes meanwhile end at its deadline at the latest.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use nearcall::{Context, Status};
///
/// fn may_serve(context: &Context<'_>) -> Result<(), Status> {
///     // By the kernel, not by the caller.
///     if context.peer().uid().is_none() {
///         return Err(Status::permission_denied("not from another machine"));
///     }
///     // By the caller.
///     if context.metadata().get("dry-run") == Some("yes") {
///         return Err(Status::aborted("cancelled by the caller"));
///     }
///     match context.remaining() {
///         Some(left) if left < Duration::from_millis(1) => {
///             Err(Status::deadline_exceeded("this takes longer"))
///         }
///         _ => Ok(()),
///     }
/// }
/// ```
pub struct Context<'a> {
    deadline: Deadline,
    metadata: Metadata<'a>,
    interface: &'static Interface,
    method: u32,
    sink: ReplySink<'a>,
    /// A responder answers the call.
    is_detached: Cell<bool>,
}

impl<'a> Context<'a> {
    #[inline]
    pub(crate) fn new(
        deadline: Deadline,
        metadata: Metadata<'a>,
        interface: &'static Interface,
        method: u32,
        sink: ReplySink<'a>,
    ) -> Self {
        Self { deadline, metadata, interface, method, sink, is_detached: Cell::new(false) }
    }

    /// Returns when the call ends by itself; `None` if it has no deadline. Reads the clock.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.to_instant()
    }

    /// Returns how much time is left; `None` if the call has no deadline. Reads the clock.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.remaining()
    }

    /// Answers the call after the method has returned, from this thread or any other: return what
    /// this returns. `keep` gets the [`Responder`] that answers.
    ///
    /// # Errors
    ///
    /// Always one, which goes nowhere: the caller gets what the responder is given.
    ///
    /// # Examples
    ///
    /// ```
    /// use nearcall::{Context, Message, Responder, Status};
    ///
    /// fn answer_from_a_thread<R: Message + Default + 'static>(
    ///     context: &Context<'_>,
    /// ) -> Result<R, Status> {
    ///     context.answer_later(|responder: Responder<R>| {
    ///         std::thread::spawn(move || responder.finish(Ok(R::default())));
    ///     })
    /// }
    /// ```
    pub fn answer_later<R: Message>(&self, keep: impl FnOnce(Responder<R>)) -> Result<R, Status> {
        if self.is_detached.replace(true) {
            return Err(Status::internal("this call has a responder already"));
        }
        keep(Responder::new(self.sink.detach().sink, self.deadline));
        Err(Status::internal("a responder answers this call"))
    }

    /// Returns whether a responder answers the call, so that an error of the method does not.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.is_detached.get()
    }

    /// Returns whether the caller does not wait any more: it gave up or is gone, or time is up.
    ///
    /// Receives what has come over the connection, so a service that works long should ask now and
    /// then: a system call or two. Calls that it finds there are served after this one. In a
    /// [`BlockingPool`](crate::BlockingPool) the loop receives, and this is one load.
    pub fn is_cancelled(&self) -> bool {
        self.deadline.has_passed() || self.sink.look_for_cancel()
    }

    /// Returns the caller.
    pub fn peer(&self) -> Peer {
        self.sink.peer()
    }

    /// Returns whether what the caller lends is read where it lies: `bytes` fields of the request
    /// that were loaned are slices of the caller's memory. [`detach`](crate::detach) what is kept.
    pub fn is_trusted(&self) -> bool {
        self.sink.is_trusted()
    }

    /// Returns memory for a `bytes` field of the reply: written, then frozen, it is passed to the
    /// caller by reference where the mechanism can (`shm`), and copied where not.
    ///
    /// Never waits, unlike a caller's loan: a service that waited for its own caller would keep the
    /// others of its loop waiting. Reply with bytes that are not loaned then.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: more than the message limit, or the caller has not given back enough
    /// of what it was lent before.
    pub fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        self.sink.loan(bytes)
    }

    /// Returns what the caller sent beside the request.
    pub fn metadata(&self) -> Metadata<'a> {
        self.metadata
    }

    /// Returns the name of the method, as in the `.proto` file.
    pub fn method(&self) -> &'static str {
        self.interface.method(self.method).map_or("", |method| method.name)
    }

    pub(crate) fn method_id(&self) -> u32 {
        self.method
    }

    pub(crate) fn interface(&self) -> &'static Interface {
        self.interface
    }

    #[inline]
    pub(crate) fn deadline_moment(&self) -> Deadline {
        self.deadline
    }

    #[inline]
    pub(crate) fn sink(&self) -> ReplySink<'a> {
        self.sink
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("interface", &self.interface.name)
            .field("method", &self.method())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
