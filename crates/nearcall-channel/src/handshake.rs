//! Two processes meet over a unix socket and open a mechanism between them.
//!
//! ```no_run
//! use nearcall_channel::{Address, Deadline, Listener, Options};
//!
//! let address: Address = "unix:@example".parse()?;
//! let listener = Listener::bind(&address)?;
//! // In another process: nearcall_channel::connect(&address, mechanism, &Options::default())?
//! let mut endpoint = listener.accept(Deadline::NEVER, &Options::default())?;
//! endpoint.send(b"hello", Deadline::NEVER)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Always true: the client asks, the server decides; the smaller limit wins; each step has a
//! deadline; who the other end is comes from the kernel; a step that fails leaves nothing behind.
//! Not here: the packets as bytes (`packet.rs`), meeting over TCP (`remote.rs`), what a
//! mechanism makes of the parts (`open.rs`).

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nearcall_os::socket;

use crate::address::Address;
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::error::{ReceiveError, Violation};
use crate::limits;
use crate::liveness::PeerLiveness;
use crate::mechanism::{Mechanism, UnknownMechanism};
use crate::open::OpenError;
use crate::packet::{Packet, Refusal, VERSION, Version};
use crate::remote;
use crate::settings::{ChannelFds, Peer, PeerIdentity, Settings};
use crate::spin::SpinOptions;
use crate::wait::{Deadline, WaitPolicy};

/// What one end wants of a connection.
#[derive(Debug, Clone)]
pub struct Options {
    /// How this end waits; `None` takes the mechanism's usual policy.
    pub wait: Option<WaitPolicy>,
    /// Where `wait` is `None`: the first of these that the mechanism has goes before its usual
    /// policy. For a server, which learns of the mechanism from its client.
    pub wait_preferred: &'static [WaitPolicy],
    /// How long this end spins before it sleeps, where it waits by `adaptive`.
    pub spin: SpinOptions,
    /// For a server in an event loop that sleeps in another connection already: a client that asks
    /// for an end without a descriptor to wait on is refused, and told so.
    pub pollable_only: bool,
    /// The longest message to agree on, in bytes.
    pub message_bytes_max: u32,
    /// Room in each direction to agree on, in bytes.
    pub buffer_bytes: u32,
    /// How long the other end may take for each step of the handshake.
    pub handshake_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wait: None,
            wait_preferred: &[],
            spin: SpinOptions::default(),
            pollable_only: false,
            message_bytes_max: limits::MESSAGE_BYTES_MAX_DEFAULT,
            buffer_bytes: limits::BUFFER_BYTES_DEFAULT,
            handshake_timeout: limits::HANDSHAKE_TIMEOUT,
        }
    }
}

/// Why two ends did not come together.
#[derive(Debug)]
pub enum HandshakeError {
    /// Nobody listens at the address. Start the server, or wait until it is there.
    NoListener(Address),
    /// The address is taken by a listener that lives.
    AddressInUse(Address),
    /// The wait policy or a limit cannot be had; nothing was sent.
    BadOptions(String),
    /// The client asked for a mechanism that this build does not have.
    UnknownMechanism(UnknownMechanism),
    /// The other end speaks another major version.
    Version {
        /// What this build speaks.
        ours: Version,
        /// What the other end speaks.
        theirs: Version,
    },
    /// The other end said no.
    Refused {
        /// For programs.
        code: Refusal,
        /// For people.
        text: String,
    },
    /// This end could not open the mechanism.
    Open(Mechanism, OpenError),
    /// The other end did not answer in time.
    TimedOut,
    /// The other end closed or died during the handshake.
    PeerGone,
    /// The other end does not speak this protocol.
    PeerBroken(Violation),
    /// A system call failed.
    Os(io::Error),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoListener(address) => {
                write!(
                    f,
                    "nobody listens at {address}: start its server, or wait deadline it is there"
                )
            }
            Self::AddressInUse(address) => write!(f, "{address} is in use by another server"),
            Self::BadOptions(what) => f.write_str(what),
            Self::UnknownMechanism(error) => error.fmt(f),
            Self::Version { ours, theirs } => write!(
                f,
                "the other end speaks version {}.{}, this program {}.{}: update the older one",
                theirs.major, theirs.minor, ours.major, ours.minor
            ),
            Self::Refused { text, .. } => write!(f, "the other end refused: {text}"),
            Self::Open(mechanism, error) => write!(f, "cannot open {mechanism}: {error}"),
            Self::TimedOut => f.write_str("the other end did not answer the handshake in time"),
            Self::PeerGone => f.write_str("the other end left during the handshake"),
            Self::PeerBroken(violation) => write!(f, "the other end {violation}"),
            Self::Os(error) => write!(f, "the socket to meet at failed: {error}"),
        }
    }
}

