//! The file that names the services of a host: what each is, and how it is kept running.
//!
//! Services that run in one process are one *unit*: a service of its own, or a group of libraries.
//! Units are what is started, restarted and stopped.
//!
//! **Invariants:** a configuration that exists can be run as far as the file and the machine can
//! say: names, addresses and dependencies fit together, and the files are there. Every error names
//! the file, the line and what to do.
//! **Not here:** the syntax (`config/raw.rs`), how services become units (`config/units.rs`,
//! `config/gateway.rs`), who may connect (`config/access.rs`), what a library must be
//! (`library.rs`).

mod access;
mod gateway;
mod order;
mod raw;
mod units;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use nearcall_channel::{Address, SocketAccess};
use nearcall_os::library::{LibraryFile, LoadError};
use nearcall_os::program::ProgramFile;
use nearcall_os::{descriptor, process};

use self::raw::RawFile;
pub(crate) use self::raw::{Restart, Run};
use crate::library;
use crate::limits::{
    CONFIG_BYTES_MAX, DESCRIPTORS_OF_HOST, DESCRIPTORS_PER_HAND_OVER, DESCRIPTORS_PER_PROCESS,
    DESCRIPTORS_PER_SERVICE, DESCRIPTORS_PER_WATCHER,
};

/// The address of a host whose file says no other.
pub const LISTEN_DEFAULT: &str = "nearcall-host";

/// The services of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The file that it was read from.
    pub(crate) path: PathBuf,
    /// Where the host itself is asked.
    pub(crate) listen: Address,
    /// In an order in which they can be started: after those that they need.
    pub(crate) units: Vec<Rc<Unit>>,
}

/// Services that are started and stopped together, in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) name: UnitName,
    /// One, or the members of a group.
    pub(crate) services: Vec<Service>,
    /// The units that must be up before it starts.
    pub(crate) after: Vec<UnitName>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) policy: Policy,
    pub(crate) ready_within: Duration,
    pub(crate) stop_within: Duration,
    /// Lines that the log takes from it in a second.
    pub(crate) log_rate: u32,
}

/// The name of a unit. A group and a service may have the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum UnitName {
    Service(String),
    Group(String),
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name) => write!(f, "{name}"),
            Self::Group(name) => write!(f, "group {name}"),
        }
    }
}

/// What follows when a unit ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) restart: Restart,
    /// Restarts in a row before the host gives up. None: it never does.
    pub(crate) limit: Option<u32>,
    pub(crate) back_off_min: Duration,
    pub(crate) back_off_max: Duration,
}

/// One service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) run: Run,
    pub(crate) file: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) listen: Address,
    /// Where it serves another protocol, which only its process understands.
    pub(crate) sockets: Vec<Address>,
    /// Who may connect to its socket, if that has a file.
    pub(crate) access: SocketAccess,
    /// Names of interfaces that a library must have.
    pub(crate) interfaces: Vec<String>,
    /// How long it may leave the question unanswered whether it is well.
    pub(crate) watchdog: Option<Duration>,
}

impl Service {
    /// Returns where its process listens.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.listen).chain(&self.sockets)
    }
}

impl Unit {
    /// Returns where its process listens.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.services.iter().flat_map(Service::addresses)
    }
}

/// Why a file is no configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    path: PathBuf,
    /// Line and column, from 1 on.
    place: Option<(usize, usize)>,
    text: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// Prints like [`Display`](fmt::Display).
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConfigError {}

/// The text of a file, for errors that name places in it.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, span: Option<Range<usize>>, text: impl Into<String>) -> ConfigError {
        let place = span.map(|span| {
            let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
            (line, column)
        });
        ConfigError { path: self.path.to_owned(), place, text: text.into() }
    }
}

/// A file that a service is started from, and where the configuration names it.
struct NamedFile {
    service: String,
    run: Run,
    path: PathBuf,
    span: Range<usize>,
}

