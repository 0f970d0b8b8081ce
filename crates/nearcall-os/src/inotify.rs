//! Names that appear in directories, by inotify.
//!
//! **Invariants:** a read never waits; a name comes from any process that may write to the
//! directory, and may be any bytes.
//! **Not here:** the names that are waited for (`nearcall`).

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::descriptor;
use crate::fork::Epoch;

/// Bytes that are read at once: some hundred short names.
const READ_BYTES: usize = 4096;

/// A set of directories that are watched.
#[derive(Debug)]
pub struct Inotify {
    fd: OwnedFd,
    /// A forked process has the same set as its parent, whose watches it must not change.
    epoch: Epoch,
}

/// A directory in the set. The kernel gives no later one the same number before it has given all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchId(i32);

/// What has happened since the last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// The name has appeared in the directory, or what it names has got other attributes.
    Name(WatchId, &'a OsStr),
    /// The directory itself has got other attributes, or another name, or is gone: what has its
    /// path now may be another one.
    Directory(WatchId),
    /// Changes of any of them were lost, since nothing has read them.
    Lost,
}

impl Inotify {
    /// Creates an empty set, close-on-exec.
    ///
    /// # Errors
    ///
    /// EMFILE: the user has no instance left, or the process no descriptor. The text says which
    /// limits these are.
    pub fn create() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(explain)?;
        Ok(Self { fd, epoch: Epoch::current() })
    }

    /// Watches the directory at `path`. One that is watched already keeps its number, whatever path
    /// it was found by.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR: it is not there. EACCES: this user may not read it. ENOSPC: the user has no
    /// watch left; the text says which limit that is. The set was made before a fork.
    pub fn watch_directory(&self, path: &Path) -> io::Result<WatchId> {
        self.epoch.check()?;
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.fd, path, flags).map(WatchId).map_err(explain)
    }

    /// Watches a file itself: that it gets another name, or one name less, or other attributes. One
    /// that this process holds open is not gone before it is closed.
    ///
    /// # Errors
    ///
    /// As for [`watch_directory`](Self::watch_directory) and [`descriptor::path`].
    pub fn watch_file(&self, file: impl AsFd) -> io::Result<WatchId> {
        self.epoch.check()?;
        let path = descriptor::path(file)?;
        let flags = WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        inotify::add_watch(&self.fd, path, flags).map(WatchId).map_err(explain)
    }

    /// Watches whether the directory at `path` gets another name or is gone, and nothing in it.
    ///
    /// # Errors
    ///
    /// As for [`watch_directory`](Self::watch_directory).
    pub fn watch_name_of_directory(&self, path: &Path) -> io::Result<WatchId> {
        self.epoch.check()?;
        let flags = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.fd, path, flags).map(WatchId).map_err(explain)
    }

    /// Ends the watch of a directory; one that is gone is watched no more. Nothing in a forked
    /// process: the watch is its parent's.
    pub fn unwatch(&self, watch: WatchId) {
        if self.epoch.is_current() {
            let _ = inotify::remove_watch(&self.fd, watch.0);
        }
    }

    /// Reports what has happened, as much as one system call reads: the set stays readable while
    /// there is more.
    ///
    /// # Errors
    ///
    /// The error of the kernel. Nothing to read is none.
    pub fn read(&self, mut report: impl FnMut(Change<'_>)) -> io::Result<()> {
        let mut bytes = [MaybeUninit::uninit(); READ_BYTES];
        let mut reader = Reader::new(&self.fd, &mut bytes);
        loop {
            match reader.next() {
                Ok(event) => {
                    let (watch, flags) = (WatchId(event.wd()), event.events());
                    match event.file_name() {
                        _ if flags.contains(ReadFlags::QUEUE_OVERFLOW) => report(Change::Lost),
                        Some(name) => {
                            report(Change::Name(watch, OsStr::from_bytes(name.to_bytes())));
                        }
                        None => report(Change::Directory(watch)),
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if reader.is_buffer_empty() {
                return Ok(());
            }
        }
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the error with the limits that it is about: the kernel's own texts are about descriptors
/// and disks.
fn explain(errno: Errno) -> io::Error {
    let error = io::Error::from(errno);
    let text = match errno {
        Errno::MFILE => {
            "no inotify instance is left for this user (fs.inotify.max_user_instances), or no \
             descriptor for this process (`ulimit -n`)"
        }
        Errno::NOSPC => "no inotify watch is left for this user (fs.inotify.max_user_watches)",
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::path::PathBuf;

    /// A directory that goes with this.
    struct Directory(PathBuf);

    impl Directory {
        fn make(name: &str) -> Self {
            let name = format!("nearcall-inotify-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// All that has happened: a name for each, `.` for the directory itself.
    fn changes(inotify: &Inotify, of: WatchId) -> Vec<String> {
        let mut changes = Vec::new();
        let mut count = usize::MAX;
        while changes.len() != count {
            count = changes.len();
            let note = |change: Change<'_>| match change {
                Change::Name(watch, name) if watch == of => {
                    changes.push(name.to_string_lossy().into_owned());
                }
                Change::Directory(watch) if watch == of => changes.push(".".to_owned()),
                other => panic!("{other:?}"),
            };
            inotify.read(note).unwrap();
        }
        changes
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn what_appears_is_reported_by_its_name_and_what_goes_is_not() {
        let directory = Directory::make("names");
        let inotify = Inotify::create().unwrap();
        let watch = inotify.watch_directory(&directory.0).unwrap();
        assert_eq!(inotify.watch_directory(&directory.0.join(".")).unwrap(), watch);
        assert!(changes(&inotify, watch).is_empty());
        let one = directory.0.join("one");
        fs::write(&one, "").unwrap();
        assert_eq!(changes(&inotify, watch), ["one"]);
        fs::set_permissions(&one, fs::metadata(&one).unwrap().permissions()).unwrap();
        assert_eq!(changes(&inotify, watch), ["one"]);
        fs::rename(&one, directory.0.join("other")).unwrap();
        assert_eq!(changes(&inotify, watch), ["other"]);
        fs::remove_file(directory.0.join("other")).unwrap();
        assert!(changes(&inotify, watch).is_empty());
        // More than one read takes.
        let names: Vec<_> = (0..500).map(|number| format!("name-{number:03}")).collect();
        names.iter().for_each(|name| fs::create_dir(directory.0.join(name)).unwrap());
        assert_eq!(changes(&inotify, watch), names);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn a_directory_that_goes_is_reported_and_another_one_has_another_number() {
        let directory = Directory::make("gone");
        let inotify = Inotify::create().unwrap();
        let missing = inotify.watch_directory(&directory.0.join("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound, "{missing}");
        let watch = inotify.watch_directory(&directory.0).unwrap();
        fs::remove_dir(&directory.0).unwrap();
        assert!(changes(&inotify, watch).iter().all(|name| name == "."));
        fs::create_dir(&directory.0).unwrap();
        assert!(changes(&inotify, watch).is_empty(), "it was watched by its path");
        let again = inotify.watch_directory(&directory.0).unwrap();
        assert_ne!(again, watch);
        inotify.unwatch(again);
        assert_eq!(changes(&inotify, again), ["."], "the end of the watch");
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn a_file_that_is_held_reports_the_loss_of_its_name_and_nothing_beside_it() {
        let directory = Directory::make("held");
        let path = directory.0.join("held");
        fs::write(&path, "").unwrap();
        let held = descriptor::hold_path(&path).unwrap();
        let inotify = Inotify::create().unwrap();
        let watch = inotify.watch_file(&held).unwrap();
        let of_directory = inotify.watch_name_of_directory(&directory.0).unwrap();
        fs::write(directory.0.join("other"), "").unwrap();
        fs::remove_file(directory.0.join("other")).unwrap();
        assert!(changes(&inotify, watch).is_empty());
        fs::remove_file(&path).unwrap();
        assert_eq!(changes(&inotify, watch), ["."]);
        let away = directory.0.with_extension("away");
        fs::rename(&directory.0, &away).unwrap();
        assert_eq!(changes(&inotify, of_directory), ["."]);
        fs::rename(&away, &directory.0).unwrap();
    }

    #[test]
    fn limits_are_named() {
        assert!(explain(Errno::MFILE).to_string().contains("max_user_instances"));
        assert!(explain(Errno::NOSPC).to_string().contains("max_user_watches"));
        assert_eq!(explain(Errno::NOENT).raw_os_error(), Some(Errno::NOENT.raw_os_error()));
    }
}
