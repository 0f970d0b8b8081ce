//! The bounds of the channel crate: each with its default, its unit and its reason.
//!
//! **Invariants:** a bound that both ends must share travels in the handshake; the smaller value
//! wins.
//! **Not here:** the sizes of one mechanism's packets and buffers, which its file has, and shared
//! memory (`shm/layout.rs`).

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

/// Memory that counts for a connection beside its room, in bytes: its state, and a buffer for
/// messages up to this length. What is longer is charged as it comes.
pub const CONNECTION_BYTES: usize = 64 << 10;

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

/// Longest time that one end waits for the other's next handshake packet.
///
/// Generous for a loaded machine, short enough that a silent process does not keep a slot.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time that a machine may be unreachable before its `tcp://` connections count as dead.
///
/// A process that dies is noticed at once; this is for cables and machines. Longer than a network
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
/// packet may bring [`PASSED_DESCRIPTORS_MAX`] more. An end whose peer keeps more unread cannot
/// make further segments.
///
/// A sixteenth of the usual limit of 1,024 open descriptors.
pub const PASSED_DESCRIPTORS_KEPT_MAX: usize = 64;

/// Most packets that a look for one segment takes from the control line, so that a peer that goes
/// on sending does not keep it going.
///
/// A socket of the usual size (212,992 bytes) holds 278, so that what a correct peer has made
/// before it sent the message that names it is among them. Each may be a segment to map, some 15
/// us.
pub const CONTROL_PACKETS_PER_LOOK_MAX: usize = 320;

/// Most packets that a look takes from the control line which needs none of them: half a
/// millisecond at most. The next one takes what is left.
pub const CONTROL_PACKETS_PER_PAUSE_MAX: usize = 32;

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

/// Slots of about one size that an end makes before it looks whether the other end is done with
/// one of them. Large messages are fastest in rotation over four buffers, and the word in which
/// the other end counts crosses between the processors once for several loans.
pub(crate) const SLOTS_IN_ROTATION: usize = 4;

/// Places that are borrowed between two looks at which segments were taken back: a look is a
/// system call, and does not show in so many.
pub(crate) const BORROWS_PER_TENDING: u32 = 64;

/// Most segments that one end of a connection may have: its slots, and lanes for large messages.
pub const SEGMENTS_PER_END_MAX: usize = SLOTS_PER_END_MAX + 8;

/// Most bytes in the segments of one end, in bytes: the slots, and 8 MiB for lanes.
pub const SEGMENT_BYTES_PER_END_MAX: usize = SLOT_BYTES_PER_END_MAX + (8 << 20);

/// Rounds between two checks by a spinning waiter that the other end still lives.
pub const SPINS_PER_LIFE_CHECK: u32 = 64;

/// Checks of the other end's life between two yields of a spinning waiter's CPU. In shared memory
/// that is one yield after each 4,096 polls, which take some 20 to 100 µs; where a poll is a system
/// call, it counts as a check.
///
/// Where both ends share a CPU, the other end runs only when the waiter gives the CPU up. Without
/// the yield that is at the end of the scheduler's slice, some 3 ms later. On a CPU without other
/// work the yield is a system call that returns at once: 1 to 3 % of the time.
pub(crate) const CHECKS_PER_YIELD: u32 = 64;

// ---- Receiving and sending ----

/// Messages that one receive begins and then drops, because their sender aborts them.
///
/// A correct sender seldom gives up one; a hostile one could give up one after the other, and keep
/// a receive that must not wait busy forever.
pub(crate) const ABORTED_PER_RECEIVE_MAX: u32 = 64;

/// Bytes of a long message that one receive collects which must not wait: some tens of
/// microseconds.
/// Then it returns `Empty`, though more may be there: the sender could go on for as long as the
/// message is.
pub(crate) const COLLECTED_PER_RECEIVE_MAX: usize = 128 << 10;

/// Room that is made for a message of which nothing has come yet, in bytes: a fragment of a ring.
pub(crate) const REASSEMBLY_STEP_BYTES: usize = 16 << 10;

/// Bytes by which that room grows at most. New pages are zeroed one by one, a few microseconds each
/// on a virtual machine, and no other client is served meanwhile.
pub(crate) const REASSEMBLY_STEP_BYTES_MAX: usize = 64 << 10;

/// Time that a receiver leaves a packet that the kernel did not take before it tries again. Only
/// after sends with `Deadline::NOW` into a full way.
pub(crate) const PENDING_INTERVAL: Duration = Duration::from_millis(1);

