//! The kinds of message that carry something of the user: a call, a one-way message, a reply, an
//! item of a stream.
//!
//! Each is prepared in the protocol, which may refuse it, and then has a header.
//! **Invariants:** what was prepared is sent or undone.
//! **Not here:** sending (`sending.rs`), errors and the protocol's own messages.

use nearcall_wire::{
    HEADER_BYTES, Head, IncomingCall, ItemError, OutgoingCall, Payload, ReplyError, Request,
    StartError, StreamCall, Time,
};

use super::Protocol;

// Copies of an empty call have code of their own in the crates below, which do not know the frame.
const _: () = assert!(nearcall_os::region::CALL_HEADER_BYTES == HEADER_BYTES);

/// A message that the protocol has to know of before it is sent.
pub(super) trait OutboundMessage {
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

    /// Lengths of what follows the header.
    fn payload(&self) -> &Payload;

    /// Length of the whole message, in bytes. Read field by field: loading at once what was stored
    /// in parts just now makes the processor wait.
    #[inline(always)]
    fn message_bytes(&self) -> usize {
        let payload = self.payload();
        HEADER_BYTES + usize::from(payload.metadata_bytes) + payload.body_bytes as usize
    }
}

/// A call of ours.
pub(super) struct NewCall {
    pub(super) now: Time,
    pub(super) request: Request,
}

impl OutboundMessage for NewCall {
    type Prepared = OutgoingCall;
    type Refused = StartError;

    #[inline]
    fn prepare(&self, protocol: &mut Protocol) -> Result<OutgoingCall, StartError> {
        protocol.open_call(self.now, &self.request)
    }

    #[inline(always)]
    fn head(&self, call: OutgoingCall) -> Head {
        self.request.call_head(self.now, call)
    }

    fn undo(&self, protocol: &mut Protocol, call: OutgoingCall) {
        // It was prepared just now, so it has not ended.
        let _ = protocol.abandon(call);
    }

    #[inline(always)]
    fn payload(&self) -> &Payload {
        &self.request.payload
    }
}

/// A message of ours that is never answered.
pub(super) struct NewOneway {
    pub(super) now: Time,
    pub(super) request: Request,
}

impl OutboundMessage for NewOneway {
    type Prepared = ();
    type Refused = StartError;

    #[inline]
    fn prepare(&self, protocol: &mut Protocol) -> Result<(), StartError> {
        protocol.validate_oneway(self.now, &self.request)
    }

    #[inline(always)]
    fn head(&self, (): ()) -> Head {
        self.request.oneway_head(self.now)
    }

    fn undo(&self, _protocol: &mut Protocol, (): ()) {}

    #[inline(always)]
    fn payload(&self) -> &Payload {
        &self.request.payload
    }
}

/// The result of a call of the peer. Never undone: what finds no room is kept.
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
    fn payload(&self) -> &Payload {
        &self.payload
    }
}

/// An item of a stream.
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
}
