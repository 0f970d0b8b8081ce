//! Pairs of unix sockets: a stream, packets over a connection, and datagrams.
//!
//! **Invariants:** the server makes the pair and hands one end over; whatever file flags the other
//! end may set, a call that must not wait says so itself (MSG_DONTWAIT).
//! A datagram socket does not report that the other end is gone; there the watcher
//! closes our own socket for reading, which ends every sleep on it.
//! **Not here:** fragments (`stream.rs`, `packet.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::poll::poll_one;
use nearcall_os::socket::{self, Half, Kind};

use crate::channel;
use crate::channel::Channel;
use crate::error::OpenError;
use crate::error::Violation;
use crate::fds::ChannelFds;
use crate::fragment::HEADER_BYTES;
use crate::growing::open_buffer;
use crate::kernel::packet::{PacketSocket, PacketTransport, Received};
use crate::kernel::stream::{ByteStream, StreamTransport};
use crate::kernel::{Attempt, FdPair, WaitStrategy, nonblocking, poll_interest};
use crate::open::{Accepted, Offer};
use crate::settings::Settings;
use crate::wait::{Deadline, Interest, Readiness};
use crate::watcher::{WatchGuard, watch};

/// One end of a stream socket, unix or TCP.
pub(crate) struct SocketLine {
    socket: OwnedFd,
}

impl SocketLine {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket }
    }
}

impl ByteStream for SocketLine {
    fn room_bytes(&self) -> io::Result<usize> {
        Ok(socket::buffer_bytes(&self.socket)?.send)
    }

    #[inline]
    fn read(&self, into: &mut [u8], how: Attempt) -> io::Result<Option<usize>> {
        match how {
            Attempt::Blocking => nonblocking(socket::recv(&self.socket, into)),
            Attempt::NonBlocking => socket::try_recv(&self.socket, into),
        }
    }

    #[inline]
    fn write(&self, bytes: &[u8], how: Attempt) -> io::Result<Option<usize>> {
        match how {
            Attempt::Blocking => nonblocking(socket::send(&self.socket, bytes)),
            Attempt::NonBlocking => socket::try_send(&self.socket, bytes),
        }
    }

