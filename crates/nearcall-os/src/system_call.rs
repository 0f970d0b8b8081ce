//! The kinds of system calls that a simulation lets fail.
//!
//! **Not here:** where they are made (`seam.rs`), which of them fail (`simulation/faults.rs`).

/// The kinds of system calls that a simulation lets fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// Bytes that leave, without borders.
    Send,
    /// One byte that leaves, as doorbells have it: there is room for it unless one is there.
    Ring,
    /// A packet that leaves, with or without descriptors.
    SendPacket,
    /// Bytes that come, without borders.
    Receive,
    /// A packet that comes.
    ReceivePacket,
    /// A client that connects.
    Accept,
    /// A server that is connected to.
    Connect,
    /// A wait for descriptors.
    Wait,
    /// One more descriptor: a socket, an epoll, an eventfd, a duplicate.
    Descriptor,
    /// A descriptor that an epoll is to watch.
    Watch,
    /// A file of memory, or a mapping of one.
    Memory,
}
