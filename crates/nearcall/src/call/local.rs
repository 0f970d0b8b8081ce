//! Calls to an object of the same thread.
//!
//! **Invariants:** a call in the same thread has the results, errors and deadlines of one that
//! leaves it; one-way messages are served in the loop's next round, not at once.
//! **Not here:** finding the object (`call.rs`).
//!
//! **Invariant:** a call in the same thread has the results, errors and deadlines of one that
//! leaves it. *Checked by* `the_short_circuit_reports_the_same`.

use std::rc::Rc;

use crate::clients::Binding;
use crate::codec::{self, AnyMessage, Body, Message};
use crate::connection::{Activity, SendMode};
use crate::deadline::Deadline;
use crate::interface::Method;
use crate::metadata::Metadata;
use crate::nesting::{self, Handler, NestingGuard};
use crate::options::{CallOptions, CallSpec};
use crate::panics::contain;
use crate::reactor::LocalOneway;
use crate::services::context::Context;
use crate::services::dispatch;
use crate::services::dispatcher::{Dispatcher, Incoming, Registered};
use crate::services::local_reply::{LaterReply, LocalCall, LocalOutcome, LocalReply, LocalResult};
use crate::services::reply_sink::ReplySink;
use crate::status::Status;
use crate::tasks::reply_extras::ReplyExtras;

