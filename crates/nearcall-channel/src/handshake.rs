//! Two processes meet over a unix socket or TCP and open a mechanism between them.
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
//! **Invariants:** a listener serves one address; an error of one client does not end it.
//! **Not here:** the handshake in steps (`handshake/steps.rs`), over a unix socket
//! (`handshake/local.rs`) and over TCP (`handshake/remote.rs`), the packets as bytes (`packet.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nearcall_os::socket;

pub use error::{BadOptions, HandshakeError};
pub use options::Options;
pub use steps::Handshake;

use crate::address::Address;
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::mechanism::Mechanism;
use crate::wait::Deadline;

mod error;
mod local;
mod options;
mod remote;
mod step;
mod steps;

/// A server's socket for new clients.
pub struct Listener {
    socket: OwnedFd,
    address: Address,
    /// Its socket may have a file, which was not removed yet.
    has_file: AtomicBool,
}

impl Listener {
    /// Listens at `address` and nowhere else. Over `tcp://` every host that reaches the port can
    /// connect.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::AddressInUse`]: another server listens there.
    pub fn bind(address: &Address) -> Result<Self, HandshakeError> {
        let bound = match address {
            Address::Tcp { host, port } => remote::listen(host, *port),
            _ => address.listen().map(|socket| (socket, address.clone())),
        };
        let (socket, address) = bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => HandshakeError::AddressInUse(address.clone()),
            _ => HandshakeError::Os(error),
        })?;
        Ok(Self { socket, address, has_file: AtomicBool::new(true) })
    }

    /// Returns the address; for port 0, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Removes the file of the socket, if it has one, so that no client finds the listener any
    /// more. Clients that have found it are still accepted. Dropping the listener does the same;
    /// this is for a program that ends while another thread has the listener.
    pub fn unlink(&self) {
        // Once only: another server may have made a file of the same name since.
        if self.has_file.swap(false, Ordering::AcqRel) {
            self.address.unlink();
        }
    }

    /// Waits for a client until `deadline` and opens the mechanism that it asks for.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::TimedOut`]: no client came, or one did not finish in time. Every other
    /// error concerns one client only: go on accepting.
    pub fn accept(
        &self,
        deadline: Deadline,
        options: &Options,
    ) -> Result<Endpoint, HandshakeError> {
        let socket = socket::accept(self, deadline)?.ok_or(HandshakeError::TimedOut)?;
        self.rendezvous().open(socket, options)
    }

    /// Accepts a connection without the handshake and without waiting; `None` if there is none.
    /// Pass the socket to [`Rendezvous::open`], in any thread.
    ///
    /// # Errors
    ///
    /// The kernel's. After EMFILE the client still waits, so do not ask again at once.
    pub fn accept_socket(&self) -> io::Result<Option<OwnedFd>> {
        socket::accept(self, Deadline::NOW)
    }

    /// Returns how to open this listener's clients, for threads without the listener.
    pub fn rendezvous(&self) -> Rendezvous {
        match self.address {
            Address::Tcp { .. } => Rendezvous::Remote,
            _ => Rendezvous::Local,
        }
    }
}

/// Opens the clients of a [`Listener`]. It outlives the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rendezvous {
    /// Over a unix socket, by the control line.
    Local,
    /// Over TCP.
    Remote,
}

impl Rendezvous {
    /// Opens the mechanism that the client behind `socket` asks for. Waits for the client: each of
    /// its answers has [`handshake_timeout`](Options::handshake_timeout).
    ///
    /// # Errors
    ///
    /// As [`Listener::accept`]; all concern this client only.
    pub fn open(self, socket: OwnedFd, options: &Options) -> Result<Endpoint, HandshakeError> {
        Handshake::serve(self, socket, options)?.complete()
    }

    /// Refuses the client behind `socket` with the reason `why`; over TCP the reason is always that
    /// there are too many clients. Does not wait.
    pub fn reject(self, socket: OwnedFd, why: &str) {
        let control = Control::new(socket);
        match self {
            Self::Local => control.send_refusal(why),
            Self::Remote => remote::reject(&control),
        }
    }
}

// A handshake may begin in another thread than the one that goes on with it.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Endpoint>();
    is_send::<Handshake>();
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
        self.unlink();
    }
}

/// Connects to a server at `address` and asks it for `mechanism`.
///
/// # Errors
///
/// [`HandshakeError::NoListener`]: no server listens yet. [`HandshakeError::BadOptions`]: over
/// `tcp://` the only mechanism is [`Mechanism::Tcp`].
pub fn connect(
    address: &Address,
    mechanism: Mechanism,
    options: &Options,
) -> Result<Endpoint, HandshakeError> {
    Handshake::connect(address, mechanism, options)?.complete()
}

/// Works like [`connect`], over a connected SOCK_SEQPACKET unix socket, such as one of a socket
/// pair.
///
/// # Errors
///
/// As [`connect`].
pub fn connect_over(
    socket: OwnedFd,
    mechanism: Mechanism,
    options: &Options,
) -> Result<Endpoint, HandshakeError> {
    Handshake::connect_over(socket, mechanism, options)?.complete()
}

/// Serves one client over a connected SOCK_SEQPACKET unix socket.
///
/// # Errors
///
/// As [`Listener::accept`].
pub fn accept_over(socket: OwnedFd, options: &Options) -> Result<Endpoint, HandshakeError> {
    Rendezvous::Local.open(socket, options)
}
