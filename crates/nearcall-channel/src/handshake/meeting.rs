//! How the two ends of a `tcp://` connection get the line of a switch: they meet on a unix socket,
//! which only processes of one kernel and one network namespace can do.
//!
//! ```text
//! client                                      server
//! asks for an invitation      ── tcp ──▶
//!                             ◀─ tcp ──       number, token, place
//! its own place is the same:
//! connects to the socket of
//! that number, shows the token ── line ─▶     (lies in the queue)
//! begins                      ── tcp ──▶      finds the line with that token
//!                             ◀─ line ─▶      the handshake of a switch
//! ```
//!
//! Before that the kernel has said nothing of the other end. What ties the line to the connection
//! is the token: 16 random bytes that the server sends over the connection, for one client and one
//! use. These processes could get at it, and gain this:
//!
//! - Names of abstract sockets can be read by every process of the network namespace. A process
//!   that connects there without a token is closed; one that guesses does so among 2^128. Those of
//!   one user take no seat of another's, and the queue is emptied for as long as a client is
//!   expected. A crowd that fills it faster keeps a client where it is, on its connection.
//! - A name belongs to the network namespace. Where the client has another one than the server, or
//!   another kernel (a proxy, a container, a tunnel lies between), a third process that has access
//!   to both could take the server's name in the client's namespace, get the token, show it to the
//!   server, and stand between the two. Therefore the server sends its place over the connection,
//!   which the third process cannot change, and the client goes nowhere if that is not its own. In
//!   one and the same namespace the name is the server's, for as long as the token is good.
//! - Whoever can read or change the stream between the two ends has the connection already, which
//!   is neither encrypted nor authenticated. With the token alone nothing is done: the handshake
//!   begins, and ends, by messages over the connection. The line of another process that was
//!   quicker makes the switch fail.
//! - A server may invite its client to a socket of another process. The client sends its 17 bytes
//!   there only if it is a meeting by its name, and that process gets no more than the server could
//!   have handed on.
//!
//! The place is a keyed hash, so that a client of another machine learns nothing by it.
//! **Invariants:** no step waits; a token is good for one line, a bounded time, and only for the
//! connection that it was made for; the process that answers the client is the one that listens; a
//! line that waits is charged to the user of its process, and the others are bounded in number, for
//! each user and in all; while no client is expected nothing needs to be looked at, and no line of
//! an unknown process is held.
//! **Not here:** what travels over the connection, and what peers count as afterwards (the users of
//! this crate); the handshake (`local.rs`), that of ends with a control line (`switch.rs`).

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearcall_os::clock;
use nearcall_os::fork::Epoch;
use nearcall_os::random;
use nearcall_os::socket::{self, Credentials, UnixAddress};

use super::Rendezvous;
use super::error::{CannotSwitch, HandshakeError};
use super::local;
use super::options::Options;
use super::steps::Handshake;
use crate::account::{Accounts, Charge, Resource};
use crate::error::Violation;
use crate::limits::{
    MEETING_ACCEPTS_MAX, MEETING_QUEUE_MAX, MEETING_SILENT_ALL_MAX, MEETING_SILENT_MAX,
    MEETING_TIME,
};
use crate::mechanism::Mechanism;
use crate::settings::PeerIdentity;
use crate::wait::Deadline;

/// What a server sends to its client over their connection, so that the client comes to a meeting.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Names the socket.
    pub number: [u8; 16],
    /// What the client shows there, once.
    pub token: [u8; 16],
    /// The kernel and the network namespace of the server, as a hash.
    pub place: u64,
}

/// The socket of a server at which its `tcp://` clients show that they share its kernel.
pub struct Meeting {
    socket: OwnedFd,
    number: [u8; 16],
    place: u64,
    accounts: Accounts,
    guests: Mutex<Guests>,
    epoch: Epoch,
}

/// A client that was invited, at the server. Dropping it ends the invitation.
pub struct Invited {
    meeting: Arc<Meeting>,
    token: [u8; 16],
}

/// A process that was not served at a meeting, and why.
#[derive(Debug)]
pub struct Uninvited {
    /// Its user.
    pub user: Option<u32>,
    /// Its process.
    pub pid: Option<i32>,
    /// Why: [`HandshakeError::PeerBroken`] for one that shows no token that is good.
    pub error: HandshakeError,
}

#[derive(Default)]
struct Guests {
    expected: Vec<Expected>,
    /// They have not shown a token yet, the first that came in front.
    silent: VecDeque<Silent>,
}

