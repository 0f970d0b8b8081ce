//! Calls of threads over a connection that threads and tasks share: what a thread starts, and takes
//! later.
//!
//! **Invariants:** a call whose [`StartedCall`] is dropped is cancelled, unless it has ended; what
//! only tries does not wait for anything but a connection.
//! **Not here:** who shares (`call/shared.rs`), how a thread waits (`clients/waiting.rs`).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use nearcall_channel::Loan;
use nearcall_wire::{OutgoingCall, Shape};

use super::call::{AsyncCall, AsyncSend};
use super::sending::Sending;
use super::streaming::AsyncStreamedCall;
use super::{AsyncObjectRef, Object, connecting, lending};
use crate::async_connection::{self, AsyncConnection};
use crate::clients::{Client, ObjectName};
use crate::codec::Encoded;
use crate::deadline::Deadline;
use crate::decoded_size::MessageType;
use crate::interceptor::Chain;
use crate::metadata::ReplyMetadata;
use crate::options::{CallOptions, CallSpec};
use crate::reconnect::ReconnectPolicy;
use crate::status::Status;

/// A call that a thread has started.
pub(crate) struct StartedCall {
    /// It keeps the client.
    _object: AsyncObjectRef,
    connection: Arc<AsyncConnection>,
    reply: MessageType,
    state: State,
    metadata: ReplyMetadata,
}

enum State {
    Waiting(OutgoingCall),
    Ended(Result<Encoded, Status>),
    Taken,
}

impl AsyncObjectRef {
    /// Returns an object for the threads of a client, whose interceptors see its calls elsewhere.
    pub(crate) fn for_threads(client: &Client, name: &ObjectName, number: u64) -> Self {
        let (route, name) = (client.async_route(&name.place), name.clone());
        let object =
            Object { number, name, interceptors: Chain::default(), route, client: client.clone() };
        Self { object: Arc::new(object), options: None }
    }

    /// Returns once there is a shared connection.
    pub(crate) async fn connect(
        &self,
        policy: ReconnectPolicy,
        deadline: Deadline,
    ) -> Result<Arc<AsyncConnection>, Status> {
        connecting::connection(self.route(), policy, deadline).await
    }

    /// Calls a method.
    pub(crate) fn call_encoded<'a>(
        &'a self,
        request: &'a Encoded,
        spec: CallSpec<'a>,
    ) -> AsyncCall<'a, Encoded, Encoded> {
        AsyncCall::sent_by(Sending::until(self, spec), request)
    }

    /// Sends a message that is never answered.
    pub(crate) fn send_encoded<'a>(
        &'a self,
        request: &'a Encoded,
        spec: CallSpec<'a>,
    ) -> AsyncSend<'a, Encoded> {
        AsyncSend::sent_by(Sending::until(self, spec), request)
    }

    /// Starts a call that is taken later.
    pub(crate) async fn start_encoded(
        &self,
        request: &Encoded,
        spec: CallSpec<'_>,
    ) -> Result<StartedCall, Status> {
        let mut sending = Sending::until(self, spec);
        let (reply, mut metadata) = (sending.reply_type(), ReplyMetadata::default());
        let started = poll_fn(|context| {
            sending.poll(context.waker(), request, |connection, places, waker, outgoing| {
                let metadata = Some(&mut metadata);
                connection.start_call(places, waker, outgoing, request, metadata, reply)
            })
        });
        let state = match started.await? {
            async_connection::StartedCall::Waits(call) => State::Waiting(call),
            async_connection::StartedCall::Ended(ended) => State::Ended(ended),
        };
        let Some(connection) = sending.connection().map(Arc::clone) else {
            return Err(without_connection());
        };
        Ok(StartedCall { _object: self.clone(), connection, reply, state, metadata })
    }

    /// Starts a call that streams.
    pub(crate) async fn open_encoded(
        &self,
        request: &Encoded,
        shape: Shape,
        spec: CallSpec<'_>,
    ) -> Result<AsyncStreamedCall, Status> {
        self.open_by(Sending::until(self, spec), request, shape).await
    }

    /// Returns memory to lend, once there is some.
    pub(crate) async fn loan_by(
        &self,
        bytes: usize,
        options: &CallOptions,
        deadline: Deadline,
    ) -> Result<Loan, Status> {
        let connection = self.connect(self.reconnect_policy(options), deadline).await?;
        lending::loan(&connection, bytes, options, deadline).await
    }
}

impl StartedCall {
    /// Returns whether the call has ended; if not, `waker` is woken when it does.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<()> {
        if let State::Waiting(call) = self.state {
            let metadata = Some(&mut self.metadata);
            let ended = ready!(self.connection.poll_call(call, waker, metadata, self.reply));
            self.state = State::Ended(ended);
        }
        Poll::Ready(())
    }

    /// Returns whether the call has ended.
    pub(crate) fn has_ended(&self) -> bool {
        match self.state {
            State::Waiting(call) => self.connection.with(|connection| connection.has_ended(call)),
            State::Ended(_) | State::Taken => true,
        }
    }

    /// Waits for the end of the call, and returns it with what came beside it. Taken once.
    pub(crate) async fn end(&mut self) -> (Result<Encoded, Status>, ReplyMetadata) {
        poll_fn(|context| self.poll(context.waker())).await;
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Ended(ended) => (ended, std::mem::take(&mut self.metadata)),
            State::Waiting(_) | State::Taken => (
                Err(Status::failed_precondition("the result was taken before")),
                ReplyMetadata::default(),
            ),
        }
    }
}

impl Drop for StartedCall {
    fn drop(&mut self) {
        if let State::Waiting(call) = self.state {
            self.connection.cancel(call);
        }
    }
}

/// Returns what a future yields at once. `None`: it would wait, and was dropped.
pub(crate) fn try_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

#[cold]
pub(super) fn without_connection() -> Status {
    Status::internal("a call was started without a connection")
}
