//! A call of tasks that streams, as both of its handles share it.
//!
//! **Invariants:** a call whose last handle is dropped is cancelled, unless it has ended; its end
//! is taken once, and every handle learns of it.
//! **Not here:** opening it (`opening.rs`), the handles (`reply_stream.rs`, `request_stream.rs`),
//! the shared connection (`async_connection.rs`).

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker, ready};

use nearcall_wire::OutgoingCall;

use super::AsyncObjectRef;
use crate::async_connection::{AsyncConnection, Places};
use crate::codec::Message;
use crate::connection::{Outcome, Reply};
use crate::decoded_size::MessageType;
use crate::interceptor::ObservedCall;
use crate::metadata::ReplyMetadata;
use crate::status::Status;
use crate::streams::call_stream::CallStream;
use crate::waking;

/// A call of tasks that streams.
pub(crate) struct AsyncStreamedCall {
    object: AsyncObjectRef,
    connection: Arc<AsyncConnection>,
    call: OutgoingCall,
    /// The type of its reply, or of the items of that.
    reply: MessageType,
    pub(super) stream: Arc<CallStream>,
    state: Mutex<State>,
}

struct State {
    /// How it has ended, once that was taken from the connection; what the service sent beside it.
    end: Option<Result<ReplyMetadata, Status>>,
    /// If the client has interceptors.
    observed: Option<Box<ObservedCall>>,
}

impl AsyncStreamedCall {
    pub(super) fn new(
        object: AsyncObjectRef,
        connection: Arc<AsyncConnection>,
        started: (OutgoingCall, Arc<CallStream>),
        reply: MessageType,
        observed: Option<Box<ObservedCall>>,
    ) -> Self {
        let (state, (call, stream)) = (Mutex::new(State { end: None, observed }), started);
        stream.expect(reply);
        Self { object, connection, call, reply, stream, state }
    }

    /// Has the interceptors see the end of the call.
    pub(crate) fn set_observed(&self, observed: Box<ObservedCall>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).observed = Some(observed);
    }

    pub(super) fn object(&self) -> &AsyncObjectRef {
        &self.object
    }

    /// Sends an item when there is credit and room for it.
    pub(super) fn poll_send(
        &self,
        places: &mut Places,
        item: &impl Message,
        waker: &Waker,
    ) -> Poll<Result<(), Status>> {
        self.connection.poll_send_item(places, waker, self.call, item, &self.stream)
    }

    /// A task does not wait any more to send an item.
    pub(super) fn leave(&self, places: &mut Places) {
        self.connection.leave(places);
    }

    /// Returns whether the call has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.stream.received.has_ended()
    }

    /// Ends the items of this end.
    pub(super) fn half_close(&self) {
        self.connection.with(|connection| connection.half_close(self.call));
    }

    /// Returns the reply of a call that has one, once it is there. Taken once.
    pub(super) fn poll_reply<R: Message + Default>(
        &self,
        waker: &Waker,
    ) -> Poll<Result<R, Status>> {
        self.poll_taken(waker).map(|taken| {
            taken.unwrap_or_else(|known| {
                let text = "the result of the call was taken before";
                known.and_then(|_| Err(Status::failed_precondition(text)))
            })
        })
    }

    /// Takes the end from the connection; if that was done before, returns the end as noted.
    fn poll_taken<R: Message + Default>(
        &self,
        waker: &Waker,
    ) -> Poll<Result<Result<R, Status>, Result<ReplyMetadata, Status>>> {
        if let Some(end) = self.known_end() {
            return Poll::Ready(Err(end));
        }
        // Under the lock of the connection: the other handle finds the end there or here.
        let note = |outcome: &Outcome| {
            let end = outcome.as_ref().map(Reply::metadata);
            self.note_end(end.map_err(|status| self.object.explain(status.clone())));
        };
        let reply = self.connection.poll_end::<R>(self.call, waker, self.reply, note);
        if let (Poll::Pending, Some(end)) = (&reply, self.known_end()) {
            return Poll::Ready(Err(end));
        }
        let reply = ready!(reply).map_err(|status| self.object.explain(status));
        self.show_end(reply.as_ref().err());
        Poll::Ready(Ok(reply))
    }

    /// Returns how a call has ended whose replies are a stream, and whose stream has ended.
    ///
    /// No waker is needed: under one lock of the connection the call gets its outcome and then its
    /// stream the end, so whoever sees the end of the stream finds the outcome.
    pub(super) fn end(&self) -> Result<(), Status> {
        match self.poll_taken::<()>(Waker::noop()) {
            Poll::Ready(Ok(end)) => end,
            Poll::Ready(Err(known)) => known.map(drop),
            Poll::Pending => Err(Status::internal("a stream has ended before its call")),
        }
    }

    /// Returns what the service sent beside the end of the call, once that was read.
    pub(super) fn metadata(&self) -> ReplyMetadata {
        let sent = match self.known_end() {
            Some(Ok(metadata)) => metadata,
            Some(Err(status)) => status.reply_metadata(),
            None => return ReplyMetadata::default(),
        };
        sent.with_headers(self.stream.headers.get())
    }

    /// Notes that items were read which cost so much together.
    pub(super) fn consume(&self, cost: u64) {
        self.connection.with(|connection| connection.consume_items(self.call.into(), cost));
    }

    /// Gives the call up, unless it has ended.
    pub(super) fn cancel(&self, status: Status) {
        // First, so that the other handle finds it once the stream has ended.
        if !self.note_end(Err(status.clone())) {
            return;
        }
        self.connection.cancel(self.call);
        self.show_end(Some(&status));
        let (reader, sender) = (self.stream.cancel(&status).0, self.stream.take_sender());
        reader.into_iter().chain(sender).for_each(waking::wake);
    }

    fn known_end(&self) -> Option<Result<ReplyMetadata, Status>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).end.clone()
    }

    /// Returns whether this is the first end.
    fn note_end(&self, end: Result<ReplyMetadata, Status>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = state.end.is_none();
        state.end.get_or_insert(end);
        is_first
    }

    /// Shows the interceptors the end of the call, once.
    fn show_end(&self, failure: Option<&Status>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let observed = state.observed.take();
        drop(state);
        if let Some(observed) = observed {
            observed.end(failure, 0);
        }
    }
}

impl Drop for AsyncStreamedCall {
    fn drop(&mut self) {
        self.cancel(Status::cancelled("the stream was dropped"));
        self.connection.with(|connection| connection.close_stream(self.call.into()));
    }
}
