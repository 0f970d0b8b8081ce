//! The file of a listener's socket: taken over from a listener that is gone, with the owner and
//! the mode that were asked for, and removed by the listener that made it and by no other.
//!
//! Beside `name` lies `.name.lock`, which the listener has locked for as long as the file is its
//! own: of two that start in the same instant one gets it, and a file whose lock is free has no
//! listener. The next listener takes over both files of one that was killed. What was removed while
//! its listener lives is made again: with another socket, as none is bound twice.
//!
//! **Invariants:** no client can connect before owner and mode are set; a file is removed only
//! while it is the one that this process made; nothing is connected to.
//! **Not here:** addresses (`address.rs`), the runtime directory (`runtime_dir.rs`).

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nearcall_os::fork::Epoch;
use nearcall_os::lock_file::LockFile;
use nearcall_os::socket::{self, UnixAddress};
use nearcall_os::{descriptor, process};

/// The mode of a socket file unless its listener says another: for its own user.
pub const SOCKET_MODE_DEFAULT: u32 = 0o600;

/// Who may connect to the file of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketAccess {
    /// The mode of the file. Processes with the right to write may connect.
    pub mode: u32,
    /// User and group of the file, if they are not those of this process.
    pub owner: Option<(u32, u32)>,
}

impl Default for SocketAccess {
    fn default() -> Self {
        Self { mode: SOCKET_MODE_DEFAULT, owner: None }
    }
}

/// The file of a socket that this process listens on.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    access: SocketAccess,
    /// Holds the file, so that no other one gets its number while this lives.
    file: OwnedFd,
    lock: LockFile,
    epoch: Epoch,
}

