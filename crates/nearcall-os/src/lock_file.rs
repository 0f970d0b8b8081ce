//! A file that at most one process has locked, and that its owner removes.
//!
//! **Invariants:** whoever holds the lock holds it on the file that has the name: a lock on a file
//! that was removed meanwhile is given up, and taken again on its successor. The kernel releases
//! the lock of a process that dies, so a file without an owner is only litter, which the next
//! owner takes over.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::fork::Epoch;

/// A lock that this process holds. Dropping it releases the lock, and leaves the file.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    file: File,
    epoch: Epoch,
}

/// Most attempts to lock a file that others remove meanwhile. Each has seen another owner come
/// and go.
const ATTEMPTS_MAX: u32 = 1000;

impl LockFile {
    /// Locks the file at `path`, which is made if it is not there. Does not wait.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: another process of this user has it locked. `ResourceBusy`: one has locked a
    /// file of another user. `PermissionDenied`: such a file may not be locked. `AlreadyExists`:
    /// something else is there. The texts name the file and its owner.
    pub fn acquire(path: &Path) -> io::Result<Self> {
        for _ in 0..ATTEMPTS_MAX {
            let file = match open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => match create(path) {
                    // Another process was faster.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    made => made?,
                },
                opened => opened?,
            };
            let locked = file.metadata()?;
            if !locked.is_file() {
                let text = format!("{} is there and is no lock file", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(is_held(path, &locked)),
                Err(error) => return Err(error.into()),
            }
            // Whoever had the lock may have removed the file before it released it.
            if fs::symlink_metadata(path).is_ok_and(|now| is_same(&now, &locked)) {
                let (path, epoch) = (path.to_owned(), Epoch::current());
                return Ok(Self { path, file, epoch });
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, format!("{} is busy", path.display())))
    }

    /// Returns whether the file is still at its path, so that nothing else can lock that.
    pub fn is_in_place(&self) -> bool {
        let files =
            fs::symlink_metadata(&self.path).and_then(|now| Ok((now, self.file.metadata()?)));
        files.is_ok_and(|(now, ours)| is_same(&now, &ours))
    }

    /// Removes the file, so that nothing is left. The lock itself ends with this value. A process
    /// that was forked from the owner removes nothing.
    pub fn remove(&self) {
        if self.epoch.is_current() && self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl AsFd for LockFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Opens the file if it is there. Not in one call with making it: the kernel refuses that call for
/// a file of another user in a directory that all may write.
fn open(path: &Path) -> io::Result<File> {
    // Whatever another user has put there: no wait for a FIFO, and no way through a link.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map_err(|error| match (error.kind(), fs::symlink_metadata(path)) {
        (io::ErrorKind::PermissionDenied, Ok(file)) => {
            let text = format!(
                "the lock file {} belongs to user {}, and this is user {}: use another address, or \
                 have its owner remove it",
                path.display(),
                file.uid(),
                crate::process::user_id()
            );
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        }
        (io::ErrorKind::NotFound, _) => error,
        (_, Ok(file)) if !file.is_file() => {
            let text = format!("{} is there and is no lock file", path.display());
            io::Error::new(io::ErrorKind::AlreadyExists, text)
        }
        _ => error,
    })
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Returns the process that has locked a file, as far as the kernel shows it here.
fn holder(file: &Metadata) -> Option<u32> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    holder_in(&locks, rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()), file.ino())
}

/// Reads lines as `1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF`.
fn holder_in(locks: &str, major: u32, minor: u32, number: u64) -> Option<u32> {
    let place = format!("{major:02x}:{minor:02x}:{number}");
    let lines = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut held = lines.filter(|line| line.get(1) == Some(&"FLOCK"));
    let line = held.find(|line| line.get(5) == Some(&place.as_str()))?;
    // Of another PID namespace it is 0.
    line[4].parse().ok().filter(|pid| *pid > 0)
}

fn is_held(path: &Path, file: &Metadata) -> io::Error {
    let (path, owner) = (path.display(), file.uid());
    let process = match holder(file) {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    };
    let text = format!("{process} has locked {path}, which belongs to user {owner}");
    match owner == crate::process::user_id() {
        true => io::Error::new(io::ErrorKind::WouldBlock, text),
        false => {
            let text = format!("{text}: use another address, or have that user stop its server");
            io::Error::new(io::ErrorKind::ResourceBusy, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("nearcall-lock-{name}-{}", std::process::id()))
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn a_lock_has_one_owner_and_leaves_nothing() {
        let path = path("one");
        let lock = LockFile::acquire(&path).unwrap();
        let refused = LockFile::acquire(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock, "{refused}");
        let holder = format!("process {} has locked", std::process::id());
        assert!(refused.to_string().contains(&holder), "{refused}");
        drop(lock);
        // The file of an owner that has gone.
        let lock = LockFile::acquire(&path).unwrap();
        lock.remove();
        assert!(!path.exists());
        // Its name is free although the value still lives.
        let next = LockFile::acquire(&path).unwrap();
        lock.remove();
        assert!(path.exists(), "it removed another's file");
        next.remove();
    }

    #[test]
    fn the_process_that_has_a_lock_is_read_from_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:131 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 8 08:01:131 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 00:1f:132 0 EOF\n";
        assert_eq!(holder_in(locks, 8, 1, 131), Some(4711));
        assert_eq!(holder_in(locks, 0, 31, 132), None);
        assert_eq!(holder_in(locks, 8, 2, 131), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn what_is_no_file_is_refused() {
        let path = path("link");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        let refused = LockFile::acquire(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "{refused}");
        fs::remove_file(&path).unwrap();
    }
}
