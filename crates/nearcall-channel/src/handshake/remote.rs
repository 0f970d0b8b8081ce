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
//! greeting is one step as a whole, however slowly its bytes come; the smaller limit wins.
//! **Not here:** when a step is due (`steps.rs`), the channel
//! over the stream (`kernel/tcp.rs`), the local meeting (`handshake.rs`).

use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nearcall_os::descriptor;
use nearcall_os::socket;

use super::error::{BadOptions, HandshakeError};
use super::local;
use super::options::{
    Options, check_buffer, check_limit, check_server_user, check_version, choose_wait,
};
use super::step::Step;
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

/// One end of a handshake over a stream: the greeting of the other end, as far as it has come.
pub(super) struct State {
    serves: bool,
    bytes: [u8; GREETING_BYTES],
    come: usize,
}

impl State {
    /// Readies the stream; a client's options have been judged, and it greets.
    pub(super) fn start(
        control: &Control,
        serves: bool,
        options: &Options,
    ) -> Result<Self, HandshakeError> {
        if serves {
            check_options(Mechanism::Tcp, options)?;
        }
        socket::ready_tcp(control, REMOTE_SILENCE_MAX)?;
        if !serves {
            send(control, greeting(options, 0).encode(CLIENT_MAGIC))?;
        }
        Ok(Self { serves, bytes: [0; GREETING_BYTES], come: 0 })
    }

    /// Takes what is there of the other end's greeting, and not a byte of what follows it. Does
    /// not wait.
    pub(super) fn step(
        &mut self,
        control: &Arc<Control>,
        options: &Options,
    ) -> Result<Step, HandshakeError> {
        let magic = if self.serves { CLIENT_MAGIC } else { SERVER_MAGIC };
        while self.come < GREETING_BYTES {
            match socket::try_recv(control, &mut self.bytes[self.come..])? {
                Some(0) => return Err(HandshakeError::PeerGone),
                Some(more) => self.come += more,
                None => return Ok(Step::Nothing),
            }
            let here = self.come.min(magic.len());
            if self.bytes[..here] != magic[..here] {
                return Err(Violation::BadPacket.into());
            }
        }
        let theirs = Greeting::decode(self.bytes);
        let agreed = match self.serves {
            true => answer(control, theirs, options),
            false => check_answer(theirs, options),
        };
        Ok(Step::Done(Box::new(endpoint(control, options, agreed?)?)))
    }
}

/// The limits that both ends agree on.
type Agreed = (u32, u32);

fn greeting(options: &Options, refusal: u32) -> Greeting {
    let Options { message_bytes_max, buffer_bytes, .. } = *options;
    Greeting { version: VERSION, message_bytes_max, buffer_bytes, refusal }
}

/// The client's judgement of a server's greeting.
fn check_answer(answer: Greeting, options: &Options) -> Result<Agreed, HandshakeError> {
    check_version(answer.version)?;
    if answer.refusal != 0 {
        return Err(refusal(answer));
    }
    let Greeting { message_bytes_max, buffer_bytes, .. } = answer;
    // The server may lower what we asked for; it may not raise it.
    if message_bytes_max > options.message_bytes_max || buffer_bytes > options.buffer_bytes {
        return Err(Violation::BadPacket.into());
    }
    check_buffer(buffer_bytes).map_err(|_| Violation::BadPacket)?;
    Ok((message_bytes_max, buffer_bytes))
}

/// The server's answer to a client's greeting.
fn answer(control: &Control, hello: Greeting, options: &Options) -> Result<Agreed, HandshakeError> {
    let refuse = |code: u32| {
        // A client that has gone does not need it.
        let _ = send(control, greeting(options, code).encode(SERVER_MAGIC));
    };
    check_version(hello.version).inspect_err(|_| refuse(REFUSED_VERSION))?;
    if hello.refusal != 0 {
        return Err(Violation::BadPacket.into());
    }
    let limits = check_limit(hello.message_bytes_max)
        .and_then(|limit| Ok((limit, check_buffer(hello.buffer_bytes)?)));
    let (limit, buffer) = limits.inspect_err(|_| refuse(REFUSED_LIMITS))?;
    let agreed = (limit.min(options.message_bytes_max), buffer.min(options.buffer_bytes));
    let (message_bytes_max, buffer_bytes) = agreed;
    // Its descriptors were charged when it was accepted.
    local::charge_bytes(control, Mechanism::Tcp, buffer_bytes)
        .inspect_err(|_| refuse(REFUSED_CROWDED))?;
    let answer = Greeting { message_bytes_max, buffer_bytes, ..greeting(options, 0) };
    send(control, answer.encode(SERVER_MAGIC))?;
    Ok(agreed)
}

/// Refuses a client in place of any answer.
pub(super) fn reject(control: &Control) {
    // A client that does not read it sees the stream end.
    let _ = send(control, greeting(&Options::default(), REFUSED_CROWDED).encode(SERVER_MAGIC));
}

fn endpoint(
    control: &Arc<Control>,
    options: &Options,
    (message_bytes_max, buffer_bytes): Agreed,
) -> Result<Endpoint, HandshakeError> {
    let mechanism = Mechanism::Tcp;
    let peer = socket::tcp_peer(&**control)?.ok_or(HandshakeError::PeerGone)?;
    // The watcher notices the hang-up by the first, which replaces the control line.
    let socket = descriptor::duplicate(&**control)?;
    let settings = Settings {
        wait: choose_wait(mechanism, options)?,
        spin: options.spin,
        message_bytes_max,
        buffer_bytes,
        peer: Peer::Remote(peer),
        liveness: Arc::new(PeerLiveness::default()),
        control: Arc::clone(control),
    };
    let channel = tcp::over(socket, &settings);
    let channel = channel.map_err(|error| HandshakeError::Open(mechanism, error))?;
    Ok(Endpoint::new(channel, mechanism, settings, Arc::clone(control)))
}

/// A greeting that fits the empty buffer of a new stream, so this never waits.
fn send(socket: &Control, greeting: [u8; GREETING_BYTES]) -> Result<(), HandshakeError> {
    match socket::try_send(socket, &greeting)? {
        Some(GREETING_BYTES) => Ok(()),
        _ => Err(HandshakeError::Os(io::ErrorKind::WriteZero.into())),
    }
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