impl SocketFile {
    /// Listens at `path`, in the place of a listener that is gone.
    ///
    /// # Errors
    ///
    /// `AddrInUse`: another listener lives there. `AlreadyExists`: something else is there.
    /// `PermissionDenied`: the directory or the lock belongs to others.
    pub(crate) fn listen(
        path: &Path,
        access: SocketAccess,
        backlog: u16,
    ) -> io::Result<(OwnedFd, Self)> {
        check_directory(path)?;
        let lock = LockFile::acquire(&lock_path(path)?).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::AddrInUse, error),
            _ => error,
        })?;
        // From here on no other listener of this library comes or goes here.
        let bound = remove_stale(path).and_then(|()| bind(path, access, backlog));
        let (socket, file) = bound.inspect_err(|_| lock.remove())?;
        Ok((socket, Self { path: path.to_owned(), access, file, lock, epoch: Epoch::current() }))
    }

    /// Makes what is not there any more of the file and its lock. Returns the socket that clients
    /// find from then on, if it is another one: none can be bound again.
    ///
    /// # Errors
    ///
    /// Something else is there, or nothing can be made there. The text does not name the file.
    pub(crate) fn restore(&mut self, backlog: u16) -> io::Result<Option<OwnedFd>> {
        self.epoch.check()?;
        let is_missing = match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Ok(now) if descriptor::identity(&self.file)? == (now.dev(), now.ino()) => false,
            Ok(now) => {
                let text = format!("something else has its name, of user {}", now.uid());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
            Err(error) => return Err(error),
        };
        if is_missing {
            check_directory(&self.path)?;
        }
        // Whoever has locked another file of that name is the listener there from now on.
        let lock = match self.lock.is_in_place() {
            true => None,
            false => Some(LockFile::acquire(&lock_path(&self.path)?)?),
        };
        // What was renamed, or moved with its directory, gets its name back and keeps its socket.
        let bound = match is_missing && self.link().is_err() {
            true => bind(&self.path, self.access, backlog).map(Some),
            false => Ok(None),
        };
        let bound = bound.inspect_err(|_| lock.iter().for_each(LockFile::remove))?;
        if let Some(lock) = lock {
            self.lock = lock;
        }
        Ok(bound.map(|(socket, file)| {
            self.file = file;
            socket
        }))
    }

    /// Gives the file its name again, which fails where it has no other any more.
    fn link(&self) -> io::Result<()> {
        descriptor::link(&self.file, &self.path)
    }

    /// Returns whether clients find the file, and the next listener its lock.
    pub(crate) fn is_whole(&self) -> bool {
        let now = fs::symlink_metadata(&self.path).map(|now| (now.dev(), now.ino()));
        let is_own =
            now.is_ok_and(|now| descriptor::identity(&self.file).is_ok_and(|own| own == now));
        is_own && self.lock.is_in_place()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory, and what is to be watched: the file and its lock.
    pub(crate) fn watched(&self) -> (&Path, [BorrowedFd<'_>; 2]) {
        (directory_of(&self.path), [self.file.as_fd(), self.lock.as_fd()])
    }

    /// Sets owner and mode, also of the file that is made when this one is removed.
    pub(crate) fn set_access(&mut self, access: SocketAccess) -> io::Result<()> {
        set_access(&self.path, &self.file, access)?;
        self.access = access;
        Ok(())
    }

    /// Removes the file and its lock, unless the file is another's by now or this process was
    /// forked from the one that made it.
    pub(crate) fn remove(&self) {
        if !self.epoch.is_current() {
            return;
        }
        remove_own(&self.path, &self.file);
        self.lock.remove();
    }
}

/// Listens at a path where nothing is. Also returns the file.
fn bind(path: &Path, access: SocketAccess, backlog: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let socket = socket::unix_bind(UnixAddress::Path(path))?;
    let file = hold(path)?;
    let ready =
        set_access(path, &file, access).and_then(|()| socket::start_listening(&socket, backlog));
    ready.inspect_err(|_| remove_own(path, &file))?;
    // Has the directory report the file once more, to clients that wait for it: only now can they
    // connect, and `listen` itself is not reported. Should that fail, they are late and not lost:
    // once a file has appeared they try for a while.
    let _ = descriptor::touch(&file);
    Ok((socket, file))
}

/// Sets owner and mode of a file, whatever the umask has made of the mode.
fn set_access(path: &Path, file: &OwnedFd, access: SocketAccess) -> io::Result<()> {
    let SocketAccess { mode, owner } = access;
    // Not by its path, which may name something else by now.
    let held = descriptor::path(file)?;
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::chown(&held, Some(uid), Some(gid)).map_err(|error| {
            let path = path.display();
            let text = format!("cannot give {path} to user {uid} and group {gid}: {error}");
            io::Error::new(error.kind(), text)
        })?;
    }
    fs::set_permissions(held, Permissions::from_mode(mode)).map_err(|error| {
        let text = format!("cannot set the mode of {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

/// Removes a file that this process has made, unless its path is another's by now.
fn remove_own(path: &Path, file: &OwnedFd) {
    let (ours, now) = (descriptor::identity(file), fs::symlink_metadata(path));
    if let (Ok(ours), Ok(now)) = (ours, now)
        && ours == (now.dev(), now.ino())
    {
        let _ = fs::remove_file(path);
    }
}

/// Removes the socket at `path` that a listener has left which was killed, and its lock. Returns
/// whether there was one. The socket of a listener that lives, or that starts in this instant,
/// stays: only whoever holds the lock removes anything.
///
/// # Errors
///
/// The lock or the socket belongs to another user, the directory may not be written, or what lies
/// there is no socket.
pub(crate) fn remove_left(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    check_directory(path)?;
    let lock = match LockFile::acquire(&lock_path(path)?) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
        lock => lock?,
    };
    let removed = remove_stale(path);
    lock.remove();
    match removed {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Returns whether the file of a socket has a lock beside it, as those that this library makes: its
/// listener touches the file once it listens.
pub fn has_lock(path: &Path) -> bool {
    lock_path(path).is_ok_and(|lock| lock.exists())
}

/// Returns the path of the lock of a socket.
fn lock_path(path: &Path) -> io::Result<PathBuf> {
    let no_name = || {
        let text = format!("{} does not end in the name of a file", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let name = path.file_name().ok_or_else(no_name)?;
    let mut lock = std::ffi::OsString::from(".");
    lock.push(name);
    lock.push(".lock");
    Ok(path.with_file_name(lock))
}

/// Returns the directory of a path.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns an error if any user may remove or replace what lies in the directory of `path`, or if
/// this one may not enter it.
fn check_directory(path: &Path) -> io::Result<()> {
    let directory = directory_of(path);
    let cannot = |kind, why: &str| {
        io::Error::new(kind, format!("the directory {} {why}", directory.display()))
    };
    let metadata = fs::metadata(directory).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "is not there: make it first".to_owned(),
            _ => format!("cannot be entered: {error}"),
        };
        cannot(error.kind(), &why)
    })?;
    if !metadata.is_dir() {
        return Err(cannot(io::ErrorKind::NotADirectory, "is no directory"));
    }
    let mode = metadata.mode();
    if mode & 0o1002 == 0o002 {
        let why = format!(
            "has the mode {:04o}: any user could replace the socket; remove the right to write of \
             others, or use a directory of this user",
            mode & 0o7777
        );
        return Err(cannot(io::ErrorKind::PermissionDenied, &why));
    }
    Ok(())
}

/// Removes the socket of a listener that is gone.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    // Connecting to any file that is no socket is refused, too, and that file is not ours.
    if !found.file_type().is_socket() {
        let text = format!("{} is there and is no socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    // The lock was free, so no listener of this library lives; another program's may, such as one
    // that starts a program for each client.
    match socket::unix_bound(UnixAddress::Path(path))? {
        None => fs::remove_file(path).map_err(|error| cannot_remove(path, &found, &error)),
        Some(_) => {
            let text = format!(
                "the socket at {} is bound by a program that has not locked it, so that it is none \
                 of nearcall or has handed the socket over",
                path.display()
            );
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}

fn cannot_remove(path: &Path, file: &Metadata, error: &io::Error) -> io::Error {
    let text = format!(
        "cannot remove {}, which a server of user {} has left, as user {}: {error}",
        path.display(),
        file.uid(),
        process::user_id()
    );
    io::Error::new(error.kind(), text)
}

/// Takes hold of the socket that this process has just made at `path`.
fn hold(path: &Path) -> io::Result<OwnedFd> {
    let file = descriptor::hold_path(path).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })?;
    let found = descriptor::path(&file).and_then(fs::metadata);
    let metadata = found.inspect_err(|_| remove_own(path, &file))?;
    if metadata.file_type().is_socket() && metadata.uid() == process::user_id() {
        return Ok(file);
    }
    let text = format!("another program replaces {}", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}
