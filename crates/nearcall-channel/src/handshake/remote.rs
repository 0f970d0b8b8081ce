//! Rendezvous over `tcp://`: a short greeting on the stream that then carries the messages.
//!
//! ```text
//! client                                  server
//!   magic, version, limits, 0         -->
//!                                     <--  another magic, version, limits, 0 or why not
//! ```
//!
//! Each greeting has 24 bytes, little endian. Nothing else travels: there is no control line, so
//! no descriptors, and the end of the stream is the end of the peer. The peer is not
//! authenticated, and nothing is encrypted.
//!
//! **Invariants:** bytes that are no greeting are refused at the first of them that is wrong; a
//! greeting has one deadline as a whole, however slowly its bytes come; the smaller limit wins.
//! **Not here:** the channel over the stream (`kernel/tcp.rs`), the local meeting (`handshake.rs`).

use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nearcall_os::descriptor;
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::socket;

use super::error::{BadOptions, HandshakeError};
use super::options::{
    Options, check_buffer, check_limit, check_server_user, check_version, choose_wait,
};
use crate::address::Address;
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::error::Violation;
use crate::kernel::tcp;
use crate::limits::{CONNECT_TIMEOUT_MIN, REMOTE_SILENCE_MAX};
use crate::liveness::PeerLiveness;
use crate::mechanism::Mechanism;
use crate::packet::{Refusal, VERSION, Version};
use crate::settings::{Peer, Settings};
use crate::wait::Deadline;

/// A greeting but for its magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Greeting {
    version: Version,
    message_bytes_max: u32,
    buffer_bytes: u32,
    /// Why the server refuses; zero if it does not.
    refusal: u32,
}

impl Greeting {
    fn encode(self, magic: [u8; 8]) -> [u8; GREETING_BYTES] {
        let mut out = [0; GREETING_BYTES];
        out[..8].copy_from_slice(&magic);
        out[8..10].copy_from_slice(&self.version.major.to_le_bytes());
        out[10..12].copy_from_slice(&self.version.minor.to_le_bytes());
        out[12..16].copy_from_slice(&self.message_bytes_max.to_le_bytes());
        out[16..20].copy_from_slice(&self.buffer_bytes.to_le_bytes());
        out[20..].copy_from_slice(&self.refusal.to_le_bytes());
        out
    }

    /// Decodes the bytes after the magic, which was checked as it came.
    fn decode(bytes: [u8; GREETING_BYTES]) -> Self {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(short(at)) | u32::from(short(at + 2)) << 16;
        Self {
            version: Version { major: short(8), minor: short(10) },
            message_bytes_max: word(12),
            buffer_bytes: word(16),
            refusal: word(20),
        }
    }
}

/// Listens at the first address of `host` that can be had. The socket, and where it is now.
pub(crate) fn listen(host: &str, port: u16) -> io::Result<(OwnedFd, Address)> {
    let listener = TcpListener::bind((host, port))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((listener.into(), Address::Tcp { host: host.to_owned(), port }))
}

/// Connects to the first address of `host` that answers. Looking a name up takes what it takes.
pub(crate) fn reach(host: &str, port: u16, timeout: Duration) -> io::Result<OwnedFd> {
    let deadline = Deadline::after(timeout);
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        // Zero is refused by the standard library.
        let left = deadline.remaining().unwrap_or(timeout).max(CONNECT_TIMEOUT_MIN);
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream.into()),
            Err(failed) => error = failed,
        }
        if deadline.has_passed() {
            break;
        }
    }
    Err(error)
}

/// Returns whether a client may ask for this over `tcp://`. Nothing has been sent then.
pub(crate) fn check_options(mechanism: Mechanism, options: &Options) -> Result<(), HandshakeError> {
    if mechanism != Mechanism::Tcp {
        return Err(BadOptions::NotOverTcp { mechanism }.into());
    }
    check_server_user(options, None)?;
    choose_wait(mechanism, options)?;
    check_limit(options.message_bytes_max)?;
    check_buffer(options.buffer_bytes)?;
    Ok(())
}

/// The client's part; its options have been judged.
pub(crate) fn connect(socket: OwnedFd, options: &Options) -> Result<Endpoint, HandshakeError> {
    socket::ready_tcp(&socket, REMOTE_SILENCE_MAX)?;
    let (message_bytes_max, buffer_bytes) = (options.message_bytes_max, options.buffer_bytes);
    let hello = Greeting { version: VERSION, message_bytes_max, buffer_bytes, refusal: 0 };
    send(&socket, hello.encode(CLIENT_MAGIC))?;
    let answer = Greeting::decode(receive(socket.as_fd(), SERVER_MAGIC, options)?);
    check_version(answer.version)?;
    if answer.refusal != 0 {
        return Err(refusal(answer));
    }
    // The server may lower what we asked for; it may not raise it.
    if answer.message_bytes_max > message_bytes_max || answer.buffer_bytes > buffer_bytes {
        return Err(Violation::BadPacket.into());
    }
    check_buffer(answer.buffer_bytes).map_err(|_| Violation::BadPacket)?;
    endpoint(socket, options, answer.message_bytes_max, answer.buffer_bytes)
}

