//! The items that a method replies with, sent by its service.
//!
//! **Invariants:** they arrive in the order in which they were sent, before the end of the call.
//! **Not here:** how they travel (`crate::services::service_stream`).

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;

use futures_core::Stream;

use crate::codec::Message;
use crate::deadline::Deadline;
use crate::services::service_stream::ServiceStream;
use crate::status::Status;

/// Sends the items of a method that replies with a stream. It is `Send`: another thread may send
/// them, while a [`Responder`](crate::service::Responder) keeps the call open.
///
/// The end of the call is what the method returns. Dropping the sender ends nothing.
pub struct ItemSender<R> {
    call: ServiceStream,
    deadline: Deadline,
    item: PhantomData<fn(R)>,
}

impl<R: Message> ItemSender<R> {
    pub(super) fn new(call: ServiceStream, deadline: Deadline) -> Self {
        Self { call, deadline, item: PhantomData }
    }

    /// Sends an item. Waits while the caller has [`stream_window_bytes`] of this stream to read,
    /// and while the channel has no room: in the thread of the loop by serving others meanwhile, in
    /// any other thread by blocking it.
    ///
    /// # Errors
    ///
    /// The call has ended: `CANCELLED`, `DEADLINE_EXCEEDED`, or `UNAVAILABLE` with its connection.
    /// `RESOURCE_EXHAUSTED`: the item is above the message limit; the stream goes on.
    ///
    /// [`stream_window_bytes`]: crate::Limits::stream_window_bytes
    pub fn send(&self, item: &R) -> Result<(), Status> {
        self.call.send(item, self.deadline)
    }

    /// Returns whether the call has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.call.stream.outlet.ended().is_some()
    }

    /// Works like [`send`](Self::send), and fails with `RESOURCE_EXHAUSTED` where that waits.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn try_send(&self, item: &R) -> Result<(), Status> {
        self.call.try_send(item)
    }
}

impl<R> fmt::Debug for ItemSender<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemSender").finish_non_exhaustive()
    }
}

/// Sends the items of an async method that replies with a stream.
///
/// The end of the call is what the future of the method returns. Dropping the sender ends nothing.
///
/// [`ItemSender`] is its kind for methods that block.
pub struct AsyncItemSender<R>(ItemSender<R>);

impl<R: Message> AsyncItemSender<R> {
    pub(super) fn new(call: ServiceStream, deadline: Deadline) -> Self {
        Self(ItemSender::new(call, deadline))
    }

    /// Sends an item. Waits while the caller has
    /// [`stream_window_bytes`](crate::Limits::stream_window_bytes) of this stream to read and some
    /// items wait here.
    ///
    /// # Errors
    ///
    /// As [`ItemSender::send`].
    pub async fn send(&mut self, item: &R) -> Result<(), Status> {
        let call = &mut self.0.call;
        poll_fn(|context| call.poll_send(item, context.waker())).await
    }

    /// Sends the items of a stream to its end, or to its first error, which is returned and so can
    /// be the end of the call: `items.send_all(stream).await` is a whole method.
    ///
    /// # Errors
    ///
    /// Those of `items`, and those of [`send`](Self::send).
    ///
    /// # Examples
    ///
    /// ```
    /// use futures_util::{StreamExt, stream};
    /// use nearcall::Status;
    /// use nearcall::stream::AsyncItemSender;
    /// # type Item = u32;
    ///
    /// async fn count(mut items: AsyncItemSender<Item>) -> Result<(), Status> {
    ///     items.send_all(stream::iter(0..3).map(Ok)).await
    /// }
    /// # let _ = count;
    /// ```
    pub async fn send_all(
        &mut self,
        items: impl Stream<Item = Result<R, Status>>,
    ) -> Result<(), Status> {
        let mut items = pin!(items);
        while let Some(item) = poll_fn(|context| items.as_mut().poll_next(context)).await {
            self.send(&item?).await?;
        }
        Ok(())
    }
}

impl<R> fmt::Debug for AsyncItemSender<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncItemSender").finish_non_exhaustive()
    }
}
