//! Opening calls of this thread that stream.
//!
//! **Invariants:** a call that could not be started was not sent.
//! **Not here:** the call (`streaming.rs`), its handles (`reply_stream.rs`, `request_stream.rs`).

use std::rc::Rc;
use std::sync::Arc;

use nearcall_wire::Shape;

use super::hosted::no_connection;
use super::streaming::{OpenedStream, StreamedCall};
use super::{ObjectRef, ReplyStream, RequestStream};
use crate::async_call::Asked;
use crate::client::{Binding, InUse, Target};
use crate::codec::{Encoded, Message};
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::interface::Method;
use crate::options::CallOptions;
use crate::status::Status;

impl ObjectRef {
    /// Starts a call whose reply is a stream of items.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub fn open_reply_stream<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<ReplyStream<R>, Status> {
        let call = self.open_stream(method, request, Shape::CalleeStreams, options)?;
        Ok(ReplyStream::new(call, method.id))
    }

    /// Starts a call whose request is a stream of items.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub fn open_request_stream<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        options: &CallOptions,
    ) -> Result<RequestStream<Q, R>, Status> {
        let call = self.open_stream(method, &(), Shape::CallerStreams, options)?;
        Ok(RequestStream::with_reply(call, method.id))
    }

    /// Starts a call whose request and reply are streams of items, independent of each other.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub fn open_both_streams<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        options: &CallOptions,
    ) -> Result<(RequestStream<Q, ()>, ReplyStream<R>), Status> {
        let call = self.open_stream(method, &(), Shape::BothStream, options)?;
        let requests = RequestStream::without_reply(call.for_both(), method.id);
        Ok((requests, ReplyStream::new(call, method.id)))
    }

    fn open_stream<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        shape: Shape,
        options: &CallOptions,
    ) -> Result<OpenedStream, Status> {
        if self.is_intercepted() {
            let open = |options: &CallOptions| self.open_plain(method, request, shape, options);
            return self.observe_start(method, request, options, open, OpenedStream::observed_by);
        }
        self.open_plain(method, request, shape, options)
    }

    fn open_plain<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        shape: Shape,
        options: &CallOptions,
    ) -> Result<OpenedStream, Status> {
        let deadline = self.deadline(method, options);
        let binding = self.binding_with_connection(options, deadline)?;
        let connection = match &binding.target {
            Target::Remote(connection) => connection,
            Target::Shared(..) => {
                let asked = Asked { method, options, deadline };
                return self.open_shared(&binding, &Encoded::new(request)?, shape, asked);
            }
            Target::Local(..) | Target::Hosted(_) => return Err(no_connection()),
        };
        let outgoing = self.outgoing(method, options, deadline);
        let mode = binding.core.send_mode(deadline);
        let start =
            |connection: &Rc<Connection>| connection.start_stream(&outgoing, request, shape, mode);
        let (binding, connection, (call, stream)) = match start(connection) {
            Ok(started) => (Rc::clone(&binding), Rc::clone(connection), started),
            Err(why) => match self.send_until(&binding, why, deadline, options, mode, start) {
                Ok(done) => done,
                Err(status) => {
                    let binding = self.shared_instead(status)?;
                    let asked = Asked { method, options, deadline };
                    return self.open_shared(&binding, &Encoded::new(request)?, shape, asked);
                }
            },
        };
        let (started, in_use) = ((call, stream), InUse::new(binding));
        let call = StreamedCall::new(in_use, connection, started, method.id, deadline);
        Ok(OpenedStream::Own(Rc::new(call)))
    }

    /// Returns a connection to the object, also to one of this thread: it gives streams their
    /// bounds.
    pub(super) fn binding_with_connection(
        &self,
        options: &CallOptions,
        deadline: Deadline,
    ) -> Result<Rc<Binding>, Status> {
        let binding = self.binding(options, deadline)?;
        if let Target::Remote(_) | Target::Shared(..) = binding.target {
            return Ok(binding);
        }
        let (core, name) = (Rc::clone(&binding.core), Arc::clone(&binding.name));
        let policy = self.reconnect_policy(options);
        let target = self.connect(&core, policy, deadline)?;
        Ok(Rc::new(Binding { core, target, name }))
    }
}
