//! Every bound of the channel crate: its default, its unit and its reason.
//!
//! A bound that both ends must share travels in the handshake; the smaller value wins.

use std::time::Duration;

/// Largest message of a connection unless both ends agree on another value, in bytes.
///
/// 4 MiB is gRPC's default for received messages, so interfaces that fit there fit here.
pub const MESSAGE_BYTES_MAX_DEFAULT: u32 = 4 << 20;

/// Largest limit that a connection may ask for, in bytes. Lengths stay far from the flag bits of
/// the fragment header, and a peer cannot ask for a buffer that no machine of today would give.
pub const MESSAGE_BYTES_MAX_CEILING: u32 = 256 << 20;

/// Room for messages on their way in one direction, in bytes, unless the user asks for another.
///
/// Half of a 512 KiB second-level cache: both the writer's and the reader's copy stay inside it.
pub const BUFFER_BYTES_DEFAULT: u32 = 256 << 10;

/// Smallest room that can be asked for, in bytes: one page of frames.
pub const BUFFER_BYTES_MIN: u32 = 4 << 10;

/// Largest room that can be asked for, in bytes.
pub const BUFFER_BYTES_MAX: u32 = 64 << 20;

/// A message longer than this travels in fragments of this size, in bytes, so that the receiver
/// copies one fragment while the sender writes the next.
///
/// Between 8 and 16 KiB is where streaming through shared memory is fastest: smaller fragments pay
/// for their headers, larger ones leave the first-level cache before the receiver reads them.
pub const FRAGMENT_BYTES: usize = 16 << 10;

/// How long one end waits for the other's next handshake packet.
///
/// Generous for a loaded machine, short enough that a silent stranger does not keep a slot.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a machine may be out of reach before its connections over `tcp://` are taken for dead.
///
/// A process that dies is heard of at once; this is for cables and machines. Longer than a network
/// needs to find another way.
pub const REMOTE_SILENCE_MAX: Duration = Duration::from_secs(30);

/// Largest handshake packet, in bytes. All fields together need less than half of it.
pub const HANDSHAKE_PACKET_BYTES_MAX: usize = 1024;

/// Most descriptors in one handshake packet. The hungriest mechanism needs four.
pub const HANDSHAKE_DESCRIPTORS_MAX: usize = 8;

/// Most descriptors that one [`Endpoint::pass_descriptors`](crate::Endpoint::pass_descriptors)
/// takes. Small enough for any receiver's free descriptors, below the kernel's 253.
pub const PASSED_DESCRIPTORS_MAX: usize = 16;

/// Most descriptors that an end keeps for its user while it looks for segments behind them; a
/// packet may bring [`PASSED_DESCRIPTORS_MAX`] more. Who has passed more makes no more segments.
///
/// A sixteenth of the usual limit of 1,024 open descriptors.
pub const PASSED_DESCRIPTORS_KEPT_MAX: usize = 64;

/// Most packets that one look into the control line takes, so that a peer that goes on sending
/// does not keep it going. A socket of the usual size holds fewer.
pub const CONTROL_PACKETS_PER_LOOK_MAX: usize = 1024;

/// Most slots for loans of one end of a connection. A slot is a segment of its own.
///
/// A service that keeps what it received holds this many messages at most; a pipeline of calls
/// needs a few. Each is a mapping of both processes, which may have 65,530.
pub const SLOTS_PER_END_MAX: usize = 64;

/// Most bytes in the slots of one end, in bytes: sixteen messages of the usual limit.
pub const SLOT_BYTES_PER_END_MAX: usize = 64 << 20;

/// Fewest bytes of a slot: a page. A loan of less is memory of the heap, and copied when it is
/// sent, which costs no more than to lend it.
pub const SLOT_BYTES_MIN: usize = 4 << 10;

/// How many slots of about one size an end makes before it looks whether the other end is done with
/// one of them. Large messages are fastest in rotation over four buffers, and the word in which
/// the other end counts crosses between the processors once for several loans.
pub(crate) const SLOTS_IN_ROTATION: usize = 4;

/// How often places are borrowed between two looks at which segments were taken back: a look is a
/// system call, and does not show in so many.
pub(crate) const BORROWS_PER_TENDING: u32 = 64;

/// Most segments that one end of a connection may have: its slots, and lanes for large messages.
pub const SEGMENTS_PER_END_MAX: usize = SLOTS_PER_END_MAX + 8;

/// Most bytes in the segments of one end, in bytes: the slots, and 8 MiB for lanes.
pub const SEGMENT_BYTES_PER_END_MAX: usize = SLOT_BYTES_PER_END_MAX + (8 << 20);

/// How often a spinning waiter looks whether the other end still lives, in rounds.
pub const SPINS_PER_LIFE_CHECK: u32 = 64;
