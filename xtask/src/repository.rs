//! The files of the repository, for the rules that read all of them.
//!
//! Invariants: only reads; sees what git knows of, and new files that it does not ignore.
//! Not here: the rules (`tidy.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// A checkout.
#[derive(Clone, Debug)]
pub struct Repository {
    root: PathBuf,
}

impl Repository {
    /// Opens the repository that this crate belongs to; the working directory's if Cargo does not
    /// run the program.
    ///
    /// # Errors
    ///
    /// The working directory cannot be determined.
    pub fn open() -> io::Result<Self> {
        let Some(xtask) = env::var_os("CARGO_MANIFEST_DIR") else {
            return Ok(Self { root: env::current_dir()? });
        };
        let root = PathBuf::from(xtask).parent().map(Path::to_owned);
        root.map(|root| Self { root }).ok_or_else(|| io::Error::other("run me as `cargo xtask`"))
    }

    /// Returns its top directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of every file: known to git or new, and not deleted since.
    ///
    /// # Errors
    ///
    /// Git is missing, or this is no checkout.
    pub fn files(&self) -> io::Result<Vec<String>> {
        let paths = self.git_paths(&["--cached", "--others", "--exclude-standard"])?;
        Ok(paths.into_iter().filter(|path| self.root.join(path).is_file()).collect())
    }

    /// Returns the paths that git lists with these options. Only git knows what belongs to the
    /// repository and what lies there by chance.
    ///
    /// # Errors
    ///
    /// Git is missing, or this is no checkout.
    pub fn git_paths(&self, options: &[&str]) -> io::Result<Vec<String>> {
        let mut git = Command::new("git");
        // In a container the checkout often belongs to another user; this only lists names.
        git.current_dir(&self.root).args(["-c", "safe.directory=*", "ls-files", "-z"]);
        let output = git.args(options).output()?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("git ls-files fails: {message}")));
        }
        let text = String::from_utf8(output.stdout).map_err(io::Error::other)?;
        Ok(text.split_terminator('\0').map(str::to_owned).collect())
    }

    /// Returns every Rust file of the workspace and of the fuzz targets: path and text.
    ///
    /// # Errors
    ///
    /// As [`Self::files`], or a file cannot be read.
    pub fn rust_files(&self) -> io::Result<BTreeMap<String, String>> {
        let is_ours = |path: &String| {
            let directories = ["crates/", "xtask/", "fuzz/"];
            path.ends_with(".rs") && directories.iter().any(|start| path.starts_with(start))
        };
        let paths = self.files()?.into_iter().filter(is_ours);
        paths.map(|path| Ok((path.clone(), self.read(&path)?))).collect()
    }

    /// Returns every file that is text: path and text.
    ///
    /// # Errors
    ///
    /// As [`Self::files`].
    pub fn texts(&self) -> io::Result<BTreeMap<String, String>> {
        let text = |path: String| self.read(&path).ok().map(|text| (path, text));
        Ok(self.files()?.into_iter().filter_map(text).collect())
    }

    /// Reads one file.
    ///
    /// # Errors
    ///
    /// The file cannot be read; the message names it.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let named = |error| io::Error::other(format!("{path}: {error}"));
        fs::read_to_string(self.root.join(path)).map_err(named)
    }
}