impl std::error::Error for HandshakeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open(_, error) => Some(error),
            Self::Os(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match crate::error::means_peer_gone(&error) {
            true => Self::PeerGone,
            false => Self::Os(error),
        }
    }
}

impl From<ReceiveError> for HandshakeError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Empty => Self::TimedOut,
            ReceiveError::PeerGone | ReceiveError::Aborted | ReceiveError::DoesNotFit { .. } => {
                Self::PeerGone
            }
            ReceiveError::PeerBroken(violation) => Self::PeerBroken(violation),
            ReceiveError::Os(error) => Self::Os(error),
        }
    }
}

/// A server's place to be met at.
pub struct Listener {
    socket: OwnedFd,
    address: Address,
}

impl Listener {
    /// Listens at `address` and nowhere else. Over `tcp://` anybody who can reach the port may
    /// come.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::AddressInUse`]: somebody listens there.
    pub fn bind(address: &Address) -> Result<Self, HandshakeError> {
        let bound = match address {
            Address::Tcp { host, port } => remote::listen(host, *port),
            _ => address.listen().map(|socket| (socket, address.clone())),
        };
        let (socket, address) = bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => HandshakeError::AddressInUse(address.clone()),
            _ => HandshakeError::Os(error),
        })?;
        Ok(Self { socket, address })
    }

    /// Where it listens; if it was told port 0, with the port that it got.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for a client until `deadline` and opens what it asks for.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::TimedOut`]: nobody came, or somebody came and did not finish in time. Every
    /// other error concerns one client only: go on accepting.
    pub fn accept(
        &self,
        deadline: Deadline,
        options: &Options,
    ) -> Result<Endpoint, HandshakeError> {
        let socket = socket::accept(self, deadline)?.ok_or(HandshakeError::TimedOut)?;
        self.rendezvous().open(socket, options)
    }

    /// Takes a client that waits, without the handshake and without waiting; `None`: nobody is
    /// there. Hand the socket to [`Rendezvous::open`], from any thread.
    ///
    /// # Errors
    ///
    /// The kernel's. After EMFILE the client still waits, so do not ask again at once.
    pub fn accept_socket(&self) -> io::Result<Option<OwnedFd>> {
        socket::accept(self, Deadline::NOW)
    }

    /// How this listener's clients are met, for threads that have not the listener.
    pub fn rendezvous(&self) -> Rendezvous {
        match self.address {
            Address::Tcp { .. } => Rendezvous::Remote,
            _ => Rendezvous::Local,
        }
    }
}

/// How clients that came to a [`Listener`] are met. It outlives the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rendezvous {
    /// Over a unix socket, by the control line.
    Local,
    /// Over TCP.
    Remote,
}

impl Rendezvous {
    /// Opens what the client behind `socket` asks for. Waits for the client: each of its two
    /// answers has [`handshake_timeout`](Options::handshake_timeout).
    ///
    /// # Errors
    ///
    /// As [`Listener::accept`]; all concern this client only.
    pub fn open(self, socket: OwnedFd, options: &Options) -> Result<Endpoint, HandshakeError> {
        match self {
            Self::Local => accept_over(socket, options),
            Self::Remote => remote::accept(socket, options),
        }
    }

