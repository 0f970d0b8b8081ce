//! The directory in which servers have their sockets by name.
//!
//! `$NEARCALL_RUNTIME_DIR`, else `$XDG_RUNTIME_DIR/nearcall`, else `/run/nearcall` for root, else
//! `/tmp/nearcall-UID`.
//!
//! **Invariants:** a directory that is used belongs to this user and no other user may enter it, so
//! no process of another user can put a socket there.

use std::env;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;

use nearcall_os::process;

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
    let metadata = std::fs::symlink_metadata(&path)?;
    let unsafe_because = if !metadata.is_dir() {
        Some("it is not a directory")
    } else if metadata.uid() != process::user_id() {
        Some("it belongs to another user")
    } else if metadata.mode() & 0o077 != 0 {
        Some("others may enter it; its mode must be 0700")
    } else {
        None
    };
    match unsafe_because {
        None => Ok(path),
        Some(why) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the runtime directory {} cannot be trusted: {why}", path.display()),
        )),
    }
}

/// The directory, made if it is not there.
pub(crate) fn create() -> io::Result<PathBuf> {
    match std::fs::DirBuilder::new().mode(0o700).create(path()) {
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
