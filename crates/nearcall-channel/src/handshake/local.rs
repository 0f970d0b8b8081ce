//! The handshake over a unix socket: the client asks for a mechanism, the server opens it.
//!
//! **Invariants:** the client asks, the server decides; the smaller limit wins; each step has a
//! deadline; the identity of the other end comes from the kernel; a step that fails leaves nothing
//! behind.
//! **Not here:** the packets as bytes (`packet.rs`), what a mechanism makes of the parts
//! (`open.rs`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::socket;

use super::error::{BadOptions, HandshakeError};
use super::options::{
    Options, check_buffer, check_limit, check_offered, check_server_user, check_version,
    choose_wait,
};
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::error::{OpenError, Violation};
use crate::fds::ChannelFds;
use crate::limits;
use crate::liveness::PeerLiveness;
use crate::mechanism::Mechanism;
use crate::packet::{Packet, Refusal, VERSION, escape};
use crate::settings::{Peer, PeerIdentity, Settings};
use crate::spin::SpinOptions;
use crate::wait::{Deadline, WaitPolicy};

/// Works like [`connect`](super::connect), over a connected SOCK_SEQPACKET unix socket, such as
/// one of a socket pair.
///
/// # Errors
///
/// As [`connect`](super::connect).
pub fn connect_over(
    socket: OwnedFd,
    mechanism: Mechanism,
    options: &Options,
) -> Result<Endpoint, HandshakeError> {
    if options.server_user.is_some() {
        check_server_user(options, Some(socket::peer_credentials(&socket)?.uid))?;
    }
    let control = Arc::new(Control::new(socket));
    let wait = choose_wait(mechanism, options)?;
    let hello = Packet::Hello {
        version: VERSION,
        message_bytes_max: check_limit(options.message_bytes_max)?,
        buffer_bytes: check_buffer(options.buffer_bytes)?,
        mechanism: mechanism.name().to_owned(),
    };
    send_packet(&control, &hello, &[], options)?;
    let (packet, descriptors) = next_packet(&control, options)?;
    let Packet::Offer { version, message_bytes_max, buffer_bytes, parts } = packet else {
        return Err(Violation::BadPacket.into());
    };
    check_version(version)?;
    // The server may lower what we asked for; it may not raise it.
    if message_bytes_max > options.message_bytes_max || buffer_bytes > options.buffer_bytes {
        return Err(Violation::BadPacket.into());
    }
    check_limit(message_bytes_max).map_err(|_| Violation::BadPacket)?;
    check_buffer(buffer_bytes).map_err(|_| Violation::BadPacket)?;
    let settings = settings(&control, wait, options.spin, message_bytes_max, buffer_bytes)?;
    let offered = ChannelFds { bytes: parts, descriptors };
    let accepted = (mechanism.row().accept)(&settings, offered);
    let accepted = accepted.map_err(|error| HandshakeError::Open(mechanism, error));
    let accepted = accepted.inspect_err(|error| refuse(&control, error))?;
    let answer = Packet::Accept { parts: accepted.parts.bytes };
    send_packet(&control, &answer, &accepted.parts.descriptors, options)?;
    match next_packet(&control, options)? {
        (Packet::Ready, none) if none.is_empty() => {
            Ok(Endpoint::new(accepted.channel, mechanism, settings, control))
        }
        _ => Err(Violation::BadPacket.into()),
    }
}

/// Serves one client over a connected SOCK_SEQPACKET unix socket.
///
/// # Errors
///
/// As [`Listener::accept`](super::Listener::accept).
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
    let packet = Packet::decode(&hello.bytes)?;
    let Packet::Hello { version, message_bytes_max, buffer_bytes, mechanism } = packet else {
        return Err(Violation::BadPacket.into());
    };
    check_version(version)?;
    let mechanism: Mechanism =
        escape(&mechanism).parse().map_err(HandshakeError::UnknownMechanism)?;
    check_offered(mechanism, options)?;
    let message_bytes_max = check_limit(message_bytes_max)?.min(options.message_bytes_max);
    let buffer_bytes = check_buffer(buffer_bytes)?.min(options.buffer_bytes);
    let wait = choose_wait(mechanism, options)?;
    if options.pollable_only && wait != WaitPolicy::Spin && !mechanism.capabilities().pollable {
        return Err(BadOptions::NotPollable { mechanism }.into());
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
        return Err(Violation::BadPacket.into());
    };
    let channel = (offer.finish)(ChannelFds { bytes: parts, descriptors });
    let channel = channel.map_err(|error| HandshakeError::Open(mechanism, error))?;
    control.send(&Packet::Ready.encode(), &[])?;
    Ok(Endpoint::new(channel, mechanism, settings, Arc::clone(control)))
}

/// Sends the reason to the other end, if it is still there.
fn refuse(control: &Control, error: &HandshakeError) {
    let code = match error {
        HandshakeError::Version { .. } => Refusal::Version,
        HandshakeError::BadOptions(_) => Refusal::Limits,
        HandshakeError::UnknownMechanism(_) => Refusal::UnknownMechanism,
        HandshakeError::NotOffered { .. } => Refusal::NotOffered,
        HandshakeError::Open(_, OpenError::Unsupported(_)) => Refusal::Unsupported,
        HandshakeError::Open(_, OpenError::BadParts(_)) => Refusal::Parts,
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
    match Packet::decode(&parts.bytes)? {
        Packet::Refusal { code, text } => {
            Err(HandshakeError::Refused { code, text: escape(&text) })
        }
        packet => Ok((packet, parts.descriptors)),
    }
}

/// Sends a client's packet. A server that has closed may have sent the reason before.
fn send_packet(
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
    // Older kernels have no SO_PEERPIDFD; there the hang-up of the control line reports a death.
    let pidfd = socket::peer_pidfd(control.as_fd()).ok().map(Arc::new);
    let peer =
        PeerIdentity { pid: credentials.pid, uid: credentials.uid, gid: credentials.gid, pidfd };
    let peer = Peer::Process(peer);
    let liveness = Arc::new(PeerLiveness::default());
    let control = Arc::clone(control);
    Ok(Settings { wait, spin, message_bytes_max, buffer_bytes, peer, liveness, control })
}

/// Refuses the client behind `socket`. Does not wait.
pub(super) fn reject(socket: OwnedFd, code: Refusal, why: &str) {
    let refusal = Packet::Refusal { code, text: why.to_owned() };
    let _ = Control::new(socket).send(&refusal.encode(), &[]);
}
