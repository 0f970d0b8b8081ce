//! Files without a name, which are gone with the last descriptor.
//!
//! Always true: whatever ends the process, nothing of the file is left where the file system can
//! make such files.
//! Not here: files in memory (`region.rs`).

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Makes a file in `folder` that never has a name, for writing; `None` where the file system
/// cannot. One system call.
///
/// # Errors
///
/// The kernel's: the folder is not there, or may not be written.
pub fn create(folder: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::io::retry_on_intr(|| open(folder, flags, Mode::RUSR | Mode::WUSR)) {
        Ok(fd) => Ok(Some(fd.into())),
        // A kernel that knows the flag answers the first, one that does not the second.
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
    fn a_folder_that_is_not_there_is_an_error() {
        let error = create(Path::new("/proc/nothing")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