/// A line that has shown no token, and the process that has connected.
type Silent = (OwnedFd, Option<Credentials>);

/// What is known of a client that was invited.
struct Expected {
    token: [u8; 16],
    until: Deadline,
    line: Option<Line>,
}

/// The line of a client that has come.
struct Line {
    socket: OwnedFd,
    user: Option<u32>,
    /// Until its handshake begins.
    charge: Charge,
}

impl Meeting {
    /// Makes the socket. What waits there is charged to `accounts`.
    ///
    /// # Errors
    ///
    /// The kernel's. `NotFound` and others: without `/proc` no client could know the place.
    pub fn open(accounts: Accounts) -> io::Result<Self> {
        let number = random::bytes()?;
        let place = place(number)?;
        let socket =
            socket::unix_listen(UnixAddress::Abstract(name(number).as_bytes()), MEETING_QUEUE_MAX)?;
        let (guests, epoch) = (Mutex::default(), Epoch::current());
        Ok(Self { socket, number, place, accounts, guests, epoch })
    }

    /// Invites the client of one connection: send it the [`Invited::invitation`]. Adds the
    /// processes that have come uninvited since the last time. Does not wait.
    ///
    /// # Errors
    ///
    /// The kernel's. In a forked process: the meeting is the parent's.
    pub fn invite(self: &Arc<Self>, uninvited: &mut Vec<Uninvited>) -> io::Result<Invited> {
        self.epoch.check()?;
        let token = random::bytes()?;
        let mut guests = self.guests();
        guests.forget_late();
        // So that there is room in the queue. Without a descriptor to take one with, they wait.
        let _ = self.look(&mut guests, MEETING_QUEUE_MAX, uninvited);
        guests.expected.push(Expected { token, until: Deadline::after(MEETING_TIME), line: None });
        drop(guests);
        Ok(Invited { meeting: Arc::clone(self), token })
    }