/// The server's part, for a client that was accepted.
pub(crate) fn accept(socket: OwnedFd, options: &Options) -> Result<Endpoint, HandshakeError> {
    check_options(Mechanism::Tcp, options)?;
    socket::ready_tcp(&socket, REMOTE_SILENCE_MAX)?;
    let hello = Greeting::decode(receive(socket.as_fd(), CLIENT_MAGIC, options)?);
    let ours = Greeting {
        version: VERSION,
        message_bytes_max: options.message_bytes_max,
        buffer_bytes: options.buffer_bytes,
        refusal: 0,
    };
    let refuse = |code: u32| {
        // A client that has gone does not need it.
        let _ = send(&socket, Greeting { refusal: code, ..ours }.encode(SERVER_MAGIC));
    };
    check_version(hello.version).inspect_err(|_| refuse(REFUSED_VERSION))?;
    if hello.refusal != 0 {
        return Err(Violation::BadPacket.into());
    }
    let limits = check_limit(hello.message_bytes_max)
        .and_then(|limit| Ok((limit, check_buffer(hello.buffer_bytes)?)));
    let (limit, buffer) = limits.inspect_err(|_| refuse(REFUSED_LIMITS))?;
    let answer = Greeting {
        message_bytes_max: limit.min(options.message_bytes_max),
        buffer_bytes: buffer.min(options.buffer_bytes),
        ..ours
    };
    send(&socket, answer.encode(SERVER_MAGIC))?;
    endpoint(socket, options, answer.message_bytes_max, answer.buffer_bytes)
}

/// Refuses a client in place of any answer.
pub(crate) fn reject(socket: &OwnedFd) {
    let options = Options::default();
    let answer = Greeting {
        version: VERSION,
        message_bytes_max: options.message_bytes_max,
        buffer_bytes: options.buffer_bytes,
        refusal: REFUSED_CROWDED,
    };
    // A client that does not read it sees the stream end.
    let _ = send(socket, answer.encode(SERVER_MAGIC));
}

fn endpoint(
    socket: OwnedFd,
    options: &Options,
    message_bytes_max: u32,
    buffer_bytes: u32,
) -> Result<Endpoint, HandshakeError> {
    let mechanism = Mechanism::Tcp;
    let peer = socket::tcp_peer(&socket)?.ok_or(HandshakeError::PeerGone)?;
    // The watcher notices the hang-up by a duplicate, which replaces the control line.
    let control = Arc::new(Control::new(descriptor::duplicate(&socket)?));
    let settings = Settings {
        wait: choose_wait(mechanism, options)?,
        spin: options.spin,
        message_bytes_max,
        buffer_bytes,
        peer: Peer::Remote(peer),
        liveness: Arc::new(PeerLiveness::default()),
        control: Arc::clone(&control),
    };
    let channel = tcp::over(socket, &settings);
    let channel = channel.map_err(|error| HandshakeError::Open(mechanism, error))?;
    Ok(Endpoint::new(channel, mechanism, settings, control))
}

/// A greeting that fits the empty buffer of a new stream, so this never waits.
fn send(socket: &OwnedFd, greeting: [u8; GREETING_BYTES]) -> Result<(), HandshakeError> {
    match socket::try_send(socket, &greeting)? {
        Some(GREETING_BYTES) => Ok(()),
        _ => Err(HandshakeError::Os(io::ErrorKind::WriteZero.into())),
    }
}

/// A greeting with this magic, and not a byte of what follows it.
fn receive(
    socket: BorrowedFd<'_>,
    magic: [u8; 8],
    options: &Options,
) -> Result<[u8; GREETING_BYTES], HandshakeError> {
    let deadline = Deadline::after(options.handshake_timeout);
    let (mut bytes, mut come) = ([0; GREETING_BYTES], 0);
    while come < GREETING_BYTES {
        match socket::try_recv(socket, &mut bytes[come..])? {
            Some(0) => return Err(HandshakeError::PeerGone),
            Some(more) => come += more,
            None if deadline.has_passed() => return Err(HandshakeError::TimedOut),
            None => drop(poll_one(socket, Interest::Readable, deadline)?),
        }
        let here = come.min(magic.len());
        if bytes[..here] != magic[..here] {
            return Err(Violation::BadPacket.into());
        }
    }
    Ok(bytes)
}

/// Explains the number from the server. It sends no text, so that none has to be checked.
fn refusal(answer: Greeting) -> HandshakeError {
    let (code, text) = match answer.refusal {
        REFUSED_LIMITS => (Refusal::Limits, "the limits that were asked for are out of its range"),
        REFUSED_VERSION => (Refusal::Version, "it does not speak this version"),
        REFUSED_CROWDED => (Refusal::Other, "it has too many clients now; try again"),
        _ => (Refusal::Other, "it gave a reason that this program does not know"),
    };
    HandshakeError::Refused { code, text: text.to_owned() }
}

const GREETING_BYTES: usize = 24;

/// What a client begins with. Another than the server's: a stream that was connected to itself, as
/// TCP allows, is no server.
const CLIENT_MAGIC: [u8; 8] = *b"NEARCALC";
const SERVER_MAGIC: [u8; 8] = *b"NEARCALS";

const REFUSED_VERSION: u32 = 1;
const REFUSED_LIMITS: u32 = 2;
const REFUSED_CROWDED: u32 = 3;
