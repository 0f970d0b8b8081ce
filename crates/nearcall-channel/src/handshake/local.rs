//! The handshake over a unix socket: the client asks for a mechanism, the server opens it.
//!
//! **Invariants:** the client asks, the server decides; the smaller limit wins; no step waits; the
//! identity of the other end comes from the kernel; a step that fails leaves nothing behind.
//! **Not here:** when a step is due (`steps.rs`), the packets as bytes (`packet.rs`), what a
//! mechanism makes of the parts (`open.rs`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::sender::Sender;
use nearcall_os::socket::{self, Credentials};
use nearcall_os::{descriptor, process};

use super::error::{BadOptions, CannotSwitch, HandshakeError};
use super::options::{
    Options, check_buffer, check_limit, check_listening_user, check_offered, check_server_user,
    check_version, choose_wait,
};
use super::step::Step;
use crate::account::Resource;
use crate::channel::Channel;
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::error::{OpenError, ReceiveError, Violation};
use crate::fds::ChannelFds;
use crate::limits;
use crate::liveness::PeerLiveness;
use crate::mechanism::{DataPath, Mechanism};
use crate::open::{Accepted, Finish, Offer};
use crate::packet::{Packet, Refusal, VERSION, escape};
use crate::settings::{Peer, PeerIdentity, Settings};
use crate::spin::SpinOptions;
use crate::wait::{Deadline, WaitPolicy};

/// Where one end of a local handshake stands: the packet that it waits for, and what it has until
/// then.
pub(super) enum State {
    /// The server waits for what the client asks for.
    Hello,
    /// The server waits for the client's parts.
    Offered(Box<Opening<Finish>>),
    /// The client waits for the server's parts.
    Asked(Asked),
    /// The client waits for the server's word that it is ready.
    Accepted(Box<Opening<Box<dyn Channel>>>),
    /// The handshake is over.
    Ended,
}

/// What a client has asked for, and of which server.
pub(super) struct Asked {
    mechanism: Mechanism,
    wait: WaitPolicy,
    server: Answerer,
}

/// Whose answer a client takes.
pub(super) enum Answerer {
    /// The one that the listener at the other end of the socket passes the client to.
    Listener,
    /// Any that has the other end of a line that the client has made, and says who it is.
    Holder,
    /// This process only, which the client is connected to already.
    Process(PeerIdentity),
}

/// What an end has made of the mechanism.
pub(super) struct Opening<T> {
    mechanism: Mechanism,
    settings: Settings,
    made: T,
}

impl State {
    /// Asks the server for `mechanism`. Of a line that the client has made the kernel's word about
    /// its maker says nothing of the server.
    pub(super) fn ask(
        control: &Control,
        mechanism: Mechanism,
        options: &Options,
        server: Answerer,
    ) -> Result<Self, HandshakeError> {
        if options.server_user.is_some() && matches!(server, Answerer::Listener) {
            check_listening_user(options, socket::peer_credentials(control)?.uid)?;
        }
        let wait = choose_wait(mechanism, options)?;
        let hello = Packet::Hello {
            version: VERSION,
            message_bytes_max: check_limit(options.message_bytes_max)?,
            buffer_bytes: check_buffer(options.buffer_bytes)?,
            mechanism: mechanism.name().to_owned(),
        };
        let sent = control.send(&hello.encode(), &[]);
        // Not before: a socket that sends while it reports senders gets a name. A server that was
        // quicker has given its credentials by itself.
        control.expect_answer()?;
        let asked = Asked { mechanism, wait, server };
        sent.map_err(|error| {
            reason_of(error.into(), || next_answer(control, options, &asked.server))
        })?;
        Ok(Self::Asked(asked))
    }

