//! A call as a future.
//!
//! **Invariants:** nothing is sent before it is polled; a call that was sent ends once, by its end
//! or by the drop of its future, which cancels it at the server.
//! **Not here:** sending (`async_call/sending.rs`), the shared connection (`async_connection.rs`).

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use nearcall_wire::OutgoingCall;

use super::AsyncObjectRef;
use super::sending::Sending;
use crate::async_connection::StartedCall;
use crate::codec::{self, Message};
use crate::decoded_size::MessageType;
use crate::interface::Method;
use crate::metadata::ReplyMetadata;
use crate::status::{Fate, Status};

/// A call of an async caller: await it, or drop it, which cancels the call.
///
/// The request is sent when it is polled first, or polled next if its task yields first. The task
/// may run in any executor, and in any thread; see [`AsyncObjectRef`].
///
/// Poll it or drop it: while it waits for its turn it holds up the calls and messages of all tasks
/// behind it to the same address, also if it is kept and not polled any more, such as beside a loop
/// around `select!`.
///
/// # Examples
///
/// ```
#[doc = include_str!("../../doc/room.txt")]
/// # let address = serve_elsewhere("async");
/// # let client = nearcall::Client::new();
/// # let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
/// # runtime.block_on(async {
/// let thermostat = ThermostatAsyncCaller::new(&client, &address)?;
/// thermostat.set_target(&SetTargetRequest { celsius: 20.0 }).await?;
///
/// // A task has a clone of the caller.
/// let in_task = thermostat.clone();
/// let task = tokio::spawn(async move {
///     in_task.set_target(&SetTargetRequest { celsius: 21.0 }).await
/// });
/// assert_eq!(task.await?.unwrap().celsius_before, 20.0);
///
/// // Dropped, as by a timeout of the runtime, a call is cancelled.
/// drop(thermostat.watch(&WatchRequest {}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a call that is not awaited is not made"]
pub struct AsyncCall<'a, Q, R> {
    request: &'a Q,
    sending: Sending<'a>,
    state: State,
    result: PhantomData<fn() -> R>,
}

enum State {
    Sending,
    Waiting(OutgoingCall),
    Ended,
}

impl<'a, Q, R> AsyncCall<'a, Q, R> {
    pub(super) fn new(object: &'a AsyncObjectRef, method: &'static Method, request: &'a Q) -> Self {
        Self::sent_by(Sending::new(object, method), request)
    }

    pub(super) fn sent_by(sending: Sending<'a>, request: &'a Q) -> Self {
        Self { request, sending, state: State::Sending, result: PhantomData }
    }

    /// Returns a future that yields what the service sent beside the end of the call as well: with
    /// a result or with an error ([`Status::metadata`]).
    pub fn with_metadata(self) -> AsyncCallWithMetadata<'a, Q, R> {
        AsyncCallWithMetadata { call: self, metadata: ReplyMetadata::default() }
    }
}

impl<Q: Message, R: Message + Default> AsyncCall<'_, Q, R> {
    #[inline]
    fn poll_with(
        &mut self,
        waker: &Waker,
        mut metadata: Option<&mut ReplyMetadata>,
    ) -> Poll<Result<R, Status>> {
        let this = self;
        let reply = this.sending.reply_type();
        let outcome = loop {
            let outcome = ready!(this.poll_once(waker, metadata.as_deref_mut(), reply));
            match outcome {
                Err(status) if status.fate() != Fate::Answered => {
                    match this.sending.resend(status) {
                        Ok(()) => this.state = State::Sending,
                        Err(status) => break Err(status),
                    }
                }
                outcome => break outcome,
            }
        };
        this.state = State::Ended;
        let result = outcome.map_err(|status| this.sending.object().explain(status));
        this.sending.end(&result, |reply| codec::reported_bytes(reply));
        Poll::Ready(result)
    }

    /// Goes on with a call that is sent once.
    #[inline]
    fn poll_once(
        &mut self,
        waker: &Waker,
        mut metadata: Option<&mut ReplyMetadata>,
        reply: MessageType,
    ) -> Poll<Result<R, Status>> {
        let this = self;
        Poll::Ready(match &this.state {
            State::Sending => {
                let request = this.request;
                let sent = ready!(this.sending.poll(
                    waker,
                    request,
                    |connection, places, waker, outgoing| {
                        let metadata = metadata.as_deref_mut();
                        connection.start_call(places, waker, outgoing, request, metadata, reply)
                    }
                ));
                match sent {
                    Ok(StartedCall::Waits(call)) => {
                        this.state = State::Waiting(call);
                        return Poll::Pending;
                    }
                    Ok(StartedCall::Ended(outcome)) => outcome,
                    Err(status) => Err(status),
                }
            }
            State::Waiting(call) => match this.sending.connection() {
                Some(connection) => ready!(connection.poll_call(*call, waker, metadata, reply)),
                None => Err(polled_after_end()),
            },
            State::Ended => Err(polled_after_end()),
        })
    }
}

