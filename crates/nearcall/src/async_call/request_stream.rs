//! The items that a method is called with, sent by a task.
//!
//! **Invariants:** they arrive in the order in which they were sent; an item whose future is
//! dropped before it has ended was not sent.
//! **Not here:** the call (`streaming.rs`).

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::task::ready;

use futures_core::Stream;

use super::by_threads::try_once;
use super::streaming::AsyncStreamedCall;
use crate::async_connection::Places;
use crate::codec::Message;
use crate::metadata::ReplyMetadata;
use crate::status::Status;
use crate::waking;

/// The items for a method that takes a stream. Send them, then [`finish`](Self::finish); or drop
/// the stream, which cancels the call.
#[must_use = "a stream that is dropped cancels its call"]
pub struct AsyncRequestStream<Q, R> {
    call: Arc<AsyncStreamedCall>,
    /// The reply is one message, which ends the call.
    has_reply: bool,
    /// How the call has ended, if it did so while items were sent.
    early: Option<Result<R, Status>>,
    is_finished: bool,
    types: PhantomData<fn(Q)>,
}

/// An item on its way: gives its place in the queue up when it is dropped.
struct Place<'a> {
    call: &'a AsyncStreamedCall,
    places: Places,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.call.leave(&mut self.places);
    }
}

impl<Q: Message, R: Message + Default> AsyncRequestStream<Q, R> {
    pub(crate) fn with_reply(call: Arc<AsyncStreamedCall>) -> Self {
        Self { call, has_reply: true, early: None, is_finished: false, types: PhantomData }
    }

    /// Creates the stream of a call whose replies are a stream as well.
    pub(crate) fn without_reply(call: Arc<AsyncStreamedCall>) -> Self {
        Self { call, has_reply: false, early: None, is_finished: false, types: PhantomData }
    }

    /// Sends an item. Waits while the service has
    /// [`stream_window_bytes`](crate::Limits::stream_window_bytes) of this stream to read, and
    /// while the channel has no room. Dropped before it has ended, it has sent nothing.
    ///
    /// # Errors
    ///
    /// The call has ended: the status that the service gave, or the reason, such as the deadline of
    /// the call. `FAILED_PRECONDITION`: the service has replied without reading all items.
    /// `RESOURCE_EXHAUSTED`: the item is above the message limit; the stream goes on.
    pub async fn send(&mut self, item: &Q) -> Result<(), Status> {
        let mut place = Place { call: &self.call, places: Places::default() };
        let sent = poll_fn(|context| {
            let Place { call, places } = &mut place;
            if places.is_empty() {
                ready!(waking::poll_proceed(context.waker()));
            }
            call.poll_send(places, item, context.waker())
        });
        let sent = sent.await;
        drop(place);
        match sent {
            Err(_) if self.call.has_ended() => Err(self.no_more_items().await),
            sent => sent,
        }
    }

    /// Sends the items of a stream to its end. [`finish`](Self::finish) then gives the reply.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), at the first item that cannot be sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures_util::stream;
    /// use nearcall::Status;
    /// use nearcall::stream::AsyncRequestStream;
    /// # type Item = u32;
    ///
    /// async fn upload(mut requests: AsyncRequestStream<Item, Item>) -> Result<Item, Status> {
    ///     requests.send_all(stream::iter(0..3)).await?;
    ///     requests.finish().await
    /// }
    /// # let _ = upload;
    /// ```
    pub async fn send_all(&mut self, items: impl Stream<Item = Q>) -> Result<(), Status> {
        let mut items = pin!(items);
        while let Some(item) = poll_fn(|context| items.as_mut().poll_next(context)).await {
            self.send(&item).await?;
        }
        Ok(())
    }

    /// Sends an item if that needs no wait.
    pub(crate) fn try_send(&mut self, item: &Q) -> Result<(), Status> {
        try_once(self.send(item)).unwrap_or_else(|| {
            Err(Status::resource_exhausted(
                "the service has to read earlier items of this stream first, or the connection \
                 that threads share has no room; `send` waits for that",
            ))
        })
    }

    /// Returns why no item can be sent any more.
    async fn no_more_items(&mut self) -> Status {
        if self.has_reply && self.early.is_none() {
            self.early = Some(self.reply().await);
        }
        let end = match &self.early {
            Some(reply) => reply.as_ref().map(drop).map_err(Status::clone),
            None => self.call.end(),
        };
        end.err().unwrap_or_else(|| {
            let text = "the service has replied and reads no more items; finish the stream";
            Status::failed_precondition(text)
        })
    }

    /// Waits until the call has ended though its items have not: the service has replied without
    /// reading them all, or has failed. [`finish`](Self::finish) then returns at once how. Never,
    /// for a call whose replies are a stream as well: there that stream ends.
    ///
    /// For tasks that wait for something else meanwhile, such as the next item. May be dropped and
    /// awaited again.
    pub async fn ended(&mut self) {
        if !self.has_reply {
            return std::future::pending().await;
        }
        if self.early.is_none() {
            self.early = Some(self.reply().await);
        }
    }

    async fn reply(&self) -> Result<R, Status> {
        poll_fn(|context| self.call.poll_reply(context.waker())).await
    }

    /// Ends the items, and waits for the reply. Where the replies are a stream as well it does not
    /// wait: the end of that stream is the end of the call.
    ///
    /// # Errors
    ///
    /// The status that the service gave, or the reason why there is no reply.
    pub async fn finish(mut self) -> Result<R, Status> {
        self.take_reply().await
    }

    /// Works like [`finish`](Self::finish), and returns what the service sent beside the reply or
    /// the error ([`Status::metadata`]) as well. Where the replies are a stream, that comes with
    /// their end: [`AsyncReplyStream::metadata`](crate::stream::AsyncReplyStream::metadata).
    pub async fn finish_with_metadata(mut self) -> (Result<R, Status>, ReplyMetadata) {
        (self.take_reply().await, self.call.metadata())
    }

    async fn take_reply(&mut self) -> Result<R, Status> {
        if let Some(early) = self.early.take() {
            self.is_finished = true;
            return early;
        }
        self.call.half_close();
        if !self.has_reply {
            self.is_finished = true;
            return Ok(R::default());
        }
        let reply = self.reply().await;
        // Not before: dropped while it waits, it cancels the call.
        self.is_finished = true;
        reply
    }

    /// Gives the call up. The server is informed.
    pub fn cancel(self) {
        drop(self);
    }
}

impl<Q, R> Drop for AsyncRequestStream<Q, R> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.call.cancel(Status::cancelled("the stream of requests was dropped"));
        }
    }
}

impl<Q, R> fmt::Debug for AsyncRequestStream<Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncRequestStream")
            .field("object", self.call.object())
            .finish_non_exhaustive()
    }
}