    /// Takes the next packet, if it is there. Does not wait.
    pub(super) fn step(
        &mut self,
        control: &Arc<Control>,
        options: &Options,
    ) -> Result<Step, HandshakeError> {
        // No descriptors before we know what the client wants.
        let descriptors_max = match self {
            Self::Hello => 0,
            _ => limits::HANDSHAKE_DESCRIPTORS_MAX,
        };
        let next = match self {
            Self::Asked(asked) => next_answer(control, options, &asked.server)?,
            _ => next_packet(control, descriptors_max)?,
        };
        let Some((packet, descriptors)) = next else { return Ok(Step::Nothing) };
        *self = match (std::mem::replace(self, Self::Ended), packet) {
            (
                Self::Hello,
                Packet::Hello { version, message_bytes_max, buffer_bytes, mechanism },
            ) => {
                check_version(version)?;
                offer(control, options, &mechanism, message_bytes_max, buffer_bytes)?
            }
            (Self::Offered(opening), Packet::Accept { parts }) => {
                let Opening { mechanism, settings, made } = *opening;
                let channel = made(ChannelFds { bytes: parts, descriptors });
                let channel = channel.map_err(|error| HandshakeError::Open(mechanism, error))?;
                control.send(&Packet::Ready.encode(), &[])?;
                return Ok(done(Opening { mechanism, settings, made: channel }, control));
            }
            (
                Self::Asked(Asked { mechanism, wait, .. }),
                Packet::Offer { version, message_bytes_max, buffer_bytes, parts },
            ) => {
                check_version(version)?;
                let limits = (message_bytes_max, buffer_bytes);
                let offered = ChannelFds { bytes: parts, descriptors };
                accept(control, options, (mechanism, wait), limits, offered)?
            }
            (Self::Accepted(opening), Packet::Ready) if descriptors.is_empty() => {
                return Ok(done(*opening, control));
            }
            _ => return Err(Violation::BadPacket.into()),
        };
        Ok(Step::Moved)
    }
}

fn done(opening: Opening<Box<dyn Channel>>, control: &Arc<Control>) -> Step {
    let Opening { mechanism, settings, made } = opening;
    Step::Done(Box::new(Endpoint::new(made, mechanism, settings, Arc::clone(control))))
}

/// The server's answer to a client that asks for `mechanism` with these limits.
fn offer(
    control: &Arc<Control>,
    options: &Options,
    mechanism: &str,
    message_bytes_max: u32,
    buffer_bytes: u32,
) -> Result<State, HandshakeError> {
    // Ours first: the client would take a number out of bounds for a broken server.
    check_limit(options.message_bytes_max)?;
    check_buffer(options.buffer_bytes)?;
    let mechanism: Mechanism =
        escape(mechanism).parse().map_err(HandshakeError::UnknownMechanism)?;
    check_offered(mechanism, options)?;
    let message_bytes_max = check_limit(message_bytes_max)?.min(options.message_bytes_max);
    let buffer_bytes = check_buffer(buffer_bytes)?.min(options.buffer_bytes);
    let wait = choose_wait(mechanism, options)?;
    if options.pollable_only && wait != WaitPolicy::Spin && !mechanism.capabilities().pollable {
        return Err(BadOptions::NotPollable { mechanism }.into());
    }
    charge(control, mechanism, buffer_bytes)?;
    let settings = settings(control, wait, options.spin, message_bytes_max, buffer_bytes)?;
    let offer = (mechanism.row().offer)(&settings);
    let Offer { parts, finish } = offer.map_err(|error| HandshakeError::Open(mechanism, error))?;
    // They are closed at the end: while we hold the client's ends, we would not see it die.
    let ChannelFds { bytes: parts, descriptors } = parts;
    let packet = Packet::Offer { version: VERSION, message_bytes_max, buffer_bytes, parts };
    control.send_answer(&packet, &borrow(&descriptors))?;
    Ok(State::Offered(Box::new(Opening { mechanism, settings, made: finish })))
}

