//! Listening sockets that another process has bound for this one, such as systemd or a host of
//! services: which of them is the one of an address.
//!
//! **Invariants:** a socket is adopted once.
//! **Not here:** how sockets are handed over (`nearcall-os`).
//!
//! **Invariant:** the identity of a server, its user and its pidfd are those of the process that
//! answers. *Checked by* `clients_that_wait_for_the_next_process_are_not_of_the_one_before`,
//! `r24_the_user_of_a_server_at_a_socket_of_another_user_is_its_own`.

use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearcall_os::socket::Kind;
use nearcall_os::socket_activation::{self, InheritedSocket, InheritedState, ListeningPlace};

use crate::address::Address;

/// The end of the name of a socket at which only the process that started this one asks whether it
/// is well: `NAME/health` beside `NAME`.
pub const HEALTH_SUFFIX: &str = "/health";

/// The sockets of an address that were handed over.
pub(crate) struct Adopted {
    pub(crate) socket: OwnedFd,
    /// The socket at which the process that started this one asks how it is.
    pub(crate) health: Option<(OwnedFd, Address)>,
}

/// Keeps the sockets that were handed over to this process from the programs that it starts: call
/// this before anything could start one. A listener adopts its socket later, as if it had not been
/// called.
///
/// # Errors
///
/// What was handed over cannot be understood.
pub fn secure_inherited() -> io::Result<()> {
    rest().map(drop)
}

/// What was handed over to this process, and was not adopted.
struct Rest {
    sockets: Vec<InheritedSocket>,
    /// Why a descriptor of it is not among them.
    failure: Option<String>,
}

static REST: Mutex<Rest> = Mutex::new(Rest { sockets: Vec::new(), failure: None });

/// Finds what was handed over. The lock is kept, so that a socket is adopted once.
fn rest() -> io::Result<MutexGuard<'static, Rest>> {
    let mut rest = REST.lock().unwrap_or_else(PoisonError::into_inner);
    for found in socket_activation::take_inherited()? {
        match found {
            Ok(socket) => rest.sockets.push(socket),
            Err(error) => rest.failure = Some(error.to_string()),
        }
    }
    Ok(rest)
}

/// Takes the socket of `address`, if it was handed over to this process and not taken before: for
/// servers of other protocols. It does not block.
///
/// # Errors
///
/// What was handed over cannot be understood, or is a socket of another type or in another state.
pub fn take_inherited(address: &Address) -> io::Result<Option<OwnedFd>> {
    Ok(take(address)?.map(|adopted| adopted.socket))
}

/// Takes the sockets of `address`, if they were handed over to this process and not taken before.
///
/// # Errors
///
/// What was handed over cannot be understood, or is a socket of another type or in another state;
/// the runtime directory of a name is not to be trusted.
pub(crate) fn take(address: &Address) -> io::Result<Option<Adopted>> {
    let mut rest = rest()?;
    let is_own = |inherited: &InheritedSocket| is_at(&inherited.place, address);
    let is_usable =
        |it: &InheritedSocket| it.state == InheritedState::Listening && it.kind == kind_of(address);
    let usable = rest.sockets.iter().position(|it| is_own(it) && is_usable(it));
    let Some(at) = usable.or_else(|| rest.sockets.iter().position(is_own)) else {
        return match &rest.failure {
            None => Ok(None),
            Some(failure) => Err(io::Error::other(format!(
                "of the sockets that were handed over to this process none is at {address}, and \
                 one cannot be looked at: {failure}"
            ))),
        };
    };
    // Its clients refuse a directory that others may change, and so does whoever binds there.
    address.path()?;
    if !is_usable(&rest.sockets[at]) {
        return Err(cannot_use(address, &rest.sockets[at]));
    }
    let inherited = rest.sockets.remove(at);
    let of_health = format!("{}{HEALTH_SUFFIX}", inherited.name);
    let Some(socket) = inherited.take()? else { return Ok(None) };
    let is_health =
        |it: &InheritedSocket| it.name == of_health && it.state == InheritedState::Listening;
    let health = match rest.sockets.iter().position(is_health) {
        Some(at) => take_health(rest.sockets.remove(at))?,
        None => None,
    };
    Ok(Some(Adopted { socket, health }))
}

