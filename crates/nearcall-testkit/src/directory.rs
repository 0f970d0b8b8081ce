//! A directory of a test.

use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;

/// A directory that no other test has, removed when this is dropped.
pub struct Directory(pub PathBuf);

impl Directory {
    #[allow(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        let name = format!("nearcall-test-{:016x}", fastrand::u64(..));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn with_mode(mode: u32) -> Self {
        let directory = Self::new();
        fs::set_permissions(&directory.0, Permissions::from_mode(mode)).unwrap();
        directory
    }

    /// Makes a directory in it that is for its owner alone.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        path
    }

    /// Writes a file that may be loaded and run as far as its permissions go.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Counts its files without the lock that each socket has beside it.
    pub fn files(&self) -> usize {
        let entries = fs::read_dir(&self.0).unwrap().map(Result::unwrap);
        entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".")).count()
    }

    pub fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).unwrap().next().is_none()
    }

    /// The address of the socket of this name in it.
    pub fn address(&self, name: &str) -> String {
        format!("unix:{}", self.0.join(name).display())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