/// Charges what the server's end holds as long as it is open, beside the control line.
fn charge(
    control: &Control,
    mechanism: Mechanism,
    buffer_bytes: u32,
) -> Result<(), HandshakeError> {
    let row = mechanism.row();
    // One more is the pidfd of the client.
    control.charge(Resource::Descriptors, row.descriptors + 1)?;
    control.charge(Resource::Mappings, row.data_path.mappings())?;
    charge_bytes(control, mechanism, buffer_bytes)
}

/// Charges the memory that the server's end holds as long as it is open.
pub(super) fn charge_bytes(
    control: &Control,
    mechanism: Mechanism,
    buffer_bytes: u32,
) -> Result<(), HandshakeError> {
    let buffers = match mechanism.row().data_path {
        // Both rings: pages that the other end has left out of its own are made when we read them.
        DataPath::SharedMemory => 2 * (buffer_bytes as usize).next_power_of_two(),
        DataPath::KernelCopies => buffer_bytes as usize,
    };
    let bytes = buffers + limits::CONNECTION_BYTES;
    Ok(control.charge(Resource::Bytes, bytes)?)
}

/// The client's answer to the parts of a server.
fn accept(
    control: &Arc<Control>,
    options: &Options,
    (mechanism, wait): (Mechanism, WaitPolicy),
    (message_bytes_max, buffer_bytes): (u32, u32),
    offered: ChannelFds,
) -> Result<State, HandshakeError> {
    // The server may lower what we asked for; it may not raise it.
    if message_bytes_max > options.message_bytes_max || buffer_bytes > options.buffer_bytes {
        return Err(Violation::BadPacket.into());
    }
    check_limit(message_bytes_max).map_err(|_| Violation::BadPacket)?;
    check_buffer(buffer_bytes).map_err(|_| Violation::BadPacket)?;
    let settings = settings(control, wait, options.spin, message_bytes_max, buffer_bytes)?;
    let accepted = (mechanism.row().accept)(&settings, offered);
    let accepted = accepted.map_err(|error| HandshakeError::Open(mechanism, error));
    let Accepted { parts, channel } = accepted.inspect_err(|error| refuse(control, error))?;
    let packet = Packet::Accept { parts: parts.bytes };
    let sent = control.send(&packet.encode(), &borrow(&parts.descriptors));
    let next = || next_packet(control, limits::HANDSHAKE_DESCRIPTORS_MAX);
    sent.map_err(|error| reason_of(error.into(), next))?;
    Ok(State::Accepted(Box::new(Opening { mechanism, settings, made: channel })))
}

/// Sends the reason to the other end, if it is still there.
pub(super) fn refuse(control: &Control, error: &HandshakeError) {
    let code = match error {
        HandshakeError::Version { .. } => Refusal::Version,
        HandshakeError::BadOptions(_) => Refusal::Limits,
        HandshakeError::UnknownMechanism(_) => Refusal::UnknownMechanism,
        HandshakeError::NotOffered { .. } => Refusal::NotOffered,
        HandshakeError::Open(_, OpenError::Unsupported(_)) => Refusal::Unsupported,
        HandshakeError::Open(_, OpenError::BadParts(_)) => Refusal::Parts,
        HandshakeError::Exceeded(_) => Refusal::Exhausted,
        HandshakeError::PeerGone | HandshakeError::Refused { .. } => return,
        error if error.shortage().is_some() => Refusal::Exhausted,
        _ => Refusal::Other,
    };
    match error.shortage() {
        // The client reads this, whose limits are others.
        Some(shortage) => {
            let why = descriptor::explain_shortage(shortage);
            let pid = std::process::id();
            control.send_refusal(code, &format!("the server is process {pid}, and {why}"));
        }
        None => control.send_refusal(code, &error.to_string()),
    }
}

/// A packet, and the descriptors that came with it.
type Next = Option<(Packet, Vec<OwnedFd>)>;

/// Takes a packet that is there, with at most so many descriptors.
fn next_packet(control: &Control, descriptors_max: usize) -> Result<Next, HandshakeError> {
    decode(control.receive(Deadline::NOW, descriptors_max))
}

