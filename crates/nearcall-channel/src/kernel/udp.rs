//! UDP over the loopback interface, with a window of credits so that nothing is lost.
//!
//! ```text
//! data:            | sequence: u64 | fragment header: 8 bytes | fragment ... |
//! acknowledgement: | cost of all packets taken so far: u64 |
//! ```
//!
//! One connected pair of sockets for each direction: packets go one way, acknowledgements the
//! other. The kernel drops a datagram that would overfill the receive buffer, where it charges
//! more than the bytes (`truesize`); so both ends count the same upper bound of that charge
//! ([`cost`]), and the sender keeps what is on its way below half of the receiver's real buffer.
//! The receiver acknowledges each quarter of that window: fewer packets than one each, and before
//! the sender can use up the other three quarters. An idle connection sends nothing.
//!
//! **Invariants:** acknowledged <= sent, and sent - acknowledged <= window; a gap in the sequence
//! breaks the connection. Only a holder of the partner's socket, or root, can send to ours.
//! **Not here:** fragments (`packet.rs`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::poll::{self, poll_one};
use nearcall_os::socket::{self, Half};

use crate::channel;
use crate::channel::Channel;
use crate::error::Violation;
use crate::error::{OpenError, Unsupported};
use crate::fds::ChannelFds;
use crate::fragment::HEADER_BYTES;
use crate::kernel::packet::{PacketSocket, PacketTransport, Received, violation_error};
use crate::kernel::{Attempt, FdPair, WaitStrategy, nonblocking};
use crate::limits::BUFFER_BYTES_MAX;
use crate::open::{Accepted, Offer};
use crate::settings::Settings;
use crate::wait::{Deadline, Interest, Readiness};
use crate::watcher::{WatchGuard, watch};

/// One end.
struct UdpLine {
    outward: Outward,
    inward: Inward,
    _watch: WatchGuard,
}

/// The sending half of this end.
struct Outward {
    socket: Arc<OwnedFd>,
    /// Sequence number, header and fragment.
    buffer: Box<[u8]>,
    next_sequence: u64,
    window: u64,
    sent: u64,
    acknowledged: u64,
}

/// The receiving half of this end.
struct Inward {
    socket: Arc<OwnedFd>,
    buffer: Box<[u8]>,
    next_sequence: u64,
    window: u64,
    taken: u64,
    told: u64,
}

/// An upper bound of what the kernel charges a receive buffer for a datagram of so many bytes.
///
/// Up to 16 KiB it rounds the allocation up to a power of two, and adds its own two structures;
/// beyond, it takes pages.
fn cost(packet_bytes: usize) -> u64 {
    2 * packet_bytes as u64 + 2048
}

/// The longest packet that leaves room for three more in a quarter each of the window.
fn packet_bytes_max(window: u64) -> usize {
    let bytes = usize::try_from((window / 4).saturating_sub(2048) / 2).unwrap_or(0);
    bytes.clamp(PREFIX_BYTES + HEADER_BYTES + 1, PACKET_BYTES_MAX)
}

impl Outward {
    fn has_credit_for(&self, packet_bytes: usize) -> bool {
        self.sent - self.acknowledged + cost(packet_bytes) <= self.window
    }

    fn send(&mut self, packet_bytes: usize, how: Attempt) -> io::Result<Option<()>> {
        let packet_bytes = PREFIX_BYTES + packet_bytes;
        while !self.has_credit_for(packet_bytes) {
            if self.take_acknowledgement(how)?.is_none() {
                return Ok(None);
            }
        }
        let packet = &mut self.buffer[..packet_bytes];
        packet[..PREFIX_BYTES].copy_from_slice(&self.next_sequence.to_le_bytes());
        // The other end takes it from us at once, so our send buffer never fills.
        let sent = match how {
            Attempt::Blocking => nonblocking(socket::send(&*self.socket, packet)),
            Attempt::NonBlocking => socket::try_send(&*self.socket, packet),
        };
        if sent?.is_none() {
            return Ok(None);
        }
        self.next_sequence += 1;
        self.sent += cost(packet_bytes);
        Ok(Some(()))
    }

