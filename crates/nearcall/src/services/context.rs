//! What a service may know of the call that it serves.
//!
//! **Invariants:** the identity of the caller comes from the kernel; everything else from the peer.
//! **Not here:** replying later (`responder.rs`), what an async service sees (`call_context.rs`).

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nearcall_channel::{Loan, Mechanism};

use crate::codec::{Body, Message};
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::decoded_size::{self, DecodedSize, MessageType, Part};
use crate::interface::{Interface, MethodKind};
use crate::limits::CALL_BYTES;
use crate::metadata::{BadMetadata, Metadata};
use crate::peer::Peer;
use crate::refusals::RefusalKind;
use crate::reservation::{Reservation, refuse};
use crate::services::detached_sink::DetachedCall;
use crate::services::reply_sink::ReplySink;
use crate::services::responder::Responder;
use crate::services::service_stream::ServiceStream;
use crate::status::Status;
use crate::tasks::reply_extras::ReplyExtras;
use crate::thread_marker::BelongsToItsThread;

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
///
/// It stays in its thread: see [`BelongsToItsThread`].
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<nearcall::Context<'_>>();
/// ```
pub struct Context<'a> {
    _thread: BelongsToItsThread,
    deadline: Deadline,
    metadata: Metadata<'a>,
    interface: &'static Interface,
    method: u32,
    sink: ReplySink<'a>,
    /// What came over a connection.
    request: Option<&'a ReceivedRequest<'a>>,
    /// A responder answers the call.
    is_detached: Cell<bool>,
    /// What goes with the reply.
    extras: Cell<Option<Box<ReplyExtras>>>,
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
        let (is_detached, extras) = (Cell::new(false), Cell::new(None));
        let _thread = BelongsToItsThread::default();
        let request = None;
        Self { _thread, deadline, metadata, interface, method, sink, request, is_detached, extras }
    }

    /// Sets what came over a connection, as far as its call may have to pay for it.
    #[inline]
    pub(crate) fn of_request(self, request: &'a ReceivedRequest<'a>) -> Self {
        Self { request: Some(request), ..self }
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
    /// Always one, which goes nowhere: the caller gets what the responder is given. But where the
    /// user of the caller holds too much of this server already it is `RESOURCE_EXHAUSTED`, which
    /// the caller gets, and `keep` is not called.
    ///
    /// # Examples
    ///
    /// ```
    /// use nearcall::{Context, Message, Status};
    /// use nearcall::service::Responder;
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
        if self.is_detached() {
            return Err(Status::internal("this call has a responder already"));
        }
        let reservation = self.reserve(false)?;
        self.is_detached.set(true);
        keep(Responder::new(self.detach().sink, self.deadline, reservation));
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
    /// [`BlockingPool`](crate::service::BlockingPool) the loop receives, and this is one load.
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

    /// Sends an entry with the reply, or with the error: a key of lower-case letters, digits and
    /// `-_.`, and printable ASCII. The caller reads it by
    /// [`PendingCall::wait_with_metadata`](crate::client::PendingCall::wait_with_metadata),
    /// [`ReplyStream::metadata`](crate::stream::ReplyStream::metadata),
    /// [`RequestStream::finish_with_metadata`](crate::stream::RequestStream::finish_with_metadata)
    /// or
    /// [`Status::metadata`]. A one-way message has no reply, and drops it.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value. More than
    /// [`Limits::metadata_bytes_max`](crate::Limits) fails the reply.
    pub fn add_reply_metadata(&self, key: &str, value: &str) -> Result<(), BadMetadata> {
        self.change_extras(|extras| extras.metadata.add(key, value.as_bytes()))
    }

    /// Sends an entry like [`add_reply_metadata`](Self::add_reply_metadata) with bytes for its
    /// value; the key ends in `-bin`.
    ///
    /// # Errors
    ///
    /// As [`add_reply_metadata`](Self::add_reply_metadata).
    pub fn add_reply_metadata_bin(&self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        self.change_extras(|extras| extras.metadata.add(key, value))
    }

    /// Sends an entry before the reply and the items of the call: a key of lower-case letters,
    /// digits and `-_.`, and printable ASCII. Headers go with
    /// [`send_headers`](Self::send_headers), before the first item or right before the answer,
    /// whichever is first.
    ///
    /// The caller reads them by [`ReplyStream::headers`](crate::stream::ReplyStream::headers) or,
    /// when the call has ended, by
    /// [`ReplyMetadata::headers`](crate::client::ReplyMetadata::headers). Callers that cannot take
    /// them so, such as older ones, get them in front of the metadata of the reply.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value, or the headers were sent before.
    pub fn add_header(&self, key: &str, value: &str) -> Result<(), BadMetadata> {
        self.add_header_entry(key, value.as_bytes())
    }

    /// Sends an entry like [`add_header`](Self::add_header) with bytes for its value; the key ends
    /// in `-bin`.
    ///
    /// # Errors
    ///
    /// As [`add_header`](Self::add_header).
    pub fn add_header_bin(&self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        self.add_header_entry(key, value)
    }

    /// Sends the headers now, even if there are none, so that the caller need not wait for the
    /// first item. Later ones are refused. A call that does not stream keeps them until its answer,
    /// before which its caller could not read them.
    pub fn send_headers(&self) {
        match self.sink.stream() {
            Some(stream) => stream.send_headers(),
            None => self.change_extras(|extras| extras.headers.close()),
        }
    }

    fn add_header_entry(&self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        match self.sink.stream() {
            Some(stream) => stream.stream.outlet.add_header(key, value),
            None => self.change_extras(|extras| extras.headers.add(key, value)),
        }
    }

    /// Returns the name of the method, as in the `.proto` file.
    pub fn method(&self) -> &'static str {
        self.interface.method(self.method).map_or("", |method| method.name)
    }

    /// Returns the status of a call in another shape than its method has: says how to call it.
    #[cold]
    pub(crate) fn wrong_shape(&self) -> Status {
        wrong_shape(self.interface, self.method)
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

    /// Returns a copy of the value of this type that an interceptor of the server kept for this
    /// call ([`InterceptedCall::keep`](crate::observe::InterceptedCall::keep)), such as the span
    /// that it is in; the first one's, if several did. None once the answer is left to a
    /// responder.
    pub fn kept<T: Any + Clone>(&self) -> Option<T> {
        let extras = self.extras.take()?;
        let kept = extras.kept();
        self.extras.set(Some(extras));
        kept
    }

    fn change_extras<T>(&self, change: impl FnOnce(&mut ReplyExtras) -> T) -> T {
        let mut extras = self.extras.take().unwrap_or_default();
        let changed = change(&mut extras);
        self.extras.set(Some(extras));
        changed
    }

    /// Sets what goes with the reply.
    pub(crate) fn set_extras(&self, extras: Box<ReplyExtras>) {
        self.extras.set(Some(extras));
    }

    /// Returns what goes with the reply, for a caller that gets the value of the method itself.
    #[inline]
    pub(crate) fn into_extras(self) -> Option<Box<ReplyExtras>> {
        self.extras.into_inner()
    }

    /// Replies to the call.
    #[inline]
    pub(crate) fn reply(self, result: &impl Message) {
        match self.extras.into_inner() {
            None => self.sink.reply(result),
            Some(extras) => self.sink.answer(extras, Ok(result)),
        }
    }

    /// Returns the status of a call whose request cannot be decoded, and counts the refusal.
    #[cold]
    pub(crate) fn bad_request(&self, status: &Status) -> Status {
        let status = Status::internal(format!("bad request: {}", status.message()));
        self.sink.note_refusal(RefusalKind::BadRequest, status.message());
        status
    }

    /// Returns the mechanism that the call came over, if its connection is known here.
    pub(crate) fn mechanism(&self) -> Option<Mechanism> {
        self.sink.mechanism()
    }

    /// Returns the connection that the call came over, if that is known here.
    pub(crate) fn own_connection(&self) -> Option<&Rc<Connection>> {
        self.sink.own_connection()
    }

    /// Returns the status of a call that its caller may not make, and counts the refusal.
    #[cold]
    pub(crate) fn deny(&self, text: String) -> Status {
        self.sink.note_refusal(RefusalKind::UserNotAllowed, &text);
        Status::permission_denied(text)
    }

    /// Ends the call with an error.
    pub(crate) fn fail(&self, status: &Status) {
        match self.extras.take() {
            None => self.sink.fail(status),
            Some(extras) => self.sink.answer(extras, Err::<&(), _>(status)),
        }
    }

    /// Returns the stream of the call, if it streams.
    pub(crate) fn stream(&self) -> Option<ServiceStream> {
        let stream = self.sink.stream()?;
        let (interface, method) = (self.interface, self.method);
        stream.stream.expect(MessageType { interface, method, part: Part::Request });
        Some(stream)
    }

    /// Ends a call that streams, after the items that its service has sent.
    pub(crate) fn finish_stream(&self, result: Result<&impl Message, &Status>) {
        self.sink.finish_stream(self.extras.take(), result);
    }

    /// Charges what the call holds after its turn to the user of its caller, until the reservation
    /// is dropped: its request as it is decoded, with the buffer that came if that is kept.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: more than the share of the user. The refusal is counted.
    pub(crate) fn reserve(&self, keeps_buffer: bool) -> Result<Reservation, Status> {
        let Some(memory) = self.sink.memory() else { return Ok(Reservation::default()) };
        let (interface, method) = (self.interface, self.method);
        let message = MessageType { interface, method, part: Part::Request };
        let request_bytes = self.request.map_or(0, |ReceivedRequest { body, size }| {
            decoded_size::retained_bytes(body, message, *size, keeps_buffer)
        });
        let metadata_bytes = self.metadata.as_bytes().len();
        let bytes = request_bytes.saturating_add(CALL_BYTES + metadata_bytes);
        let reserved = memory.reserve(bytes);
        reserved
            .map_err(|exceeded| refuse(&exceeded, |kind, why| self.sink.note_refusal(kind, why)))
    }

    /// Returns what was checked of the request.
    pub(crate) fn request_size(&self) -> DecodedSize {
        self.request.map_or_else(DecodedSize::default, |request| request.size)
    }

    /// Returns the same call for a reply that comes after the method has returned, or from another
    /// thread.
    pub(crate) fn detach(&self) -> DetachedCall {
        let call = self.sink.detach();
        if let Some(extras) = self.extras.take() {
            call.sink.add_extras(extras);
        }
        call
    }
}

/// A request that came over a connection, and what was checked of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedRequest<'a> {
    pub(crate) body: Body<'a>,
    pub(crate) size: DecodedSize,
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

/// Returns the status of a call in another shape than its method has.
#[cold]
pub(crate) fn wrong_shape(interface: &Interface, method: u32) -> Status {
    let Some(method) = interface.method(method) else {
        return Status::unimplemented(format!("{} has no such method", interface.name));
    };
    let how = match method.kind {
        MethodKind::Unary => "takes one request and gives one reply; call it without a stream",
        MethodKind::Oneway => "is one-way; send it one message",
        MethodKind::ReplyStream => {
            "replies with a stream; call it with one request as a stream of \
                                    replies"
        }
        MethodKind::RequestStream => {
            "takes a stream and gives one reply; call it as a stream of \
                                      requests"
        }
        MethodKind::BothStreams => "takes a stream and replies with one; call it as both streams",
    };
    Status::unimplemented(format!("{}/{} {how}", interface.name, method.name))
}