    /// Tells the client behind `socket` that it may not come in, and why; over TCP only that there
    /// are too many. Does not wait.
    pub fn reject(self, socket: OwnedFd, why: &str) {
        if let Self::Remote = self {
            return remote::reject(&socket);
        }
        if self == Self::Local {
            let refusal = Packet::Refusal { code: Refusal::Other, text: why.to_owned() };
            // Who does not hear it sees the socket close, as who comes over `tcp://` always does.
            let _ = Control::new(socket).send(&refusal.encode(), &[]);
        }
    }
}

// The handshake may run in another thread than the one that goes on with its outcome.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Endpoint>();
    is_send::<Rendezvous>();
    is_send::<HandshakeError>();
};

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.address.unlink();
    }
}

/// Connects to a server at `address` and asks it for `mechanism`.
///
/// # Errors
///
/// [`HandshakeError::NoListener`]: no server is there yet. [`HandshakeError::BadOptions`]: over `tcp://`
/// only [`Mechanism::Tcp`] can be had.
pub fn connect(
    address: &Address,
    mechanism: Mechanism,
    options: &Options,
) -> Result<Endpoint, HandshakeError> {
    let unreachable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            HandshakeError::NoListener(address.clone())
        }
        io::ErrorKind::TimedOut => HandshakeError::TimedOut,
        _ => HandshakeError::Os(error),
    };
    let timeout = options.handshake_timeout;
    if let Address::Tcp { host, port } = address {
        remote::judge_options(mechanism, options)?;
        let socket = remote::reach(host, *port, timeout).map_err(unreachable)?;
        return remote::connect(socket, options);
    }
    let socket = address.connect(timeout).map_err(unreachable)?;
    connect_over(socket, mechanism, options)
}

/// As [`connect`], over a connected SOCK_SEQPACKET unix socket, such as one of a socket pair.
///
/// # Errors
///
/// As [`connect`].
pub fn connect_over(
    socket: OwnedFd,
    mechanism: Mechanism,
    options: &Options,
) -> Result<Endpoint, HandshakeError> {
    let control = Arc::new(Control::new(socket));
    let wait = wait_for(mechanism, options)?;
    let hello = Packet::Hello {
        version: VERSION,
        message_bytes_max: check_limit(options.message_bytes_max)?,
        buffer_bytes: check_buffer(options.buffer_bytes)?,
        mechanism: mechanism.name().to_owned(),
    };
    say(&control, &hello, &[], options)?;
    let (packet, descriptors) = next_packet(&control, options)?;
    let Packet::Offer { version, message_bytes_max, buffer_bytes, parts } = packet else {
        return Err(HandshakeError::PeerBroken(Violation::BadPacket));
    };
    check_version(version)?;
    // The server may lower what we asked for; it may not raise it.
    if message_bytes_max > options.message_bytes_max || buffer_bytes > options.buffer_bytes {
        return Err(HandshakeError::PeerBroken(Violation::BadPacket));
    }
    check_limit(message_bytes_max).map_err(|_| Violation::BadPacket).map_err(broken)?;
    check_buffer(buffer_bytes).map_err(|_| Violation::BadPacket).map_err(broken)?;
    let settings = settings(&control, wait, options.spin, message_bytes_max, buffer_bytes)?;
    let offered = ChannelFds { bytes: parts, descriptors };
    let accepted = (mechanism.row().accept)(&settings, offered);
    let accepted = accepted.map_err(|error| HandshakeError::Open(mechanism, error));
    let accepted = accepted.inspect_err(|error| refuse(&control, error))?;
    let answer = Packet::Accept { parts: accepted.parts.bytes };
    say(&control, &answer, &accepted.parts.descriptors, options)?;
    match next_packet(&control, options)? {
        (Packet::Ready, none) if none.is_empty() => {
            Ok(Endpoint::new(accepted.channel, mechanism, settings, control))
        }
        _ => Err(HandshakeError::PeerBroken(Violation::BadPacket)),
    }
}

