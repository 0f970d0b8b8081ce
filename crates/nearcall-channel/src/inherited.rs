//! Listening sockets that another process has bound for this one, such as systemd or a host of
//! services: which of them is the one of an address.
//!
//! **Invariants:** a socket is adopted once.
//! **Not here:** how sockets are handed over (`nearcall-os`).

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

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

/// The sockets that were handed over to this process and that no listener has adopted.
static REST: Mutex<Vec<InheritedSocket>> = Mutex::new(Vec::new());

/// Keeps the sockets that were handed over to this process from the programs that it starts: call
/// this before anything could start one. A listener adopts its socket later, as if it had not been
/// called.
///
/// # Errors
///
/// What was handed over cannot be understood.
pub fn secure_inherited() -> io::Result<()> {
    let mut rest = REST.lock().unwrap_or_else(PoisonError::into_inner);
    rest.extend(socket_activation::take_inherited()?);
    Ok(())
}

/// Takes the sockets of `address`, if they were handed over to this process and not taken before.
///
/// # Errors
///
/// What was handed over cannot be understood, or is a socket of another type.
pub(crate) fn take(address: &Address) -> io::Result<Option<Adopted>> {
    secure_inherited()?;
    let mut rest = REST.lock().unwrap_or_else(PoisonError::into_inner);
    if rest.is_empty() {
        return Ok(None);
    }
    let Some(at) = rest.iter().position(|inherited| is_at(&inherited.place, address)) else {
        return Ok(None);
    };
    if !rest[at].is_seqpacket && !matches!(address, Address::Tcp { .. }) {
        let text = format!(
            "the socket of {address} that was handed over is no SOCK_SEQPACKET: write \
             `ListenSequentialPacket=` into the socket unit"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let InheritedSocket { name, socket, .. } = rest.remove(at);
    let of_health = format!("{name}{HEALTH_SUFFIX}");
    let health = rest.iter().position(|inherited| inherited.name == of_health);
    let health = health.map(|at| rest.remove(at)).and_then(|inherited| match inherited.place {
        ListeningPlace::Path(path) => Some((inherited.socket, Address::Path(path))),
        ListeningPlace::Abstract(name) => {
            Some((inherited.socket, Address::Abstract(String::from_utf8(name).ok()?)))
        }
        ListeningPlace::Tcp(_) => None,
    });
    Ok(Some(Adopted { socket, health }))
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
