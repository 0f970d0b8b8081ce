//! The items that a method is called with, sent by a thread.
//!
//! **Invariants:** they arrive in the order in which they were sent.
//! **Not here:** the call (`streaming.rs`), senders that are futures.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use super::streaming::StreamedCall;
use crate::codec::Message;
use crate::metadata::ReplyMetadata;
use crate::status::Status;
use crate::thread_marker::BelongsToItsThread;

/// The items for a method that takes a stream. Send them, then [`finish`](Self::finish); or drop
/// the stream, which cancels the call.
///
/// It stays in its thread: see [`BelongsToItsThread`].
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<nearcall::RequestStream<(), ()>>();
/// ```
#[must_use = "a stream that is dropped cancels its call"]
pub struct RequestStream<Q, R> {
    _thread: BelongsToItsThread,
    call: Rc<StreamedCall>,
    /// The reply is one message, which ends the call.
    has_reply: bool,
    is_finished: bool,
    types: PhantomData<fn(Q) -> R>,
}

impl<Q: Message, R: Message + Default> RequestStream<Q, R> {
    pub(super) fn with_reply(call: Rc<StreamedCall>) -> Self {
        Self::new(call, true)
    }

    /// Creates the stream of a call whose replies are a stream as well.
    pub(super) fn without_reply(call: Rc<StreamedCall>) -> Self {
        Self::new(call, false)
    }

    fn new(call: Rc<StreamedCall>, has_reply: bool) -> Self {
        let (types, _thread) = (PhantomData, BelongsToItsThread::default());
        Self { call, has_reply, is_finished: false, types, _thread }
    }

    /// Sends an item. Waits while the service has
    /// [`stream_window_bytes`](crate::Limits::stream_window_bytes) of this stream to read, and
    /// while the channel has no room.
    ///
    /// # Errors
    ///
    /// The call has ended: the status that the service gave, or the reason, such as the deadline of
    /// the call. `FAILED_PRECONDITION`: the service has replied without reading all items.
    /// `RESOURCE_EXHAUSTED`: the item is above the message limit; the stream goes on.
    pub fn send(&mut self, item: &Q) -> Result<(), Status> {
        self.call.send(item)
    }

    /// Works like [`send`](Self::send), and fails with `RESOURCE_EXHAUSTED` where that waits.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn try_send(&mut self, item: &Q) -> Result<(), Status> {
        self.call.try_send(item)
    }

    /// Ends the items, and waits for the reply. Where the replies are a stream as well it does not
    /// wait: the end of that stream is the end of the call.
    ///
    /// # Errors
    ///
    /// The status that the service gave, or the reason why there is no reply.
    pub fn finish(mut self) -> Result<R, Status> {
        self.take_reply()
    }

    /// Works like [`finish`](Self::finish), and returns what the service sent beside the reply or
    /// the error ([`Status::metadata`]) as well. Where the replies are a stream, that comes with
    /// their end: [`ReplyStream::metadata`](crate::ReplyStream::metadata).
    pub fn finish_with_metadata(mut self) -> (Result<R, Status>, ReplyMetadata) {
        (self.take_reply(), self.call.metadata())
    }

    fn take_reply(&mut self) -> Result<R, Status> {
        self.is_finished = true;
        self.call.half_close();
        if self.has_reply { self.call.finish() } else { Ok(R::default()) }
    }

    /// Gives the call up. The server is informed.
    pub fn cancel(self) {
        drop(self);
    }
}

impl<Q, R> Drop for RequestStream<Q, R> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.call.cancel(Status::cancelled("the stream of requests was dropped"));
        }
    }
}

impl<Q, R> fmt::Debug for RequestStream<Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestStream").field("server", &self.call.server()).finish_non_exhaustive()
    }
}