impl Binding {
    /// Calls the implementation itself.
    #[inline]
    pub(super) fn call_local<R: Message + Default>(
        &self,
        spec: CallSpec<'_>,
        serve: impl FnOnce(&Context<'_>) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let CallSpec { method, options, deadline } = spec;
        if deadline.has_passed() {
            return Err(Status::not_answered_in_time());
        }
        self.core.check_metadata(options)?;
        let guard = NestingGuard::enter(Handler::own(deadline))?;
        let later = LaterReply::default();
        let sink = ReplySink::local_typed(&later, self.activity()?);
        let context = self.local_context(method, options, deadline, sink);
        let outcome = contain(|| serve(&context));
        drop(guard);
        let is_detached = context.is_detached();
        let extras = context.into_extras();
        match outcome {
            Some(Ok(result)) if !deadline.has_passed() => Ok(result),
            outcome => self.end_local(outcome, is_detached.then_some(later), extras, deadline),
        }
    }

    /// Ends a call whose method has not returned a result in time. `later`: where the answer of a
    /// responder is that it has spec for.
    #[cold]
    fn end_local<R: Message + Default>(
        &self,
        outcome: Option<Result<R, Status>>,
        later: Option<LaterReply>,
        extras: Option<Box<ReplyExtras>>,
        deadline: Deadline,
    ) -> Result<R, Status> {
        match (outcome, later.and_then(LaterReply::into_reply)) {
            (Some(Err(_)), Some(reply)) => {
                self.expire_at(deadline, &reply);
                self.wait_local(&reply, deadline)
            }
            (Some(_), _) if deadline.has_passed() => Err(Status::not_answered_in_time()),
            (Some(Err(status)), None) => Err(match extras {
                Some(mut extras) => {
                    let headers = extras.headers.take().unwrap_or_default();
                    status.with_entries(extras.metadata).with_headers(headers).of_method()
                }
                None => status.of_method(),
            }),
            (Some(Ok(result)), _) => Ok(result),
            // The first answer counts: it may have panicked after it has answered.
            (None, reply) => match reply.and_then(|reply| reply.take()) {
                Some(answer) => codec::decode(Body::copied(&answer?.body)),
                None => Err(Status::panicked()),
            },
        }
    }

    /// Has a service that answers later learn that the deadline has passed.
    fn expire_at(&self, deadline: Deadline, reply: &LocalReply) {
        if deadline != Deadline::NEVER
            && !reply.has_ended()
            && let Some(reactor) = self.core.reactor()
        {
            reactor.wake_at(deadline, reply);
        }
    }

    /// Returns the state of the loop that serves objects of this thread.
    #[inline]
    fn activity(&self) -> Result<&Activity, Status> {
        match self.core.reactor() {
            Some(reactor) => Ok(&reactor.activity),
            None => Err(no_loop()),
        }
    }

    /// Calls an implementation of this thread that is of another build.
    pub(super) fn call_bytes<Q: Message, R: Message + Default>(
        &self,
        dispatcher: &dyn Dispatcher,
        request: &Q,
        spec: CallSpec<'_>,
    ) -> Result<R, Status> {
        match self.run_bytes(dispatcher, AnyMessage::new(request), spec)? {
            Ok(answer) => codec::decode(Body::copied(&answer?.body)),
            Err(reply) => self.wait_local(&reply, spec.deadline),
        }
    }

    /// Starts a method by bytes. Its reply may come later.
    pub(super) fn start_bytes<Q: Message>(
        &self,
        dispatcher: &dyn Dispatcher,
        request: &Q,
        spec: CallSpec<'_>,
    ) -> Result<LocalReply, Status> {
        let outcome = self.run_bytes(dispatcher, AnyMessage::new(request), spec)?;
        Ok(outcome.map_or_else(|reply| reply, LocalReply::ended))
    }

    /// Runs a method by bytes. Returns its answer, or else the hold on one that comes later.
    fn run_bytes(
        &self,
        dispatcher: &dyn Dispatcher,
        request: AnyMessage<'_>,
        spec: CallSpec<'_>,
    ) -> Result<LocalOutcome, Status> {
        let CallSpec { method, options, deadline } = spec;
        if deadline.has_passed() {
            return Err(Status::not_answered_in_time());
        }
        self.core.check_metadata(options)?;
        let body_bytes = codec::checked_bytes(&request, "request")?;
        let buffers = &self.core.services().buffers;
        let mut buffer = buffers.take();
        buffers.grow(&mut buffer, body_bytes).map_err(Status::no_memory)?;
        codec::encode_into(&request, &mut buffer[..body_bytes])?;
        let call = LocalCall::default();
        let sink = ReplySink::local_bytes(&call, self.activity()?);
        let context = self.local_context(method, options, deadline, sink);
        let body = Body::copied(&buffer[..body_bytes]);
        let method = method.id;
        dispatch::run(dispatcher, sink, Handler::own(deadline), || Incoming {
            method,
            body,
            context,
        });
        buffers.give(buffer);
        let outcome = call.into_outcome();
        if let Err(reply) = &outcome {
            self.expire_at(deadline, reply);
        }
        Ok(outcome)
    }

    /// Waits for a reply as bytes, and reads it.
    pub(super) fn wait_local<R: Message + Default>(
        &self,
        reply: &LocalReply,
        deadline: Deadline,
    ) -> Result<R, Status> {
        codec::decode(Body::copied(&self.take_local(reply, deadline)?.body))
    }

    /// Waits for a reply as bytes.
    pub(super) fn take_local(
        &self,
        reply: &LocalReply,
        deadline: Deadline,
    ) -> Result<LocalResult, Status> {
        // A reply was judged when it was given, and may be taken late.
        if let Some(answer) = reply.take() {
            return answer;
        }
        self.core.run_until(deadline, || reply.has_ended())?;
        reply.take().unwrap_or_else(|| Err(Status::not_answered_in_time()))
    }

    /// Returns a one-way message to this thread.
    pub(super) fn local_oneway<Q: Message>(
        &self,
        dispatcher: Rc<Registered>,
        request: &Q,
        spec: CallSpec<'_>,
    ) -> Result<LocalOneway, Status> {
        let CallSpec { method, options, deadline } = spec;
        if deadline.has_passed() {
            return Err(Status::deadline_exceeded("the time was up before the message was sent"));
        }
        self.core.check_metadata(options)?;
        Ok(LocalOneway {
            dispatcher,
            method: method.id,
            deadline,
            metadata: options.metadata_bytes().to_vec(),
            body: codec::encode_vec(request)?,
        })
    }

    /// Sends a one-way message to this thread. Where too many wait, it serves them first, until the
    /// deadline of the message at most, unless it must not wait.
    pub(super) fn send_local(&self, oneway: LocalOneway, mode: SendMode) -> Result<(), Status> {
        let Some(reactor) = self.core.reactor() else { return Err(no_loop()) };
        // One that could not be served in here would be lost.
        if mode == SendMode::Keep
            && nesting::may_nest()
            && !reactor.takes_local_oneways()
            && !self.core.run_until(oneway.deadline, || reactor.takes_local_oneways())?
        {
            let text = "the messages before it were not served in time; it was not sent";
            return Err(Status::deadline_exceeded(text));
        }
        reactor.send_local(oneway)
    }

    fn local_context<'a>(
        &self,
        method: &'static Method,
        options: &'a CallOptions,
        deadline: Deadline,
        sink: ReplySink<'a>,
    ) -> Context<'a> {
        let metadata = Metadata::new(options.metadata_bytes());
        Context::new(deadline, metadata, self.name.interface, method.id, sink)
    }
}

/// Only a loop has servers.
#[cold]
fn no_loop() -> Status {
    Status::internal("a client without a loop has no object in its thread")
}
