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

use super::ObjectRef;
use crate::codec::Message;
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::local_reply::LocalReply;
use crate::status::Status;

/// A call under way. Wait for it, await it, or drop it, which cancels it.
///
/// As a future it needs a loop that is turned, by its host for example; without a loop, polling it
/// blocks until the call has ended.
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
    object: ObjectRef,
    deadline: Deadline,
    state: State,
    result: PhantomData<fn() -> R>,
}

enum State {
    Remote(Rc<Connection>, OutgoingCall),
    Local(LocalReply),
    Failed(Status),
    Taken,
}

impl<R: Message + Default> PendingCall<R> {
    pub(super) fn remote(
        object: ObjectRef,
        connection: Rc<Connection>,
        call: OutgoingCall,
        deadline: Deadline,
    ) -> Self {
        Self { object, deadline, state: State::Remote(connection, call), result: PhantomData }
    }

    pub(super) fn local(object: ObjectRef, reply: LocalReply, deadline: Deadline) -> Self {
        Self { object, deadline, state: State::Local(reply), result: PhantomData }
    }

    pub(super) fn failed(object: ObjectRef, status: Status) -> Self {
        let deadline = Deadline::NEVER;
        Self { object, deadline, state: State::Failed(status), result: PhantomData }
    }

    /// Waits for the end of the call.
    ///
    /// # Errors
    ///
    /// The status that the service gave, or the reason why there is no answer.
    pub fn wait(mut self) -> Result<R, Status> {
        self.take()
    }

    fn take(&mut self) -> Result<R, Status> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Remote(connection, call) => {
                let outcome = self.object.client.wait(&connection, call, self.deadline);
                self.object.read_outcome(outcome)
            }
            State::Local(reply) => self.object.wait_local(&reply, self.deadline),
            State::Failed(status) => Err(status),
            State::Taken => Err(Status::failed_precondition("the result was taken before")),
        }
    }

    /// Returns whether the call has ended, so that [`wait`](Self::wait) does not wait. In a loop
    /// this only looks at what the loop has received; without one it receives what has come.
    pub fn is_done(&self) -> bool {
        match &self.state {
            State::Remote(connection, call) => {
                if !connection.has_ended(*call) {
                    self.object.client.poll(connection);
                }
                connection.has_ended(*call)
            }
            State::Local(reply) => reply.has_ended() || self.deadline.has_passed(),
            State::Failed(_) | State::Taken => true,
        }
    }

    /// Gives the call up. The server is informed; the method may have run.
    pub fn cancel(self) {
        drop(self);
    }
}

impl<R: Message + Default> Future for PendingCall<R> {
    type Output = Result<R, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let in_loop = self.object.client.reactor().is_some();
        if self.is_done() || !in_loop {
            return Poll::Ready(self.take());
        }
        match &self.state {
            State::Remote(connection, call) => connection.set_waker(*call, context.waker()),
            State::Local(reply) => {
                // The loop wakes it at its deadline.
                reply.set_waker(context.waker());
            }
            State::Failed(_) | State::Taken => {}
        }
        Poll::Pending
    }
}

impl<R> Drop for PendingCall<R> {
    fn drop(&mut self) {
        if let State::Remote(connection, call) = &self.state {
            connection.cancel(*call);
        }
    }
}

impl<R> fmt::Debug for PendingCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").field("object", &self.object).finish_non_exhaustive()
    }
}
