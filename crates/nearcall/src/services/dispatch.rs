//! From an event of a connection to the service and back: finding the object, running it.
//!
//! **Invariants:** a panic of a service ends its call with `UNKNOWN` and nothing else; no part of
//! the connection is borrowed while a service runs; services run inside each other only to a
//! bounded depth.
//! **Not here:** receiving (`connection/receiving.rs`), unmarshalling (`dispatcher.rs`), replying
//! later (`responder.rs`).

use std::ops::Range;
use std::rc::Rc;

use nearcall_wire::{HEADER_BYTES, Shape};

use crate::codec::Body;
use crate::connection::buffer_pool::{BufferPool, InlineBuf};
use crate::connection::{Connection, Event, InboundCall, RequestHead, split_payload};
use crate::deadline::Deadline;
use crate::decoded_size::{self, MessageType, Part};
use crate::interface::{Interface, MethodKind};
use crate::limits::SHARED_BYTES_MIN;
use crate::metadata::Metadata;
use crate::nesting::{Handler, NestingGuard};
use crate::panics::contain;
use crate::refusals::RefusalKind;
use crate::services::context::{Context, ReceivedRequest, wrong_shape};
use crate::services::dispatcher::{Dispatcher, Incoming, Registered};
use crate::services::registry::{ObjectTable, Registry};
use crate::services::reply_sink::ReplySink;
use crate::status::Status;

/// The parts that serve the calls of one thread.
#[derive(Default, Clone)]
pub(crate) struct Services {
    pub(crate) registry: Rc<Registry>,
    pub(crate) buffers: Rc<BufferPool>,
}

/// The outcome of receiving and serving one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A message, which was handled.
    Message,
    /// The same, after which others have their turn: receiving it took long.
    TurnOver,
    /// None by the deadline.
    Empty,
    /// None, and never again.
    Closed,
}

impl Services {
    /// Receives one message over a connection and handles it, which may run a service. Waits until
    /// `deadline` at most.
    #[inline]
    pub(crate) fn receive_message(
        &self,
        connection: &Rc<Connection>,
        deadline: Deadline,
        buf: &mut InlineBuf,
    ) -> Received {
        let event = connection.receive(deadline, buf, None);
        match self.serve_event(connection, event, buf) {
            Ok(_) => Received::Message,
            Err(received) => received,
        }
    }

    /// Serves the call that an event of a connection is, if it is one. Returns where in `buf` the
    /// reply or the item is that its caller has waited for, or what was received instead.
    #[inline(always)]
    pub(crate) fn serve_event(
        &self,
        connection: &Rc<Connection>,
        event: Event,
        buf: &[u8],
    ) -> Result<Range<usize>, Received> {
        let mut received = Received::Message;
        match event {
            Event::Reply(start, end) => return Ok(start..end),
            Event::Call(head, payload) => {
                let (metadata, body) = split_payload(&buf[..payload.message_bytes()], payload);
                self.serve(connection, &head, metadata, Body::copied(body));
            }
            Event::Queued => {
                self.serve_queued(connection);
                if connection.has_taken_time() {
                    received = Received::TurnOver;
                }
            }
            Event::Handled => {}
            Event::Empty => return Err(Received::Empty),
            Event::Closed => return Err(Received::Closed),
        }
        connection.finish_message();
        if connection.has_inbound() && connection.is_closed() {
            self.serve_rest(connection);
        }
        Err(received)
    }

    /// Serves the calls that were queued when their connection ended: nothing comes back to it, and
    /// one-way messages were delivered.
    #[cold]
    fn serve_rest(&self, connection: &Rc<Connection>) {
        while connection.has_inbound() {
            self.serve_queued(connection);
        }
    }

    /// Serves the first call that waits in the queue.
    #[inline(never)]
    fn serve_queued(&self, connection: &Rc<Connection>) {
        let Some(inbound) = connection.take_inbound() else { return };
        let InboundCall { head, payload, buffer, borrowed, reservation } = inbound;
        // It has its turn.
        drop(reservation);
        // It may have been given up since.
        let is_cancelled = head.call.is_some_and(|call| connection.is_cancelled(call));
        let start = HEADER_BYTES + usize::from(payload.metadata_bytes);
        if is_cancelled && !connection.is_closed() {
            self.buffers.give(buffer);
        } else if let Some(segments) = &borrowed {
            let body = Body::borrowed(&buffer[segments.rest.clone()], segments);
            self.serve(connection, &head, &buffer[HEADER_BYTES..start], body);
            self.buffers.give(buffer);
        } else if payload.message_bytes() >= SHARED_BYTES_MIN {
            let whole = self.buffers.share(buffer, payload.message_bytes());
            let metadata = &whole[HEADER_BYTES..start];
            self.serve(connection, &head, metadata, Body::sliced(&whole, start));
        } else {
            let (metadata, body) = split_payload(&buffer, payload);
            self.serve(connection, &head, metadata, Body::copied(body));
            self.buffers.give(buffer);
        }
        if let Some(segments) = borrowed {
            self.buffers.give_segments(segments);
        }
    }

