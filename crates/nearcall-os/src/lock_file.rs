//! A file that at most one process has locked, and that its owner removes.
//!
//! **Invariants:** whoever holds the lock holds it on the file that has the name: a lock on a file
//! that was removed meanwhile is given up, and taken again on its successor. The kernel releases
//! the lock of a process that dies, so a file without an owner is only litter, which the next
//! owner takes over.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
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

    /// Removes the file, so that nothing is left. The lock itself ends with this value. A process
    /// that was forked from the owner removes nothing.
    pub fn remove(&self) {
        let is_ours = || {
            let (now, ours) = (fs::symlink_metadata(&self.path)?, self.file.metadata()?);
            io::Result::Ok(is_same(&now, &ours))
        };
        if self.epoch.is_current() && is_ours().unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
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

fn is_held(path: &Path, file: &Metadata) -> io::Error {
    let (path, owner) = (path.display(), file.uid());
    let text = format!("another process has locked {path}, which belongs to user {owner}");
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
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn what_is_no_file_is_refused() {
        let path = path("link");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        let refused = LockFile::acquire(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "{refused}");
        fs::remove_file(&path).unwrap();
    }
}
