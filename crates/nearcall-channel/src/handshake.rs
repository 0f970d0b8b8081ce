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
//! (`handshake/local.rs`), over TCP (`handshake/remote.rs`) and between two ends that are connected
//! (`handshake/switch.rs`, over TCP `handshake/meeting.rs`), the packets as bytes (`packet.rs`).

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearcall_os::fork::Epoch;
use nearcall_os::inotify::Inotify;
use nearcall_os::{descriptor, process, socket};

pub use error::{BadOptions, CannotSwitch, HandshakeError, InUse};
pub use meeting::{Invitation, Invited, MeetingClient};
pub use options::Options;
pub use steps::Handshake;

use crate::address::{Address, BACKLOG};
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::inherited::{self, Adopted};
use crate::mechanism::Mechanism;
use crate::packet::Refusal;
use crate::socket_file::{SocketAccess, SocketFile};
use crate::wait::Deadline;

mod error;
mod local;
mod meeting;
mod options;
mod remote;
mod step;
mod steps;
mod switch;

/// A server's socket for new clients.
pub struct Listener {
    socket: OwnedFd,
    address: Address,
    /// The file of its socket, if it has one and has not removed it.
    file: Mutex<Option<SocketFile>>,
    /// Another process has bound the socket, and goes on with it after this one.
    is_inherited: bool,
    /// The socket at which that process asks how this one is.
    health: Mutex<Option<(OwnedFd, Address)>>,
    epoch: Epoch,
}

impl Listener {
    /// Listens at `address` and nowhere else, for processes of this user. Over `tcp://` every host
    /// that reaches the port can connect, and to a name `unix:@name` every process.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::AddressInUse`]: another server listens there.
    /// [`HandshakeError::CannotListen`]: the reason.
    pub fn bind(address: &Address) -> Result<Self, HandshakeError> {
        Self::bind_for(address, SocketAccess::default())
    }

