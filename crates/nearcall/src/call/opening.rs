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
use crate::clients::{Binding, InUse, Target};
use crate::codec::{AnyMessage, Encoded, Message};
use crate::connection::Connection;
use crate::interface::Method;
use crate::options::{CallOptions, CallSpec, DEFAULT_OPTIONS};
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
    ) -> Result<ReplyStream<R>, Status> {
        let call = self.open_stream(method, AnyMessage::new(request), Shape::CalleeStreams)?;
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
    ) -> Result<RequestStream<Q, R>, Status> {
        let call = self.open_stream(method, AnyMessage::new(&()), Shape::CallerStreams)?;
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
    ) -> Result<(RequestStream<Q, ()>, ReplyStream<R>), Status> {
        let call = self.open_stream(method, AnyMessage::new(&()), Shape::BothStream)?;
        let requests = RequestStream::without_reply(call.for_both(), method.id);
        Ok((requests, ReplyStream::new(call, method.id)))
    }

    fn open_stream(
        &self,
        method: &'static Method,
        request: AnyMessage<'_>,
        shape: Shape,
    ) -> Result<OpenedStream, Status> {
        let options = self.options.as_ref().unwrap_or(DEFAULT_OPTIONS);
        let open = |options: &CallOptions| self.open_by(request, shape, self.spec(method, options));
        self.observe((method, &request, options), open, OpenedStream::observed_by)
    }

    fn open_by(
        &self,
        request: AnyMessage<'_>,
        shape: Shape,
        spec: CallSpec<'_>,
    ) -> Result<OpenedStream, Status> {
        let binding = self.binding_with_connection(spec)?;
        let connection = match &binding.target {
            Target::Remote(connection) => connection,
            Target::Shared(..) => {
                return self.open_shared(&binding, &Encoded::new(&request)?, shape, spec);
            }
            Target::Local(..) | Target::Hosted(_) => return Err(no_connection()),
        };
        let outgoing = self.outgoing(spec);
        let start = |connection: &Rc<Connection>, mode| {
            connection.start_stream(&outgoing, &request, shape, mode)
        };
        let mode = binding.core.send_mode(spec.options, spec.deadline);
        let (binding, connection, (call, stream)) = match start(connection, mode) {
            Ok(started) => (Rc::clone(&binding), Rc::clone(connection), started),
            Err(why) => match self.send_until(&binding, why, spec, start) {
                Ok(done) => done,
                Err(status) => {
                    let binding = self.shared_instead(status)?;
                    return self.open_shared(&binding, &Encoded::new(&request)?, shape, spec);
                }
            },
        };
        let (started, in_use) = ((call, stream), InUse::new(binding));
        let call = StreamedCall::new(in_use, connection, started, spec.method.id, spec.deadline);
        Ok(OpenedStream::Own(Rc::new(call)))
    }

    /// Returns a connection to the object, also to one of this thread: it gives streams their
    /// bounds.
    pub(super) fn binding_with_connection(
        &self,
        spec: CallSpec<'_>,
    ) -> Result<Rc<Binding>, Status> {
        let CallSpec { options, deadline, .. } = spec;
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