// ---- Doorbells and lanes ----

/// Most rings that one read of a doorbell with bytes takes back. Few ever lie there: an end is rung
/// once for each sleep.
pub(crate) const RINGS_PER_READ: usize = 64;

/// Announced sleeps whose rings an end leaves in a socket that is watched edge-triggered. One read
/// for so many sleeps does not show, and each ring holds some 0.8 KiB of the kernel's memory.
pub(crate) const UNREAD_RINGS_MAX: u32 = 8;

/// Most tries to ring while the kernel has no memory for the byte. After that the connection ends:
/// the other end would sleep without a wake-up.
pub(crate) const RING_TRIES_MAX: u32 = 4;

/// Bytes that one read of a flood takes.
pub(crate) const FLOOD_BYTES_PER_READ: usize = 16 << 10;

/// Most reads of a flood at once: a socket of the usual size is empty then.
pub(crate) const FLOOD_READS_MAX: usize = 16;

/// Polls that find nothing between two checks of the other end, for callers that do not wait.
pub(crate) const EMPTY_POLLS_PER_CHECK: u32 = 16;

/// Between two looks at the bell, which are system calls, in nanoseconds: a death is to be noticed
/// within 100 ms.
pub(crate) const BELL_CHECK_INTERVAL_NS: u64 = 10_000_000;

/// Slots of a lane, each of which has a long fragment: of the first lane of an end, and of the one
/// that it makes when its reader has fallen behind by a whole lane. Eight stay in a second-level
/// cache together with the buffers of both users. Of 64, an end that sleeps is woken once for half
/// a MiB, so that a wake-up costs less than the copies.
pub(crate) const LANE_SLOTS: [usize; 2] = [8, 64];

const _: () = assert!(
    2 * LANE_SLOTS[1] * FRAGMENT_BYTES <= SEGMENT_BYTES_PER_END_MAX - SLOT_BYTES_PER_END_MAX
);

/// A fragment up to here goes through the ring: eight of them fit the pages that it has anyway.
/// Above, a second cache line for the indirect frame costs less than the ring's frames, which begin
/// anywhere.
pub(crate) const RING_FRAGMENT_BYTES_MAX: usize = 1 << 10;

/// Time that an unused lane is kept. Making one takes some tens of microseconds, so an end that
/// needs one each second does not feel it.
pub(crate) const LANE_IDLE: Duration = Duration::from_secs(1);

/// Interval at which a reader checks whether the lane was taken back.
pub(crate) const LANE_CHECKS_MAX: u32 = 4;

/// Fragments that go through the ring before a lane is asked for again that could not be had.
pub(crate) const LANE_RETRY_FRAGMENTS: u32 = 64;

// ---- Noticing a death ----

/// The longest single wait: short enough that a death is noticed well within 100 ms, long enough
/// that a sleeping end costs next to nothing.
pub(crate) const MONITOR_SLICE: Duration = Duration::from_millis(10);

/// A thread that is still inside a condition variable so long after the death will not leave it.
pub(crate) const MONITOR_STUCK: Duration = Duration::from_millis(25);

/// Time that the watcher leaves a sleeper that did not wake up before it tries again.
pub(crate) const WAKE_RETRY_INTERVAL: Duration = Duration::from_millis(1);

// ---- Spinning ----

/// Looks between two readings of the clock, and before the first one. As many take about a
/// microsecond: an answer that comes faster never pays for a clock.
pub(crate) const POLLS_PER_CLOCK: u32 = 64;

/// A spin lasts as long as so many wake-ups. With one, spinning and then sleeping costs at most
/// twice the better of both. But an answer takes the other end's wake-up and its work, so that an
/// end that gives up earlier never meets one that is awake; and a wake-up costs more
/// after a long idle time of its CPU than when it was measured.
pub(crate) const WAKE_UPS_PER_SPIN: u64 = 5;

/// A twentieth of a CPU, at worst, for waits that cannot be foreseen. What can be foreseen costs
/// far less, see `spin/budget.rs`.
pub(crate) const CPU_PERCENT_DEFAULT: u8 = 5;

/// Sleeps between two checks by a waiter of its CPUs and of the cost of a wake-up.
pub(crate) const SLEEPS_PER_RECALIBRATION: u32 = 16;

// ---- The handshake over TCP ----

/// The shortest time for an attempt to connect, in case the time ran out between two.
pub(crate) const CONNECT_TIMEOUT_MIN: Duration = Duration::from_millis(1);