    /// Listens like [`bind`](Self::bind), with a file of the socket that others may have access to.
    /// A socket without a file has no mode and no owner.
    ///
    /// A socket of this address that the process was started with is adopted, as the protocol of
    /// systemd (`LISTEN_FDS`) has it: its access is what its binder has made it, and its file
    /// stays.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_for(address: &Address, access: SocketAccess) -> Result<Self, HandshakeError> {
        if let Some(adopted) = inherited::take(address).map_err(HandshakeError::CannotListen)? {
            return Self::adopt(address, adopted).map_err(HandshakeError::CannotListen);
        }
        let bound = match address {
            Address::Tcp { host, port } => {
                remote::listen(host, *port).map(|(socket, address)| (socket, address, None))
            }
            _ => address.listen(access).map(|(socket, file)| (socket, address.clone(), file)),
        };
        let (socket, address, file) = bound.map_err(|error| cannot_bind(address, error))?;
        Ok(Self::new(socket, address, file))
    }

    fn new(socket: OwnedFd, address: Address, file: Option<SocketFile>) -> Self {
        let (file, epoch) = (Mutex::new(file), Epoch::current());
        let (is_inherited, health) = (false, Mutex::default());
        Self { socket, address, file, is_inherited, health, epoch }
    }

    fn adopt(address: &Address, adopted: Adopted) -> io::Result<Self> {
        let Adopted { socket, health } = adopted;
        // From here on the kernel has `SO_PEERCRED` of new clients name this process, for tools and
        // clients that do not ask who answers them.
        socket::start_listening(&socket, BACKLOG)?;
        let mut listener = Self::new(socket, address.clone(), None);
        listener.is_inherited = true;
        listener.health = Mutex::new(health);
        Ok(listener)
    }

    /// Has the kernel give clients that connect from now on the number of this process as that of
    /// the listener (`SO_PEERCRED`): after a process that had adopted the socket has ended.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn listen_again(&self) -> io::Result<()> {
        socket::start_listening(&self.socket, BACKLOG)
    }

    /// Gives the file of the socket, if this listener has made one, another mode and owner.
    ///
    /// # Errors
    ///
    /// The kernel's: to give a file to another user takes the privilege to do so.
    pub fn set_access(&self, access: SocketAccess) -> io::Result<()> {
        self.file().as_mut().map_or(Ok(()), |file| file.set_access(access))
    }

    fn file(&self) -> MutexGuard<'_, Option<SocketFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the socket has a file that this listener has made, and has not removed.
    pub fn has_file(&self) -> bool {
        self.file().is_some()
    }

    /// Returns whether the file of the socket, if there is one, and its lock are where this
    /// listener has made them.
    pub fn is_file_whole(&self) -> bool {
        self.file().as_ref().is_none_or(SocketFile::is_whole)
    }

    /// Has `inotify` report when clients may not find the file of the socket any more: it was
    /// removed or renamed, or its lock or its directory was.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn watch_file(&self, inotify: &Inotify) -> io::Result<()> {
        let file = self.file();
        let Some(file) = &*file else { return Ok(()) };
        let (directory, files) = file.watched();
        for file in files {
            inotify.watch_file(file)?;
        }
        match inotify.watch_name_of_directory(directory) {
            // It is gone, which the file reports.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            watched => watched.map(drop),
        }
    }

    /// Makes the file of the socket, its lock and the runtime directory again, where they are not
    /// there any more, with the access that was set last. Returns whether anything was made. The
    /// descriptor of the listener may refer to another open file then, so do not watch it
    /// meanwhile. Clients that wait at the socket before are lost; accept them first.
    ///
    /// # Errors
    ///
    /// Something else has the path, or it cannot be made there: clients find another server or none
    /// from then on. The text names the path and this process.
    pub fn restore_file(&self) -> io::Result<bool> {
        let mut file = self.file();
        let Some(file) = file.as_mut().filter(|file| !file.is_whole()) else { return Ok(false) };
        // Makes the directory.
        let restored = self.address.awaited_path().and_then(|_| file.restore(BACKLOG));
        let replaced = restored.and_then(|socket| match socket {
            Some(socket) => descriptor::replace(self.socket.as_fd(), &socket),
            None => Ok(()),
        });
        replaced.map(|()| true).map_err(|error| {
            let text = format!(
                "no client finds process {} at {} any more: {error}; start its server again, or \
                 use another address",
                process::pid(),
                file.path().display()
            );
            io::Error::new(error.kind(), text)
        })
    }

    /// Returns the mode and the owner of the file of the socket. `None`: it has no file.
    ///
    /// # Errors
    ///
    /// The kernel's, as for a file that was removed.
    pub fn access(&self) -> io::Result<Option<SocketAccess>> {
        let Some(path) = self.address.path_unchecked() else { return Ok(None) };
        let file = fs::metadata(path)?;
        Ok(Some(SocketAccess { mode: file.mode() & 0o777, owner: Some((file.uid(), file.gid())) }))
    }

    /// Returns whether another process has bound the socket. Clients that wait in its queue are for
    /// the next process that gets it, so do not refuse them when this one ends.
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Takes the listener at which the process that has bound this one asks how the server is, if
    /// it has handed one over.
    pub fn take_health_listener(&self) -> Option<Self> {
        let (socket, at) = self.health.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let mut listener = Self::new(socket, at, None);
        listener.is_inherited = true;
        Some(listener)
    }

    /// Returns the address; for port 0, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Removes the file of the socket, if it has one, so that no client finds the listener any
    /// more. Clients that have found it are still accepted. Dropping the listener does the same;
    /// this is for a program that ends while another thread has the listener. A process that was
    /// forked from the one that listens removes nothing.
    pub fn unlink(&self) {
        // Once only: another server may have made a file of the same name since.
        let file = self.file().take();
        if let Some(file) = file {
            file.remove();
        }
    }

    /// Returns whether this is the process that listens, and not one that was forked from it.
    pub fn is_of_this_process(&self) -> bool {
        self.epoch.is_current()
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
        self.epoch.check().map_err(HandshakeError::Os)?;
        let socket = socket::accept(self, deadline)?.ok_or(HandshakeError::TimedOut)?;
        self.rendezvous().open(socket, options)
    }

    /// Accepts a connection without the handshake and without waiting; `None` if there is none.
    /// Pass the socket to [`Rendezvous::open`], in any thread.
    ///
    /// # Errors
    ///
    /// The kernel's. After EMFILE the client still waits, so do not ask again at once. In a forked
    /// process: the clients are the parent's.
    pub fn accept_socket(&self) -> io::Result<Option<OwnedFd>> {
        self.epoch.check()?;
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

/// Returns why there is no listener.
fn cannot_bind(address: &Address, error: io::Error) -> HandshakeError {
    let is_in_use = error.kind() == io::ErrorKind::AddrInUse;
    let hint = inherited::hint_at_others(address, is_in_use);
    if !is_in_use {
        return match hint.is_empty() {
            true => HandshakeError::CannotListen(error),
            false => {
                HandshakeError::CannotListen(io::Error::new(error.kind(), format!("{error}{hint}")))
            }
        };
    }
    // Without a text of ours it is the kernel's, which says the same again.
    let mut holder = error.get_ref().map(ToString::to_string);
    if let Some(holder) = &mut holder
        && address.path_unchecked().is_some_and(|path| !path.exists())
    {
        holder.push_str("; its socket was removed and no client finds it");
    }
    HandshakeError::AddressInUse(address.clone(), InUse { holder, hint })
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

    /// Refuses the client behind `socket`, because its user is not let in: a reason that time does
    /// not change. Over TCP, where no user is known, as [`reject`](Self::reject). Does not wait.
    pub fn refuse_user(self, socket: OwnedFd, why: &str) {
        let control = Control::new(socket);
        match self {
            Self::Local => control.send_refusal(Refusal::NotAllowed, why),
            Self::Remote => remote::reject(&control),
        }
    }

    /// Refuses the client behind `socket` with the reason `why`; over TCP the reason is always that
    /// there are too many clients. Does not wait.
    pub fn reject(self, socket: OwnedFd, code: Refusal, why: &str) {
        let control = Control::new(socket);
        match self {
            Self::Local => control.send_refusal(code, why),
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