    /// Takes the processes that have come, for whoever has found the socket readable. Returns
    /// whether a client is expected: if none is, do not watch the socket before the next
    /// [`invite`](Self::invite). Adds the processes that have come uninvited. Does not wait.
    ///
    /// # Errors
    ///
    /// The kernel's. The clients still wait after EMFILE, so do not ask again at once.
    pub fn accept_pending(&self, uninvited: &mut Vec<Uninvited>) -> io::Result<bool> {
        self.epoch.check()?;
        let mut guests = self.guests();
        guests.forget_late();
        if guests.expected.is_empty() {
            return Ok(false);
        }
        self.accept(&mut guests, MEETING_ACCEPTS_MAX, uninvited)?;
        Ok(true)
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the tokens of the clients that have come, and takes others from the queue.
    fn look(
        &self,
        guests: &mut Guests,
        accepts_max: u16,
        uninvited: &mut Vec<Uninvited>,
    ) -> io::Result<()> {
        for silent in std::mem::take(&mut guests.silent) {
            if let Some(silent) = self.seat(guests, silent, uninvited) {
                guests.silent.push_back(silent);
            }
        }
        self.accept(guests, accepts_max, uninvited)
    }

    /// Takes clients from the queue.
    fn accept(
        &self,
        guests: &mut Guests,
        accepts_max: u16,
        uninvited: &mut Vec<Uninvited>,
    ) -> io::Result<()> {
        for _ in 0..accepts_max {
            let Some(socket) = socket::accept(&self.socket, Deadline::NOW)? else { break };
            let peer = socket::peer_credentials(&socket).ok();
            let Some(silent) = self.seat(guests, (socket, peer), uninvited) else { continue };
            guests.silent.push_back(silent);
            let Some(first) = guests.take_surplus() else { continue };
            // It may have shown its token meanwhile.
            if let Some((_, peer)) = self.seat(guests, first, uninvited) {
                let (user, pid) = (peer.map(|it| it.uid), peer.and_then(|it| it.pid));
                uninvited.push(Uninvited { user, pid, error: HandshakeError::TimedOut });
            }
        }
        Ok(())
    }

    /// Keeps the line of a client that shows a good token. Returns one that has shown none yet.
    fn seat(
        &self,
        guests: &mut Guests,
        (socket, peer): Silent,
        uninvited: &mut Vec<Uninvited>,
    ) -> Option<Silent> {
        let (user, pid) = (peer.map(|peer| peer.uid), peer.and_then(|peer| peer.pid));
        let mut packet = [0; TOKEN_PACKET_BYTES];
        let received = socket::try_recv_message(&socket, &mut packet);
        let (_, shown) = packet.split_at(1);
        let outcome = match received {
            Ok(None) => return Some((socket, peer)),
            Ok(Some(TOKEN_PACKET_BYTES)) if packet[0] == TOKEN => guests
                .expecting(shown)
                .ok_or(HandshakeError::PeerBroken(Violation::BadPacket))
                .and_then(|expected| {
                    let account = self.accounts.user(user);
                    let charge = account.charge(Resource::Descriptors, 1)?;
                    expected.line = Some(Line { socket, user, charge });
                    Ok(())
                }),
            Ok(Some(0)) => Err(HandshakeError::PeerGone),
            Ok(Some(_)) => Err(HandshakeError::PeerBroken(Violation::BadPacket)),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = outcome {
            uninvited.push(Uninvited { user, pid, error });
        }
        None
    }
}

impl AsFd for Meeting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Guests {
    /// Ends the invitations whose time is up, and closes the lines of those.
    fn forget_late(&mut self) {
        if !self.expected.is_empty() {
            let now = Deadline::from_ns(clock::monotonic_ns());
            self.expected.retain(|expected| expected.until > now);
        }
        self.send_away();
    }

    /// Closes the lines of unknown processes if no client is expected that one could be.
    fn send_away(&mut self) {
        if self.expected.is_empty() {
            self.silent.clear();
        }
    }

    /// Takes out the line that gives way if the last one is one too many: the first of its user, or
    /// of the user that has most.
    fn take_surplus(&mut self) -> Option<Silent> {
        let user = |silent: &Silent| silent.1.map(|peer| peer.uid);
        let count = |of| self.silent.iter().filter(|silent| user(silent) == of).count();
        let last = user(self.silent.back()?);
        let from = if count(last) > MEETING_SILENT_MAX {
            last
        } else if self.silent.len() > MEETING_SILENT_ALL_MAX {
            self.silent.iter().map(user).max_by_key(|user| count(*user))?
        } else {
            return None;
        };
        let first = self.silent.iter().position(|silent| user(silent) == from)?;
        self.silent.remove(first)
    }

    /// Returns the client that is expected with this token and has not come. Compares each byte of
    /// each token, so that the time that it takes says nothing of them.
    fn expecting(&mut self, shown: &[u8]) -> Option<&mut Expected> {
        let differs = |token: &[u8; 16]| {
            token.iter().zip(shown).fold(0, |differs, (own, theirs)| differs | (own ^ theirs)) != 0
        };
        let mut found = None;
        for (index, expected) in self.expected.iter().enumerate() {
            if !differs(&expected.token) {
                found = Some(index);
            }
        }
        self.expected.get_mut(found?).filter(|expected| expected.line.is_none())
    }
}

impl Invited {
    /// Returns what the client is to get, over its own connection and no other.
    pub fn invitation(&self) -> Invitation {
        let Meeting { number, place, .. } = *self.meeting;
        Invitation { number, token: self.token, place }
    }

    /// Begins to serve the handshake on the line of the client, which has said over the connection
    /// that it has come: checks and limits are those of any client, by `options`, whose account
    /// becomes that of the user of the line. Adds the processes that have come uninvited. Does not
    /// wait.
    ///
    /// # Errors
    ///
    /// [`CannotSwitch::NotMet`]: it has not come, or its time was up. Otherwise as
    /// [`Handshake::serve`].
    pub fn serve(
        self,
        options: &mut Options,
        uninvited: &mut Vec<Uninvited>,
    ) -> Result<Handshake, HandshakeError> {
        let meeting = &*self.meeting;
        meeting.epoch.check().map_err(HandshakeError::Os)?;
        let mut guests = meeting.guests();
        guests.forget_late();
        let _ = meeting.look(&mut guests, MEETING_QUEUE_MAX, uninvited);
        let own = guests.expected.iter_mut().find(|it| it.token == self.token);
        let line = own.and_then(|own| own.line.take());
        drop(guests);
        let Line { socket, user, charge } = line.ok_or(CannotSwitch::NotMet)?;
        drop(charge);
        options.account = Some(meeting.accounts.user(user));
        Handshake::serve(Rendezvous::Local, socket, options)
    }
}

impl Drop for Invited {
    fn drop(&mut self) {
        // A forked process may have the lock of its parent.
        if self.meeting.epoch.is_current() {
            let mut guests = self.meeting.guests();
            guests.expected.retain(|expected| expected.token != self.token);
            guests.send_away();
        }
    }
}

impl Invitation {
    /// Comes to the meeting, and begins to open `mechanism` there, as [`connect`](crate::connect)
    /// does. Say so to the server over the connection that the invitation has come by. Does not
    /// wait; go on with [`Handshake::advance`].
    ///
    /// # Errors
    ///
    /// [`CannotSwitch::Elsewhere`]: the server has another kernel or network namespace.
    /// [`CannotSwitch::LineFull`]: too many come. Otherwise as [`Handshake::connect_over`].
    pub fn begin(
        &self,
        mechanism: Mechanism,
        options: &Options,
    ) -> Result<Handshake, HandshakeError> {
        if !place(self.number).is_ok_and(|own| own == self.place) {
            return Err(CannotSwitch::Elsewhere.into());
        }
        let (line, server) = self.come()?;
        Handshake::ask(line, mechanism, options, Some(server))
    }

    /// Connects to the socket and shows the token. Also returns the process that listens there.
    fn come(&self) -> Result<(OwnedFd, PeerIdentity), HandshakeError> {
        let name = name(self.number);
        let line = socket::unix_try_connect(UnixAddress::Abstract(name.as_bytes()));
        let line = line.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => CannotSwitch::Elsewhere.into(),
            _ => HandshakeError::Os(error),
        })?;
        let line = line.ok_or(CannotSwitch::LineFull)?;
        let server = local::client_identity(&line)?;
        let mut packet = [TOKEN; TOKEN_PACKET_BYTES];
        packet[1..].copy_from_slice(&self.token);
        match socket::try_send(&line, &packet)? {
            Some(TOKEN_PACKET_BYTES) => Ok((line, server)),
            _ => Err(CannotSwitch::LineFull.into()),
        }
    }
}

