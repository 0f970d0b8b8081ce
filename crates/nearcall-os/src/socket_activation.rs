//! Listening sockets that one process hands over to the next with exec, as systemd does: both ends
//! of that protocol.
//!
//! The descriptors from 3 on are the sockets. `LISTEN_PID` is the process that they are for,
//! `LISTEN_FDS` their number, and `LISTEN_FDNAMES` their names with colons between them.
//!
//! **Invariants:** what was handed over is taken once in a process, and is close-on-exec from then
//! on; a descriptor that was not handed over is neither closed nor changed.
//! **Not here:** which server takes which socket (`nearcall-channel`).
#![allow(unsafe_code, reason = "descriptors by number, exec with an environment of our own")]

use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd, retry_on_intr};
use rustix::net::{SocketAddrUnix, SocketType, getpeername, getsockname, sockopt};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::descriptor;
use crate::process::{Child, DescriptorLimit, die_with};
use crate::program::ProgramFile;
use crate::signal::{self, SignalSet};
use crate::socket::Kind;

/// The first descriptor that is handed over: the one behind the standard three.
const FIRST_FD: RawFd = 3;

/// Most sockets that are handed over at once: as many as systemd hands over by default.
pub const SOCKETS_MAX: usize = 4096;

/// A socket that this process was started with, and that nothing of it has taken yet.
#[derive(Debug)]
pub struct InheritedSocket {
    /// Its name among those that were handed over; systemd says `unknown` where its unit says
    /// nothing.
    pub name: String,
    /// Where it is bound.
    pub place: ListeningPlace,
    /// Its type.
    pub kind: Kind,
    /// What it was handed over as.
    pub state: InheritedState,
    number: RawFd,
}

/// What a socket was handed over as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InheritedState {
    /// It listens.
    Listening,
    /// It is the connection to one client, which its binder has accepted.
    Connected,
    /// Neither: it is bound only.
    Bound,
}

/// Where a socket is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListeningPlace {
    /// At a unix socket with a file, by the path with which it was bound.
    Path(PathBuf),
    /// At a unix socket in the abstract namespace.
    Abstract(Vec<u8>),
    /// At a port.
    Tcp(SocketAddr),
}

impl fmt::Display for ListeningPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Abstract(name) => write!(f, "@{}", name.escape_ascii()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// Finds the sockets that this process was started with, and keeps those that listen from the
/// programs that it starts. The next call gives none.
///
/// What has one of their numbers and is close-on-exec was opened by this process, or taken by
/// another part of it. That is left as it is, and so is what is no listening socket: it is returned
/// if it is a socket that is bound.
///
/// # Errors
///
/// The variables of the environment cannot be understood: the text names the variable and its
/// value. Of a single socket: the kernel does not report where it listens.
pub fn take_inherited() -> io::Result<Vec<io::Result<InheritedSocket>>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let Some(count) = announced()? else { return Ok(Vec::new()) };
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let last = FIRST_FD + RawFd::try_from(count).unwrap_or(0);
    let mut name = || names.next().unwrap_or_default().to_owned();
    Ok((FIRST_FD..last).filter_map(|number| find(name(), number).transpose()).collect())
}

impl InheritedSocket {
    /// Takes the socket, which does not block from then on. `None`: its number refers to something
    /// else by now, because another part of the program has closed it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn take(self) -> io::Result<Option<OwnedFd>> {
        // SAFETY: as in `find`.
        let borrowed = unsafe { BorrowedFd::borrow_raw(self.number) };
        if state(borrowed) != InheritedState::Listening
            || listening_place(borrowed)? != Some(self.place)
        {
            return Ok(None);
        }
        descriptor::set_nonblocking(borrowed, true)?;
        // SAFETY: it is open, and the protocol gives it to this process, which takes it once: this
        // value is the only one with its number.
        Ok(Some(unsafe { OwnedFd::from_raw_fd(self.number) }))
    }
}

