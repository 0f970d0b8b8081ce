//! The items that a method is called with, read by its service.
//!
//! **Invariants:** they come in the order in which the caller sent them; the end comes after all of
//! them. A receiver that is dropped lets the caller go on sending, into nothing.
//! **Not here:** how they travel (`crate::services::service_stream`).

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::codec::Message;
use crate::deadline::Deadline;
use crate::services::service_stream::ServiceStream;
use crate::status::Status;
use crate::streams::item_queue::{ItemBatch, ItemsEnd, Taken};

/// Reads the items of a method that takes a stream. It is `Send`: another thread may read them,
/// while a [`Responder`](crate::service::Responder) keeps the call open.
pub struct ItemReceiver<Q> {
    reader: RefCell<Reader>,
    deadline: Deadline,
    item: PhantomData<fn() -> Q>,
}

/// What has been taken and not read, and read and not reported.
struct Reader {
    call: ServiceStream,
    batch: ItemBatch,
    unreported_cost: u64,
}

/// What a reader finds without waiting.
enum Found<Q> {
    Item(Result<Q, Status>),
    End(Result<(), Status>),
    Nothing,
}

impl Reader {
    fn look<Q: Message + Default>(&mut self) -> Found<Q> {
        loop {
            if let Some(item) = self.batch.next() {
                let (bytes, item) = (item.message_bytes(), self.call.stream.decode(&item));
                self.unreported_cost += self.call.stream.cost(bytes);
                if self.unreported_cost >= self.call.stream.report_cost() {
                    self.call.consume(std::mem::take(&mut self.unreported_cost));
                }
                return Found::Item(item);
            }
            match self.call.stream.received.take(&mut self.batch) {
                Taken::Items => {}
                Taken::Nothing => return Found::Nothing,
                Taken::End(ItemsEnd::Finished) => return Found::End(Ok(())),
                Taken::End(ItemsEnd::Failed(status)) => return Found::End(Err(status)),
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut left = self.call.stream.received.abandon();
        let of_item = |bytes| self.call.stream.cost(bytes);
        let cost = self.unreported_cost + self.batch.discard(of_item) + left.discard(of_item);
        if cost > 0 {
            self.call.consume(cost);
        }
    }
}

impl<Q: Message + Default> ItemReceiver<Q> {
    pub(super) fn new(call: ServiceStream, deadline: Deadline) -> Self {
        let reader = Reader { call, batch: ItemBatch::default(), unreported_cost: 0 };
        Self { reader: RefCell::new(reader), deadline, item: PhantomData }
    }

    /// Waits for the next item: in the thread of the loop by serving others meanwhile, in any other
    /// thread by blocking it. `None`: the caller has sent its last item.
    ///
    /// # Errors
    ///
    /// The call has ended: `CANCELLED`, `DEADLINE_EXCEEDED`, or `UNAVAILABLE` with its connection.
    /// `INTERNAL`: the item cannot be decoded.
    pub fn recv(&self) -> Result<Option<Q>, Status> {
        loop {
            let found = self.reader.borrow_mut().look();
            match found {
                Found::Item(item) => return item.map(Some),
                Found::End(end) => return end.map(|()| None),
                Found::Nothing => {}
            }
            // Not while the reader is borrowed: what is served meanwhile may have this one, too.
            let call = self.reader.borrow().call.clone();
            call.wait_for_items(self.deadline)?;
        }
    }

    /// Returns the next item if it has come. `None`: the caller has sent its last item.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv); `RESOURCE_EXHAUSTED`: none has come yet.
    pub fn try_recv(&self) -> Result<Option<Q>, Status> {
        match self.reader.borrow_mut().look() {
            Found::Item(item) => item.map(Some),
            Found::End(end) => end.map(|()| None),
            Found::Nothing => Err(Status::resource_exhausted("no item has come yet")),
        }
    }
}

impl<Q: Message + Default> Iterator for ItemReceiver<Q> {
    type Item = Result<Q, Status>;

    /// As [`recv`](Self::recv).
    fn next(&mut self) -> Option<Self::Item> {
        self.recv().transpose()
    }
}

impl<Q> fmt::Debug for ItemReceiver<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemReceiver").finish_non_exhaustive()
    }
}

/// Reads the items of an async method that takes a stream.
///
/// [`ItemReceiver`] is its kind for methods that block.
pub struct AsyncItemReceiver<Q> {
    reader: Reader,
    has_ended: bool,
    item: PhantomData<fn() -> Q>,
}

impl<Q: Message + Default> AsyncItemReceiver<Q> {
    pub(super) fn new(call: ServiceStream) -> Self {
        let reader = Reader { call, batch: ItemBatch::default(), unreported_cost: 0 };
        Self { reader, has_ended: false, item: PhantomData }
    }

    /// Waits for the next item. `None`: the caller has sent its last item, or an error was returned
    /// before.
    ///
    /// # Errors
    ///
    /// As [`ItemReceiver::recv`].
    pub async fn next(&mut self) -> Option<Result<Q, Status>> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Q, Status>>> {
        while !self.has_ended {
            match self.reader.look() {
                Found::Item(item) => return Poll::Ready(Some(item)),
                Found::End(end) => {
                    self.has_ended = true;
                    return Poll::Ready(end.err().map(Err));
                }
                Found::Nothing => {
                    if self.reader.call.stream.received.set_waker(context.waker()) {
                        return Poll::Pending;
                    }
                }
            }
        }
        Poll::Ready(None)
    }
}

impl<Q: Message + Default> Stream for AsyncItemReceiver<Q> {
    type Item = Result<Q, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(context)
    }
}

impl<Q> fmt::Debug for AsyncItemReceiver<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncItemReceiver").finish_non_exhaustive()
    }
}