    fn take_acknowledgement(&mut self, how: Attempt) -> io::Result<Option<()>> {
        let mut word = [0; PREFIX_BYTES];
        let received = match how {
            Attempt::Blocking => nonblocking(socket::recv_message(&*self.socket, &mut word)),
            Attempt::NonBlocking => socket::try_recv_message(&*self.socket, &mut word),
        };
        match received? {
            // Closed by our watcher.
            None | Some(0) => Ok(None),
            Some(PREFIX_BYTES) => {
                let acknowledged = u64::from_le_bytes(word);
                if !(self.acknowledged..=self.sent).contains(&acknowledged) {
                    return Err(violation_error(Violation::BadIndex));
                }
                self.acknowledged = acknowledged;
                Ok(Some(()))
            }
            Some(_) => Err(violation_error(Violation::BadHeader)),
        }
    }
}

impl Inward {
    fn receive(&mut self, how: Attempt) -> io::Result<Option<Received>> {
        let Some(bytes) = self.receive_bytes(how)? else { return Ok(None) };
        if bytes == 0 {
            return Ok(Some(Received::WakeUp));
        }
        if bytes > self.buffer.len() {
            let violation = Violation::FragmentTooLarge { fragment_bytes: bytes as u64 };
            return Ok(Some(Received::Nonsense(violation)));
        }
        let Some((sequence, _)) = self.buffer[..bytes].split_first_chunk() else {
            return Ok(Some(Received::Nonsense(Violation::BadHeader)));
        };
        if u64::from_le_bytes(*sequence) != self.next_sequence {
            return Ok(Some(Received::Nonsense(Violation::LostPacket)));
        }
        self.next_sequence += 1;
        self.taken += cost(bytes);
        if self.taken - self.told >= self.window / 4 {
            // If it fails, the next packet brings the next try; if the other end is gone, the
            // next receive reports it.
            if let Ok(Some(_)) = socket::try_send(&*self.socket, &self.taken.to_le_bytes()) {
                self.told = self.taken;
            }
        }
        Ok(Some(Received::Packet(PREFIX_BYTES..bytes)))
    }

    fn receive_bytes(&mut self, how: Attempt) -> io::Result<Option<usize>> {
        let received = match how {
            Attempt::Blocking => nonblocking(socket::recv_message(&*self.socket, &mut self.buffer)),
            Attempt::NonBlocking => socket::try_recv_message(&*self.socket, &mut self.buffer),
        };
        match received {
            // Told once, and before the packets that are still there. The watcher ends the wait.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                socket::try_recv_message(&*self.socket, &mut self.buffer)
            }
            received => received,
        }
    }
}

impl FdPair for UdpLine {
    fn wait_for(&mut self, interest: Interest, deadline: Deadline) -> io::Result<bool> {
        let socket = match interest {
            Interest::Receive => &self.inward.socket,
            // Only asked for while the window is used up: then an acknowledgement helps.
            Interest::Send => &self.outward.socket,
        };
        Ok(poll_one(&**socket, poll::Interest::Readable, deadline)?.is_some())
    }
}

impl PacketSocket for UdpLine {
    fn room_bytes(&self) -> io::Result<usize> {
        Ok(usize::try_from(self.outward.window).unwrap_or(usize::MAX))
    }

    #[inline]
    fn outgoing(&mut self) -> &mut [u8] {
        &mut self.outward.buffer[PREFIX_BYTES..]
    }

    #[inline]
    fn incoming(&self) -> &[u8] {
        &self.inward.buffer
    }

    #[inline]
    fn send(&mut self, packet_bytes: usize, how: Attempt) -> io::Result<Option<()>> {
        self.outward.send(packet_bytes, how)
    }

    #[inline]
    fn receive(&mut self, how: Attempt) -> io::Result<Option<Received>> {
        self.inward.receive(how)
    }

