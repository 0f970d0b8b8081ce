//! The items that a method is called with, sent by a thread.
//!
//! **Invariants:** they arrive in the order in which they were sent.
//! **Not here:** the call (`streaming.rs`), senders that are futures.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use super::streaming::{OpenedStream, StreamedCall};
use crate::async_call::AsyncRequestStream;
use crate::clients::InUse;
use crate::codec::{Encoded, Message};
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
/// send::<nearcall::stream::RequestStream<(), ()>>();
/// ```
#[must_use = "a stream that is dropped cancels its call"]
pub struct RequestStream<Q, R> {
    _thread: BelongsToItsThread,
    sink: Sink,
    /// The reply is one message, which ends the call.
    has_reply: bool,
    is_finished: bool,
    types: PhantomData<fn(Q) -> R>,
}

enum Sink {
    Own(Rc<StreamedCall>),
    /// Over a connection that threads and tasks share, of the method with this number. It ends
    /// before what keeps the connection of its client. None: it was finished.
    Shared(Option<AsyncRequestStream<Encoded, Encoded>>, u32, InUse),
}

impl<Q: Message, R: Message + Default> RequestStream<Q, R> {
    pub(super) fn with_reply(opened: OpenedStream, method: u32) -> Self {
        Self::new(opened, method, true)
    }

    /// Creates the stream of a call whose replies are a stream as well.
    pub(super) fn without_reply(opened: OpenedStream, method: u32) -> Self {
        Self::new(opened, method, false)
    }

    fn new(opened: OpenedStream, method: u32, has_reply: bool) -> Self {
        let sink = match opened {
            OpenedStream::Own(call) => Sink::Own(call),
            OpenedStream::Shared(call, in_use) => {
                let stream = match has_reply {
                    true => AsyncRequestStream::with_reply(call),
                    false => AsyncRequestStream::without_reply(call),
                };
                Sink::Shared(Some(stream), method, in_use)
            }
        };
        let (types, _thread) = (PhantomData, BelongsToItsThread::default());
        Self { sink, has_reply, is_finished: false, types, _thread }
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
        match &mut self.sink {
            Sink::Own(call) => call.send(item),
            Sink::Shared(Some(stream), _, in_use) => {
                in_use.binding().core.block_on(stream.send(&Encoded::new(item)?))?
            }
            Sink::Shared(None, ..) => Err(finished()),
        }
    }

    /// Works like [`send`](Self::send), and fails with `RESOURCE_EXHAUSTED` where that waits.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn try_send(&mut self, item: &Q) -> Result<(), Status> {
        match &mut self.sink {
            Sink::Own(call) => call.try_send(item),
            Sink::Shared(Some(stream), ..) => stream.try_send(&Encoded::new(item)?),
            Sink::Shared(None, ..) => Err(finished()),
        }
    }

    /// Ends the items, and waits for the reply. Where the replies are a stream as well it does not
    /// wait: the end of that stream is the end of the call.
    ///
    /// # Errors
    ///
    /// The status that the service gave, or the reason why there is no reply.
    pub fn finish(mut self) -> Result<R, Status> {
        self.take_reply(None)
    }

    /// Works like [`finish`](Self::finish), and returns what the service sent beside the reply or
    /// the error ([`Status::metadata`]) as well. Where the replies are a stream, that comes with
    /// their end: [`ReplyStream::metadata`](crate::stream::ReplyStream::metadata).
    pub fn finish_with_metadata(mut self) -> (Result<R, Status>, ReplyMetadata) {
        let mut metadata = ReplyMetadata::default();
        let reply = self.take_reply(Some(&mut metadata));
        (reply, metadata)
    }

    fn take_reply(&mut self, metadata: Option<&mut ReplyMetadata>) -> Result<R, Status> {
        self.is_finished = true;
        let (reply, came) = match &mut self.sink {
            Sink::Own(call) => {
                call.half_close();
                let reply = if self.has_reply { call.finish() } else { Ok(R::default()) };
                (reply, metadata.is_some().then(|| call.metadata()))
            }
            Sink::Shared(stream, method, in_use) => {
                let (stream, binding) = (stream.take().ok_or_else(finished)?, in_use.binding());
                let (reply, came) = binding.core.block_on(stream.finish_with_metadata())?;
                let read = |reply: Encoded| binding.read_encoded(&reply, *method);
                let reply = if self.has_reply { reply.and_then(read) } else { Ok(R::default()) };
                (reply, Some(came))
            }
        };
        if let (Some(metadata), Some(came)) = (metadata, came) {
            *metadata = came;
        }
        reply
    }

    /// Gives the call up. The server is informed.
    pub fn cancel(self) {
        drop(self);
    }
}

impl<Q, R> Drop for RequestStream<Q, R> {
    fn drop(&mut self) {
        // One that is shared does so itself.
        if let (Sink::Own(call), false) = (&self.sink, self.is_finished) {
            call.cancel(Status::cancelled("the stream of requests was dropped"));
        }
    }
}

#[cold]
fn finished() -> Status {
    Status::failed_precondition("the stream of requests was finished before")
}

impl<Q, R> fmt::Debug for RequestStream<Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RequestStream");
        match &self.sink {
            Sink::Own(call) => debug.field("server", &call.server()),
            Sink::Shared(stream, ..) => debug.field("stream", stream),
        };
        debug.finish_non_exhaustive()
    }
}
