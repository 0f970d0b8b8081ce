//! Opening calls of tasks that stream.
//!
//! **Invariants:** a call that could not be started was not sent, nor one whose future is dropped
//! before it has ended.
//! **Not here:** the call (`streaming.rs`), its handles (`reply_stream.rs`, `request_stream.rs`).

use std::future::poll_fn;
use std::sync::Arc;

use nearcall_wire::Shape;

use super::by_threads::without_connection;
use super::sending::Sending;
use super::streaming::AsyncStreamedCall;
use super::{AsyncObjectRef, AsyncReplyStream, AsyncRequestStream};
use crate::codec::{AnyMessage, Message};
use crate::interface::Method;
use crate::status::Status;

impl AsyncObjectRef {
    /// Starts a call whose reply is a stream of items.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub async fn open_reply_stream<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
    ) -> Result<AsyncReplyStream<R>, Status> {
        let call = self.open_stream(method, AnyMessage::new(request), Shape::CalleeStreams).await?;
        Ok(AsyncReplyStream::new(Arc::new(call)))
    }

    /// Starts a call whose request is a stream of items.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub async fn open_request_stream<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
    ) -> Result<AsyncRequestStream<Q, R>, Status> {
        let call = self.open_stream(method, AnyMessage::new(&()), Shape::CallerStreams).await?;
        Ok(AsyncRequestStream::with_reply(Arc::new(call)))
    }

    /// Starts a call whose request and reply are streams of items, independent of each other.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub async fn open_both_streams<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
    ) -> Result<(AsyncRequestStream<Q, ()>, AsyncReplyStream<R>), Status> {
        let call = self.open_stream(method, AnyMessage::new(&()), Shape::BothStream).await?;
        let call = Arc::new(call);
        Ok((AsyncRequestStream::without_reply(Arc::clone(&call)), AsyncReplyStream::new(call)))
    }

    async fn open_stream(
        &self,
        method: &'static Method,
        request: AnyMessage<'_>,
        shape: Shape,
    ) -> Result<AsyncStreamedCall, Status> {
        self.open_by(Sending::new(self, method), &request, shape).await
    }

    pub(super) async fn open_by(
        &self,
        mut sending: Sending<'_>,
        request: &impl Message,
        shape: Shape,
    ) -> Result<AsyncStreamedCall, Status> {
        let started = poll_fn(|context| {
            sending.poll(context.waker(), request, |connection, places, waker, outgoing| {
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
            return Err(without_connection());
        };
        let (observed, reply) = (sending.take_observed(), sending.reply_type());
        Ok(AsyncStreamedCall::new(self.clone(), connection, (call, stream), reply, observed))
    }
}
