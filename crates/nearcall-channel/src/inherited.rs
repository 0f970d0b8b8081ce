//! Listening sockets that another process has bound for this one, such as systemd or a host of
//! services: which of them is the one of an address.
//!
//! **Invariants:** a socket is adopted once.
//! **Not here:** how sockets are handed over (`nearcall-os`).

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearcall_os::socket_activation::{self, InheritedSocket, ListeningPlace};

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

/// Takes the sockets of `address`, if they were handed over to this process and not taken before.
///
/// # Errors
///
/// What was handed over cannot be understood, or is a socket of another type; the runtime directory
/// of a name is not to be trusted.
pub(crate) fn take(address: &Address) -> io::Result<Option<Adopted>> {
    let mut rest = rest()?;
    let is_own = |inherited: &InheritedSocket| is_at(&inherited.place, address);
    let Some(at) = rest.sockets.iter().position(is_own) else {
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
    if !rest.sockets[at].is_seqpacket && !matches!(address, Address::Tcp { .. }) {
        let text = format!(
            "the socket of {address} that was handed over is no SOCK_SEQPACKET: have its binder \
             make one of that type (a socket unit of systemd says `ListenSequentialPacket=`)"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let inherited = rest.sockets.remove(at);
    let of_health = format!("{}{HEALTH_SUFFIX}", inherited.name);
    let Some(socket) = inherited.take()? else { return Ok(None) };
    let health = match rest.sockets.iter().position(|inherited| inherited.name == of_health) {
        Some(at) => take_health(rest.sockets.remove(at))?,
        None => None,
    };
    Ok(Some(Adopted { socket, health }))
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

/// Returns why the socket of an address that is in use may not have been handed over to this
/// process, if sockets were handed over to its parent.
pub(crate) fn why_not_adopted(address: &Address) -> Option<io::Error> {
    let other = socket_activation::announced_to_another()?;
    let text = format!(
        "{address} is in use, and sockets were handed over to process {other} (LISTEN_PID), while \
         this is process {}: if a script starts this program, have it use `exec`; otherwise stop \
         the other server, or use another address",
        std::process::id()
    );
    Some(io::Error::new(io::ErrorKind::AddrInUse, text))
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
    one == other || absolute(one).is_some_and(|one| Some(one) == absolute(other))
}

fn is_same_port(bound: &SocketAddr, host: &str, port: u16) -> bool {
    let same = || (host, port).to_socket_addrs().is_ok_and(|mut all| all.any(|it| it == *bound));
    port == bound.port() && same()
}
