//! How the two ends of a `tcp://` connection get the line of a switch: by a pair of unix sockets,
//! which only processes of one kernel and one network namespace can connect.
//!
//! ```text
//! client                                      server
//! makes a socket with a name
//! asks for an invitation      ── tcp ──▶      connects a socket of its own to that name, and gives
//!                             ◀─ tcp ──       it a name: number, place
//! its own place is the same:
//! connects its socket to the
//! one of that number, passes
//! the line                    ── pair ─▶      (lies in the queue)
//! begins                      ── tcp ──▶      takes the line
//!                             ◀─ line ─▶      the handshake of a switch
//! ```
//!
//! Before that the kernel has said nothing of the other end. The two are sockets of datagrams, each
//! connected to the other, and neither has a queue that others could fill: the client's is shut
//! for what comes, and the server's takes what comes from the client's only, both before they have
//! a name. These processes could want to get in between, and gain this:
//!
//! - Names of abstract sockets can be read by every process of the network namespace. One that
//!   sends to either socket is refused by the kernel. What is connected to the client's socket
//!   changes nothing there.
//! - A name belongs to the network namespace. Where the client has another one than the server, or
//!   another kernel (a proxy, a container, a tunnel lies between), a third process that has access
//!   to both could take the client's name in the server's namespace and the server's name in the
//!   client's, and stand between the two. Therefore the server sends its place over the connection,
//!   which the third process cannot change, and the client goes nowhere if that is not its own. In
//!   one and the same namespace each name is its maker's.
//! - Whoever can read or change the stream between the two ends has the connection already, which
//!   is neither encrypted nor authenticated. With a line alone nothing is done: the handshake
//!   begins, and ends, by messages over the connection.
//! - A server may invite its client to a socket of another process. The client passes its line only
//!   if that socket is a meeting by its name and connected to the client's own.
//! - A client may name the socket of another process. The server connects to it only if it is a
//!   client's by its name; that process is not told, and what it could send is not asked for.
//!
//! The place is a keyed hash, so that a client of another machine learns nothing by it.
//! **Invariants:** no step waits; an invitation is good for one line of the connection that it was
//! made for; the line was made by the user that passes it, by the kernel's word, and is charged to
//! that user; what waits at the server is one socket, charged with the connection.
//! **Not here:** what travels over the connection, and what peers count as afterwards (the users of
//! this crate); the handshake (`local.rs`), that of ends with a control line (`switch.rs`).

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nearcall_os::descriptor::{self, no_descriptor_left};
use nearcall_os::fork::Epoch;
use nearcall_os::random;
use nearcall_os::sender;
use nearcall_os::socket::{self, Half, Kind, UnixAddress};
use nearcall_os::users::is_overflow_user;

use super::Rendezvous;
use super::error::{CannotSwitch, HandshakeError};
use super::local::Answerer;
use super::options::Options;
use super::steps::Handshake;
use crate::account::{Charge, Resource, UserAccount};
use crate::error::Violation;
use crate::mechanism::Mechanism;

/// What a server sends to its client over their connection, so that the client comes to a meeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Names the server's socket.
    pub number: [u8; 16],
    /// The kernel and the network namespace of the server, as a hash.
    pub place: u64,
}

/// The socket of a client that asks for an invitation.
#[derive(Debug)]
pub struct MeetingClient {
    socket: OwnedFd,
    number: [u8; 16],
    /// That of the socket.
    network: Network,
    epoch: Epoch,
}

/// The socket of a server for a client that was invited. Dropping it ends the invitation.
#[derive(Debug)]
pub struct Invited {
    /// `None`: no client is there by the name that it has given.
    socket: Option<(OwnedFd, Option<Charge>)>,
    invitation: Invitation,
    epoch: Epoch,
}

/// A network namespace, by the device and the inode of its file.
type Network = (u64, u64);

impl MeetingClient {
    /// Makes the socket. Send its [`number`](Self::number) to the server over the connection.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn new() -> io::Result<Self> {
        let (socket, number) = (socket::unix_datagrams()?, random::bytes()?);
        // What others could send here would be closed by this process, which may take its time.
        socket::shutdown(&socket, Half::Receive)?;
        let name = client_name(number);
        socket::bind_datagrams(&socket, UnixAddress::Abstract(name.as_bytes()))?;
        Ok(Self { socket, number, network: network()?, epoch: Epoch::current() })
    }

    /// Returns what names the socket.
    pub fn number(&self) -> [u8; 16] {
        self.number
    }

    /// Comes to the meeting, and begins to open `mechanism` there, as [`connect`](crate::connect)
    /// does. Say so to the server over the connection that the invitation has come by. Does not
    /// wait; go on with [`Handshake::advance`].
    ///
    /// # Errors
    ///
    /// [`CannotSwitch::Elsewhere`]: the server has another kernel or network namespace.
    /// [`CannotSwitch::NotMet`]: its socket is gone, or takes nothing of this client. Otherwise as
    /// [`Handshake::connect_over`].
    pub fn begin(
        self,
        invitation: &Invitation,
        mechanism: Mechanism,
        options: &Options,
    ) -> Result<Handshake, HandshakeError> {
        self.epoch.check()?;
        if place(invitation.number, self.network)? != invitation.place {
            return Err(CannotSwitch::Elsewhere.into());
        }
        if !connect(&self.socket, &server_name(invitation.number))? {
            return Err(CannotSwitch::NotMet.into());
        }
        let (ours, theirs) = socket::unix_pair(Kind::Seqpacket)?;
        // Before the line: a handshake that fails here leaves nothing with the server.
        let handshake = Handshake::ask(ours, mechanism, options, Answerer::Holder)?;
        match descriptor::try_send_as_self(&self.socket, &[LINE], &[theirs.as_fd()])? {
            Some(_) => Ok(handshake),
            // The first packet that its queue takes.
            None => Err(CannotSwitch::NotMet.into()),
        }
    }
}

