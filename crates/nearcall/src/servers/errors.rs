//! Why a server could not be had, or ended.
//!
//! **Invariants:** a text names what failed, the value, and what to do.

use std::fmt;
use std::io;

use nearcall_channel::HandshakeError;

use crate::address::{Address, BadAddress};
use crate::limits::SERVER_THREADS_MAX;

/// Why an object was not registered.
///
/// Returned by [`Server::register`](crate::Server::register).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// This server has an object of that name. Give one of them another instance.
    NameTaken(String),
    /// Two names have the same number. Rename one of them.
    Collision(String, String),
    /// The name is of the interface that every server answers itself.
    Reserved(String),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken(name) => write!(
                f,
                "this server has an object `{name}` already: register one of them as another \
                 instance"
            ),
            Self::Collision(one, other) => {
                write!(f, "the names `{one}` and `{other}` have the same number: rename one")
            }
            Self::Reserved(name) => write!(
                f,
                "the name `{name}` is reserved: every server answers this interface itself; \
                 rename the service in its `.proto` file"
            ),
        }
    }
}

/// Prints like [`Display`](fmt::Display), for `fn main() -> Result<(), RegisterError>`.
impl fmt::Debug for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for RegisterError {}

/// Why a server does not listen at an address.
///
/// Returned by [`Server::listen`](crate::Server::listen).
#[non_exhaustive]
pub enum ListenError {
    /// The text is no address.
    BadAddress(BadAddress),
    /// Another server of this thread is there.
    InUse(Address),
    /// A limit is out of its range, or the options of the listener contradict each other or the
    /// address.
    Limits(Address, String),
    /// The rendezvous failed: the address is taken, or not available here.
    Rendezvous(Address, Box<HandshakeError>),
    /// A system call failed.
    Os(Address, io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadAddress(error) => error.fmt(f),
            Self::InUse(address) => write!(f, "{address} is in use by a server of this process"),
            Self::Limits(address, text) => write!(f, "cannot listen at {address}: {text}"),
            Self::Rendezvous(address, error) => match &**error {
                HandshakeError::AddressInUse(..) => write!(
                    f,
                    "{error}; to serve one address in several threads, have \
                     one server with several threads"
                ),
                error => write!(f, "cannot listen at {address}: {error}"),
            },
            Self::Os(address, error) => write!(f, "cannot listen at {address}: {error}"),
        }
    }
}

/// Prints like [`Display`](fmt::Display), for `fn main() -> Result<(), ListenError>`.
impl fmt::Debug for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ListenError {}

/// Why a server with event loops of its own did not start.
///
/// Returned by [`ServerBuilder::start`](crate::server::ServerBuilder::start).
#[non_exhaustive]
pub enum StartError {
    /// It cannot have this number of threads.
    Threads(usize),
    /// An object was not registered.
    Register(RegisterError),
    /// It does not listen at an address.
    Listen(ListenError),
    /// A thread or an event loop could not be made.
    Os(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(0) => f.write_str(
                "a server with 0 `threads` would serve nothing: use 1 to as many as the process \
                 has CPUs, or make the server in an event loop of this thread",
            ),
            Self::Threads(threads) => write!(
                f,
                "{threads} `threads` are above the {SERVER_THREADS_MAX} that a server may have: \
                 use at most as many as the process has CPUs"
            ),
            Self::Register(error) => error.fmt(f),
            Self::Listen(error) => error.fmt(f),
            Self::Os(error) => write!(f, "cannot start the event loops of the server: {error}"),
        }
    }
}

/// Prints like [`Display`](fmt::Display), for `fn main() -> Result<(), StartError>`.
impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for StartError {}

/// Why a server with event loops of its own did not end well.
///
/// Returned by [`RunningServer::stop`](crate::server::RunningServer::stop).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerError {
    /// One of its event loops failed or panicked, so that all of it was stopped: the name of the
    /// thread, and why.
    LoopFailed(String, String),
    /// It was stopped, and the threads with these names still run a method that does not return.
    /// Their connections close when it does, or when the program ends.
    StillRunning(Vec<String>),
    /// Waiting for a signal failed.
    Signals(String),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoopFailed(thread, why) => {
                write!(f, "the server was stopped, because its event loop {thread} failed: {why}")
            }
            Self::StillRunning(threads) => write!(
                f,
                "the server was stopped, and a method still runs in {}: have methods that wait \
                 ask whether their call is cancelled",
                threads.join(", ")
            ),
            Self::Signals(why) => write!(f, "cannot wait for SIGTERM and SIGINT: {why}"),
        }
    }
}

/// Prints like [`Display`](fmt::Display), for `fn main() -> Result<(), ServerError>`.
impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ServerError {}
