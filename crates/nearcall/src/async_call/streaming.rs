//! Calls of tasks that stream: opening them, and what both of their handles share.
//!
//! **Invariants:** a call whose last handle is dropped is cancelled, unless it has ended; its end is
//! taken once, and every handle learns of it.
//! **Not here:** the handles (`reply_stream.rs`, `request_stream.rs`), the shared connection
//! (`async_connection.rs`).

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker, ready};

use nearcall_wire::{OutgoingCall, Shape};

use super::sending::Sending;
use super::{AsyncObjectRef, AsyncReplyStream, AsyncRequestStream};
use crate::async_connection::{AsyncConnection, Places};
use crate::call_stream::CallStream;
use crate::codec::{self, Message};
use crate::interceptor::ObservedCall;
use crate::interface::Method;
use crate::options::CallOptions;
use crate::status::Status;

impl AsyncObjectRef {
    /// Starts a call whose reply is a stream of items. `None` for `options`: the default ones.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub async fn open_reply_stream<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: Option<&CallOptions>,
    ) -> Result<AsyncReplyStream<R>, Status> {
        let call = self.open_stream(method, request, Shape::CalleeStreams, options).await?;
        Ok(AsyncReplyStream::new(Arc::new(call)))
    }

    /// Starts a call whose request is a stream of items. `None` for `options`: the default ones.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub async fn open_request_stream<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        options: Option<&CallOptions>,
    ) -> Result<AsyncRequestStream<Q, R>, Status> {
        let call = self.open_stream(method, &(), Shape::CallerStreams, options).await?;
        Ok(AsyncRequestStream::with_reply(Arc::new(call)))
    }

    /// Starts a call whose request and reply are streams of items, independent of each other.
    /// `None` for `options`: the default ones.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub async fn open_both_streams<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        options: Option<&CallOptions>,
    ) -> Result<(AsyncRequestStream<Q, ()>, AsyncReplyStream<R>), Status> {
        let call = self.open_stream(method, &(), Shape::BothStream, options).await?;
        let call = Arc::new(call);
        Ok((AsyncRequestStream::without_reply(Arc::clone(&call)), AsyncReplyStream::new(call)))
    }

    async fn open_stream<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        shape: Shape,
        options: Option<&CallOptions>,
    ) -> Result<AsyncStreamedCall, Status> {
        let mut sending = Sending::new(self, method, options);
        sending.observe(|| codec::encoded_bytes(request))?;
        let started = poll_fn(|context| {
            sending.poll(context.waker(), |connection, places, waker, outgoing| {
                connection.start_stream(places, waker, outgoing, request, shape)
            })
        });
        let started = started.await;
        let ((call, stream), Some(connection)) = (match started {
            Ok(started) => (started, sending.connection().map(Arc::clone)),
            Err(status) => {
                sending.end(&Err::<(), _>(status.clone()), |()| 0);
                return Err(status);
            }
        }) else {
            return Err(Status::internal("a call was started without a connection"));
        };
        let state = State { end: None, observed: sending.take_observed() };
        let (object, state) = (self.clone(), Mutex::new(state));
        Ok(AsyncStreamedCall { object, connection, call, stream, state })
    }
}

/// A call of tasks that streams.
pub(super) struct AsyncStreamedCall {
    object: AsyncObjectRef,
    connection: Arc<AsyncConnection>,
    call: OutgoingCall,
    pub(super) stream: Arc<CallStream>,
    state: Mutex<State>,
}

struct State {
    /// How it has ended, once that was taken from the connection.
    end: Option<Result<(), Status>>,
    /// If the client has interceptors.
    observed: Option<Box<ObservedCall>>,
}

impl AsyncStreamedCall {
    pub(super) fn object(&self) -> &AsyncObjectRef {
        &self.object
    }

    /// Sends an item when credit is left and there is room.
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
        if let Some(end) = self.known_end() {
            let taken = || Status::failed_precondition("the result of the call was taken before");
            return Poll::Ready(end.and_then(|()| Err(taken())));
        }
        let reply = ready!(self.connection.poll_call::<R>(self.call, waker));
        let reply = reply.map_err(|status| self.object.explain(status));
        self.set_end(reply.as_ref().map(drop).map_err(Status::clone));
        Poll::Ready(reply)
    }

    /// Returns how a call has ended whose replies are a stream, and which has ended.
    pub(super) fn end(&self) -> Result<(), Status> {
        if let Some(end) = self.known_end() {
            return end;
        }
        match self.connection.poll_call::<()>(self.call, Waker::noop()) {
            Poll::Ready(end) => {
                let end = end.map_err(|status| self.object.explain(status));
                self.set_end(end.clone());
                end
            }
            Poll::Pending => Err(Status::internal("a stream has ended before its call")),
        }
    }

    /// Notes that items were read which cost so many bytes of the credit.
    pub(super) fn consume(&self, bytes: u64) {
        self.connection.with(|connection| connection.consume_items(self.call.into(), bytes));
    }

    /// Gives the call up, unless it has ended.
    pub(super) fn cancel(&self, status: Status) {
        if self.known_end().is_some() {
            return;
        }
        self.connection.cancel(self.call);
        self.set_end(Err(status.clone()));
        if let Some(waker) = self.stream.cancel(&status).0 {
            waker.wake();
        }
        if let Some(waker) = self.stream.take_sender() {
            waker.wake();
        }
    }

    fn known_end(&self) -> Option<Result<(), Status>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).end.clone()
    }

    fn set_end(&self, end: Result<(), Status>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let observed = state.observed.take();
        let status = end.as_ref().err().cloned();
        state.end.get_or_insert(end);
        drop(state);
        if let Some(observed) = observed {
            observed.end(status.as_ref(), 0);
        }
    }
}

impl Drop for AsyncStreamedCall {
    fn drop(&mut self) {
        self.cancel(Status::cancelled("the stream was dropped"));
        self.connection.with(|connection| connection.close_stream(self.call.into()));
    }
}
