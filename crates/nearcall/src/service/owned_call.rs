//! A call that is served in another thread than that of its loop.
//!
//! **Invariants:** it owns all that its method sees, and is `Send`; a long request is moved there,
//! not copied; whoever drops one that has not run has refused it, or found that its caller waits no
//! more.
//! **Not here:** the threads (`service/blocking/pool.rs`), how the reply travels
//! (`detached_sink.rs`).

use std::fmt;
use std::task::Waker;

use bytes::Buf;

use crate::codec::OwnedBody;
use crate::deadline::Deadline;
use crate::interface::Interface;
use crate::metadata::Metadata;
use crate::nesting::Handler;
use crate::peer::Peer;
use crate::refusals::RefusalKind;
use crate::service::context::Context;
use crate::service::detached_sink::DetachedCall;
use crate::service::dispatch;
use crate::service::dispatcher::{Dispatcher, Incoming};
use crate::service::reply_sink::ReplySink;
use crate::status::{Code, Status};

/// A call with all that its method sees.
pub(crate) struct OwnedCall {
    method: u32,
    body: OwnedBody,
    metadata: Vec<u8>,
    deadline: Deadline,
    interface: &'static Interface,
    call: DetachedCall,
}

impl OwnedCall {
    /// Takes a call out of its loop's thread.
    pub(crate) fn new(incoming: Incoming<'_>) -> Self {
        let Incoming { method, body, context } = incoming;
        Self {
            method,
            body: body.to_owned(),
            metadata: context.metadata().as_bytes().to_vec(),
            deadline: context.deadline_moment(),
            interface: context.interface(),
            call: context.detach(),
        }
    }

    /// Serves the call in this thread, unless its caller waits no more.
    pub(crate) fn run(self, dispatcher: &dyn Dispatcher) {
        let Self { method, body, metadata, deadline, interface, call } = self;
        call.sink.cancellation().forget_task();
        if call.sink.is_cancelled() {
            return;
        }
        let sink = ReplySink::detached(&call);
        dispatch::run(dispatcher, sink, Handler::own(deadline), || {
            let context = Context::new(deadline, Metadata::new(&metadata), interface, method, sink);
            Incoming { method, body: body.as_body(), context }
        });
    }

    /// Ends the call without running its method.
    pub(crate) fn refuse(self, status: &Status) {
        if status.code() == Code::ResourceExhausted {
            self.call.sink.note_refusal(RefusalKind::ResourceLimit, status.message());
        }
        self.call.sink.fail(status);
    }

    /// Returns the caller.
    pub(crate) fn peer(&self) -> &Peer {
        &self.call.peer
    }

    /// Returns the memory that the request takes, in bytes.
    pub(crate) fn request_bytes(&self) -> usize {
        self.body.as_body().remaining() + self.metadata.len()
    }

    /// Returns whether the caller does not wait any more, and has `waker` woken for that if it
    /// does.
    pub(crate) fn poll_cancelled(&self, waker: &Waker) -> bool {
        self.call.sink.cancellation().poll_ended_by_task(waker)
    }
}

impl fmt::Debug for OwnedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedCall").field("method", &self.method).finish_non_exhaustive()
    }
}