/// Returns the type of the socket of a server.
fn kind_of(address: &Address) -> Kind {
    match address {
        Address::Tcp { .. } => Kind::Stream,
        _ => Kind::Seqpacket,
    }
}

/// Returns why a server does not listen at a socket of its address that was handed over.
fn cannot_use(address: &Address, inherited: &InheritedSocket) -> io::Error {
    let needed = match kind_of(address) {
        Kind::Stream => "`ListenStream=`",
        _ => "`ListenSequentialPacket=`, a SOCK_SEQPACKET socket",
    };
    let text = match (inherited.kind, inherited.state) {
        // What a client has sent lies in it, and nothing reads that.
        (Kind::Stream | Kind::Seqpacket, InheritedState::Connected) => format!(
            "LISTEN_FDS has a connected socket of {address}, of one client: a server accepts its \
             clients itself; set `Accept=no` in the socket unit"
        ),
        (Kind::Datagram, _) => format!(
            "LISTEN_FDS has a socket of datagrams at {address}, at which no server listens: have \
             its binder make one of connections (a socket unit says {needed})"
        ),
        (kind, InheritedState::Listening) if kind != kind_of(address) => format!(
            "LISTEN_FDS has a socket of another type at {address}: have its binder make one of the \
             right type (a socket unit says {needed})"
        ),
        _ => format!(
            "LISTEN_FDS has a socket at {address} that does not listen: have its binder call \
             `listen` before it starts this program"
        ),
    };
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn take_health(inherited: InheritedSocket) -> io::Result<Option<(OwnedFd, Address)>> {
    let address = match &inherited.place {
        ListeningPlace::Path(path) => Address::Path(path.clone()),
        ListeningPlace::Abstract(name) => match String::from_utf8(name.clone()) {
            Ok(name) => Address::Abstract(name),
            Err(_) => return Ok(None),
        },
        ListeningPlace::Tcp(_) => return Ok(None),
    };
    Ok(inherited.take()?.map(|socket| (socket, address)))
}

/// Returns what to add to the reason why this process cannot bind the socket of an address, if one
/// may have been meant for it. Empty: none was handed over.
pub(crate) fn hint_at_others(address: &Address, is_in_use: bool) -> String {
    if is_in_use && let Some(other) = socket_activation::announced_to_another() {
        return format!(
            "; sockets were handed over to process {other} (LISTEN_PID), while this is process {}: \
             if a script starts this program, have it use `exec`",
            std::process::id()
        );
    }
    let Ok(rest) = rest() else { return String::new() };
    let places: Vec<_> = rest.sockets.iter().map(|it| it.place.to_string()).collect();
    if places.is_empty() {
        return String::new();
    }
    format!(
        "; LISTEN_FDS has sockets at {}, and none at {address}: have whoever starts this program \
         (a socket unit of systemd) and the program name the same address",
        places.join(", ")
    )
}

/// Returns whether a socket at this place is that of the address.
fn is_at(place: &ListeningPlace, address: &Address) -> bool {
    match (place, address) {
        (ListeningPlace::Path(bound), Address::Name(_) | Address::Path(_)) => {
            address.path_unchecked().is_some_and(|path| is_same_path(bound, &path))
        }
        (ListeningPlace::Abstract(bound), Address::Abstract(name)) => bound == name.as_bytes(),
        (ListeningPlace::Tcp(bound), Address::Tcp { host, port }) => {
            is_same_port(bound, host, *port)
        }
        _ => false,
    }
}

fn is_same_path(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    // By a directory that is a link, as /var/run is, the same file has another path.
    let file = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    one == other
        || absolute(one).is_some_and(|one| Some(one) == absolute(other))
        || file(one).is_some_and(|one| Some(one) == file(other))
}

fn is_same_port(bound: &SocketAddr, host: &str, port: u16) -> bool {
    let same = || (host, port).to_socket_addrs().is_ok_and(|mut all| all.any(|it| it == *bound));
    port == bound.port() && same()
}