    fn has_room(&mut self) -> io::Result<bool> {
        while !self.outward.has_credit_for(self.outward.buffer.len()) {
            if self.outward.take_acknowledgement(Attempt::NonBlocking)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>> {
        let socket = match interest {
            Interest::Receive => &self.inward.socket,
            Interest::Send => &self.outward.socket,
        };
        Some(Readiness::level(socket.as_fd(), false))
    }

    fn arm(&mut self, interest: Interest) -> bool {
        interest == Interest::Receive || !self.has_room().unwrap_or(true)
    }
}

/// Returns whether the loopback interface is there and up.
pub(crate) fn probe() -> Result<(), Unsupported> {
    socket::udp_pair().map(drop).map_err(Unsupported::doing("connecting over UDP to 127.0.0.1"))
}

/// Opens the server's end.
pub(crate) fn offer(settings: &Settings) -> Result<Offer, OpenError> {
    let pair = || socket::udp_pair().map_err(OpenError::doing("connecting over UDP"));
    let ((to_client, from_server), (to_server, from_client)) = (pair()?, pair()?);
    let window = |receiver: &OwnedFd| {
        let bytes = (settings.buffer_bytes as usize).max(RECEIVE_BYTES_MIN);
        let sizes = socket::set_buffer_bytes(receiver, None, Some(bytes));
        let sizes = sizes.map_err(OpenError::doing("sizing a socket"))?;
        Ok::<_, OpenError>(sizes.receive as u64 / 2)
    };
    let (client_window, server_window) = (window(&from_server)?, window(&from_client)?);
    let bytes = [client_window, server_window].map(u64::to_le_bytes).concat();
    let parts = ChannelFds { bytes, descriptors: vec![from_server, to_server] };
    let settings = settings.clone();
    let finish = move |answer: ChannelFds| {
        answer.expect_nothing_more()?;
        channel((to_client, client_window), (from_client, server_window), &settings)
    };
    Ok(Offer { parts, finish: Box::new(finish) })
}

/// Opens the client's end.
pub(crate) fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Accepted, OpenError> {
    let [from_server, to_server] = parts.take_descriptors()?;
    let bytes = std::mem::take(&mut parts.bytes);
    parts.expect_nothing_more()?;
    let windows = bytes.split_first_chunk::<8>().and_then(|(first, rest)| {
        Some([u64::from_le_bytes(*first), u64::from_le_bytes(rest.try_into().ok()?)])
    });
    let Some([client_window, server_window]) = windows else {
        return Err(OpenError::bad_parts("no window"));
    };
    for window in [client_window, server_window] {
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&window) {
            return Err(OpenError::bad_parts("a window that cannot be"));
        }
    }
    for socket in [&from_server, &to_server] {
        socket::buffer_bytes(socket).map_err(|_| OpenError::bad_parts("no socket"))?;
    }
    let channel = channel((to_server, server_window), (from_server, client_window), settings)?;
    Ok(Accepted { parts: ChannelFds::default(), channel })
}

fn channel(
    (outward, outward_window): (OwnedFd, u64),
    (inward, inward_window): (OwnedFd, u64),
    settings: &Settings,
) -> Result<Box<dyn Channel>, OpenError> {
    let (outward, inward) = (Arc::new(outward), Arc::new(inward));
    let sockets = [Arc::clone(&outward), Arc::clone(&inward)];
    let wake = move || {
        for socket in &sockets {
            let _ = socket::shutdown(&**socket, Half::Receive);
        }
    };
    let guard =
        watch(settings, move |_| wake()).map_err(OpenError::doing("watching the other end"))?;
    let line = UdpLine {
        outward: Outward {
            socket: outward,
            buffer: vec![0; packet_bytes_max(outward_window)].into_boxed_slice(),
            next_sequence: 0,
            window: outward_window,
            sent: 0,
            acknowledged: 0,
        },
        inward: Inward {
            socket: inward,
            buffer: vec![0; packet_bytes_max(inward_window)].into_boxed_slice(),
            next_sequence: 0,
            window: inward_window,
            taken: 0,
            told: 0,
        },
        _watch: guard,
    };
    let strategy =
        WaitStrategy { wait: settings.wait, liveness: Some(Arc::clone(&settings.liveness)) };
    let transport = PacketTransport::new(line, strategy);
    Ok(channel::over(transport, settings.message_bytes_max))
}

/// The sequence number in front of each packet, in bytes; also an acknowledgement.
const PREFIX_BYTES: usize = 8;

/// Longest packet, in bytes: a whole number of pages with room for the IP headers below 64 KiB.
const PACKET_BYTES_MAX: usize = 60 << 10;

/// Smallest receive buffer that is asked for, in bytes: the kernel's charge for small packets is
/// large, and a window for less than a few of them would be a window for one.
const RECEIVE_BYTES_MIN: usize = 32 << 10;

/// Bounds of a window that a server may announce: what the kernel makes of the smallest receive
/// buffer, and twice the largest.
const WINDOW_MIN: u64 = 16 << 10;
const WINDOW_MAX: u64 = 2 * BUFFER_BYTES_MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_window_has_room_for_four_of_the_longest_packets() {
        for window in [WINDOW_MIN, 64 << 10, 256 << 10, WINDOW_MAX] {
            let packet_bytes = packet_bytes_max(window);
            assert!(4 * cost(packet_bytes) <= window, "{window} {packet_bytes}");
        }
    }
}