    fn reader(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn writer(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// One end of a pair of packet sockets.
struct UnixPackets {
    socket: Arc<OwnedFd>,
    outgoing: Box<[u8]>,
    incoming: Box<[u8]>,
    /// An empty packet is the end. Otherwise it is the watcher's doing, or nonsense.
    empty_is_end: bool,
    _watch: Option<WatchGuard>,
}

impl UnixPackets {
    fn new(socket: OwnedFd, kind: Kind, settings: &Settings) -> Result<Self, OpenError> {
        let sizes = socket::buffer_bytes(&socket).map_err(|_| OpenError::bad_parts("no socket"))?;
        let socket = Arc::new(socket);
        let guard = match kind {
            Kind::Datagram => {
                let ours = Arc::clone(&socket);
                let wake = move || drop(socket::shutdown(&*ours, Half::Receive));
                let guard = watch(settings, move |_| wake());
                Some(guard.map_err(OpenError::doing("watching the other end"))?)
            }
            Kind::Stream | Kind::Seqpacket => None,
        };
        // Two packets on their way, so that one can be read while the next is written. The kernel
        // counts its own overhead, too, so half of the room is not planned.
        let packet_bytes = (sizes.send / 4).clamp(PACKET_BYTES_MIN, PACKET_BYTES_MAX);
        Ok(Self {
            socket,
            outgoing: open_buffer(packet_bytes)?,
            incoming: open_buffer(PACKET_BYTES_MAX)?,
            empty_is_end: kind != Kind::Datagram,
            _watch: guard,
        })
    }
}

impl FdPair for UnixPackets {
    fn wait_for(&mut self, interest: Interest, deadline: Deadline) -> io::Result<bool> {
        Ok(poll_one(&*self.socket, poll_interest(interest), deadline)?.is_some())
    }
}

impl PacketSocket for UnixPackets {
    fn room_bytes(&self) -> io::Result<usize> {
        Ok(socket::buffer_bytes(&self.socket)?.send)
    }

    #[inline]
    fn outgoing(&mut self) -> &mut [u8] {
        &mut self.outgoing
    }

    #[inline]
    fn incoming(&self) -> &[u8] {
        &self.incoming
    }

    #[inline]
    fn send(&mut self, packet_bytes: usize, how: Attempt) -> io::Result<Option<()>> {
        let packet = &self.outgoing[..packet_bytes];
        let sent = match how {
            Attempt::Blocking => nonblocking(socket::send(&*self.socket, packet)),
            Attempt::NonBlocking => socket::try_send(&*self.socket, packet),
        };
        Ok(sent?.map(drop))
    }

    #[inline]
    fn receive(&mut self, how: Attempt) -> io::Result<Option<Received>> {
        let into = &mut self.incoming;
        let received = match how {
            Attempt::Blocking => nonblocking(socket::recv_message(&*self.socket, into)),
            Attempt::NonBlocking => socket::try_recv_message(&*self.socket, into),
        };
        let received = match received {
            // An end that left something unread is reported once, before the packets still here.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                socket::try_recv_message(&*self.socket, into)
            }
            received => received,
        };
        Ok(received?.map(|bytes| match bytes {
            0 if self.empty_is_end => Received::End,
            0 => Received::WakeUp,
            _ if bytes > self.incoming.len() => {
                Received::Nonsense(Violation::FragmentTooLarge { fragment_bytes: bytes as u64 })
            }
            _ => Received::Packet(0..bytes),
        }))
    }

    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>> {
        Some(Readiness::level(self.socket.as_fd(), interest == Interest::Send))
    }
}

/// Opens the server's end of a stream.
pub(crate) fn offer_stream(settings: &Settings) -> Result<Offer, OpenError> {
    offer(Kind::Stream, settings)
}

/// Opens the client's end of a stream.
pub(crate) fn accept_stream(settings: &Settings, parts: ChannelFds) -> Result<Accepted, OpenError> {
    accept(Kind::Stream, settings, parts)
}

/// Opens the server's end of connected packets.
pub(crate) fn offer_seqpacket(settings: &Settings) -> Result<Offer, OpenError> {
    offer(Kind::Seqpacket, settings)
}

/// Opens the client's end of connected packets.
pub(crate) fn accept_seqpacket(
    settings: &Settings,
    parts: ChannelFds,
) -> Result<Accepted, OpenError> {
    accept(Kind::Seqpacket, settings, parts)
}

/// Opens the server's end of datagrams.
pub(crate) fn offer_dgram(settings: &Settings) -> Result<Offer, OpenError> {
    offer(Kind::Datagram, settings)
}

/// Opens the client's end of datagrams.
pub(crate) fn accept_dgram(settings: &Settings, parts: ChannelFds) -> Result<Accepted, OpenError> {
    accept(Kind::Datagram, settings, parts)
}

fn offer(kind: Kind, settings: &Settings) -> Result<Offer, OpenError> {
    let (ours, theirs) =
        socket::unix_pair(kind).map_err(OpenError::doing("making a pair of unix sockets"))?;
    for end in [&ours, &theirs] {
        // The kernel charges the sender for what is on its way, so the send buffer is the room.
        socket::set_buffer_bytes(end, Some(settings.buffer_bytes as usize), None)
            .map_err(OpenError::doing("sizing a socket"))?;
    }
    let settings = settings.clone();
    let finish = move |answer: ChannelFds| {
        answer.expect_nothing_more()?;
        channel(kind, ours, &settings)
    };
    let parts = ChannelFds { bytes: Vec::new(), descriptors: vec![theirs] };
    Ok(Offer { parts, finish: Box::new(finish) })
}

fn accept(kind: Kind, settings: &Settings, mut parts: ChannelFds) -> Result<Accepted, OpenError> {
    let [socket] = parts.take_descriptors()?;
    parts.expect_nothing_more()?;
    socket::buffer_bytes(&socket).map_err(|_| OpenError::bad_parts("no socket"))?;
    Ok(Accepted { parts: ChannelFds::default(), channel: channel(kind, socket, settings)? })
}

fn channel(
    kind: Kind,
    socket: OwnedFd,
    settings: &Settings,
) -> Result<Box<dyn Channel>, OpenError> {
    if kind == Kind::Stream {
        let transport = StreamTransport::new(SocketLine::new(socket), settings.wait)?;
        return Ok(channel::over(transport, settings.message_bytes_max));
    }
    let line = UnixPackets::new(socket, kind, settings)?;
    let liveness = (kind == Kind::Datagram).then(|| Arc::clone(&settings.liveness));
    let transport = PacketTransport::new(line, WaitStrategy { wait: settings.wait, liveness });
    Ok(channel::over(transport, settings.message_bytes_max))
}

/// Longest packet with its header, in bytes; also the receive buffer. The kernel takes nearly as
/// much as the send buffer has, but memory for larger ones is hard to find in one go.
const PACKET_BYTES_MAX: usize = (64 << 10) + HEADER_BYTES;

/// Shortest limit of packets, in bytes: the smallest send buffer there is takes two of these.
const PACKET_BYTES_MIN: usize = 1 << 10;