/// Takes the server's answer to what a client has asked for, if it is there. The user is that of
/// the process that answers, and not of the one that listened when the client connected: the socket
/// may have been handed over. A refusal by another user is none of this server's either. Of two
/// ends that are connected the process must be that of the connection.
fn next_answer(
    control: &Control,
    options: &Options,
    expected: &Answerer,
) -> Result<Next, HandshakeError> {
    let received = control.receive_answer(limits::HANDSHAKE_DESCRIPTORS_MAX);
    if received.is_ok() {
        let server = control.server().flatten();
        check_server_user(options, server.map(|server| server.credentials().uid))?;
        let is_expected = match expected {
            Answerer::Listener => true,
            Answerer::Holder => server.is_some(),
            Answerer::Process(old) => {
                server.is_some_and(|server| old.is_same_process(&sender_identity(server)))
            }
        };
        if !is_expected {
            return Err(CannotSwitch::OtherProcess.into());
        }
    }
    decode(received)
}

fn decode(received: Result<ChannelFds, ReceiveError>) -> Result<Next, HandshakeError> {
    let parts = match received {
        Err(ReceiveError::Empty) => return Ok(None),
        received => received?,
    };
    match Packet::decode(&parts.bytes)? {
        Packet::Refusal { code, text } => {
            Err(HandshakeError::Refused { code, text: escape(&text) })
        }
        packet => Ok(Some((packet, parts.descriptors))),
    }
}

/// Returns why a client's packet could not be sent. A server that has closed may have sent the
/// reason before.
fn reason_of(
    error: HandshakeError,
    next: impl FnOnce() -> Result<Next, HandshakeError>,
) -> HandshakeError {
    match error {
        HandshakeError::PeerGone => match next() {
            Err(reason @ (HandshakeError::Refused { .. } | HandshakeError::OtherUser { .. })) => {
                reason
            }
            _ => HandshakeError::PeerGone,
        },
        error => error,
    }
}

fn borrow(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}

fn settings(
    control: &Arc<Control>,
    wait: WaitPolicy,
    spin: SpinOptions,
    message_bytes_max: u32,
    buffer_bytes: u32,
) -> Result<Settings, HandshakeError> {
    let peer = Peer::Process(match control.server() {
        Some(server) => server_identity(control, server)?,
        None => client_identity(control)?,
    });
    let liveness = Arc::new(PeerLiveness::default());
    let control = Arc::clone(control);
    Ok(Settings { wait, spin, message_bytes_max, buffer_bytes, peer, liveness, control })
}

/// Returns the identity of the server that has answered. Of a listener's that did not give its
/// credentials the kernel knows who listened at the socket only: that is no process to wait for.
fn server_identity(
    control: &Control,
    server: Option<&Sender>,
) -> Result<PeerIdentity, HandshakeError> {
    if let Some(server) = server {
        return Ok(sender_identity(server));
    }
    let Credentials { pid, uid, gid } = socket::peer_credentials(control)?;
    Ok(PeerIdentity { pid, uid, gid, pidfd: None })
}

fn sender_identity(sender: &Sender) -> PeerIdentity {
    let Credentials { pid, uid, gid } = sender.credentials();
    PeerIdentity { pid, uid, gid, pidfd: sender.pidfd().cloned() }
}

/// Returns the identity of the client that has connected.
pub(super) fn client_identity(socket: impl AsFd) -> Result<PeerIdentity, HandshakeError> {
    let Credentials { pid, uid, gid } = socket::peer_credentials(&socket)?;
    // Older kernels have no SO_PEERPIDFD; there the hang-up of the control line reports a death. A
    // client may have ended after it has handed its end of the line to another process.
    let pidfd = socket::peer_pidfd(&socket).ok();
    let pidfd = pidfd.filter(|pidfd| process::wait_pidfd(pidfd, Deadline::NOW).is_ok_and(|it| !it));
    Ok(PeerIdentity { pid, uid, gid, pidfd: pidfd.map(Arc::new) })
}