impl<Q: Message, R: Message + Default> Future for AsyncCall<'_, Q, R> {
    type Output = Result<R, Status>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_with(context.waker(), None)
    }
}

/// An [`AsyncCall`] whose result comes with the metadata of the reply.
#[must_use = "a call that is not awaited is not made"]
#[derive(Debug)]
pub struct AsyncCallWithMetadata<'a, Q, R> {
    call: AsyncCall<'a, Q, R>,
    metadata: ReplyMetadata,
}

impl<Q: Message, R: Message + Default> Future for AsyncCallWithMetadata<'_, Q, R> {
    type Output = (Result<R, Status>, ReplyMetadata);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { call, metadata } = self.get_mut();
        let result = ready!(call.poll_with(context.waker(), Some(metadata)));
        let of_error = result.as_ref().err().map(Status::reply_metadata);
        let metadata = of_error.unwrap_or_else(|| std::mem::take(metadata));
        Poll::Ready((result, metadata))
    }
}

impl<Q, R> Drop for AsyncCall<'_, Q, R> {
    fn drop(&mut self) {
        if let (State::Waiting(call), Some(connection)) = (&self.state, self.sending.connection()) {
            connection.cancel(*call);
        }
    }
}

impl<Q, R> fmt::Debug for AsyncCall<'_, Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncCall").field("object", self.sending.object()).finish_non_exhaustive()
    }
}

/// A message that is never answered, from an async caller: await it until it is in the channel.
///
/// It waits for room until its deadline. Dropped while it waits, it was not sent, unless it is
/// longer than the room of the channel ([`Limits::room_bytes`](crate::Limits)): what was begun goes
/// on by itself, as long as the client has a handle.
///
/// Poll it or drop it: kept without being polled it holds up what is behind it, as an [`AsyncCall`]
/// does.
#[must_use = "a message that is not awaited is not sent"]
pub struct AsyncSend<'a, Q> {
    request: &'a Q,
    sending: Sending<'a>,
    state: SendState,
}

enum SendState {
    Sending,
    /// A part of it found no room yet.
    Unflushed,
    Ended,
}

impl<'a, Q> AsyncSend<'a, Q> {
    pub(super) fn new(object: &'a AsyncObjectRef, method: &'static Method, request: &'a Q) -> Self {
        Self::sent_by(Sending::new(object, method), request)
    }

    pub(super) fn sent_by(sending: Sending<'a>, request: &'a Q) -> Self {
        Self { request, sending, state: SendState::Sending }
    }
}

impl<Q: Message> Future for AsyncSend<'_, Q> {
    type Output = Result<(), Status>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let waker = context.waker();
        let sent = match &this.state {
            SendState::Sending => {
                let request = this.request;
                let sent = ready!(this.sending.poll(
                    waker,
                    request,
                    |connection, places, waker, outgoing| {
                        connection.send_oneway(places, waker, outgoing, request)
                    }
                ));
                match sent {
                    Ok(true) => Ok(()),
                    // What was begun goes on by itself.
                    Ok(false) if !this.sending.may_wait() => Ok(()),
                    Ok(false) => {
                        this.state = SendState::Unflushed;
                        ready!(this.sending.poll_flushed(waker))
                    }
                    Err(status) => Err(status),
                }
            }
            SendState::Unflushed => ready!(this.sending.poll_flushed(waker)),
            SendState::Ended => return Poll::Ready(Err(polled_after_end())),
        };
        this.state = SendState::Ended;
        this.sending.end(&sent, |()| 0);
        Poll::Ready(sent)
    }
}

impl<Q> fmt::Debug for AsyncSend<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncSend").field("object", self.sending.object()).finish_non_exhaustive()
    }
}

#[cold]
fn polled_after_end() -> Status {
    Status::failed_precondition("the result of the call was taken before")
}
