//! A call over the connection that a thread has: the shortest way, and a method that is kept for
//! calls that follow each other.
//!
//! **Invariants:** a [`ThreadMethod`] keeps neither its client nor the caller that it was made of
//! open.
//! **Not here:** what becomes of a call that was not sent or not answered at once
//! (`call/backpressure.rs`, `call/resending.rs`).
//!
//! **Invariant:** a method that a thread keeps ends with its connection, and its calls are as those
//! of its caller. *Checked by* `a_method_that_a_thread_keeps_is_called_as_by_its_caller`.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use super::ObjectRef;
use crate::clients::{Binding, Target, current_binding};
use crate::codec::{self, AnyMessage, Body, Message};
use crate::connection::{Connection, UNARY};
use crate::interface::Method;
use crate::nesting::inherited_deadline;
use crate::options::{CallSpec, DEFAULT_OPTIONS};
use crate::status::{Fate, Status};

impl ObjectRef {
    /// Calls a method over a connection and waits for its end.
    #[inline(always)]
    pub(super) fn call_remote<Q: Message, R: Message + Default>(
        &self,
        binding: &Rc<Binding>,
        connection: &Rc<Connection>,
        request: &Q,
        spec: CallSpec<'_>,
    ) -> Result<R, Status> {
        let begun_ns = connection.begin_sample();
        let result = self.send_and_wait(binding, connection, request, spec);
        if let Some(begun_ns) = begun_ns {
            binding.core.end_sample(connection, begun_ns);
        }
        result
    }

    #[inline(always)]
    fn send_and_wait<Q: Message, R: Message + Default>(
        &self,
        binding: &Rc<Binding>,
        connection: &Rc<Connection>,
        request: &Q,
        spec: CallSpec<'_>,
    ) -> Result<R, Status> {
        let mode = binding.core.send_mode(spec.options, spec.deadline);
        let call = match connection.request(UNARY, &self.outgoing(spec), request, mode) {
            Ok(call) => call,
            Err(why) => {
                return self
                    .call_unsent(binding, why, AnyMessage::new(request), spec)
                    .and_then(|ended| ended.read(spec.method));
            }
        };
        let read = |body: &[u8]| codec::decode(Body::copied(body));
        if let Some(result) = binding.core.receive_reply(connection, call, spec.deadline, read) {
            return result;
        }
        let outcome = binding.core.wait(connection, call, spec.deadline);
        if let Err(status) = &outcome
            && status.fate() != Fate::Answered
        {
            let (status, used) = (status.clone(), (binding, connection));
            return self
                .resend_call(used, status, AnyMessage::new(request), spec)
                .and_then(|ended| ended.read(spec.method));
        }
        binding.read_outcome(outcome, spec.method.id)
    }

    /// Returns a method as this thread calls it now.
    pub(crate) fn thread_method(&self, method: &'static Method) -> Option<ThreadMethod> {
        if self.options.is_some() {
            return None;
        }
        let binding = current_binding(&self.object.slot)?;
        if !matches!(binding.target, Target::Remote(_)) {
            return None;
        }
        let default_deadline = self.object.default_deadline;
        Some(ThreadMethod { binding, default_deadline, method })
    }
}

/// A method with one request and one reply as a thread calls it over the connection that it has:
/// for programs in other languages, that call by names again and again.
///
/// It holds as long as the connection, and does not keep the client open: a call keeps its caller.
/// Made by [`DynamicCaller::thread_method`](crate::dynamic::DynamicCaller::thread_method).
pub struct ThreadMethod {
    binding: Rc<Binding>,
    default_deadline: Option<Duration>,
    method: &'static Method,
}

impl ThreadMethod {
    /// Returns the name of the method.
    #[inline]
    pub fn name(&self) -> &'static str {
        self.method.name
    }

    /// Returns whether it can be called: neither its connection nor its client was closed. Drop it
    /// if not: it keeps descriptors open.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.binding.is_open()
    }

    /// Calls the method and waits for its end. `object` is that of the caller that it was made of.
    ///
    /// # Errors
    ///
    /// As [`ObjectRef::call`].
    #[inline]
    pub fn call<Q: Message, R: Message + Default>(
        &self,
        object: &ObjectRef,
        request: &Q,
    ) -> Result<R, Status> {
        let (method, options) = (self.method, DEFAULT_OPTIONS);
        let deadline = options.deadline_for(method, self.default_deadline, inherited_deadline());
        let spec = CallSpec { method, options, deadline };
        let Target::Remote(connection) = &self.binding.target else { return Err(no_connection()) };
        object.call_remote(&self.binding, connection, request, spec)
    }
}

#[cold]
fn no_connection() -> Status {
    Status::internal("the method has no connection")
}

impl fmt::Debug for ThreadMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadMethod").field("name", &self.name()).finish_non_exhaustive()
    }
}
