//! The kinds of message that carry something of the user: a request (a call or a one-way message),
//! a reply, an item of a stream.
//!
//! Each is prepared in the protocol, which may refuse it, and then has a header.
//! **Invariants:** what was prepared is sent or undone.
//! **Not here:** sending (`sending.rs`), errors and the protocol's own messages.
//!
//! **Invariant:** a system call that fails, and memory that a message needs and that is not there,
//! are an error of the call or of its connection: the program goes on, and the next call works.
//! *Checked by* `tests/faults/failing_syscalls.rs`, which has each system call and each allocation
//! from 16 KiB on fail once, at either end. Smaller allocations are those of the standard library,
//! which ends the program without memory.

use std::marker::PhantomData;

use nearcall_wire::{
    HEADER_BYTES, Head, IncomingCall, ItemError, OutgoingCall, Payload, ReplyError, Request, Shape,
    StartError, StreamCall, Time,
};

use super::{Host, Protocol};
use crate::deadline::{self, Deadline};
use crate::status::Code;

// Copies of an empty call have code of their own in the crates below, which do not know the frame.
const _: () = assert!(nearcall_os::region::CALL_HEADER_BYTES == HEADER_BYTES);

/// A message that the protocol has to know of before it is sent.
pub(super) trait OutboundMessage: Copy {
    /// The name of the message from then on.
    type Prepared: Copy;
    /// Why the protocol may refuse it.
    type Refused;
    /// It was asked for by the peer, whose user pays for it while it waits for room.
    const IS_REPLY: bool = false;

    /// Registers the message with the protocol.
    fn prepare(&self, protocol: &mut Protocol) -> Result<Self::Prepared, Self::Refused>;

    /// Its header. Written where it is needed: headers that move cost more than making them.
    fn head(&self, prepared: Self::Prepared) -> Head;

    /// It could not be sent.
    fn undo(&self, protocol: &mut Protocol, prepared: Self::Prepared);

    /// Counts the message, which was sent or is kept.
    #[inline(always)]
    fn count(&self, _host: &impl Host) {}

    /// Lengths of what follows the header.
    fn payload(&self) -> &Payload;

    /// Returns the same message with what follows the header.
    fn with_payload(self, payload: Payload) -> Self;

    /// Length of the whole message, in bytes. Read field by field: loading at once what was stored
    /// in parts just now makes the processor wait.
    #[inline(always)]
    fn message_bytes(&self) -> usize {
        let payload = self.payload();
        HEADER_BYTES + usize::from(payload.metadata_bytes) + payload.body_bytes as usize
    }
}

/// The target of the call, and the data beside the message.
pub(crate) struct Outgoing<'a> {
    pub(crate) object: u64,
    pub(crate) method: u32,
    /// The time when it ends by itself.
    pub(crate) deadline: Deadline,
    pub(crate) metadata: &'a [u8],
}

/// The kind of a request of this end: what the protocol knows of it once it is sent.
pub(crate) trait RequestKind: Copy {
    /// The name of the request from then on.
    type Prepared: Copy;

    /// Returns the shape of the call that it is; a message without one is as a unary call.
    #[inline(always)]
    fn shape(self) -> Shape {
        Shape::Unary
    }

    /// Returns when the protocol has something to end, of a request with this deadline.
    fn end(self, deadline: Deadline) -> Deadline;

    /// As [`OutboundMessage::prepare`].
    fn prepare(
        protocol: &mut Protocol,
        now: Time,
        request: &Request,
    ) -> Result<Self::Prepared, StartError>;

    /// As [`OutboundMessage::head`].
    fn head(now: Time, request: &Request, prepared: Self::Prepared) -> Head;

    /// As [`OutboundMessage::undo`].
    fn undo(protocol: &mut Protocol, prepared: Self::Prepared);
}

/// A call of this shape.
#[derive(Clone, Copy)]
pub(crate) struct Call(pub(crate) Shape);

/// A call with one reply and no items.
pub(crate) const UNARY: Call = Call(Shape::Unary);

/// A message that is never answered.
#[derive(Clone, Copy)]
pub(crate) struct Oneway;

impl RequestKind for Call {
    type Prepared = OutgoingCall;

    #[inline(always)]
    fn shape(self) -> Shape {
        self.0
    }

    #[inline(always)]
    fn end(self, deadline: Deadline) -> Deadline {
        deadline
    }

    #[inline]
    fn prepare(
        protocol: &mut Protocol,
        now: Time,
        request: &Request,
    ) -> Result<OutgoingCall, StartError> {
        protocol.open_call(now, request)
    }

