//! Services in dynamic libraries: a group of them in this process, each with a loop of its own.
//!
//! A library is loaded code: it can do whatever this process can, and what ends one service ends
//! the process, with all of its group. A panic ends its call only. A method that never returns
//! keeps the loop of its service; the other services go on, and calls of it end by their deadlines.
//! **Invariants:** nothing listens before every library of the group is loaded and its service
//! made. Calls between two services of a group come over a connection, unless the methods of the
//! object that is called do not wait: then they are function calls.
//! **Not here:** starting the process and starting it again (`supervisor`), the C interface
//! (`nearcall_os::library`).

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nearcall::Server;
use nearcall::limits::Limits;
use nearcall::server::{RunningServer, ServerError, StartError};
use nearcall_os::Deadline;
use nearcall_os::library::{Library, LibraryFile, LoadError, serve_libraries};
use nearcall_os::poll::{self, PollFd, PollFlags};
use nearcall_os::signal::TerminationSignals;
use serde::{Deserialize, Serialize};

mod registry;
mod service;
mod waiting;
mod watchdog;

use self::registry::REGISTRY;
use self::service::{LibraryDispatcher, Service};
use self::watchdog::Watchdog;

/// A service of a group, in a dynamic library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryConfig {
    /// Its name, in messages.
    pub name: String,
    /// The library.
    pub file: PathBuf,
    /// The arguments that the service gets.
    pub arguments: Vec<String>,
    /// The address at which it listens.
    pub listen: String,
    /// The interfaces that it must have, such as `home.v1.Thermostat`; none: whatever it has.
    pub interfaces: Vec<String>,
    /// How long a method may run before that is reported; `None`: it is not watched.
    pub watchdog: Option<Duration>,
    /// How long calls under way may go on when the group is stopped.
    pub stop_within: Duration,
}

/// Why a group does not run any more, or never did. Each names the service.
#[derive(Debug)]
pub enum GroupError {
    /// A library was not loaded, or its service not made.
    Load(String, LoadError),
    /// A service does not listen.
    Start(String, Box<StartError>),
    /// The loop of a service has failed.
    Server(String, ServerError),
    /// The process lacks something.
    Os(io::Error),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(name, error) => write!(f, "service `{name}`: {error}"),
            Self::Start(name, error) => write!(f, "service `{name}`: {error}"),
            Self::Server(name, error) => write!(f, "service `{name}`: {error}"),
            Self::Os(error) => write!(f, "the group of libraries cannot wait: {error}"),
        }
    }
}

impl std::error::Error for GroupError {}

/// Checks that a library can be loaded: its file, and what it exports. Loads it, which runs its
/// constructors, and makes no service.
///
/// # Errors
///
/// What is wrong, with the file, the symbol and the remedy.
pub fn check(file: &Path) -> Result<(), LoadError> {
    Library::load(LibraryFile::open(file)?).map(drop)
}

/// Loads the libraries and serves them until SIGTERM or SIGINT. Calls under way may end then, each
/// service's for as long as its `stop_within` at most. A second signal ends the process at once.
///
/// # Errors
///
/// The first library that cannot be loaded, or the first service that fails: the others are not
/// served without it, so return from `main` and have the group started again.
pub fn run_group(libraries: &[LibraryConfig]) -> Result<(), GroupError> {
    // Another group of this process has set the same.
    let _ = serve_libraries(&REGISTRY);
    let mut services = Vec::with_capacity(libraries.len());
    for config in libraries {
        let service = Service::load(config);
        let service = service.map_err(|error| GroupError::Load(config.name.clone(), error))?;
        services.push(Arc::new(service));
    }
    let termination = TerminationSignals::install().map_err(GroupError::Os)?;
    let mut running = Vec::with_capacity(libraries.len());
    for (config, service) in libraries.iter().zip(&services) {
        REGISTRY.add(config, service);
    }
    for (config, service) in libraries.iter().zip(&services) {
        let server = start(config, service);
        running.push(server.map_err(|error| GroupError::Start(config.name.clone(), error.into()))?);
    }
    let limits = libraries.iter().filter_map(|config| config.watchdog);
    let _watchdog = Watchdog::start(limits).map_err(GroupError::Os)?;
    let ended = wait(&termination, &running).map_err(GroupError::Os)?;
    if let Some(index) = ended {
        let name = libraries[index].name.clone();
        running[index].stop().map_err(|error| GroupError::Server(name, error))?;
    }
    thread::scope(|scope| {
        for (config, server) in libraries.iter().zip(&running) {
            scope.spawn(move || {
                server.drain(config.stop_within);
                // A method that has not returned ends with the process.
                let _ = server.stop();
            });
        }
    });
    // Those that still serve a call of another stay until the process ends.
    services.iter().for_each(|service| REGISTRY.remove(service));
    Ok(())
}

fn start(config: &LibraryConfig, service: &Arc<Service>) -> Result<RunningServer, StartError> {
    let limits = Limits { drain_timeout: config.stop_within, ..Limits::default() };
    let mut builder = Server::builder().limits(limits).nest_calls().stop_remedy(
        "this server is a library in a process that a host runs: to end it, take it out of the \
         host's file and run `nearcall restart`, or stop the host",
    );
    for (index, object) in service.objects().iter().enumerate() {
        let dispatcher = LibraryDispatcher::new(service, index);
        builder = match &*object.instance {
            "" => builder.register(dispatcher),
            instance => builder.register_as(instance, dispatcher),
        };
    }
    builder.listen(&config.listen).start()
}

/// Waits for a signal, or for the first server that ends by itself.
fn wait(termination: &TerminationSignals, running: &[RunningServer]) -> io::Result<Option<usize>> {
    let signal = termination.fd();
    let ends = running.iter().map(AsFd::as_fd);
    let mut fds: Vec<_> = std::iter::once(signal.as_fd())
        .chain(ends)
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    poll::poll(&mut fds, Deadline::NEVER)?;
    let first = fds.iter().position(|fd| !fd.revents().is_empty());
    Ok(first.and_then(|index| index.checked_sub(1)))
}
