//! Addresses of servers, from text and to text.
//!
//! `NAME` is a socket of that name in the runtime directory, `unix:/path` one with that path,
//! `unix:@name` one in the abstract namespace, which vanishes with its process; `tcp://host:port`
//! is reached over the network.
//!
//! **Invariants:** a printed address parses back to the same address.
//! **Not here:** listening and connecting over TCP (`handshake/remote.rs`); `inproc:`, which the
//! call layer adds; parameters such as `?via=`.

use std::fmt;
use std::fs;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use nearcall_os::socket::{self, UnixAddress};
use thiserror::Error;

use crate::error::debug_as_display;
use crate::runtime_dir;
use crate::socket_file::{self, SocketAccess, SocketFile};

/// Longest name of a service, in bytes: with the directory it must fit a socket path of 107.
pub const NAME_BYTES_MAX: usize = 64;

/// The place where a server listens.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A socket of this name in the runtime directory.
    Name(String),
    /// A socket with this path.
    Path(PathBuf),
    /// A socket in the abstract namespace.
    Abstract(String),
    /// A port of a machine.
    Tcp {
        /// A name, which is looked up each time, or an IP address, without brackets.
        host: String,
        /// Zero, for a listener: any that is free.
        port: u16,
    },
}

/// Text that is no address, and why.
#[derive(Error, Clone, PartialEq, Eq)]
#[error("bad address `{text}`: {why}")]
pub struct BadAddress {
    text: String,
    why: &'static str,
}

impl BadAddress {
    /// Returns what is wrong, without the text itself.
    pub fn why(&self) -> &str {
        self.why
    }
}

debug_as_display!(Address, BadAddress);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |why| BadAddress { text: text.to_owned(), why };
        if text.contains('\0') {
            return Err(bad("it contains a zero byte"));
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            let name = rest.strip_prefix('@');
            if name.unwrap_or(rest).is_empty() {
                return Err(bad("a path or an @name must follow `unix:`"));
            }
            if rest.len() > socket::UNIX_PATH_BYTES_MAX {
                return Err(bad("a unix socket path has at most 107 bytes"));
            }
            return Ok(match name {
                Some(name) => Self::Abstract(name.to_owned()),
                None => Self::Path(rest.into()),
            });
        }
        if let Some(rest) = text.strip_prefix("tcp://") {
            return parse_tcp(rest).map_err(bad);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        match text {
            "" => Err(bad("it is empty")),
            _ if text.len() > NAME_BYTES_MAX => Err(bad("a name has at most 64 bytes")),
            _ if text.starts_with('.') => Err(bad("a name does not start with a dot")),
            _ if text.chars().all(plain) => Ok(Self::Name(text.to_owned())),
            _ => Err(bad("a name has only letters, digits and `._-@`; a path starts with `unix:`")),
        }
    }
}

/// Parses the part after `tcp://`.
fn parse_tcp(text: &str) -> Result<Address, &'static str> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once("]:").ok_or("`[address]:port` must follow")?;
            host.parse::<Ipv6Addr>().map_err(|_| "there is no IPv6 address in the brackets")?;
            (host, port)
        }
        None => {
            let (host, port) = text.rsplit_once(':').ok_or("`host:port` must follow `tcp://`")?;
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            match host {
                "" => return Err("a host must follow `tcp://`"),
                _ if host.contains(':') => return Err("an IPv6 address stands in brackets"),
                _ if host.len() > HOST_BYTES_MAX => return Err("a host has at most 253 bytes"),
                _ if !host.chars().all(plain) => {
                    return Err("a host has only letters, digits, `._-`");
                }
                _ => (host, port),
            }
        }
    };
    // `parse` would take a sign, too.
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits => Ok(Address::Tcp { host: host.to_owned(), port }),
        _ => Err("a port is a number from 0 to 65535"),
    }
}

/// Longest name of a host, in bytes: what the DNS allows.
const HOST_BYTES_MAX: usize = 253;

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Path(path) => write!(f, "unix:{}", path.display()),
            Self::Abstract(name) => write!(f, "unix:@{name}"),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
        }
    }
}

/// The socket of a name in the runtime directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSocket {
    /// The name, as an address has it.
    pub name: String,
    /// The path of the socket.
    pub path: PathBuf,
    /// The user id that the file belongs to.
    pub uid: u32,
}

/// Returns the sockets in the runtime directory, sorted by name. Whether a server listens at one is
/// for who connects to find out; what is no socket, or has a name that no address has, is left out.
///
/// # Errors
///
/// `NotFound`: there is no directory. `PermissionDenied`: it cannot be trusted, and why.
pub fn named_sockets() -> io::Result<Vec<NamedSocket>> {
    let mut sockets = Vec::new();
    for entry in fs::read_dir(runtime_dir::existing()?)? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok();
        let Some(name) = name.filter(|name| matches!(name.parse(), Ok(Address::Name(_)))) else {
            continue;
        };
        // One that is gone meanwhile is no socket either.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.file_type().is_socket() {
            sockets.push(NamedSocket { name, path: entry.path(), uid: metadata.uid() });
        }
    }
    sockets.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(sockets)
}

/// Clients that may wait to be accepted; a further one is refused as if there were no listener.
pub(crate) const BACKLOG: u16 = 128;

