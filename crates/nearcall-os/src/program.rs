//! Files whose code is to run: a program, or a library. Whoever can write such a file, or put
//! another one in its place, runs code with the rights of who starts it.
//!
//! **Invariants:** what was checked is what runs: the file is opened once and checked by its
//! descriptor. Its path is used only if root and the user of this process alone can put another
//! file there; otherwise its descriptor.
//! **Not here:** what a library must be beside that (`library/file.rs`), starting a process
//! (`socket_activation.rs`). The interpreter of a script is found by the kernel, by the path that
//! the script names.
//!
//! **Invariant:** only a file that root or the user of the process owns, and that no other user can
//! write, is loaded or run; it is opened once, checked by its descriptor (`program.rs` of
//! `nearcall-os`), and loaded or run by that unless only these users can change its path. *Checked
//! by* `crates/nearcall-host/tests/libraries/files.rs`,
//! `a_program_that_others_can_write_is_not_run`.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{descriptor, process};

/// Permissions by which others than the owner could change a file.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The permission by which only the owner of a file may remove or replace it in a directory.
const STICKY: u32 = 0o1000;

/// Permissions by which some user may run a file.
const RUNNABLE: u32 = 0o111;

/// Why a file may not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untrusted {
    /// What is wrong, as the predicate of a sentence about the file.
    pub why: String,
    /// What to do.
    pub remedy: &'static str,
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.why, self.remedy)
    }
}

/// A program that may run: only root or the user of this process can have written it.
#[derive(Debug)]
pub struct ProgramFile {
    fd: OwnedFd,
    /// Where it is. None: others can put another file there.
    path: Option<PathBuf>,
}

impl ProgramFile {
    /// Opens the program at `path` and checks it. Follows symbolic links: what counts is the file
    /// that is opened.
    ///
    /// # Errors
    ///
    /// It may not run, or cannot: what is wrong, and what to do.
    pub fn open(path: &Path) -> Result<Self, Untrusted> {
        let refuse = |why: String, remedy| Untrusted { why, remedy };
        // A program may be run by users who may not read it.
        let (file, found) = match open_trusted(path, libc::O_NONBLOCK) {
            Err(_) if is_unreadable(path) => open_trusted(path, libc::O_PATH)?,
            opened => opened?,
        };
        if found.mode() & RUNNABLE == 0 {
            return Err(refuse("is no program".into(), "`chmod +x` it, or correct `file`"));
        }
        let trusted = trusted_path(file.as_fd(), identity(&found));
        if let Err(why) = &trusted
            && is_script(&file)
        {
            let why = format!("is a script that others can replace before it is read: {why}");
            return Err(refuse(why, "move it to a directory of root or of this user alone"));
        }
        Ok(Self { fd: file.into(), path: trusted.ok() })
    }

    /// Returns the path to run it by, if no other user can put another file there.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl AsFd for ProgramFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The device and the number of a file.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

/// Opens a regular file that only root or the user of this process can have written.
/// With `O_NONBLOCK` a FIFO does not make it wait.
pub(crate) fn open_trusted(path: &Path, flags: i32) -> Result<(File, Metadata), Untrusted> {
    let refuse = |why: String, remedy| Untrusted { why, remedy };
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|failed| {
        refuse(format!("cannot be opened: {failed}"), "correct the path, or build or install it")
    })?;
    let found = file.metadata();
    let found = found
        .map_err(|failed| refuse(format!("cannot be read: {failed}"), "check the permissions"))?;
    if !found.is_file() {
        return Err(refuse("is no regular file".into(), "name the file itself"));
    }
    let (owner, own) = (found.uid(), process::user_id());
    if !is_trusted_user(owner) {
        let why = format!("belongs to user {owner}; this process runs as user {own}");
        return Err(refuse(why, "only files of root or of the own user are run: use `chown`"));
    }
    if found.mode() & WRITABLE_BY_OTHERS != 0 {
        let why = format!("is writable by others (mode {:04o})", found.mode() & 0o7777);
        return Err(refuse(why, "whoever can write it can run code here: use `chmod go-w`"));
    }
    Ok((file, found))
}

/// Returns the real path of an open file, at which only root and the user of this process can put
/// another one.
///
/// # Errors
///
/// Why there is none.
pub(crate) fn trusted_path(fd: BorrowedFd<'_>, file: Identity) -> Result<PathBuf, String> {
    let path = fs::read_link(descriptor::path_if_mounted(fd));
    let path = path.map_err(|error| format!("its path is not known: {error}"))?;
    let read = |path: &Path| {
        let found = fs::symlink_metadata(path);
        found.map_err(|error: io::Error| format!("{} cannot be read: {error}", path.display()))
    };
    if identity(&read(&path)?) != file {
        return Err(format!("{} is another file meanwhile", path.display()));
    }
    for directory in path.ancestors().skip(1) {
        let (found, name) = (read(directory)?, directory.display());
        if !is_trusted_user(found.uid()) {
            return Err(format!("the directory {name} belongs to user {}", found.uid()));
        }
        if found.mode() & WRITABLE_BY_OTHERS != 0 && found.mode() & STICKY == 0 {
            return Err(format!("the directory {name} is writable by others"));
        }
    }
    Ok(path)
}

/// Returns whether files of this user may run.
fn is_trusted_user(user: u32) -> bool {
    user == 0 || user == process::user_id()
}

fn is_unreadable(path: &Path) -> bool {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Returns whether an interpreter reads the file, by its path and when the program already runs.
fn is_script(mut file: &File) -> bool {
    let mut head = [0; 2];
    file.read_exact(&mut head).is_ok() && head == *b"#!"
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;
    use crate::Deadline;
    use crate::socket_activation::spawn_file;

    /// A directory that is removed when this is dropped.
    struct Directory(PathBuf);

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "starts processes")]
    fn a_program_runs_by_its_descriptor_where_others_can_replace_it_and_a_script_does_not() {
        let name = descriptor::random_name("nearcall-program-").unwrap();
        let directory = Directory(std::env::temp_dir().join(name));
        fs::create_dir(&directory.0).unwrap();
        let (program, script) = (directory.0.join("sh"), directory.0.join("script"));
        fs::copy("/bin/sh", &program).unwrap();
        fs::write(&script, "#!/bin/sh\nexit 7\n").unwrap();
        set_mode(&program, 0o755);
        set_mode(&script, 0o755);
        let run = |path: &Path| {
            let file = ProgramFile::open(path).unwrap();
            let mut command = Command::new(path);
            command.args(["-c", "exit 7"]);
            let mut child = spawn_file(command, Some(&file), &[], None).unwrap();
            let status = child.wait(Deadline::NEVER).unwrap().unwrap();
            assert_eq!(status.code(), Some(7), "{}", path.display());
            file.path().is_some()
        };
        assert!(run(&program) && run(&script), "by their paths");
        set_mode(&directory.0, 0o777);
        assert!(!run(&program), "by its descriptor");
        let refused = ProgramFile::open(&script).unwrap_err().to_string();
        assert!(refused.contains("is a script") && refused.contains("writable by others"));
        set_mode(&program, 0o644);
        let refused = ProgramFile::open(&program).unwrap_err().to_string();
        assert!(refused.contains("`chmod +x`"), "{refused}");
        set_mode(&program, 0o775);
        let refused = ProgramFile::open(&program).unwrap_err().to_string();
        assert!(refused.contains("(mode 0775)") && refused.contains("`chmod go-w`"), "{refused}");
    }
}