impl Config {
    /// Reads a file, and looks at the files that it names.
    ///
    /// # Errors
    ///
    /// It cannot be read, other users may write it, it is no configuration, or a file that it names
    /// is not there, may be written by other users or cannot be run here: the text names the line
    /// and what to do.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read_checked(path);
        let text =
            text.map_err(|error| Source { path, text: "" }.error(None, error.to_string()))?;
        let source = Source { path, text: &text };
        let (config, files) = Self::parse(&source)?;
        for file in files {
            let checked = match file.run {
                Run::Process => open_program(&file.path).map(drop),
                Run::Gateway => fs::File::open(&file.path)
                    .map(drop)
                    .map_err(|error| format!("{}: {error}", file.path.display())),
                // Not loaded here: that would run its code in the host.
                Run::Library => {
                    LibraryFile::open(&file.path).map(drop).map_err(|error| error.to_string())
                }
            };
            checked.map_err(|why| {
                source.error(Some(file.span), format!("service `{}`: {why}", file.service))
            })?;
        }
        Ok(config)
    }

    /// Loads the libraries that it names into this process, to see whether they have what is
    /// needed, and makes no service. It runs code of theirs: for a program that checks, not for a
    /// host.
    ///
    /// # Errors
    ///
    /// The name of the first service whose library cannot be used, and why not.
    pub fn check_libraries(&self) -> Result<(), (String, LoadError)> {
        let mut libraries = self.services().filter(|service| service.run == Run::Library);
        libraries.try_for_each(|it| library::check(&it.file).map_err(|why| (it.name.clone(), why)))
    }

    /// Looks whether the host and its services could listen at their addresses by the runtime
    /// directory of this process. Makes nothing.
    ///
    /// # Errors
    ///
    /// The first address that no server can listen at, and why.
    pub fn check_places(&self) -> Result<(), (String, io::Error)> {
        std::iter::once(&self.listen)
            .chain(self.addresses())
            .try_for_each(|place| place.check_place().map_err(|why| (place.to_string(), why)))
    }

    /// Returns where the host and its services listen for calls, as addresses.
    pub fn server_addresses(&self) -> Vec<String> {
        let listening = self.services().map(|service| &service.listen);
        std::iter::once(&self.listen).chain(listening).map(Address::to_string).collect()
    }

    /// Returns whether one of the services is a gateway.
    pub fn has_gateways(&self) -> bool {
        self.services().any(|service| service.run == Run::Gateway)
    }

    /// Returns the number of services.
    pub fn service_count(&self) -> usize {
        self.services().count()
    }

    /// Returns the number of processes that they need.
    pub fn process_count(&self) -> usize {
        self.units.len()
    }

    /// Returns the number of descriptors that a host needs for them.
    pub(crate) fn descriptor_count(&self) -> u64 {
        let count = |count: usize| count as u64;
        let largest = self.units.iter().map(|unit| count(unit.addresses().count())).max();
        DESCRIPTORS_OF_HOST
            + count(self.addresses().count()) * DESCRIPTORS_PER_SERVICE
            + count(self.service_count()) * DESCRIPTORS_PER_WATCHER
            + count(self.process_count()) * DESCRIPTORS_PER_PROCESS
            + largest.unwrap_or(0) * DESCRIPTORS_PER_HAND_OVER
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = &Service> {
        self.units.iter().flat_map(|unit| &unit.services)
    }

    /// Returns where the processes of all services listen.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.services().flat_map(Service::addresses)
    }

    /// Returns the unit in which a service runs, by the name of the service.
    pub(crate) fn unit_of(&self, service: &str) -> Option<&Rc<Unit>> {
        self.units.iter().find(|unit| unit.services.iter().any(|it| it.name == service))
    }

    /// Parses the text of a file. Also returns which files it names.
    fn parse(source: &Source<'_>) -> Result<(Self, Vec<NamedFile>), ConfigError> {
        let raw: RawFile = toml::from_str(source.text)
            .map_err(|error| source.error(error.span(), one_line(error.message())))?;
        let (listen, span) = match raw.host.listen {
            Some(text) => (text.get_ref().clone(), Some(text.span())),
            None => (LISTEN_DEFAULT.to_owned(), None),
        };
        let listen: Address = listen.parse().map_err(|error: nearcall_channel::BadAddress| {
            source.error(span.clone(), format!("the address of the host: {error}"))
        })?;
        let (units, files) = units::from_raw(source, (raw.service, raw.gateway), &listen)?;
        let path = source.path.to_owned();
        Ok((Self { path, listen, units }, files))
    }
}

/// Texts of the parser have several lines at times.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// Permissions by which others than the owner could change a file.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Reads a file that no other user can have written.
fn read_checked(path: &Path) -> io::Result<String> {
    // A named pipe must not keep the host waiting.
    let file = descriptor::open_nonblocking(path)?;
    let metadata = file.metadata()?;
    let refuse = |text: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let (owner, own) = (metadata.uid(), process::user_id());
    if owner != own && owner != 0 {
        return refuse(format!(
            "it belongs to user {owner}, and names programs to run as user {own}: use a file of \
             this user or of root"
        ));
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        return refuse(format!(
            "other users may write it (its mode is {:04o}), and it names programs to run: `chmod \
             go-w` it",
            metadata.mode() & 0o7777
        ));
    }
    let mut text = String::new();
    file.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > CONFIG_BYTES_MAX {
        let text =
            format!("it is longer than {CONFIG_BYTES_MAX} bytes: split it between two hosts");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(text)
}

/// Returns the program of a service, which may run; or why not.
pub(crate) fn open_program(path: &Path) -> Result<ProgramFile, String> {
    if fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(format!(
            "there is no program {}: build or install it, or correct `file`",
            path.display()
        ));
    }
    let opened = ProgramFile::open(path);
    opened.map_err(|untrusted| format!("the program {} {untrusted}", path.display()))
}

#[cfg(test)]
mod tests;
