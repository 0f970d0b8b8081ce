//! The three kinds of message that carry something of the user: a call, a one-way message, a
//! reply.
//!
//! Each is opened in the protocol, which may refuse it, and then has a header. Always true: what
//! was opened is sent or undone.
//! Not here: sending (`sending.rs`), errors and the protocol's own messages.

use nearcall_wire::{
    Connection, HEADER_BYTES, Head, IncomingCall, OutgoingCall, Payload, ReplyError, Request,
    StartError, Time,
};

/// A message that the protocol has to know of before it is sent.
pub(super) trait Opening {
    /// What names it from then on.
    type Opened: Copy;
    /// Why the protocol may refuse it.
    type Refused;

    /// Tells the protocol.
    fn open(&self, wire: &mut Connection) -> Result<Self::Opened, Self::Refused>;

    /// Its header. Written where it is needed: headers that move cost more than making them.
    fn head(&self, opened: Self::Opened) -> Head;

    /// It could not be sent.
    fn undo(&self, wire: &mut Connection, opened: Self::Opened);

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

impl Opening for NewCall {
    type Opened = OutgoingCall;
    type Refused = StartError;

    #[inline]
    fn open(&self, wire: &mut Connection) -> Result<OutgoingCall, StartError> {
        wire.open_call(self.now, &self.request)
    }

    #[inline(always)]
    fn head(&self, call: OutgoingCall) -> Head {
        self.request.call_head(call)
    }

    fn undo(&self, wire: &mut Connection, call: OutgoingCall) {
        // It was opened just now, so it has not ended.
        let _ = wire.abandon(call);
    }

    #[inline(always)]
    fn payload(&self) -> &Payload {
        &self.request.payload
    }
}

/// A message of ours that is never answered.
pub(super) struct NewOneway {
    pub(super) request: Request,
}

impl Opening for NewOneway {
    type Opened = ();
    type Refused = StartError;

    #[inline]
    fn open(&self, wire: &mut Connection) -> Result<(), StartError> {
        wire.judge_oneway(&self.request)
    }

    #[inline(always)]
    fn head(&self, (): ()) -> Head {
        self.request.oneway_head()
    }

    fn undo(&self, _wire: &mut Connection, (): ()) {}

    #[inline(always)]
    fn payload(&self) -> &Payload {
        &self.request.payload
    }
}

/// The result of a call of the peer. Never undone: what finds no room is kept.
pub(super) struct Answer {
    pub(super) call: IncomingCall,
    pub(super) payload: Payload,
}

impl Opening for Answer {
    type Opened = ();
    type Refused = ReplyError;

    #[inline]
    fn open(&self, wire: &mut Connection) -> Result<(), ReplyError> {
        wire.end_call(self.call, self.payload)
    }

    #[inline(always)]
    fn head(&self, (): ()) -> Head {
        self.call.reply_head(self.payload)
    }

    fn undo(&self, _wire: &mut Connection, (): ()) {}

    #[inline(always)]
    fn payload(&self) -> &Payload {
        &self.payload
    }
}
