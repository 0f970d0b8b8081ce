//! The small text files by which Linux describes itself, real ones or forged ones.
//!
//! Whatever reads the machine reads it through this, so foreign and broken machines are tested from
//! texts. A file that is missing, not allowed or no text is `None`.
//!
//! **Not here:** what the texts mean (`machine.rs`, `doctor.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;

/// The files below `/proc`, `/sys` and the like.
#[derive(Clone, Debug)]
pub struct SystemFiles {
    /// Path and text; `None` means the real ones.
    forged: Option<BTreeMap<String, String>>,
}

impl SystemFiles {
    /// This machine's.
    #[must_use]
    pub fn real() -> Self {
        Self { forged: None }
    }

    /// Made-up ones: absolute path and text.
    #[must_use]
    pub fn forged(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self { forged: Some(files.iter().map(own).collect()) }
    }

    /// The text of a file, as far as `TEXT_BYTES_MAX`.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        if let Some(files) = &self.forged {
            return files.get(path).cloned();
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(TEXT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The first line of a file without blanks at its ends; `None` also if it is empty.
    #[must_use]
    pub fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// A file that holds one number.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<u64> {
        self.line(path)?.parse().ok()
    }

    /// The names in a directory, in order. Empty if it cannot be read.
    #[must_use]
    pub fn names(&self, directory: &str) -> Vec<String> {
        let mut names = BTreeSet::new();
        if let Some(files) = &self.forged {
            let below = format!("{directory}/");
            let inside = files.keys().filter_map(|path| path.strip_prefix(&below));
            names.extend(inside.filter_map(|rest| rest.split('/').next()).map(str::to_owned));
        } else if let Ok(entries) = std::fs::read_dir(directory) {
            names
                .extend(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()));
        }
        names.into_iter().take(NAMES_MAX).collect()
    }

    /// Whether there is such a file.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        match &self.forged {
            Some(files) => files.contains_key(path),
            None => std::path::Path::new(path).exists(),
        }
    }
}

/// Most bytes that are read of one file. The longest, `/proc/cpuinfo` of a machine with 512 CPUs,
/// has less.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Most names that are read of one directory.
const NAMES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forged_files_are_read_like_real_ones() {
        let files = SystemFiles::forged(&[("/a/b/c", " 7 \nx"), ("/a/b/d/e", ""), ("/a/bb", "y")]);
        assert_eq!(files.number("/a/b/c"), Some(7));
        assert_eq!(files.names("/a/b"), ["c", "d"]);
        assert_eq!(files.line("/a/b/d/e"), None);
        assert!(files.exists("/a/b/d/e") && !files.exists("/z"));
    }

    #[test]
    fn this_machine_can_be_read() {
        let files = SystemFiles::real();
        assert!(files.line("/proc/sys/kernel/osrelease").is_some());
        assert!(files.names("/proc/self").contains(&"status".to_owned()));
        assert_eq!(files.text("/proc/self/no-such-file"), None);
    }
}