    /// Serves a call or one-way message that came in over a connection.
    #[inline]
    fn serve(
        &self,
        connection: &Rc<Connection>,
        head: &RequestHead,
        metadata: &[u8],
        body: Body<'_>,
    ) {
        let &RequestHead { call, object, method, .. } = head;
        let sink = ReplySink::connection(connection, call);
        let server = connection.serves.and_then(|id| self.registry.server(id));
        let Some(dispatcher) = server.as_ref().and_then(|server| server.object(object)) else {
            connection.served().begin_unknown();
            return sink.fail(&match server {
                Some(server) => server.no_such_object(),
                None => Status::unimplemented("the peer is a client and serves no objects"),
            });
        };
        if connection.is_recorded() {
            record(connection, server.as_deref(), head, dispatcher.interface(), metadata, &body);
        }
        let message_bytes = HEADER_BYTES + metadata.len() + body.len();
        let begun = connection.served().begin(call, dispatcher.counters(), method, message_bytes);
        self.serve_by(&dispatcher, connection, head, metadata, body);
        connection.served().settle(call, &begun, |call| connection.is_cancelled(call));
    }

    /// Serves it by the dispatcher of its object.
    #[inline(always)]
    fn serve_by(
        &self,
        dispatcher: &Registered,
        connection: &Rc<Connection>,
        head: &RequestHead,
        metadata: &[u8],
        body: Body<'_>,
    ) {
        let &RequestHead { call, method, deadline, shape, .. } = head;
        let sink = ReplySink::connection(connection, call);
        if shape != Shape::Unary && !has_shape(dispatcher.interface(), method, shape) {
            return sink.fail(&wrong_shape(dispatcher.interface(), method));
        }
        let interface = dispatcher.interface();
        let message = MessageType { interface, method, part: Part::Request };
        let size = match decoded_size::check(&body, message, connection.decoded_bytes_max) {
            Ok(size) => size,
            Err(status) => {
                sink.note_refusal(RefusalKind::BadRequest, status.message());
                return sink.fail(&status);
            }
        };
        let request = ReceivedRequest { body, size };
        run(&**dispatcher, sink, connection.handler(deadline), || {
            let (metadata, interface) = (Metadata::new(metadata), dispatcher.interface());
            let context = Context::new(deadline, metadata, interface, method, sink);
            Incoming { method, body, context: context.of_request(&request) }
        });
        if let Some(call) = call
            && deadline != Deadline::NEVER
            && !connection.is_cancelled(call)
        {
            connection.note_deadline(deadline);
        }
    }
}

/// Records a call, unless it is one that the server answers itself or there is no such method.
#[cold]
fn record(
    connection: &Connection,
    server: Option<&ObjectTable>,
    head: &RequestHead,
    interface: &Interface,
    metadata: &[u8],
    body: &Body<'_>,
) {
    let object = server.and_then(|server| server.name_of(head.object));
    if let (Some(object), Some(method)) = (object, interface.method(head.method)) {
        connection.record_request(head, [&object, interface.name, method.name], metadata, body);
    }
}

/// Returns whether a method may be called in this shape, or does not exist.
#[cold]
fn has_shape(interface: &Interface, method: u32, shape: Shape) -> bool {
    interface.method(method).is_none_or(|method| match method.kind {
        MethodKind::Unary | MethodKind::Oneway => shape == Shape::Unary,
        MethodKind::ReplyStream => shape == Shape::CalleeStreams,
        MethodKind::RequestStream => shape == Shape::CallerStreams,
        MethodKind::BothStreams => shape == Shape::BothStream,
    })
}

/// Runs a service: bounded in depth and in its waits, its panics contained.
///
/// What comes in is made where it is used: it is large, and moving what was just stored in parts
/// costs more than making it.
#[inline]
pub(crate) fn run<'a>(
    dispatcher: &dyn Dispatcher,
    sink: ReplySink<'_>,
    handler: Handler,
    incoming: impl FnOnce() -> Incoming<'a>,
) {
    let guard = match NestingGuard::enter(handler) {
        Ok(guard) => guard,
        Err(status) => {
            sink.note_refusal(RefusalKind::NestingLimit, status.message());
            return sink.fail(&status);
        }
    };
    if guard.is_nested {
        return run_nested(dispatcher, sink, incoming());
    }
    if contain(|| dispatcher.dispatch(incoming())).is_none() {
        // If it had replied already, this goes nowhere.
        sink.fail_panicked();
    }
}

/// Runs a service inside another one that waits: its request is on the stack until the services
/// inside its own waits have returned, so it is charged.
#[cold]
fn run_nested(dispatcher: &dyn Dispatcher, sink: ReplySink<'_>, incoming: Incoming<'_>) {
    match incoming.context.reserve(true) {
        Ok(_reservation) => {
            if contain(|| dispatcher.dispatch(incoming)).is_none() {
                sink.fail_panicked();
            }
        }
        Err(status) => sink.fail(&status),
    }
}
