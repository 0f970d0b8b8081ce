//! Every bound of the runtime: its default, its unit and its reason.
//!
//! Not here: bounds of one connection's protocol (`nearcall_wire::limits`), of meeting and of rooms
//! (`nearcall_channel`).

use nearcall_channel::Options;

/// Messages of one connection that are served before the others have their turn.
///
/// Small enough that a peer that floods holds another back by a few calls only; large enough that
/// asking the kernel who is ready (half a microsecond) does not show in a busy connection's rate.
pub(crate) const MESSAGES_PER_TURN_MAX: usize = 4;

/// Looks at a spinning connection in one round of the loop, if it is the only one.
///
/// What else a round does costs some 30 ns, as much as three looks; timers and services of others
/// still wait below a microsecond.
pub(crate) const SPIN_LOOKS_PER_ROUND: u32 = 32;

/// How many turns of spinning connections pass between two looks at everything else.
///
/// A look costs a system call, some 300 ns; over 64 turns it adds a percent or two to a CPU that
/// spins anyway, and a new client waits tens of microseconds.
pub(crate) const SPIN_TURNS_PER_LOOK: u32 = 64;

/// Handlers that may wait for calls of their own inside each other on one thread. A call that would
/// go deeper is answered `RESOURCE_EXHAUSTED`: every level needs its stack frames.
pub(crate) const NESTING_MAX: u32 = 32;

/// Messages that found no room in the channel, kept for a connection, in bytes. Above it replies
/// become `RESOURCE_EXHAUSTED`: the peer asks and does not read.
///
/// Two messages of the largest default size: one under way, one ready.
pub(crate) const OUTBOX_BYTES_MAX: usize = 8 << 20;

/// Messages kept for a connection whatever their size: above the first half only refusals. Above
/// all of it the peer is cut off: it does not even read those. Each half is above the 10,000 calls
/// that a connection may be configured for.
pub(crate) const OUTBOX_MESSAGES_MAX: usize = 32 << 10;

/// Handshakes that run at once, each on a thread of its own, because it waits for its peer.
/// Clients beyond it wait for their turn.
pub(crate) const HANDSHAKES_MAX: usize = 32;

/// Of those, handshakes with clients of one user id, so that one user cannot hold all of them.
/// All clients from other machines count as one user.
pub(crate) const HANDSHAKES_PER_UID_MAX: usize = 24;

/// Threads of handshakes, those included that were ended a moment ago and have not noticed yet.
pub(crate) const HANDSHAKE_THREADS_MAX: usize = 2 * HANDSHAKES_MAX;

/// Clients that were accepted and wait for a handshake, each with a descriptor. Clients beyond it
/// wait in the listening socket's queue.
pub(crate) const STRANGERS_MAX: usize = 128;

/// Of those, clients of one user id, so that one user cannot hold all of the places; a second's
/// worth of silent ones, each of which gives its handshake's place up after a quarter of it.
pub(crate) const STRANGERS_PER_UID_MAX: usize = 96;

/// Room for a received message at first, in bytes. Grows to the messages that come.
pub(crate) const BUFFER_BYTES_MIN: usize = 4 << 10;

/// A received message of this length or more, in bytes, lies in a buffer that its `bytes` fields
/// become slices of: sharing the buffer costs an allocation, about as much as copying so much.
pub(crate) const SHARED_BYTES_MIN: usize = 16 << 10;

/// One-way messages to a server of the same loop that wait for its next turn. Above it, sending is
/// refused with `RESOURCE_EXHAUSTED`, as a full channel would.
pub(crate) const LOCAL_ONEWAYS_MAX: usize = 1024;

/// Fewest bytes of a loan that a message passes by reference. Fewer are copied: a reference costs
/// some two hundred nanoseconds at both ends together, as much as copying two KiB twice.
pub(crate) const REFERENCE_BYTES_MIN: usize = 1 << 10;

/// Memory that a connection keeps to marshal the next message with loans in, in bytes.
pub(crate) const SPARE_BYTES_MAX: usize = 4 << 10;

/// What one end of each connection can take. The smaller value of both ends holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest message with header and metadata, in bytes: 4 MiB, as gRPC has it. A longer one is
    /// refused with `RESOURCE_EXHAUSTED` before anything is allocated or copied.
    pub message_bytes_max: u32,
    /// Longest metadata of a message, in bytes: 8 KiB, what servers take as headers by default.
    pub metadata_bytes_max: u16,
    /// Calls in flight in each direction of a connection: 256. Each costs about 120 bytes. The next
    /// one fails with `RESOURCE_EXHAUSTED`.
    pub calls_max: u16,
    /// Room of a channel in each direction, in bytes: 256 KiB, half of a usual second-level cache.
    pub room_bytes: u32,
    /// Connections of one server: 4096, so that an idle one needs well below a gigabyte for them.
    /// More clients are refused.
    pub connections_max: usize,
    /// Connections of one user id to one server: 2048, half of all, so that one user cannot keep
    /// the others out.
    pub connections_per_uid_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let (wire, channel) = (nearcall_wire::Limits::default(), Options::default());
        Self {
            message_bytes_max: wire.message_bytes_max,
            metadata_bytes_max: wire.metadata_bytes_max,
            calls_max: wire.calls_in_max,
            room_bytes: channel.buffer_bytes,
            connections_max: 4096,
            connections_per_uid_max: 2048,
        }
    }
}

impl Limits {
    pub(crate) fn wire(&self) -> nearcall_wire::Limits {
        nearcall_wire::Limits {
            message_bytes_max: self.message_bytes_max,
            metadata_bytes_max: self.metadata_bytes_max,
            calls_in_max: self.calls_max,
            calls_out_max: self.calls_max,
            references: false,
        }
    }

    pub(crate) fn channel(&self) -> Options {
        Options {
            message_bytes_max: self.message_bytes_max,
            buffer_bytes: self.room_bytes,
            ..Options::default()
        }
    }
}