impl Invited {
    /// Invites the client of one connection whose socket has this number: send it the
    /// [`invitation`](Self::invitation). What waits here is charged to `account`. Does not wait.
    ///
    /// # Errors
    ///
    /// The kernel's. `NotFound` and others: without `/proc` no client could know the place.
    /// [`HandshakeError::Exceeded`]: the account has no room for the socket.
    pub fn new(client: [u8; 16], account: Option<&UserAccount>) -> Result<Self, HandshakeError> {
        let number = random::bytes()?;
        let invitation = Invitation { number, place: place(number, network()?)? };
        let charge = account.map(|account| account.charge(Resource::Descriptors, 1)).transpose()?;
        let (socket, epoch) = (socket::unix_datagrams()?, Epoch::current());
        if !connect(&socket, &client_name(client))? {
            return Ok(Self { socket: None, invitation, epoch });
        }
        sender::report_senders(&socket, true)?;
        let name = server_name(number);
        socket::bind_datagrams(&socket, UnixAddress::Abstract(name.as_bytes()))?;
        Ok(Self { socket: Some((socket, charge)), invitation, epoch })
    }

    /// Returns what the client is to get, over its own connection and no other.
    pub fn invitation(&self) -> &Invitation {
        &self.invitation
    }

    /// Begins to serve the handshake on the line of the client, which has said over the connection
    /// that it has come: checks and limits are those of any client, by `options`, whose account
    /// becomes that of the user of the line. Does not wait.
    ///
    /// # Errors
    ///
    /// [`CannotSwitch::NotMet`]: it has not come. [`CannotSwitch::OtherProcess`]: it has passed the
    /// line of another user. Otherwise as [`Handshake::serve`].
    pub fn serve(self, options: &mut Options) -> Result<Handshake, HandshakeError> {
        self.epoch.check()?;
        let (line, user) = self.take_line()?;
        if let Some(account) = &options.account {
            options.account = Some(account.accounts().user(Some(user)));
        }
        Handshake::serve(Rendezvous::Local, line, options)
    }

    /// Takes the line that the client has passed, and the user that has made it.
    fn take_line(self) -> Result<(OwnedFd, u32), HandshakeError> {
        let (socket, _charge) = self.socket.ok_or(CannotSwitch::NotMet)?;
        let mut packet = [0; 2];
        let received = sender::try_receive_with_sender(&socket, &mut packet, 1)?;
        let (mut received, sender) = received.ok_or(CannotSwitch::NotMet)?;
        let is_line = packet[..received.bytes.min(packet.len())] == [LINE];
        let line = match received.fds.pop() {
            Some(line) if is_line && !received.truncated => line,
            // There was one, for which this process may have no descriptor left.
            None if is_line && received.truncated => return Err(no_descriptor_left().into()),
            _ => return Err(Violation::BadPacket.into()),
        };
        // Anything else must not even be polled: a process may serve the file.
        if !socket::is_unix_seqpacket(&line)? {
            return Err(Violation::BadPacket.into());
        }
        let user = socket::peer_credentials(&line)?.uid;
        // Another user's line would be charged to that user.
        let is_own = match sender {
            Some(sender) => sender.credentials().uid == user,
            None => is_overflow_user(user),
        };
        if is_own { Ok((line, user)) } else { Err(CannotSwitch::OtherProcess.into()) }
    }
}

/// Connects a socket to the one of this name at the other end. `false`: there is none, or it takes
/// what comes from another only.
fn connect(socket: &OwnedFd, name: &str) -> io::Result<bool> {
    match socket::connect_datagrams(socket, UnixAddress::Abstract(name.as_bytes())) {
        Err(error) if is_absence(error.kind()) => Ok(false),
        connected => connected.map(|()| true),
    }
}

fn is_absence(error: io::ErrorKind) -> bool {
    matches!(error, io::ErrorKind::ConnectionRefused | io::ErrorKind::PermissionDenied)
}

/// The name of the socket of a server at a meeting, of which there is no other kind.
fn server_name(number: [u8; 16]) -> String {
    format!("nearcall-meeting-server-{:032x}", u128::from_be_bytes(number))
}

/// The name of the socket of a client at a meeting, of which there is no other kind.
fn client_name(number: [u8; 16]) -> String {
    format!("nearcall-meeting-client-{:032x}", u128::from_be_bytes(number))
}

/// Returns this thread's network namespace.
fn network() -> io::Result<Network> {
    let file = fs::metadata("/proc/thread-self/ns/net")?;
    Ok((file.dev(), file.ino()))
}

/// Returns the number of this kernel and a network namespace of it for a meeting. No other
/// machine learns anything by it: the key is random, and known within this kernel only.
#[allow(deprecated, reason = "the keyed hash of the standard library, with a key for both ends")]
fn place(meeting: [u8; 16], (device, inode): Network) -> io::Result<u64> {
    use std::hash::{Hasher, SipHasher};

    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = boot.trim().chars().filter(|it| *it != '-').collect();
    let key = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
    let key = key.ok_or(io::ErrorKind::InvalidData)?.to_be_bytes();
    let half = |at: usize| {
        let bytes = key[at..].first_chunk().copied().unwrap_or_default();
        u64::from_be_bytes(bytes)
    };
    let mut hasher = SipHasher::new_with_keys(half(0), half(8));
    hasher.write(&meeting);
    hasher.write(&device.to_be_bytes());
    hasher.write(&inode.to_be_bytes());
    Ok(hasher.finish())
}

/// The only byte of the packet that passes a line.
const LINE: u8 = 0xDA;
