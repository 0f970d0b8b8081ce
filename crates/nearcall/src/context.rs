//! What a service may know of the call that it serves.
//!
//! Always true: who calls comes from the kernel; everything else from the peer.
//! Not here: answering later (`responder.rs`).

use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nearcall_channel::Loan;
use nearcall_wire::{IncomingCall, Time};

use crate::dispatch::has_passed;
use crate::interface::Interface;
use crate::link::Link;
use crate::metadata::Metadata;
use crate::options;
use crate::peer::Peer;
use crate::status::Status;

/// The call that is being served: its deadline, who calls, what came beside the request.
///
/// Calls that the service makes meanwhile end with it at the latest, by themselves.
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
///         return Err(Status::aborted("as you wished"));
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
    deadline: Time,
    metadata: Metadata<'a>,
    interface: &'static Interface,
    method: u32,
    origin: Origin<'a>,
}

/// Where a call came from.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    Link(&'a Rc<Link>, Option<IncomingCall>),
    Local,
}

impl<'a> Context<'a> {
    #[inline]
    pub(crate) fn new(
        deadline: Time,
        metadata: Metadata<'a>,
        interface: &'static Interface,
        method: u32,
        origin: Origin<'a>,
    ) -> Self {
        Self { deadline, metadata, interface, method, origin }
    }

    /// When the call ends by itself; `None` if it has no deadline. Reads the clock.
    pub fn deadline(&self) -> Option<Instant> {
        options::instant_of(self.deadline)
    }

    /// How much time is left; `None` if the call has no deadline. Reads the clock.
    pub fn remaining(&self) -> Option<Duration> {
        if self.deadline == Time::NEVER {
            return None;
        }
        Some(Duration::from_nanos(options::now().until(self.deadline).as_ns()))
    }

    /// Whether nobody waits for the answer any more: the caller gave up or is gone, or time is up.
    ///
    /// Looks into the connection, so a service that works long should ask now and then: a system
    /// call or two. Calls that it finds there are served after this one.
    pub fn is_cancelled(&self) -> bool {
        if has_passed(self.deadline) {
            return true;
        }
        match self.origin {
            Origin::Link(link, call) => {
                link.look_ahead();
                link.is_gone() || call.is_some_and(|call| !link.is_wanted(call))
            }
            Origin::Local => false,
        }
    }

    /// Who calls.
    pub fn peer(&self) -> Peer {
        match self.origin {
            Origin::Link(link, _) => link.peer.clone(),
            Origin::Local => Peer::Local,
        }
    }

    /// Whether what the caller lends is read where it lies: `bytes` fields of the request that were
    /// loaned are slices of the caller's memory. [`detach`](crate::detach) what is kept.
    pub fn is_trusted(&self) -> bool {
        match self.origin {
            Origin::Link(link, _) => link.is_trusted,
            Origin::Local => true,
        }
    }

    /// Memory for a `bytes` field of the answer: written, then frozen, it is passed to the caller
    /// by reference where the mechanism can (`shm`), and copied where not.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: more than the message limit, or the caller has not given back enough
    /// of what it was lent before.
    pub fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        match self.origin {
            Origin::Link(link, _) => link.loan(bytes),
            Origin::Local => Ok(Loan::plain(bytes)),
        }
    }

    /// What the caller sent beside the request.
    pub fn metadata(&self) -> Metadata<'a> {
        self.metadata
    }

    /// The name of the method, as in the `.proto` file.
    pub fn method(&self) -> &'static str {
        self.interface.method(self.method).map_or("", |method| method.name)
    }

    pub(crate) fn interface_name(&self) -> &'static str {
        self.interface.name
    }

    #[inline]
    pub(crate) fn deadline_time(&self) -> Time {
        self.deadline
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