/// Serves one client over a connected SOCK_SEQPACKET unix socket.
///
/// # Errors
///
/// As [`Listener::accept`].
pub fn accept_over(socket: OwnedFd, options: &Options) -> Result<Endpoint, HandshakeError> {
    let control = Arc::new(Control::new(socket));
    serve(&control, options).inspect_err(|error| refuse(&control, error))
}

fn serve(control: &Arc<Control>, options: &Options) -> Result<Endpoint, HandshakeError> {
    // Ours first: the client would take a number out of bounds for a broken server.
    check_limit(options.message_bytes_max)?;
    check_buffer(options.buffer_bytes)?;
    // No descriptors before we know what the client wants.
    let deadline = Deadline::after(options.handshake_timeout);
    let hello = control.receive(deadline, 0)?;
    let packet = Packet::decode(&hello.bytes).map_err(broken)?;
    let Packet::Hello { version, message_bytes_max, buffer_bytes, mechanism } = packet else {
        return Err(HandshakeError::PeerBroken(Violation::BadPacket));
    };
    check_version(version)?;
    let mechanism: Mechanism =
        escape(&mechanism).parse().map_err(HandshakeError::UnknownMechanism)?;
    let message_bytes_max = check_limit(message_bytes_max)?.min(options.message_bytes_max);
    let buffer_bytes = check_buffer(buffer_bytes)?.min(options.buffer_bytes);
    let wait = wait_for(mechanism, options)?;
    if options.pollable_only && wait != WaitPolicy::Spin && !mechanism.capabilities().pollable {
        return Err(HandshakeError::BadOptions(format!(
            "the server sleeps in another connection that has no descriptor, and {mechanism} has \
             none either; use a mechanism that is pollable, such as shm-eventfd or unix-stream"
        )));
    }
    let settings = settings(control, wait, options.spin, message_bytes_max, buffer_bytes)?;
    let offer = (mechanism.row().offer)(&settings);
    let offer = offer.map_err(|error| HandshakeError::Open(mechanism, error))?;
    let ChannelFds { bytes: parts, descriptors } = offer.parts;
    let packet = Packet::Offer { version: VERSION, message_bytes_max, buffer_bytes, parts };
    send_parts(control, &packet, &descriptors)?;
    // Ours are closed here: while we hold the client's ends, we would not see it die.
    drop(descriptors);
    let (packet, descriptors) = next_packet(control, options)?;
    let Packet::Accept { parts } = packet else {
        return Err(HandshakeError::PeerBroken(Violation::BadPacket));
    };
    let channel = (offer.finish)(ChannelFds { bytes: parts, descriptors });
    let channel = channel.map_err(|error| HandshakeError::Open(mechanism, error))?;
    control.send(&Packet::Ready.encode(), &[])?;
    Ok(Endpoint::new(channel, mechanism, settings, Arc::clone(control)))
}

/// Tells the other end why, as far as it is there to hear it.
fn refuse(control: &Control, error: &HandshakeError) {
    let code = match error {
        HandshakeError::Version { .. } => Refusal::Version,
        HandshakeError::BadOptions(_) => Refusal::Limits,
        HandshakeError::UnknownMechanism(_) => Refusal::UnknownMechanism,
        HandshakeError::Open(_, OpenError::Unsupported(_)) => Refusal::Unsupported,
        HandshakeError::Open(_, OpenError::BadParts(_)) => Refusal::ChannelFds,
        HandshakeError::PeerGone | HandshakeError::Refused { .. } => return,
        _ => Refusal::Other,
    };
    let _ = control.send(&Packet::Refusal { code, text: error.to_string() }.encode(), &[]);
}

fn next_packet(
    control: &Control,
    options: &Options,
) -> Result<(Packet, Vec<OwnedFd>), HandshakeError> {
    let deadline = Deadline::after(options.handshake_timeout);
    let parts = control.receive(deadline, limits::HANDSHAKE_DESCRIPTORS_MAX)?;
    match Packet::decode(&parts.bytes).map_err(broken)? {
        Packet::Refusal { code, text } => {
            Err(HandshakeError::Refused { code, text: escape(&text) })
        }
        packet => Ok((packet, parts.descriptors)),
    }
}

