//! The names of calls.
//!
//! A call id is a slot and a generation. The caller chooses a free slot and the slot's next
//! generation, so that a reply that comes late differs from that of the slot's next call.
//! **Invariants:** an id is a number, and any number is one.
//! **Not here:** whether there is such a call (`call_table.rs`).

/// A call's number on the wire: slot in the lower 16 bits, generation in the upper 48.
///
/// At a million calls a second, all on one slot, the generations of that slot last nine years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

impl CallId {
    /// From the wire. Any number is an id; whether it is the one of a call, the tables know.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// For the wire.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Index in the table, below the limit of open calls for calls of a [`CallProtocol`].
    ///
    /// [`CallProtocol`]: crate::CallProtocol
    #[must_use]
    pub const fn slot(self) -> u16 {
        let [low, high, ..] = self.0.to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    pub(crate) const fn new(slot: u16, generation: u64) -> Self {
        Self(generation << GENERATION_SHIFT | slot as u64)
    }

    pub(crate) const fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }
}

/// A call that we made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutgoingCall(pub(crate) CallId);

impl OutgoingCall {
    /// The id on the wire.
    #[must_use]
    pub const fn id(self) -> CallId {
        self.0
    }

    /// Index of the call in the table: below [`Peer::calls_out_max`], and only one open call has it
    /// at a time.
    ///
    /// [`Peer::calls_out_max`]: crate::Peer::calls_out_max
    #[must_use]
    pub const fn slot(self) -> u16 {
        self.0.slot()
    }
}

/// A call that the peer made, to be answered once by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncomingCall(pub(crate) CallId);

impl IncomingCall {
    /// The id on the wire.
    #[must_use]
    pub const fn id(self) -> CallId {
        self.0
    }

    /// Index of the call in the table: below [`Limits::calls_in_max`], and only one open call has
    /// it at a time.
    ///
    /// [`Limits::calls_in_max`]: crate::Limits::calls_in_max
    #[must_use]
    pub const fn slot(self) -> u16 {
        self.0.slot()
    }
}

/// A call that streams, from the side of this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamCall {
    /// A call that we made.
    Outgoing(OutgoingCall),
    /// A call that the peer made.
    Incoming(IncomingCall),
}

impl StreamCall {
    /// The id on the wire.
    #[must_use]
    pub const fn id(self) -> CallId {
        match self {
            Self::Outgoing(call) => call.id(),
            Self::Incoming(call) => call.id(),
        }
    }
}

impl From<OutgoingCall> for StreamCall {
    fn from(call: OutgoingCall) -> Self {
        Self::Outgoing(call)
    }
}

impl From<IncomingCall> for StreamCall {
    fn from(call: IncomingCall) -> Self {
        Self::Incoming(call)
    }
}

const GENERATION_SHIFT: u32 = 16;
/// The last generation of a slot.
pub(crate) const GENERATION_MAX: u64 = u64::MAX >> GENERATION_SHIFT;
