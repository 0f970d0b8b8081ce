//! Every bound of a gateway, with its unit and its reason.
//!
//! **Invariants:** whatever a peer can make the gateway keep or wait for has its bound here.
//! **Not here:** the bounds of calls within the machine (`nearcall::Limits`).

use std::time::Duration;

/// What peers can make a [`Gateway`](super::Gateway) keep and wait for.
///
/// ```
/// use nearcall_grpc::GatewayLimits;
///
/// let limits = GatewayLimits { message_bytes_max: 16 << 20, ..GatewayLimits::default() };
/// # assert_eq!(limits.connections_max, 1024);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Longest message, in bytes, once it is decompressed: 4 MiB, as gRPC and nearcall have it. A
    /// longer one ends its call with `RESOURCE_EXHAUSTED`, and is decompressed no further than to
    /// this. The servers have limits of their own.
    pub message_bytes_max: u32,
    /// All headers of a call, in bytes with 32 for each: 16 KiB, so that the 8 KiB of metadata that
    /// nearcall takes have room in them. Longer ones are answered with the HTTP status 431.
    pub header_bytes_max: u32,
    /// Items of one stream of replies that wait for their reader, in bytes: 256 KiB, more than a
    /// gigabit network has under way in a millisecond. An item that is longer waits alone.
    pub stream_window_bytes: u32,
    /// Calls under way of one connection: 100, as HTTP/2 recommends at least. Peers wait for the
    /// end of one with a further one.
    pub streams_per_connection_max: u32,
    /// Connections: 1,024, which leaves descriptors to the servers' connections of a process that
    /// may have 4,096. Further ones are closed at once.
    pub connections_max: usize,
    /// Calls under way, of all connections together: 1,024. Further ones end with
    /// `RESOURCE_EXHAUSTED`. Each keeps at most one message and a window or two.
    pub calls_max: usize,
    /// How long a peer may take for the handshake of TLS, and again for the first bytes of HTTP: 10
    /// s, some round trips around the world.
    pub handshake_timeout: Duration,
    /// How long nothing may come over a connection before the peer is asked whether it lives: 30 s,
    /// so that dead ones do not count for long.
    pub keepalive_interval: Duration,
    /// How long a peer may take to answer that: 20 s, as gRPC has it. It cannot answer in the
    /// middle of a frame, so one that sends a frame byte by byte ends as well.
    pub keepalive_timeout: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: 4 << 20,
            header_bytes_max: 16 << 10,
            stream_window_bytes: 256 << 10,
            streams_per_connection_max: 100,
            connections_max: 1_024,
            calls_max: 1_024,
            handshake_timeout: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
        }
    }
}

/// Longest deadline that a call can have: a year. `grpc-timeout` has room for eleven thousand.
pub(super) const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(365 * 86_400);

/// Digits of a `grpc-timeout`, as gRPC has it.
pub(super) const TIMEOUT_DIGITS_MAX: usize = 8;

/// How long calls may take that are under way when a gateway is stopped: 5 s, half of the time
/// after which container managers kill what does not end.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a server may take to say how it is, or what it has: 2 s. One that is well answers
/// within a millisecond; who asks for health often waits for no longer than some seconds.
pub(crate) const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// Time between two looks at the health of a server for those who watch it: 1 s, soon enough for a
/// balancer; each look is one call within the machine.
pub(super) const HEALTH_INTERVAL: Duration = Duration::from_secs(1);

/// Time between two looks whether certificates have changed: 1 s, at a new connection only; each
/// reads the times of three files.
pub(super) const CERTIFICATES_INTERVAL: Duration = Duration::from_secs(1);

/// Pause after a connection could not be accepted, such as for lack of descriptors: 50 ms, as long
/// as other servers wait.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Longest question by `grpc.health.v1` and `grpc.reflection.*`, in bytes: 64 KiB, many times the
/// longest name.
pub(super) const QUESTION_BYTES_MAX: usize = 64 << 10;

/// Window of HTTP/2 for one stream of requests, in bytes: 1 MiB, about what 10 Gbit/s have under
/// way in a millisecond. Items wait in it while their server has no credit for them.
pub(super) const REQUEST_WINDOW_BYTES: u32 = 1 << 20;

/// Window for all streams of requests of a connection, in bytes: 4 MiB. So a peer makes the gateway
/// keep no more than this, whatever its streams.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Room for replies of one stream that HTTP/2 has not sent, in bytes: 64 KiB. More is not taken
/// from the server.
pub(super) const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Bytes with which each connection of HTTP/2 begins.
pub(super) const PREFACE_BYTES: u64 = 24;

/// Longest time for which a connection that has ended waits for its peer to close it as well: the
/// peer has to read the last replies only.
pub(super) const LINGER_TIME: Duration = Duration::from_secs(1);