    #[inline(always)]
    fn head(now: Time, request: &Request, call: OutgoingCall) -> Head {
        request.call_head(now, call)
    }

    fn undo(protocol: &mut Protocol, call: OutgoingCall) {
        // It was prepared just now, so it has not ended.
        let _ = protocol.abandon(call);
    }
}

impl RequestKind for Oneway {
    type Prepared = ();

    #[inline(always)]
    fn end(self, _deadline: Deadline) -> Deadline {
        Deadline::NEVER
    }

    #[inline]
    fn prepare(protocol: &mut Protocol, now: Time, request: &Request) -> Result<(), StartError> {
        protocol.validate_oneway(now, request)
    }

    #[inline(always)]
    fn head(now: Time, request: &Request, (): ()) -> Head {
        request.oneway_head(now)
    }

    fn undo(_protocol: &mut Protocol, (): ()) {}
}

/// A request of this end.
#[derive(Clone, Copy)]
pub(super) struct NewRequest<K> {
    now: Time,
    request: Request,
    kind: PhantomData<K>,
}

impl<K: RequestKind> NewRequest<K> {
    /// Creates a request without what follows the header.
    #[inline(always)]
    pub(super) fn new(kind: K, outgoing: &Outgoing<'_>) -> Self {
        let &Outgoing { object, method, deadline, .. } = outgoing;
        // Without a deadline the time does not matter.
        let now = match deadline {
            Deadline::NEVER => Time::from_ns(0),
            _ => deadline::to_wire(deadline::now()),
        };
        let (deadline, shape) = (deadline::to_wire(deadline), kind.shape());
        let request = Request { object, method, deadline, payload: Payload::EMPTY, shape };
        Self { now, request, kind: PhantomData }
    }
}

impl<K: RequestKind> OutboundMessage for NewRequest<K> {
    type Prepared = K::Prepared;
    type Refused = StartError;

    #[inline(always)]
    fn prepare(&self, protocol: &mut Protocol) -> Result<K::Prepared, StartError> {
        K::prepare(protocol, self.now, &self.request)
    }

    #[inline(always)]
    fn head(&self, prepared: K::Prepared) -> Head {
        K::head(self.now, &self.request, prepared)
    }

    fn undo(&self, protocol: &mut Protocol, prepared: K::Prepared) {
        K::undo(protocol, prepared);
    }

    #[inline(always)]
    fn payload(&self) -> &Payload {
        &self.request.payload
    }

    #[inline(always)]
    fn with_payload(self, payload: Payload) -> Self {
        Self { request: Request { payload, ..self.request }, ..self }
    }
}

/// The result of a call of the peer. Never undone: what finds no room is kept.
#[derive(Clone, Copy)]
pub(super) struct NewReply {
    pub(super) call: IncomingCall,
    pub(super) payload: Payload,
}

impl OutboundMessage for NewReply {
    type Prepared = ();
    type Refused = ReplyError;
    const IS_REPLY: bool = true;

    #[inline]
    fn prepare(&self, protocol: &mut Protocol) -> Result<(), ReplyError> {
        protocol.end_call(self.call, self.payload)
    }

    #[inline(always)]
    fn head(&self, (): ()) -> Head {
        self.call.reply_head(self.payload)
    }

    fn undo(&self, _protocol: &mut Protocol, (): ()) {}

    #[inline(always)]
    fn count(&self, host: &impl Host) {
        host.count_end(self.call, Code::Ok, self.message_bytes());
    }

    #[inline(always)]
    fn payload(&self) -> &Payload {
        &self.payload
    }

    #[inline(always)]
    fn with_payload(self, payload: Payload) -> Self {
        Self { payload, ..self }
    }
}

/// An item of a stream.
#[derive(Clone, Copy)]
pub(super) struct NewItem {
    pub(super) call: StreamCall,
    pub(super) payload: Payload,
}

impl OutboundMessage for NewItem {
    type Prepared = ();
    type Refused = ItemError;

    #[inline]
    fn prepare(&self, protocol: &mut Protocol) -> Result<(), ItemError> {
        protocol.charge_item(self.call, self.payload)
    }

    #[inline(always)]
    fn head(&self, (): ()) -> Head {
        self.call.item_head(self.payload)
    }

    fn undo(&self, protocol: &mut Protocol, (): ()) {
        protocol.refund_item(self.call, self.payload);
    }

    #[inline(always)]
    fn payload(&self) -> &Payload {
        &self.payload
    }

    #[inline(always)]
    fn with_payload(self, payload: Payload) -> Self {
        Self { payload, ..self }
    }
}
