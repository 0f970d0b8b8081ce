//! Every bound of the call protocol: its default, its unit and its reason.
//!
//! **Invariants:** each field's type admits only values that work, so there is nothing to check.
//! Each end sends its own in the greeting; the smaller value of both holds.
//! **Not here:** bounds across connections, and rates of calls, which the server above keeps.

/// Longest message with header, metadata and body, in bytes.
///
/// 4 MiB is gRPC's default for received messages, so interfaces that fit there fit here.
pub const MESSAGE_BYTES_MAX_DEFAULT: u32 = 4 << 20;

/// Longest metadata of one message, in bytes.
///
/// 8 KiB is what gRPC and HTTP servers accept as headers by default. They are decoded before
/// it is known whether the call is accepted, so they have to stay small.
pub const METADATA_BYTES_MAX_DEFAULT: u16 = 8 << 10;

/// Calls that may be open at once in one direction of a connection.
///
/// More than the 100 that HTTP/2 recommends at least. A slot costs about 120 bytes for both
/// directions together, once so many calls were open at once.
pub const CALLS_MAX_DEFAULT: u16 = 256;

/// Bytes of items that one direction of one stream may have sent and not consumed, with headers.
///
/// 4 MiB: the longest message by default, and three items of 1 MiB, one being read while the others
/// are under way. An item costs three quarters of the window at most, so beside one that is longer
/// than that a receiver keeps a quarter of the window.
pub const STREAM_WINDOW_BYTES_DEFAULT: u32 = 4 << 20;

/// Longest greeting that is read, in bytes. A later version may add fields.
pub const GREETING_BYTES_MAX: usize = 1024;

/// Longest timeout that can travel, in nanoseconds: 292 years. A longer one is no deadline; half of
/// the range, so that the sum with a sensible clock stays in it.
pub const TIMEOUT_NS_MAX: u64 = i64::MAX as u64;

/// Switches that a client may begin, or a server ask for, within a minute; the estimate of a
/// sliding minute lets through no burst above it. One more is refused.
///
/// 600: ten a second, as often as any advice can change sensibly. Each costs a handshake, some
/// system calls and new buffers, so a client that switches all the time must not keep a loop busy.
pub const SWITCHES_PER_MINUTE_MAX_DEFAULT: u32 = 600;

/// Whether a connection can move to another channel, and which end this is.
///
/// The ends have to know it before they greet, since it decides which versions they announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Switching {
    /// It cannot: this end announces version 1 only, which has no headers either.
    #[default]
    Never,
    /// It can, and this end opened the connection: it begins switches.
    Client,
    /// It can, and this end accepted the connection: it may ask for switches.
    Server,
}

/// The limits of one end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A longer message is refused before anything of it is copied, in bytes.
    pub message_bytes_max: u32,
    /// A message with longer metadata is refused as a whole, in bytes.
    pub metadata_bytes_max: u16,
    /// Calls that the peer may have open here. Its next one fails there, as busy.
    pub calls_in_max: u16,
    /// Calls that we may have open at the peer, if it allows as many.
    pub calls_out_max: u16,
    /// Bytes of items that the peer may have sent here on each stream beyond what was consumed. 0:
    /// this end takes part in no stream.
    pub stream_window_bytes: u32,
    /// Longest timeout that the peer's calls and one-way messages get, in nanoseconds, at least 1.
    /// One that asks for more gets this; one that asks for none has none.
    pub timeout_ns_max: u64,
    /// The channel can hand over memory outside of its messages, and both ends know it. Without it
    /// the peer breaks the rules by a message with references.
    pub references: bool,
    /// Whether the connection can move to another channel, and which end this is.
    pub switching: Switching,
    /// Switches that the peer may begin or ask for within a minute.
    pub switches_per_minute_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: MESSAGE_BYTES_MAX_DEFAULT,
            metadata_bytes_max: METADATA_BYTES_MAX_DEFAULT,
            calls_in_max: CALLS_MAX_DEFAULT,
            calls_out_max: CALLS_MAX_DEFAULT,
            stream_window_bytes: STREAM_WINDOW_BYTES_DEFAULT,
            timeout_ns_max: TIMEOUT_NS_MAX,
            references: false,
            switching: Switching::Never,
            switches_per_minute_max: SWITCHES_PER_MINUTE_MAX_DEFAULT,
        }
    }
}
