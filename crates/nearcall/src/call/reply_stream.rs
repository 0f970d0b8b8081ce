//! The items that a method replies with, read by a thread.
//!
//! **Invariants:** they come in the order in which the service sent them; the end comes after all
//! of them, once.
//! **Not here:** the call (`streaming.rs`), readers that are futures.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use super::streaming::{StreamedCall, Unread};
use crate::codec::Message;
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
/// send::<nearcall::ReplyStream<()>>();
/// ```
#[must_use = "a stream that is dropped cancels its call"]
pub struct ReplyStream<R> {
    _thread: BelongsToItsThread,
    call: Rc<StreamedCall>,
    unread: Unread,
    has_ended: bool,
    item: PhantomData<fn() -> R>,
}

impl<R: Message + Default> ReplyStream<R> {
    pub(super) fn new(call: Rc<StreamedCall>) -> Self {
        let _thread = BelongsToItsThread::default();
        Self { call, unread: Unread::default(), has_ended: false, item: PhantomData, _thread }
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
        let next = self.call.next(&mut self.unread);
        self.has_ended = !matches!(next, Ok(Some(_)));
        next
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

impl<R: Message + Default> Iterator for ReplyStream<R> {
    type Item = Result<R, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        self.recv().transpose()
    }
}

impl<R> Drop for ReplyStream<R> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.call.cancel(Status::cancelled("the stream of replies was dropped"));
        }
    }
}

impl<R> fmt::Debug for ReplyStream<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyStream").field("server", &self.call.server()).finish_non_exhaustive()
    }
}
