//! A call that is served in another thread than that of its loop.
//!
//! **Invariants:** it owns all that its method sees, and is `Send`; a long request is moved there,
//! not copied; whoever drops one that has not run has refused it, or found that its caller waits no
//! more.
//! **Not here:** the threads (`services/blocking/pool.rs`), how the reply travels
//! (`detached_sink.rs`).

use std::fmt;
use std::task::Waker;

use bytes::Buf;

use crate::codec::OwnedBody;
use crate::deadline::Deadline;
use crate::decoded_size::DecodedSize;
use crate::interface::Interface;
use crate::metadata::Metadata;
use crate::nesting::Handler;
use crate::peer::Peer;
use crate::refusals::RefusalKind;
use crate::reservation::Reservation;
use crate::services::context::{Context, ReceivedRequest};
use crate::services::detached_sink::DetachedCall;
use crate::services::dispatch;
use crate::services::dispatcher::{Dispatcher, Incoming};
use crate::services::reply_sink::ReplySink;
use crate::status::{Code, Status};

/// A call with all that its method sees.
pub(crate) struct OwnedCall {
    method: u32,
    body: OwnedBody,
    metadata: Vec<u8>,
    deadline: Deadline,
    interface: &'static Interface,
    call: DetachedCall,
    size: DecodedSize,
    /// Of the request, as it waits and as it is decoded.
    reservation: Reservation,
}

impl OwnedCall {
    /// Takes a call out of its loop's thread, unless its user may not hold so much: then it has
    /// been refused.
    pub(crate) fn new(incoming: Incoming<'_>) -> Option<Self> {
        let Incoming { method, body, context } = incoming;
        let reservation = context.reserve(true).inspect_err(|status| context.fail(status)).ok()?;
        Some(Self {
            method,
            body: body.to_owned(),
            metadata: context.metadata().as_bytes().to_vec(),
            deadline: context.deadline_moment(),
            interface: context.interface(),
            call: context.detach(),
            size: context.request_size(),
            reservation,
        })
    }

    /// Serves the call in this thread, unless its caller waits no more.
    pub(crate) fn run(self, dispatcher: &dyn Dispatcher) {
        let Self { method, body, metadata, deadline, interface, call, size, reservation } = self;
        call.sink.cancellation().forget_task();
        if call.sink.is_cancelled() {
            return;
        }
        let sink = ReplySink::detached(&call);
        let request = ReceivedRequest { body: body.as_body(), size };
        dispatch::run(dispatcher, sink, Handler::own(deadline), || {
            let context = Context::new(deadline, Metadata::new(&metadata), interface, method, sink);
            Incoming { method, body: request.body, context: context.of_request(&request) }
        });
        drop(reservation);
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
