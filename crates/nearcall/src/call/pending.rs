//! A call that was started and is waited for later, or given up.
//!
//! **Invariants:** a call whose `PendingCall` is dropped is cancelled, unless it has ended.
//! **Not here:** calls that wait at once (`call.rs`).

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use nearcall_wire::OutgoingCall;

use crate::async_call::StartedCall;
use crate::clients::{Binding, InUse};
use crate::codec::{self, Body, Message};
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::interceptor::ObservedCall;
use crate::metadata::ReplyMetadata;
use crate::services::local_reply::LocalReply;
use crate::status::Status;
use crate::thread_marker::BelongsToItsThread;

/// A call under way. Wait for it, await it, or drop it, which cancels it.
///
/// It keeps no copy of its request, so that it is not sent again when its connection ends, whatever
/// its method and the [`ReconnectPolicy`](crate::client::ReconnectPolicy) are: look whether the
/// error
/// [`has_not_begun`](Status::has_not_begun), and start another one.
///
/// As a future it needs a client that was made in a loop which is turned, by its host for example.
/// Without a loop nothing would move it on while its task sleeps, so the future ends with
/// `FAILED_PRECONDITION`: call [`wait`](Self::wait), or use the generated async caller
/// (`ThermostatAsyncCaller`). It stays in its thread: see [`BelongsToItsThread`].
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<nearcall::client::PendingCall<()>>();
/// ```
///
/// # Examples
///
/// ```
#[doc = include_str!("../../doc/room.txt")]
/// # let address = serve_elsewhere("started");
/// # let client = nearcall::Client::new();
/// # let thermostat = ThermostatCaller::new(&client, &address)?;
/// let first = thermostat.start_set_target(&SetTargetRequest { celsius: 20.0 });
/// let second = thermostat.start_set_target(&SetTargetRequest { celsius: 21.0 });
/// let third = thermostat.start_set_target(&SetTargetRequest { celsius: 22.0 });
/// // All three are under way. Their ends may be taken in any order.
/// assert_eq!(second.wait()?.celsius_before, 20.0);
/// first.wait()?;
/// third.cancel();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a started call that is dropped is cancelled"]
pub struct PendingCall<R> {
    _thread: BelongsToItsThread,
    deadline: Deadline,
    state: State,
    /// If the client has interceptors.
    observed: Option<Box<ObservedCall>>,
    result: PhantomData<fn() -> R>,
}

enum State {
    /// Over a connection, of the method with this number.
    Remote(InUse, Rc<Connection>, OutgoingCall, u32),
    Local(InUse, LocalReply),
    /// Over a connection that threads and tasks share, of the method with this number.
    Shared(InUse, StartedCall, u32),
    Failed(Status),
    Taken,
}

impl<R: Message + Default> PendingCall<R> {
    pub(super) fn remote(
        binding: Rc<Binding>,
        connection: Rc<Connection>,
        (call, method): (OutgoingCall, u32),
        deadline: Deadline,
    ) -> Self {
        Self::new(State::Remote(InUse::new(binding), connection, call, method), deadline)
    }

    pub(super) fn local(binding: Rc<Binding>, reply: LocalReply, deadline: Deadline) -> Self {
        Self::new(State::Local(InUse::new(binding), reply), deadline)
    }

    pub(super) fn shared(
        binding: Rc<Binding>,
        started: StartedCall,
        method: u32,
        deadline: Deadline,
    ) -> Self {
        Self::new(State::Shared(InUse::new(binding), started, method), deadline)
    }

    pub(crate) fn failed(status: Status) -> Self {
        Self::new(State::Failed(status), Deadline::NEVER)
    }

    fn new(state: State, deadline: Deadline) -> Self {
        let _thread = BelongsToItsThread::default();
        Self { _thread, deadline, state, observed: None, result: PhantomData }
    }

    /// Has the interceptors see the end of the call.
    pub(super) fn observed_by(mut self, observed: Box<ObservedCall>) -> Self {
        self.observed = Some(observed);
        self
    }

    /// Waits for the end of the call.
    ///
    /// # Errors
    ///
    /// The status that the service gave, or the reason why there is no answer.
    pub fn wait(mut self) -> Result<R, Status> {
        self.take(None)
    }

    /// Waits for the end of the call, and returns what the service sent beside it as well: with a
    /// result or with an error ([`Status::metadata`]).
    pub fn wait_with_metadata(mut self) -> (Result<R, Status>, ReplyMetadata) {
        let mut metadata = ReplyMetadata::default();
        let result = self.take(Some(&mut metadata));
        let of_error = result.as_ref().err().map(Status::reply_metadata);
        (result, of_error.unwrap_or(metadata))
    }

