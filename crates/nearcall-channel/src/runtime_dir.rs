//! The directory in which servers have their sockets by name.
//!
//! `$NEARCALL_RUNTIME_DIR`, else `$XDG_RUNTIME_DIR/nearcall`, else `/run/nearcall` for root, else
//! `/tmp/nearcall-UID`.
//!
//! **Invariants:** a directory that is used belongs to this user and no other user may enter it, so
//! no process of another user can put a socket there; and no other user but root can replace a
//! directory on the way to it, so it stays the one that was looked at.

use std::env;
use std::fs;
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
fn replaceable(path: &Path) -> io::Result<Option<String>> {
    let (own, path) = (process::user_id(), std::path::absolute(path)?);
    // In a user namespace the files of root may have no owner that it knows.
    let is_trusted = |uid: u32| uid == 0 || uid == own || is_overflow_user(uid);
    for link in path.ancestors().skip(1) {
        let found = fs::symlink_metadata(link)?;
        if found.is_symlink() && !is_trusted(found.uid()) {
            return Ok(Some(format!("the link {} is of user {}", link.display(), found.uid())));
        }
    }
    let Some(parent) = path.parent() else { return Ok(None) };
    for directory in fs::canonicalize(parent)?.ancestors() {
        let found = fs::metadata(directory)?;
        if !is_trusted(found.uid()) {
            let text = format!("user {} owns {}", found.uid(), directory.display());
            return Ok(Some(format!("{text}, and may replace what lies in it")));
        }
        if found.mode() & 0o1002 == 0o002 {
            return Ok(Some(format!("any user may replace what lies in {}", directory.display())));
        }
    }
    Ok(None)
}

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
