//! The file of a library, opened and checked before a byte of it is loaded.
//!
//! To load a library is to run its code, so the file must be as trusted as the program.
//! **Invariants:** what was checked is what is loaded: the file is opened once, checked by its
//! descriptor, and loaded by its path if only root and the user of this process can have put
//! another file there; otherwise by its descriptor.
//! **Not here:** which files are trusted (`program.rs`), loading (`loaded.rs`). Libraries that it
//! needs itself are found and loaded by the dynamic linker, by its rules.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::LoadError;
use crate::descriptor;
use crate::platform::ELF_MACHINE;
pub(super) use crate::program::Identity;
use crate::program::{self, identity};

/// A file that may be loaded: a dynamic library for this machine, that only root or the user of
/// this process can have written.
#[derive(Debug)]
pub struct LibraryFile {
    path: PathBuf,
    fd: OwnedFd,
    identity: Identity,
}

/// Length of the parts of an ELF header that are checked, in bytes.
const ELF_HEAD_BYTES: usize = 20;

/// The type of an ELF file that can be loaded.
const ELF_TYPE_SHARED: u16 = 3;

impl LibraryFile {
    /// Opens the file at `path` and checks it. Follows symbolic links: what counts is the file that
    /// is opened.
    ///
    /// # Errors
    ///
    /// It is not there, or may not be loaded: each error names the file, what is wrong, and what to
    /// do.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let error = |why: String, remedy: &'static str| LoadError::File {
            file: path.to_owned(),
            why,
            remedy,
        };
        let opened = program::open_trusted(path, libc::O_NONBLOCK);
        let (file, found) = opened.map_err(|untrusted| error(untrusted.why, untrusted.remedy))?;
        check_elf(&file).map_err(|(why, remedy)| error(why, remedy))?;
        let identity = identity(&found);
        Ok(Self { path: path.to_owned(), fd: file.into(), identity })
    }

    /// Returns the real path of the file, at which only root and the user of this process can put
    /// another one.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) fn trusted_path(&self) -> Result<PathBuf, String> {
        let path = program::trusted_path(self.fd.as_fd(), self.identity)?;
        match path.to_string_lossy().contains('$') {
            true => Err("its path has a `$`, which the linker would replace".to_owned()),
            false => Ok(path),
        }
    }

    /// Returns the path that names the file as long as its descriptor is open.
    pub(super) fn descriptor_path(&self) -> PathBuf {
        descriptor::path_if_mounted(&self.fd)
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns the path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the descriptor.
    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for LibraryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Checks that a file is a dynamic library for this machine: the dynamic linker's own message is
/// `cannot open shared object file` for most of what can be wrong.
fn check_elf(file: &File) -> Result<(), (String, &'static str)> {
    let mut head = [0; ELF_HEAD_BYTES];
    let read = file.read_exact_at(&mut head, 0);
    if read.is_err() || !head.starts_with(b"\x7fELF") {
        return Err(("is no ELF file".into(), "name a library (crate-type `cdylib`)"));
    }
    const REBUILD: &str = "build it for this machine";
    let bits = match head[4] {
        1 => 32,
        2 => 64,
        other => return Err((format!("has the unknown ELF class {other}"), REBUILD)),
    };
    if bits != usize::BITS {
        return Err((format!("has {bits} bits, and this process {}", usize::BITS), REBUILD));
    }
    let is_little = head[5] == 1;
    if is_little != cfg!(target_endian = "little") {
        return Err(("has the other byte order".into(), REBUILD));
    }
    let machine = half(&head, 18);
    if ELF_MACHINE != 0 && machine != ELF_MACHINE {
        let why = format!("is for another machine (ELF machine {machine}, here {ELF_MACHINE})");
        return Err((why, REBUILD));
    }
    let kind = half(&head, 16);
    if kind != ELF_TYPE_SHARED {
        let why = format!("is no dynamic library (ELF type {kind})");
        return Err((why, "build it with crate-type `cdylib`, or run it as a process"));
    }
    check_length(file)
}

/// Checks that the file has all that its program headers map: to touch what lies behind the end of
/// a file that was copied by half is SIGBUS, in the middle of the dynamic linker.
#[cfg(target_pointer_width = "64")]
fn check_length(file: &File) -> Result<(), (String, &'static str)> {
    const REMEDY: &str = "copy or build it again";
    let cut = |what: &str| (format!("is cut off: it ends before its {what}"), REMEDY);
    let length = file.metadata().map_err(|_| cut("headers"))?.len();
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0).map_err(|_| cut("headers"))?;
    let headers_at = word(&head, 32);
    let (entry_bytes, entries) = (half(&head, 54), half(&head, 56));
    for entry in 0..u64::from(entries) {
        let at = entry.saturating_mul(entry_bytes.into()).saturating_add(headers_at);
        let mut header = [0; 56];
        file.read_exact_at(&mut header, at).map_err(|_| cut("headers"))?;
        let end = word(&header, 8).saturating_add(word(&header, 32));
        if end > length {
            return Err(cut(&format!("contents, as it has {length} bytes, and needs {end}")));
        }
    }
    Ok(())
}

#[cfg(not(target_pointer_width = "64"))]
fn check_length(_: &File) -> Result<(), (String, &'static str)> {
    Ok(())
}

/// Returns the number of 64 bits at a place of a header.
#[cfg(target_pointer_width = "64")]
fn word(header: &[u8], at: usize) -> u64 {
    let bytes = header.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// Returns the number of 16 bits at a place of a header.
fn half(header: &[u8], at: usize) -> u16 {
    let bytes = header.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}
