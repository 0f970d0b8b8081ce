//! The items that a method replies with, read by a task.
//!
//! **Invariants:** they come in the order in which the service sent them; the end comes after all
//! of them, once.
//! **Not here:** the call (`streaming.rs`).

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::streaming::AsyncStreamedCall;
use crate::codec::Message;
use crate::metadata::ReplyMetadata;
use crate::status::Status;
use crate::streams::item_queue::{ItemBatch, Taken};
use crate::waking;

/// The items of a method that replies with a stream. Await them one by one or as a
/// [`Stream`], or drop it, which cancels the call.
///
/// What has come is returned without a wait, also after the deadline what came before it. A task
/// that reads a fast stream yields now and then, so that others of its executor run.
///
/// The service may send only as much as [`Limits::stream_window_bytes`] beyond what was read here.
///
/// [`Limits::stream_window_bytes`]: crate::Limits::stream_window_bytes
#[must_use = "a stream that is dropped cancels its call"]
pub struct AsyncReplyStream<R> {
    call: Arc<AsyncStreamedCall>,
    batch: ItemBatch,
    unreported_cost: u64,
    has_ended: bool,
    item: PhantomData<fn() -> R>,
}

impl<R> Unpin for AsyncReplyStream<R> {}

impl<R: Message + Default> AsyncReplyStream<R> {
    pub(crate) fn new(call: Arc<AsyncStreamedCall>) -> Self {
        let batch = ItemBatch::default();
        Self { call, batch, unreported_cost: 0, has_ended: false, item: PhantomData }
    }

    /// Waits for the next item. `None`: the method has ended with `OK`, or an error was returned
    /// before.
    ///
    /// # Errors
    ///
    /// The status that the service gave, or the reason why no more items come, such as the deadline
    /// of the call.
    pub async fn next(&mut self) -> Option<Result<R, Status>> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<R, Status>>> {
        ready!(waking::poll_proceed(context.waker()));
        while !self.has_ended {
            if let Some(item) = self.batch.next() {
                let (bytes, item) = (item.message_bytes(), self.call.stream.decode(&item));
                self.unreported_cost += self.call.stream.cost(bytes);
                if self.unreported_cost >= self.call.stream.report_cost() {
                    self.call.consume(std::mem::take(&mut self.unreported_cost));
                }
                if let Err(status) = &item {
                    // An item that cannot be read ends the call.
                    let status = Status::clone(status);
                    self.call.cancel(status);
                    self.has_ended = true;
                }
                return Poll::Ready(Some(item));
            }
            match self.call.stream.received.take(&mut self.batch) {
                Taken::Items => {}
                Taken::End(_) => {
                    self.has_ended = true;
                    return Poll::Ready(self.call.end().err().map(Err));
                }
                Taken::Nothing => {
                    if self.call.stream.received.set_waker(context.waker()) {
                        return Poll::Pending;
                    }
                }
            }
        }
        Poll::Ready(None)
    }

    /// Waits for the headers: what the service sends before the first item
    /// ([`Context::add_header`](crate::Context::add_header)). Returns none if an item or the end
    /// comes without them. May be asked again, at any time.
    pub async fn headers(&mut self) -> ReplyMetadata {
        poll_fn(|context| {
            let stream = &self.call.stream;
            let is_over = self.has_ended || !self.batch.is_empty();
            // They may have come before the waker was there.
            if stream.headers.get().is_none()
                && !is_over
                && stream.received.set_waker(context.waker())
                && stream.headers.get().is_none()
            {
                return Poll::Pending;
            }
            let headers = stream.headers.get().cloned().unwrap_or_default();
            Poll::Ready(ReplyMetadata::of_headers(headers))
        })
        .await
    }

    /// Returns what the service sent beside the end of the call, with `OK` or with an error
    /// ([`Status::metadata`]), once that end was returned here; nothing before.
    pub fn metadata(&self) -> ReplyMetadata {
        self.call.metadata()
    }

    /// Gives the call up. The server is informed.
    pub fn cancel(self) {
        drop(self);
    }
}

impl<R: Message + Default> Stream for AsyncReplyStream<R> {
    type Item = Result<R, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(context)
    }
}

impl<R> Drop for AsyncReplyStream<R> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.call.cancel(Status::cancelled("the stream of replies was dropped"));
        }
    }
}

impl<R> fmt::Debug for AsyncReplyStream<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncReplyStream")
            .field("object", self.call.object())
            .finish_non_exhaustive()
    }
}