/// Returns how many descriptors were handed over to this process, and not to its parent.
fn announced() -> io::Result<Option<usize>> {
    let bad = |name: &str, value: &OsStr, why: &str| {
        let value = value.to_string_lossy();
        let text = format!("the environment has {name}={}, {why}", value.escape_debug());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let (Some(pid), Some(count)) = (env::var_os("LISTEN_PID"), env::var_os("LISTEN_FDS")) else {
        return Ok(None);
    };
    let number = |value: &OsStr| value.to_str().and_then(|text| text.parse::<u32>().ok());
    let Some(process) = number(&pid) else {
        return Err(bad("LISTEN_PID", &pid, "which is no process id: unset it"));
    };
    if process != std::process::id() {
        return Ok(None);
    }
    match number(&count).and_then(|count| usize::try_from(count).ok()) {
        Some(count) if count <= SOCKETS_MAX => Ok(Some(count)),
        _ => Err(bad("LISTEN_FDS", &count, "which is no number from 0 to 4096: unset it")),
    }
}

/// Returns the process that sockets were handed over to, if that is not this one: its environment
/// was inherited.
pub fn announced_to_another() -> Option<u32> {
    let pid = env::var("LISTEN_PID").ok()?.parse().ok()?;
    (pid != std::process::id()).then_some(pid)
}

/// Looks at a descriptor by its number. `None`: it is not open, was not inherited, or is no socket
/// with an address.
fn find(name: String, number: RawFd) -> io::Result<Option<InheritedSocket>> {
    // SAFETY: the borrow ends before anything could close the descriptor; a number that is not open
    // is an error of the call.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let Ok(flags) = fcntl_getfd(borrowed) else { return Ok(None) };
    // Only a socket has a type.
    let Ok(kind) = sockopt::socket_type(borrowed) else { return Ok(None) };
    if flags.contains(FdFlags::CLOEXEC) {
        return Ok(None);
    }
    let Some(place) = listening_place(borrowed)? else { return Ok(None) };
    let kind = match kind {
        SocketType::SEQPACKET => Kind::Seqpacket,
        SocketType::DGRAM => Kind::Datagram,
        _ => Kind::Stream,
    };
    let state = state(borrowed);
    if state == InheritedState::Listening {
        fcntl_setfd(borrowed, flags | FdFlags::CLOEXEC)?;
    }
    Ok(Some(InheritedSocket { name, place, kind, state, number }))
}

fn state(socket: BorrowedFd<'_>) -> InheritedState {
    match sockopt::socket_acceptconn(socket) {
        Ok(true) => InheritedState::Listening,
        // Of a unix socket also when the client has gone meanwhile.
        _ if getpeername(socket).is_ok() => InheritedState::Connected,
        _ => InheritedState::Bound,
    }
}

/// Returns where a socket listens; `None` for an address that is neither of unix nor of TCP.
///
/// # Errors
///
/// The error of the kernel.
pub fn listening_place(socket: impl AsFd) -> io::Result<Option<ListeningPlace>> {
    let address = getsockname(socket)?;
    if let Ok(unix) = SocketAddrUnix::try_from(address.clone()) {
        // One that was never bound has an empty address.
        let path = unix.path_bytes().filter(|path| !path.is_empty());
        let path = path.map(|path| PathBuf::from(OsStr::from_bytes(path)));
        let name = unix.abstract_name().filter(|name| !name.is_empty()).map(<[u8]>::to_vec);
        return Ok(path.map(ListeningPlace::Path).or(name.map(ListeningPlace::Abstract)));
    }
    Ok(SocketAddr::try_from(address).ok().map(ListeningPlace::Tcp))
}

/// Starts `command` like [`Child::spawn`], and hands over listening sockets with their names.
///
/// The program is named by its path, which is not looked up. The environment of `command` must not
/// have been cleared. It gets the limits of this process or `limit`: above 1023 the numbers of
/// descriptors are too high for `select`, so a process that has raised its own does not pass that
/// on.
///
/// # Errors
///
/// `InvalidInput`: a name with a colon, a text with a zero byte, too many sockets. Otherwise as
/// [`Child::spawn`].
pub fn spawn(
    command: Command,
    sockets: &[(&str, BorrowedFd<'_>)],
    limit: Option<DescriptorLimit>,
) -> io::Result<Child> {
    spawn_file(command, None, sockets, limit)
}

/// Starts `command` like [`spawn`], and runs this file, which was checked, under the name of its
/// program.
///
/// # Errors
///
/// As [`spawn`].
pub fn spawn_file(
    mut command: Command,
    file: Option<&ProgramFile>,
    sockets: &[(&str, BorrowedFd<'_>)],
    limit: Option<DescriptorLimit>,
) -> io::Result<Child> {
    if sockets.len() > SOCKETS_MAX {
        let text = format!("{} sockets are more than {SOCKETS_MAX}", sockets.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut exec = Exec::new(&command, file, sockets, limit)?;
    let (failure, low) = pipe_with(PipeFlags::CLOEXEC)?;
    // Above all targets. The pipe by which std reports the error of a child is not: its number may
    // be a target, so the child must neither need it nor write to it.
    let report = fcntl_dupfd_cloexec(&low, first_behind(sockets.len()))?;
    drop(low);
    let parent = rustix::process::getpid();
    // A program starts with no signal blocked, whatever this thread waits for.
    let no_signals = SignalSet::new(&[]);
    let run = move || -> io::Result<()> {
        let error = match die_with(parent).and_then(|()| signal::set_mask(&no_signals)) {
            Ok(_) => exec.run(),
            Err(error) => error,
        };
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        // Should the parent be gone, this process is about to be killed.
        let _ = rustix::io::write(&report, &errno.to_ne_bytes());
        // SAFETY: ends this process, the child, without running anything more of it.
        unsafe { libc::_exit(1) }
    };
    let mut child = Child::spawn_prepared(&mut command, run)?;
    // With it goes this process's copy of the end that the child writes to.
    drop(command);
    let mut errno = [0; size_of::<i32>()];
    match retry_on_intr(|| rustix::io::read(&failure, &mut errno))? {
        // The exec has closed the other end.
        0 => Ok(child),
        _ => {
            child.kill()?;
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
        }
    }
}

fn first_behind(count: usize) -> RawFd {
    FIRST_FD + RawFd::try_from(count).unwrap_or(0)
}

/// What the child needs for its exec, all of it made before the fork.
struct Exec {
    program: CString,
    arguments: Strings,
    environment: Strings,
    /// The entry of `environment` with the number of the child, which it writes itself.
    pid: Box<[u8; PID_ENTRY_BYTES]>,
    sockets: Vec<OwnedFd>,
    limit: Option<DescriptorLimit>,
    /// What `program` leads to, if it is named by that. Closed by the exec.
    _file: Option<OwnedFd>,
}

/// Texts, and the array of pointers to them that exec takes.
struct Strings {
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

// SAFETY: the pointers are to texts that the value owns and that are not changed.
unsafe impl Send for Strings {}

// SAFETY: as above; a shared reference changes nothing.
unsafe impl Sync for Strings {}

const PID_NAME: &[u8; 11] = b"LISTEN_PID=";

/// Bytes of the entry with the number of the process: ten digits and the closing zero behind it.
const PID_ENTRY_BYTES: usize = PID_NAME.len() + 11;

impl Strings {
    /// Keeps texts, and room for one more pointer behind them.
    fn new(texts: Vec<CString>) -> Self {
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([ptr::null(); 2]).collect();
        Self { _texts: texts, pointers }
    }

    /// Points to one more text, which is not kept.
    fn set_last(&mut self, text: *const c_char) {
        let place = self.pointers.len() - 2;
        self.pointers[place] = text;
    }
}

impl Exec {
    fn new(
        command: &Command,
        file: Option<&ProgramFile>,
        sockets: &[(&str, BorrowedFd<'_>)],
        limit: Option<DescriptorLimit>,
    ) -> io::Result<Self> {
        let names: Vec<&str> = sockets.iter().map(|(name, _)| *name).collect();
        if let Some(name) = names.iter().find(|name| name.contains(':')) {
            let text = format!("the name `{name}` of a socket has a colon");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let first = first_behind(sockets.len());
        let (program, file) = match file.map(|file| (file.path(), file)) {
            None => (c_string(command.get_program())?, None),
            Some((Some(path), _)) => (c_string(path.as_os_str())?, None),
            Some((None, file)) => {
                // Above all targets.
                let file = fcntl_dupfd_cloexec(file, first)?;
                let path = descriptor::path_if_mounted(&file);
                (c_string(path.as_os_str())?, Some(file))
            }
        };
        let arguments = [command.get_program()].into_iter().chain(command.get_args());
        let arguments = arguments.map(c_string).collect::<io::Result<_>>()?;
        let mut variables: BTreeMap<OsString, OsString> = env::vars_os().collect();
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => variables.insert(name.to_owned(), value.to_owned()),
                None => variables.remove(name),
            };
        }
        variables.remove(OsStr::new("LISTEN_PID"));
        variables.insert("LISTEN_FDS".into(), sockets.len().to_string().into());
        variables.insert("LISTEN_FDNAMES".into(), names.join(":").into());
        let entry = |(mut name, value): (OsString, OsString)| {
            name.push("=");
            name.push(value);
            c_string(&name)
        };
        let environment = variables.into_iter().map(entry).collect::<io::Result<_>>()?;
        let mut pid = Box::new([0; PID_ENTRY_BYTES]);
        pid[..PID_NAME.len()].copy_from_slice(PID_NAME);
        // Above all targets, so that none is written over before it was duplicated.
        let sockets = sockets.iter().map(|(_, socket)| fcntl_dupfd_cloexec(socket, first));
        let sockets = sockets.collect::<Result<_, _>>()?;
        let (arguments, environment) = (Strings::new(arguments), Strings::new(environment));
        Ok(Self { program, arguments, environment, pid, sockets, limit, _file: file })
    }

    /// Becomes the program. Returns only if that fails. Allocates nothing and takes no lock, so
    /// that it may run between fork and exec.
    fn run(&mut self) -> io::Error {
        for (number, socket) in (FIRST_FD..).zip(&self.sockets) {
            // SAFETY: dup2 takes two numbers and touches no memory of this process; what had the
            // target's number is this process's copy, which nothing uses before its exec.
            if unsafe { libc::dup2(socket.as_raw_fd(), number) } < 0 {
                return io::Error::last_os_error();
            }
        }
        // Not before the sockets have their numbers, which could be above it.
        if let Some(Err(error)) = self.limit.map(DescriptorLimit::set) {
            return error;
        }
        write_digits(&mut self.pid[PID_NAME.len()..], std::process::id());
        self.environment.set_last(self.pid.as_ptr().cast());
        let (program, arguments) = (self.program.as_ptr(), self.arguments.pointers.as_ptr());
        let environment = self.environment.pointers.as_ptr();
        // SAFETY: all texts end with a zero byte and both arrays with a null pointer; `self` owns
        // them.
        unsafe { libc::execve(program, arguments, environment) };
        io::Error::last_os_error()
    }
}

/// Writes a number in decimal digits and a zero byte behind them.
fn write_digits(out: &mut [u8], number: u32) {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = number;
    for place in out[..digits].iter_mut().rev() {
        *place = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    out[digits] = 0;
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.to_owned().into_vec()).map_err(|_| {
        let text = format!("{} has a zero byte", text.to_string_lossy().escape_debug());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::deadline::Deadline;
    use crate::socket::{self, UnixAddress};

    fn target(number: RawFd) -> PathBuf {
        std::fs::read_link(format!("/proc/self/fd/{number}")).unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn only_sockets_with_an_address_and_without_close_on_exec_are_found() {
        let name = descriptor::random_name("nearcall-os-").unwrap().into_bytes();
        let listener = socket::unix_listen(UnixAddress::Abstract(&name), 1).unwrap();
        let (datagrams, _other) = socket::unix_pair(Kind::Datagram).unwrap();
        // Other programs that are started meanwhile get these for as long as they run.
        let inherited = rustix::io::dup(&listener).unwrap();
        let other = rustix::io::dup(&datagrams).unwrap();
        let flags = |fd: &OwnedFd| (fcntl_getfd(fd).unwrap(), target(fd.as_raw_fd()));
        for left in [&listener, &other] {
            let before = flags(left);
            assert!(find(String::new(), left.as_raw_fd()).unwrap().is_none());
            assert_eq!(flags(left), before);
        }
        let found = find("one".into(), inherited.as_raw_fd()).unwrap().unwrap();
        assert!(fcntl_getfd(&inherited).unwrap().contains(FdFlags::CLOEXEC));
        assert_eq!(found.place, ListeningPlace::Abstract(name.clone()));
        assert_eq!((found.kind, found.state), (Kind::Seqpacket, InheritedState::Listening));
        // The connection to a client has the address of its listener, and stays what it is.
        let client = socket::unix_connect(UnixAddress::Abstract(&name), Deadline::NEVER).unwrap();
        let accepted = socket::accept(&listener, Deadline::NEVER).unwrap().unwrap();
        let connected = rustix::io::dup(&accepted).unwrap();
        drop(client);
        let other_state = find(String::new(), connected.as_raw_fd()).unwrap().unwrap();
        assert_eq!(other_state.state, InheritedState::Connected);
        assert_eq!(other_state.place, found.place);
        assert!(other_state.take().unwrap().is_none());
        assert_eq!(fcntl_getfd(&connected).unwrap(), FdFlags::empty());
        // Its number is another's by then.
        let moved = InheritedSocket { number: other.as_raw_fd(), ..found };
        assert!(moved.take().unwrap().is_none());
        assert_eq!(flags(&other), (FdFlags::empty(), target(datagrams.as_raw_fd())));
    }

    #[test]
    fn digits_end_with_a_zero_byte() {
        for number in [0, 7, 10, 4_194_304, u32::MAX] {
            let mut out = [b'x'; 11];
            write_digits(&mut out, number);
            let end = out.iter().position(|byte| *byte == 0).unwrap();
            assert_eq!(std::str::from_utf8(&out[..end]), Ok(number.to_string().as_str()));
        }
    }
}
