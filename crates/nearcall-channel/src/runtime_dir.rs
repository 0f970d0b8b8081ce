//! The directory in which servers have their sockets by name.
//!
//! `$NEARCALL_RUNTIME_DIR`, else `$XDG_RUNTIME_DIR/nearcall`, else `/run/nearcall` for root, else
//! `/tmp/nearcall-UID`.
//!
//! **Invariants:** a directory that is used belongs to this user and no other user may enter it, so
//! no process of another user can put a socket there; and no other user but root can replace a
//! directory or a link on the way to it, so it stays the one that was looked at. A group that may
//! is root's or, by its number, this user's own.

use std::env;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nearcall_os::process;
use nearcall_os::users::is_overflow_user;
use thiserror::Error;

use crate::error::debug_as_display;

/// The directory is not one that only this user may change, which no waiting mends.
#[derive(Error)]
#[error(
    "the runtime directory {} cannot be trusted: {why}; mend it, or set NEARCALL_RUNTIME_DIR to \
     another",
    path.display()
)]
pub(crate) struct Untrusted {
    path: PathBuf,
    why: String,
}

debug_as_display!(Untrusted);

/// Returns the path of the directory, which need not exist.
pub fn path() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set("NEARCALL_RUNTIME_DIR") {
        return path;
    }
    if let Some(path) = set("XDG_RUNTIME_DIR") {
        return path.join("nearcall");
    }
    match process::user_id() {
        0 => PathBuf::from("/run/nearcall"),
        user => PathBuf::from(format!("/tmp/nearcall-{user}")),
    }
}

/// The directory, which must exist and be safe.
pub(crate) fn existing() -> io::Result<PathBuf> {
    let path = path();
    let metadata = fs::symlink_metadata(&path)?;
    let unsafe_because = if metadata.is_symlink() {
        Some("it is a symbolic link".to_owned())
    } else if !metadata.is_dir() {
        Some("it is not a directory".to_owned())
    } else if metadata.uid() != process::user_id() {
        Some(format!("it belongs to user {}", metadata.uid()))
    } else if metadata.mode() & 0o077 != 0 {
        Some(format!("others may enter it: its mode is {:04o}, not 0700", metadata.mode() & 0o7777))
    } else if metadata.mode() & 0o700 != 0o700 {
        Some(format!(
            "this user may not use it: its mode is {:04o}, not 0700",
            metadata.mode() & 0o7777
        ))
    } else {
        replaceable(&path)?
    };
    match unsafe_because {
        None => Ok(path),
        Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, Untrusted { path, why })),
    }
}

/// Returns why another user could put another directory in the place of `path`; `None` if none can.
/// Looks at each directory and each link on the way, those of links as well.
fn replaceable(path: &Path) -> io::Result<Option<String>> {
    let path = std::path::absolute(path)?;
    let Some(parent) = path.parent() else { return Ok(None) };
    let (mut at, mut rest, mut links) = (PathBuf::from("/"), parts(parent), 0);
    loop {
        let found = fs::symlink_metadata(&at)?;
        if found.is_symlink() {
            if !is_trusted(found.uid()) {
                return Ok(Some(format!("the link {} is of user {}", at.display(), found.uid())));
            }
            links += 1;
            if links > LINKS_MAX {
                return Ok(Some(format!("there are more than {LINKS_MAX} links on the way to it")));
            }
            rest.extend(parts(&fs::read_link(&at)?));
            at.pop();
        } else if let Some(who) = who_may_replace(&found) {
            return Ok(Some(format!("{who} may replace what lies in {}", at.display())));
        }
        match rest.pop() {
            None => return Ok(None),
            Some(part) if part == ".." => drop(at.pop()),
            // A target that begins at the root takes the place of all before.
            Some(part) => at.push(part),
        }
    }
}

/// Returns the parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

fn is_trusted(uid: u32) -> bool {
    // In a user namespace the files of root may have no owner that it knows.
    uid == 0 || uid == process::user_id() || is_overflow_user(uid)
}

/// Returns who else may remove and make files in a directory.
fn who_may_replace(directory: &Metadata) -> Option<String> {
    let (mode, group) = (directory.mode(), directory.gid());
    if !is_trusted(directory.uid()) {
        return Some(format!("its owner, user {},", directory.uid()));
    }
    let is_sticky = mode & 0o1000 != 0;
    if mode & 0o002 != 0 && !is_sticky {
        return Some("any user".to_owned());
    }
    // A group with the number of its user is that user's alone, by the convention of `useradd`.
    let is_private = group == 0 || group == process::user_id();
    (mode & 0o020 != 0 && !is_sticky && !is_private).then(|| format!("group {group}"))
}

/// Most links on the way to the directory: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// The directory, made if it is not there.
pub(crate) fn create() -> io::Result<PathBuf> {
    match fs::DirBuilder::new().mode(0o700).create(path()) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let path = path();
            let text = format!(
                "the runtime directory {} cannot be made: {error}; set NEARCALL_RUNTIME_DIR",
                path.display()
            );
            Err(io::Error::new(error.kind(), text))
        }
        _ => existing(),
    }
}
