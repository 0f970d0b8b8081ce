//! What a host reports to systemd, where that has started it (`sd_notify(3)`).
//!
//! **Invariants:** without systemd nothing happens; a message that is not delivered is no error, as
//! the service manager sees by its own means whether the host lives. A manager that does not read
//! holds the host up for [`NOTIFY_TIMEOUT`] at most.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::limits::NOTIFY_TIMEOUT;

/// Every service is up, or has failed once.
pub(super) fn ready(summary: &str) {
    let _ = send(&format!("READY=1\nSTATUS={summary}\n"));
}

/// The services are being stopped.
pub(super) fn stopping() {
    let _ = send("STOPPING=1\n");
}

fn send(message: &str) -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(NOTIFY_TIMEOUT))?;
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}