    /// Waits for the end of the call. `metadata`: where to put those of a result.
    fn take(&mut self, metadata: Option<&mut ReplyMetadata>) -> Result<R, Status> {
        let result = self.take_result(metadata);
        match self.observed.take() {
            None => result,
            Some(observed) => {
                observed
                    .end(result.as_ref().err(), result.as_ref().map_or(0, codec::reported_bytes));
                result
            }
        }
    }

    fn take_result(&mut self, metadata: Option<&mut ReplyMetadata>) -> Result<R, Status> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Remote(used, connection, call, method) => {
                let binding = used.binding();
                let outcome = binding.core.wait(&connection, call, self.deadline);
                if let (Ok(reply), Some(metadata)) = (&outcome, metadata) {
                    *metadata = reply.metadata();
                }
                binding.read_outcome(outcome, method)
            }
            State::Local(used, reply) => {
                let result = used.binding().take_local(&reply, self.deadline)?;
                if let Some(metadata) = metadata {
                    *metadata = result.metadata;
                }
                codec::decode(Body::copied(&result.body))
            }
            State::Shared(used, mut call, method) => {
                let (ended, sent) = used.binding().core.block_on(call.end())?;
                if let Some(metadata) = metadata {
                    *metadata = sent;
                }
                used.binding().read_encoded(&ended?, method)
            }
            State::Failed(status) => Err(status),
            State::Taken => Err(Status::failed_precondition("the result was taken before")),
        }
    }

    /// Returns whether the call has ended, so that [`wait`](Self::wait) does not wait. In a loop
    /// this only looks at what the loop has received; without one it receives what has come.
    pub fn is_done(&self) -> bool {
        match &self.state {
            State::Remote(used, connection, call, _) => {
                if !connection.has_ended(*call) {
                    used.binding().core.poll(connection);
                }
                connection.has_ended(*call)
            }
            State::Local(_, reply) => reply.has_ended() || self.deadline.has_passed(),
            State::Shared(_, call, _) => call.has_ended(),
            State::Failed(_) | State::Taken => true,
        }
    }

    /// Returns the call if it was started: to look at once whether it was, as after
    /// [`CallOptions::no_wait`](crate::CallOptions::no_wait).
    ///
    /// # Errors
    ///
    /// It was not started, for this reason, with which [`wait`](Self::wait) would end:
    /// `RESOURCE_EXHAUSTED` where it would have had to wait, by `no_wait`.
    pub fn ensure_started(mut self) -> Result<Self, Status> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Failed(status) => Err(status),
            state => {
                self.state = state;
                Ok(self)
            }
        }
    }

    /// Gives the call up. The server is informed; the method may have run.
    pub fn cancel(self) {
        drop(self);
    }
}

impl<R> PendingCall<R> {
    /// Cancels the call, unless it has ended or was taken.
    fn give_up(&mut self) {
        if let State::Remote(_used, connection, call, _) =
            std::mem::replace(&mut self.state, State::Taken)
        {
            connection.cancel(call);
        }
    }
}

impl<R: Message + Default> Future for PendingCall<R> {
    type Output = Result<R, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Remote(used, ..) = &self.state
            && used.binding().core.reactor().is_none()
        {
            let status = not_in_a_loop(used.binding());
            self.give_up();
            if let Some(observed) = self.observed.take() {
                observed.end(Some(&status), 0);
            }
            return Poll::Ready(Err(status));
        }
        if self.is_done() {
            return Poll::Ready(self.take(None));
        }
        match &mut self.state {
            State::Remote(_, connection, call, _) => connection.set_waker(*call, context.waker()),
            // The loop wakes it at its deadline.
            State::Local(_, reply) => reply.set_waker(context.waker()),
            State::Shared(_, call, _) => {
                if call.poll(context.waker()).is_ready() {
                    return Poll::Ready(self.take(None));
                }
            }
            State::Failed(_) | State::Taken => {}
        }
        Poll::Pending
    }
}

impl<R> Drop for PendingCall<R> {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cold]
fn not_in_a_loop(binding: &Binding) -> Status {
    let interface = binding.name.interface.name;
    let service = interface.rsplit('.').next().unwrap_or(interface);
    Status::failed_precondition(format!(
        "a started call of a client without a loop cannot be awaited, since that would block the \
         executor: await a call of `{service}AsyncCaller`, or wait for this one; \
         it was cancelled"
    ))
}

impl<R> fmt::Debug for PendingCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.state {
            State::Remote(used, ..) | State::Local(used, _) | State::Shared(used, ..) => {
                Some(&used.binding().name)
            }
            State::Failed(_) | State::Taken => None,
        };
        f.debug_struct("PendingCall").field("object", &name).finish_non_exhaustive()
    }
}
