//! What an async service may know of the call that it serves.
//!
//! **Invariants:** the identity of the caller comes from the kernel; everything else from the peer.
//! **Not here:** the context of a method that does not return a future (`context.rs`).

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nearcall_channel::Loan;

use crate::deadline::Deadline;
use crate::interface::Interface;
use crate::metadata::{BadMetadata, Metadata};
use crate::peer::Peer;
use crate::services::context::Context;
use crate::services::detached_sink::{DetachedCall, ReplyLender};
use crate::services::headers;
use crate::services::service_stream::ServiceStream;
use crate::status::Status;
use crate::tasks::cancellation::{Cancellation, Cancelled};

/// The call that an async service serves: its deadline, its caller, what came beside the request.
/// It is owned and `Send`; a clone may outlive the call.
///
/// The future of the method is dropped when its call ends, so it need not ask. Give a clone to what
/// must learn of the end otherwise, such as a thread or a task of its own.
///
/// # Examples
///
/// ```
/// use nearcall::{CallContext, Status};
///
/// async fn serve(context: CallContext, celsius: f64) -> Result<f64, Status> {
///     if context.metadata().get("dry-run") == Some("yes") {
///         return Err(Status::aborted("cancelled by the caller"));
///     }
///     let work = context.clone();
///     std::thread::spawn(move || {
///         while !work.is_cancelled() { /* ... */ }
///     });
///     Ok(celsius)
/// }
/// ```
#[derive(Clone)]
pub struct CallContext {
    deadline: Deadline,
    metadata: Bytes,
    interface: &'static Interface,
    method: u32,
    peer: Peer,
    is_trusted: bool,
    cancellation: Arc<Cancellation>,
    /// Of a call that streams.
    stream: Option<ServiceStream>,
    /// Of a call that came over a connection.
    lender: Option<ReplyLender>,
}

impl CallContext {
    pub(crate) fn new(context: &Context<'_>, call: &DetachedCall) -> Self {
        Self {
            deadline: context.deadline_moment(),
            metadata: Bytes::copy_from_slice(context.metadata().as_bytes()),
            interface: context.interface(),
            method: context.method_id(),
            peer: call.peer.clone(),
            is_trusted: call.is_trusted,
            cancellation: Arc::clone(call.sink.cancellation()),
            stream: call.sink.stream(),
            lender: call.sink.lender(),
        }
    }

    /// Returns when the call ends by itself; `None` if it has no deadline. Reads the clock.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.to_instant()
    }

    /// Returns how much time is left; `None` if the call has no deadline. Reads the clock.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.remaining()
    }

    /// Returns whether the caller does not wait any more: it gave up or is gone, time is up, or it
    /// has its answer.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.has_ended() || self.deadline.has_passed()
    }

    /// Waits until the caller does not wait any more, as [`is_cancelled`](Self::is_cancelled)
    /// defines it. A one-way message has no caller that waits, and never ends so.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::new(&self.cancellation)
    }

    /// Returns the caller.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns whether what the caller lends is read where it lies: `bytes` fields of the request
    /// that were loaned are slices of the caller's memory. [`detach`](crate::detach) what is kept.
    pub fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Returns memory for a `bytes` field of the reply, as
    /// [`Context::loan`](crate::Context::loan) does: written, then frozen, it is passed to the
    /// caller by reference where the mechanism can (`shm`). Never waits.
    ///
    /// Only in the loop of the server: where the future runs elsewhere (see
    /// [`AsyncDispatcher::spawn_on`](crate::service::AsyncDispatcher::spawn_on)), the memory is
    /// that of this process, and copied.
    ///
    /// # Errors
    ///
    /// As [`Context::loan`](crate::Context::loan).
    pub fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        self.lender.as_ref().map_or_else(|| Ok(Loan::plain(bytes)), |lender| lender.loan(bytes))
    }

    /// Returns what the caller sent beside the request.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata::new(&self.metadata)
    }

    /// Sends an entry with the reply, or with the error: a key of lower-case letters, digits and
    /// `-_.`, and printable ASCII, as
    /// [`Context::add_reply_metadata`](crate::Context::add_reply_metadata) does. After the answer
    /// it goes nowhere.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn add_reply_metadata(&self, key: &str, value: &str) -> Result<(), BadMetadata> {
        self.add_entry(key, value.as_bytes())
    }

    /// Sends an entry with bytes for its value with the reply; the key ends in `-bin`.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn add_reply_metadata_bin(&self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        self.add_entry(key, value)
    }

    /// Sends an entry before the reply and the items of the call: a key of lower-case letters,
    /// digits and `-_.`, and printable ASCII, as
    /// [`Context::add_header`](crate::Context::add_header) does. Headers go with
    /// [`send_headers`](Self::send_headers), before the first item or right before the answer,
    /// whichever is first.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value, or the headers were sent before.
    pub fn add_header(&self, key: &str, value: &str) -> Result<(), BadMetadata> {
        headers::add(self.stream.as_ref(), &self.cancellation, key, value.as_bytes())
    }

    /// Sends an entry like [`add_header`](Self::add_header) with bytes for its value; the key ends
    /// in `-bin`.
    ///
    /// # Errors
    ///
    /// As [`add_header`](Self::add_header).
    pub fn add_header_bin(&self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        headers::add(self.stream.as_ref(), &self.cancellation, key, value)
    }

    /// Sends the headers now, even if there are none, so that the caller need not wait for the
    /// first item. Later ones are refused. A call that does not stream keeps them until its answer,
    /// before which its caller could not read them.
    pub fn send_headers(&self) {
        headers::send(self.stream.as_ref(), &self.cancellation);
    }

    /// Returns a copy of the value of this type that an interceptor of the server kept for this
    /// call, as [`Context::kept`](crate::Context::kept) does. None after the answer.
    pub fn kept<T: Any + Clone>(&self) -> Option<T> {
        self.cancellation.extras.kept()
    }

    fn add_entry(&self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        self.cancellation.extras.change(|extras| extras.metadata.add(key, value))
    }

    /// Returns the name of the method, as in the `.proto` file.
    pub fn method(&self) -> &'static str {
        self.interface.method(self.method).map_or("", |method| method.name)
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("interface", &self.interface.name)
            .field("method", &self.method())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
