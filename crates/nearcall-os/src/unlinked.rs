//! Unlinked temporary files (O_TMPFILE), which end with the last descriptor.
//!
//! **Invariants:** nothing of the file is left after any end of the process, if the file system
//! supports such files.
//! **Not here:** files in memory (`region.rs`).

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Creates a file in `directory` that never has a name, for writing. Returns `None` if the file
/// system does not support it. One system call.
///
/// # Errors
///
/// The error of the kernel: the directory does not exist or is not writable.
pub fn create(directory: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::io::retry_on_intr(|| open(directory, flags, Mode::RUSR | Mode::WUSR)) {
        Ok(fd) => Ok(Some(fd.into())),
        // The first is from a kernel that knows the flag, the second from one that does not.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_without_a_name_can_be_written_and_has_no_link() {
        if let Some(mut file) = create(&std::env::temp_dir()).unwrap() {
            file.write_all(b"data").unwrap();
            let found = file.metadata().unwrap();
            assert_eq!((found.len(), found.nlink(), found.mode() & 0o077), (4, 0, 0));
        }
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let error = create(Path::new("/proc/nothing")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
