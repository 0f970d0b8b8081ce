//! A call that was started and is waited for later, or given up.
//!
//! Always true: a call whose `PendingCall` is dropped is cancelled, unless it has ended.
//! Not here: calls that wait at once (`remote.rs`).

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use nearcall_wire::Time;

use crate::codec::Message;
use crate::dispatch::has_passed;
use crate::link::{Link, Ticket};
use crate::local_reply::LocalReply;
use crate::remote::ObjectRef;
use crate::status::Status;

/// A call under way. Wait for it, await it, or drop it, which cancels it.
///
/// As a future it needs a loop that somebody turns, such as a host; without a loop, polling it
/// blocks until the call has ended.
///
/// # Examples
///
/// ```
#[doc = include_str!("../doc/room.txt")]
/// # let address = serve_elsewhere("started");
/// # let client = nearcall::Client::new();
/// # let thermostat = ThermostatCaller::new(&client, &address)?;
/// use nearcall::CallOptions;
///
/// let options = CallOptions::new();
/// let first = thermostat.start_set_target(&SetTargetRequest { celsius: 20.0 }, &options);
/// let second = thermostat.start_set_target(&SetTargetRequest { celsius: 21.0 }, &options);
/// let third = thermostat.start_set_target(&SetTargetRequest { celsius: 22.0 }, &options);
/// // All three are under way. Their ends may be taken in any order.
/// assert_eq!(second.wait()?.celsius_before, 20.0);
/// first.wait()?;
/// third.cancel();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a started call that is dropped is cancelled"]
pub struct PendingCall<R> {
    object: ObjectRef,
    until: Time,
    state: State,
    result: PhantomData<fn() -> R>,
}

enum State {
    Remote(Rc<Link>, Ticket),
    Local(LocalReply),
    Failed(Status),
    Taken,
}

impl<R: Message + Default> PendingCall<R> {
    pub(crate) fn remote(object: ObjectRef, link: Rc<Link>, ticket: Ticket, until: Time) -> Self {
        Self { object, until, state: State::Remote(link, ticket), result: PhantomData }
    }

    pub(crate) fn local(object: ObjectRef, reply: LocalReply, until: Time) -> Self {
        Self { object, until, state: State::Local(reply), result: PhantomData }
    }

    pub(crate) fn failed(object: ObjectRef, status: Status) -> Self {
        Self { object, until: Time::NEVER, state: State::Failed(status), result: PhantomData }
    }

    /// Waits for the end of the call.
    ///
    /// # Errors
    ///
    /// Why it failed.
    pub fn wait(mut self) -> Result<R, Status> {
        self.take()
    }

    fn take(&mut self) -> Result<R, Status> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Remote(link, ticket) => {
                let outcome = self.object.client().wait(&link, &ticket, self.until);
                self.object.result(outcome)
            }
            State::Local(reply) => self.object.wait_bytes(&reply, self.until),
            State::Failed(status) => Err(status),
            State::Taken => Err(Status::failed_precondition("the result was taken before")),
        }
    }

    /// Whether the call has ended, so that [`wait`](Self::wait) does not wait. In a loop this only
    /// looks at what the loop has received; without one it looks into the connection.
    pub fn is_done(&self) -> bool {
        match &self.state {
            State::Remote(link, ticket) => {
                if !link.has_ended(ticket) {
                    self.object.client().look(link);
                }
                link.has_ended(ticket)
            }
            State::Local(reply) => reply.has_ended() || has_passed(self.until),
            State::Failed(_) | State::Taken => true,
        }
    }

    /// Gives the call up. The server is told; the method may have run.
    pub fn cancel(self) {
        drop(self);
    }
}

impl<R: Message + Default> Future for PendingCall<R> {
    type Output = Result<R, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let in_loop = self.object.client().core().reactor.is_some();
        if self.is_done() || !in_loop {
            return Poll::Ready(self.take());
        }
        match &self.state {
            State::Remote(link, ticket) => link.wake_at_end(ticket, context.waker()),
            State::Local(reply) => {
                if reply.wake_at_end(context.waker()) {
                    self.object.client().core().wake_at(self.until, reply);
                }
            }
            State::Failed(_) | State::Taken => {}
        }
        Poll::Pending
    }
}

impl<R> Drop for PendingCall<R> {
    fn drop(&mut self) {
        if let State::Remote(link, ticket) = &self.state {
            link.cancel(ticket);
        }
    }
}

impl<R> fmt::Debug for PendingCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").field("object", &self.object).finish_non_exhaustive()
    }
}
