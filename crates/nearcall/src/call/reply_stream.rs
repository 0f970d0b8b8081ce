//! The items that a method replies with, read by a thread.
//!
//! **Invariants:** they come in the order in which the service sent them; the end comes after all
//! of them, once.
//! **Not here:** the call (`streaming.rs`), readers that are futures.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use super::streaming::{OpenedStream, StreamedCall, Unread};
use crate::async_call::AsyncReplyStream;
use crate::clients::InUse;
use crate::codec::{Encoded, Message};
use crate::metadata::ReplyMetadata;
use crate::status::Status;
use crate::thread_marker::BelongsToItsThread;

/// The items of a method that replies with a stream. Read them one by one or as an iterator, or
/// drop the stream, which cancels the call.
///
/// The service may send only as much as [`Limits::stream_window_bytes`] beyond what was read here.
/// It stays in its thread: see [`BelongsToItsThread`].
///
/// [`Limits::stream_window_bytes`]: crate::Limits::stream_window_bytes
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<nearcall::stream::ReplyStream<()>>();
/// ```
#[must_use = "a stream that is dropped cancels its call"]
pub struct ReplyStream<R> {
    _thread: BelongsToItsThread,
    source: Source,
    has_ended: bool,
    item: PhantomData<fn() -> R>,
}

enum Source {
    Own(Rc<StreamedCall>, Unread),
    /// Over a connection that threads and tasks share, of the method with this number. It ends
    /// before what keeps the connection of its client.
    Shared(AsyncReplyStream<Encoded>, u32, InUse),
}

impl<R: Message + Default> ReplyStream<R> {
    pub(super) fn new(opened: OpenedStream, method: u32) -> Self {
        let source = match opened {
            OpenedStream::Own(call) => Source::Own(call, Unread::default()),
            OpenedStream::Shared(call, in_use) => {
                Source::Shared(AsyncReplyStream::new(call), method, in_use)
            }
        };
        let _thread = BelongsToItsThread::default();
        Self { source, has_ended: false, item: PhantomData, _thread }
    }

    /// Waits for the next item. `None`: the method has ended with `OK`, and no more items come.
    ///
    /// # Errors
    ///
    /// The status that the service gave, or the reason why no more items come, such as the deadline
    /// of the call; after that, `None`.
    pub fn recv(&mut self) -> Result<Option<R>, Status> {
        if self.has_ended {
            return Ok(None);
        }
        let next = match &mut self.source {
            Source::Own(call, unread) => call.next(unread),
            Source::Shared(stream, method, in_use) => {
                let binding = in_use.binding();
                let read = |item: Encoded| binding.read_encoded(&item, *method);
                let item = binding.core.block_on(stream.next())?;
                item.transpose().and_then(|item| item.map(read).transpose())
            }
        };
        self.has_ended = !matches!(next, Ok(Some(_)));
        next
    }

    /// Waits for the headers: what the service sends before the first item
    /// ([`Context::add_header`](crate::Context::add_header)). Returns none if an item or the end
    /// comes without them. May be asked again, at any time.
    pub fn headers(&mut self) -> ReplyMetadata {
        match &mut self.source {
            Source::Own(call, unread) => call.headers(unread, self.has_ended),
            // A loop that fails here fails the next item as well.
            Source::Shared(stream, _, in_use) => {
                in_use.binding().core.block_on(stream.headers()).unwrap_or_default()
            }
        }
    }

    /// Returns what the service sent beside the end of the call, with `OK` or with an error
    /// ([`Status::metadata`]), once that end was returned here; nothing before.
    pub fn metadata(&self) -> ReplyMetadata {
        match &self.source {
            Source::Own(call, _) => call.metadata(),
            Source::Shared(stream, ..) => stream.metadata(),
        }
    }

    /// Gives the call up. The server is informed.
    pub fn cancel(self) {
        drop(self);
    }
}

impl<R: Message + Default> Iterator for ReplyStream<R> {
    type Item = Result<R, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        self.recv().transpose()
    }
}

impl<R> Drop for ReplyStream<R> {
    fn drop(&mut self) {
        // One that is shared does so itself.
        if let (Source::Own(call, _), false) = (&self.source, self.has_ended) {
            call.cancel(Status::cancelled("the stream of replies was dropped"));
        }
    }
}

impl<R> fmt::Debug for ReplyStream<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ReplyStream");
        match &self.source {
            Source::Own(call, _) => debug.field("server", &call.server()),
            Source::Shared(stream, ..) => debug.field("stream", stream),
        };
        debug.finish_non_exhaustive()
    }
}