impl Address {
    /// Returns the path of the socket, if it is in the file system.
    pub(crate) fn path(&self) -> io::Result<Option<PathBuf>> {
        Ok(match self {
            Self::Name(name) => Some(runtime_dir::socket_path(name)?),
            Self::Path(path) => Some(path.clone()),
            Self::Abstract(_) | Self::Tcp { .. } => None,
        })
    }

    /// Returns an error if no server can listen here whatever else is there: the socket of the name
    /// would have a path that is too long, or the runtime directory is not to be trusted. Makes
    /// nothing.
    ///
    /// # Errors
    ///
    /// That reason.
    pub fn check_place(&self) -> io::Result<()> {
        match self {
            Self::Name(name) => runtime_dir::check_name(name),
            Self::Path(_) | Self::Abstract(_) | Self::Tcp { .. } => Ok(()),
        }
    }

    /// Returns the path where the socket of a server appears that begins to listen here: for
    /// servers, and for clients that wait for one. Makes the runtime directory. `None`: the socket
    /// has no file.
    ///
    /// # Errors
    ///
    /// The runtime directory cannot be made, or is not to be trusted.
    pub fn awaited_path(&self) -> io::Result<Option<PathBuf>> {
        if let Self::Name(_) = self {
            runtime_dir::create()?;
        }
        self.path()
    }

    /// Removes the socket that a server has left here which was killed, and returns its path.
    /// `None`: there is none, or a server listens.
    ///
    /// # Errors
    ///
    /// The runtime directory is not to be trusted, or the socket, its lock or its directory belongs
    /// to another user.
    pub fn remove_left_socket(&self) -> io::Result<Option<PathBuf>> {
        let path = match self.path() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            path => path?,
        };
        let Some(path) = path else { return Ok(None) };
        Ok(socket_file::remove_left(&path)?.then_some(path))
    }

    /// Returns the path of the socket, if it is in the file system, of a directory that was not
    /// looked at.
    pub(crate) fn path_unchecked(&self) -> Option<PathBuf> {
        match self {
            Self::Name(name) => Some(runtime_dir::path().join(name)),
            Self::Path(path) => Some(path.clone()),
            Self::Abstract(_) | Self::Tcp { .. } => None,
        }
    }

    pub(crate) fn with_unix<T>(
        &self,
        act: impl Fn(UnixAddress<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        match (self, self.path()?) {
            (Self::Abstract(name), _) => act(UnixAddress::Abstract(name.as_bytes())),
            (_, Some(path)) => act(UnixAddress::Path(&path)),
            (_, None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Connects to the unix socket.
    pub(crate) fn connect(&self, timeout: Duration) -> io::Result<OwnedFd> {
        self.with_unix(|address| socket::unix_connect(address, Some(timeout)))
    }

    /// Connects to the unix socket without waiting. `None`: the queue of its listener is full, or
    /// the address is none of a unix socket.
    pub(crate) fn try_connect(&self) -> io::Result<Option<OwnedFd>> {
        match self {
            Self::Tcp { .. } => Ok(None),
            _ => self.with_unix(socket::unix_try_connect),
        }
    }

    /// Listens on the unix socket; takes over the path of a socket whose listener is gone. Also
    /// returns the file, if it has one.
    pub(crate) fn listen(&self, access: SocketAccess) -> io::Result<(OwnedFd, Option<SocketFile>)> {
        match self.awaited_path()? {
            Some(path) => {
                let (socket, file) = SocketFile::listen(&path, access, BACKLOG)?;
                Ok((socket, Some(file)))
            }
            // An abstract name goes with its listener, so one that is taken has a listener.
            None => {
                let socket = self.with_unix(|address| socket::unix_listen(address, BACKLOG))?;
                Ok((socket, None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_address_parses_back() {
        for text in [
            "thermostat",
            "a.b-c_d@1",
            "unix:/run/x.sock",
            "unix:rel/x",
            "unix:@abc",
            "tcp://127.0.0.1:0",
            "tcp://[::1]:80",
            "tcp://a-b.example:65535",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.to_string().parse(), Ok(address));
        }
    }

    #[test]
    fn a_bad_address_is_refused_with_the_reason() {
        let check = |text: &str, why: &str| {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        check("", "empty");
        check("unix:", "must follow");
        check("unix:@", "must follow");
        check("a/b", "only letters");
        check("..", "dot");
        check("x\0y", "zero byte");
        check(&"n".repeat(65), "at most 64");
        check(&format!("unix:/{}", "p".repeat(107)), "at most 107");
        check("tcp://", "host:port");
        check("tcp://host", "host:port");
        check("tcp://:80", "a host must follow");
        check("tcp://::1:80", "brackets");
        check("tcp://[::1]", "port");
        check("tcp://[host]:1", "no IPv6 address");
        check("tcp://host:", "from 0 to 65535");
        check("tcp://host:+1", "from 0 to 65535");
        check("tcp://host:65536", "from 0 to 65535");
        check("tcp://user@host:1", "only letters");
        check("tcp://host:80/path", "from 0 to 65535");
        check(&format!("tcp://{}:1", "h".repeat(254)), "at most 253");
    }
}
