//! The handshake by hand, for tests that break its rules.
//!
//! Says in its own words what `packet.rs` and `shm/layout.rs` say, so that a change there which
//! other programs would notice fails here.

use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nearcall_channel::{Mechanism, Version};
use nearcall_os::descriptor::{Received, receive_with_fds, send_with_fds};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::region::{Backing, OwnRegion};
use nearcall_os::socket::{UnixAddress, unix_connect};

use super::PATIENCE;

pub(crate) const OFFER: u8 = 2;
pub(crate) const ACCEPT: u8 = 3;
pub(crate) const READY: u8 = 4;
pub(crate) const REFUSAL: u8 = 5;

/// What the server may answer a refused client with.
pub(crate) const REFUSED_VERSION: u8 = 1;
pub(crate) const REFUSED_MECHANISM: u8 = 2;
pub(crate) const REFUSED_LIMITS: u8 = 4;
pub(crate) const REFUSED_PARTS: u8 = 5;
pub(crate) const REFUSED_OTHER: u8 = 0;

/// Room that a raw client asks for, the smallest.
pub(crate) const RING_BYTES: u32 = 4 << 10;
/// Where frames begin in a region.
pub(crate) const FRAMES: usize = 512;
/// Where the owner says what it has read.
pub(crate) const CONSUMED: usize = 384;
/// The version of that picture.
pub(crate) const LAYOUT: u32 = 3;

/// One end of a control line without any manners.
pub(crate) struct RawLine {
    pub(crate) socket: OwnedFd,
    /// What a good greeting asks for.
    pub(crate) mechanism: Mechanism,
}

/// A greeting.
pub(crate) fn hello(version: Version, limit: u32, buffer: u32, mechanism: &[u8]) -> Vec<u8> {
    let mut bytes = b"NEARCALL\x01".to_vec();
    bytes.extend(version.major.to_le_bytes());
    bytes.extend(version.minor.to_le_bytes());
    bytes.extend(limit.to_le_bytes());
    bytes.extend(buffer.to_le_bytes());
    bytes.extend(mechanism);
    bytes
}

/// A greeting that a server answers with an offer.
pub(crate) fn good_hello(mechanism: Mechanism) -> Vec<u8> {
    hello(nearcall_channel::VERSION, 4 << 20, RING_BYTES, mechanism.name().as_bytes())
}

/// Shared memory as a client should hand it over, but for what the arguments say.
pub(crate) fn region(magic: [u8; 8], version: u32, ring_bytes: u32) -> (OwnRegion, OwnedFd) {
    let bytes = FRAMES + RING_BYTES as usize;
    let (mut own, fd) = OwnRegion::create("hostile", bytes, Backing::Reserved).unwrap();
    own.write(0, &magic);
    own.write(8, &version.to_le_bytes());
    own.write(12, &ring_bytes.to_le_bytes());
    (own, fd)
}

/// Shared memory as it should be.
pub(crate) fn good_region() -> (OwnRegion, OwnedFd) {
    region(*b"nearshm\0", LAYOUT, RING_BYTES)
}

impl RawLine {
    /// Connects to the listener of this abstract name, which may not be there yet.
    pub(crate) fn connect(name: &str, mechanism: Mechanism) -> Self {
        let end = nearcall_os::clock::now() + PATIENCE;
        loop {
            match unix_connect(UnixAddress::Abstract(name.as_bytes()), Some(PATIENCE)) {
                Ok(socket) => return Self { socket, mechanism },
                Err(error) => assert!(nearcall_os::clock::now() < end, "{error}"),
            }
            nearcall_os::clock::pause(Duration::from_millis(1));
        }
    }

    /// Sends one packet.
    pub(crate) fn send(&self, bytes: &[u8], fds: &[OwnedFd]) {
        assert_eq!(self.try_send(bytes, fds).unwrap(), bytes.len());
    }

    /// Sends one packet, unless the other end has closed.
    #[allow(dead_code, reason = "some programs of tests only")]
    pub(crate) fn send_unless_closed(&self, bytes: &[u8], fds: &[OwnedFd]) {
        match self.try_send(bytes, fds) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            sent => assert_eq!(sent.unwrap(), bytes.len()),
        }
    }

    fn try_send(&self, bytes: &[u8], fds: &[OwnedFd]) -> std::io::Result<usize> {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        send_with_fds(&self.socket, bytes, &fds)
    }

    /// Waits for one packet; empty when the other end has closed.
    pub(crate) fn receive(&self) -> (Vec<u8>, Vec<OwnedFd>) {
        let ready = poll_one(&self.socket, Interest::Readable, Some(PATIENCE)).unwrap();
        assert!(ready.is_some(), "no answer");
        let mut buffer = [0; 2048];
        let Received { bytes, fds, .. } = receive_with_fds(&self.socket, &mut buffer, 16).unwrap();
        (buffer[..bytes].to_vec(), fds)
    }

    /// Greets well and takes the offer.
    pub(crate) fn greet(&self) -> Vec<OwnedFd> {
        self.send(&good_hello(self.mechanism), &[]);
        let (offer, fds) = self.receive();
        assert_eq!(offer[0], OFFER, "{}", String::from_utf8_lossy(&offer));
        fds
    }
}