/// Sends a client's packet. A server that has closed may have said why before.
fn say(
    control: &Control,
    packet: &Packet,
    descriptors: &[OwnedFd],
    options: &Options,
) -> Result<(), HandshakeError> {
    send_parts(control, packet, descriptors).map_err(|error| match error {
        HandshakeError::PeerGone => match next_packet(control, options) {
            Err(refused @ HandshakeError::Refused { .. }) => refused,
            _ => HandshakeError::PeerGone,
        },
        error => error,
    })
}

fn send_parts(
    control: &Control,
    packet: &Packet,
    descriptors: &[OwnedFd],
) -> Result<(), HandshakeError> {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    Ok(control.send(&packet.encode(), &borrowed)?)
}

fn settings(
    control: &Arc<Control>,
    wait: WaitPolicy,
    spin: SpinOptions,
    message_bytes_max: u32,
    buffer_bytes: u32,
) -> Result<Settings, HandshakeError> {
    let credentials = socket::peer_credentials(control.as_fd())?;
    // Older kernels have no SO_PEERPIDFD; the control line's hang-up still tells of death.
    let pidfd = socket::peer_pidfd(control.as_fd()).ok().map(Arc::new);
    let peer =
        PeerIdentity { pid: credentials.pid, uid: credentials.uid, gid: credentials.gid, pidfd };
    let peer = Peer::Process(peer);
    let liveness = Arc::new(PeerLiveness::default());
    let control = Arc::clone(control);
    Ok(Settings { wait, spin, message_bytes_max, buffer_bytes, peer, liveness, control })
}

pub(crate) fn wait_for(
    mechanism: Mechanism,
    options: &Options,
) -> Result<WaitPolicy, HandshakeError> {
    let possible = mechanism.waits();
    let preferred = options.wait_preferred.iter().copied().find(|wait| possible.contains(wait));
    let wait = options.wait.or(preferred).unwrap_or(possible[0]);
    match possible.contains(&wait) {
        true => Ok(wait),
        false => {
            let names: Vec<_> = possible.iter().map(|wait| wait.name()).collect();
            let names = names.join(" or ");
            Err(HandshakeError::BadOptions(format!(
                "{mechanism} cannot wait by {wait}, only by {names}"
            )))
        }
    }
}

pub(crate) fn check_version(theirs: Version) -> Result<(), HandshakeError> {
    match theirs.major == VERSION.major {
        true => Ok(()),
        false => Err(HandshakeError::Version { ours: VERSION, theirs }),
    }
}

pub(crate) fn check_limit(message_bytes_max: u32) -> Result<u32, HandshakeError> {
    let max = limits::MESSAGE_BYTES_MAX_CEILING;
    match message_bytes_max <= max {
        true => Ok(message_bytes_max),
        false => Err(HandshakeError::BadOptions(format!(
            "a message limit of {message_bytes_max} bytes is above the largest possible, {max}"
        ))),
    }
}

pub(crate) fn check_buffer(buffer_bytes: u32) -> Result<u32, HandshakeError> {
    let (min, max) = (limits::BUFFER_BYTES_MIN, limits::BUFFER_BYTES_MAX);
    match (min..=max).contains(&buffer_bytes) {
        true => Ok(buffer_bytes),
        false => Err(HandshakeError::BadOptions(format!(
            "room of {buffer_bytes} bytes in each direction is not between {min} and {max}"
        ))),
    }
}

/// What another end said, such that it can be printed: control characters would act on a terminal,
/// and others would hide what stands there.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\'' => out.push(letter),
            _ => out.extend(letter.escape_debug()),
        }
    }
    out
}

pub(crate) fn broken(violation: Violation) -> HandshakeError {
    HandshakeError::PeerBroken(violation)
}