/// The name of the socket of a meeting, of which there is no other kind.
fn name(number: [u8; 16]) -> String {
    format!("nearcall-meeting-{:032x}", u128::from_be_bytes(number))
}

/// Returns the number of this kernel and this thread's network namespace for a meeting. No other
/// machine learns anything by it: the key is as random as a token, and known within this kernel
/// only.
#[allow(deprecated, reason = "the keyed hash of the standard library, with a key for both ends")]
fn place(meeting: [u8; 16]) -> io::Result<u64> {
    use std::hash::{Hasher, SipHasher};

    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = boot.trim().chars().filter(|it| *it != '-').collect();
    let key = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
    let key = key.ok_or(io::ErrorKind::InvalidData)?.to_be_bytes();
    let half = |at: usize| {
        let bytes = key[at..].first_chunk().copied().unwrap_or_default();
        u64::from_be_bytes(bytes)
    };
    let network = fs::metadata("/proc/thread-self/ns/net")?;
    let mut hasher = SipHasher::new_with_keys(half(0), half(8));
    hasher.write(&meeting);
    hasher.write(&network.dev().to_be_bytes());
    hasher.write(&network.ino().to_be_bytes());
    Ok(hasher.finish())
}

/// First byte of the packet by which a client shows its token. No packet of a handshake has it.
const TOKEN: u8 = 0xDA;

const TOKEN_PACKET_BYTES: usize = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn lines_without_a_token_give_way_to_those_of_other_users() {
        let mut guests = Guests::default();
        let seat = |guests: &mut Guests, uid: u32, pid: usize| {
            let socket = socket::unix_pair(socket::Kind::Seqpacket).unwrap().0;
            let peer = Credentials { pid: i32::try_from(pid).ok(), uid, gid: 0 };
            guests.silent.push_back((socket, Some(peer)));
            guests.take_surplus().and_then(|(_, peer)| peer).map(|peer| (peer.uid, peer.pid))
        };
        assert_eq!(seat(&mut guests, 7, 1), None);
        for pid in 1..=MEETING_SILENT_MAX {
            assert_eq!(seat(&mut guests, 1000, pid), None);
        }
        // Its own first one gives way, and not the one that has waited for longest.
        assert_eq!(seat(&mut guests, 1000, 99), Some((1000, Some(1))));
        // So many users that no more have a seat.
        let free = MEETING_SILENT_ALL_MAX - guests.silent.len();
        for other in 0..free {
            assert_eq!(seat(&mut guests, 2000 + u32::try_from(other).unwrap(), 1), None);
        }
        assert_eq!(seat(&mut guests, 3000, 1), Some((1000, Some(2))));
        assert_eq!(guests.silent.len(), MEETING_SILENT_ALL_MAX);
        assert!(guests.silent.iter().any(|(_, peer)| peer.is_some_and(|peer| peer.uid == 7)));
        guests.forget_late();
        assert!(guests.silent.is_empty(), "no client is expected");
    }
}
