//! Opening calls of this thread that stream.
//!
//! **Invariants:** a call that could not be started was not sent.
//! **Not here:** the call (`streaming.rs`), its handles (`reply_stream.rs`, `request_stream.rs`).

use std::rc::Rc;
use std::sync::Arc;

use nearcall_wire::Shape;

use super::hosted::no_connection;
use super::streaming::StreamedCall;
use super::{ObjectRef, ReplyStream, RequestStream};
use crate::client::{Binding, InUse, Target};
use crate::codec::Message;
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
        Ok(ReplyStream::new(Rc::new(call)))
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
        Ok(RequestStream::with_reply(Rc::new(call)))
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
        let call = Rc::new(self.open_stream(method, &(), Shape::BothStream, options)?);
        Ok((RequestStream::without_reply(Rc::clone(&call)), ReplyStream::new(call)))
    }

    fn open_stream<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        shape: Shape,
        options: &CallOptions,
    ) -> Result<StreamedCall, Status> {
        if self.is_intercepted() {
            let open = |options: &CallOptions| self.open_plain(method, request, shape, options);
            return self.observe_start(method, request, options, open, StreamedCall::observed_by);
        }
        self.open_plain(method, request, shape, options)
    }

    fn open_plain<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        shape: Shape,
        options: &CallOptions,
    ) -> Result<StreamedCall, Status> {
        let deadline = self.deadline(method, options);
        let binding = self.binding_with_connection(options, deadline)?;
        let Target::Remote(connection) = &binding.target else {
            return Err(no_connection());
        };
        let outgoing = self.outgoing(method, options, deadline);
        let mode = binding.core.send_mode(deadline);
        let start =
            |connection: &Rc<Connection>| connection.start_stream(&outgoing, request, shape, mode);
        let (binding, connection, (call, stream)) = match start(connection) {
            Ok(started) => (Rc::clone(&binding), Rc::clone(connection), started),
            Err(why) => self.send_until(&binding, why, deadline, options, mode, start)?,
        };
        Ok(StreamedCall::new(InUse::new(binding), connection, (call, stream), method.id, deadline))
    }

    /// Returns a connection to the object, also to one of this thread: it gives streams their
    /// bounds.
    pub(super) fn binding_with_connection(
        &self,
        options: &CallOptions,
        deadline: Deadline,
    ) -> Result<Rc<Binding>, Status> {
        let binding = self.binding(options, deadline)?;
        if let Target::Remote(_) = binding.target {
            return Ok(binding);
        }
        let (core, name) = (Rc::clone(&binding.core), Arc::clone(&binding.name));
        let policy = self.reconnect_policy(options);
        let target = Target::Remote(core.connect_by(policy, &name.address, deadline)?);
        Ok(Rc::new(Binding { core, target, name }))
    }
}
