//! The front of the crate: reads files, generates, and writes what has changed.
//!
//! Always true: nothing is written before everything was judged.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::error::BuildError;
use crate::generate::{self, GeneratedFile, Options};
use crate::sources;

/// What a build script wants to have generated.
#[derive(Debug, Clone, Default)]
#[must_use = "nothing happens before `compile` or `write`"]
pub struct Builder {
    files: Vec<PathBuf>,
    includes: Vec<PathBuf>,
    out_dir: Option<PathBuf>,
    options: Options,
}

impl Builder {
    /// Wants nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a `.proto` file. Code for the packages that it imports is generated too.
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        self.files.push(path.as_ref().to_owned());
        self
    }

    /// Adds a folder in which imports are looked up, and below which the files lie. Without any,
    /// it is the folder of each file.
    pub fn include(mut self, folder: impl AsRef<Path>) -> Self {
        self.includes.push(folder.as_ref().to_owned());
        self
    }

    /// Lets the service give the answer of this method later, through a `Responder`. The path is
    /// the full name with dots: `home.v1.Thermostat.Watch`.
    pub fn answer_later(mut self, path: impl Into<String>) -> Self {
        self.options.answer_later.insert(path.into());
        self
    }

    /// Writes to this folder instead of `OUT_DIR`. It is made if it is missing.
    pub fn out_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.out_dir = Some(folder.as_ref().to_owned());
        self
    }

    /// For build scripts: writes the files and tells Cargo what they depend on.
    ///
    /// # Errors
    ///
    /// As [`Builder::write`].
    pub fn compile(&self) -> Result<(), BuildError> {
        let written = self.write()?;
        // Cargo reads this. If it does not, nothing depends on it.
        let _ = io::stdout().lock().write_all(rerun_lines(&written.sources).as_bytes());
        Ok(())
    }

    /// Writes the files, and prints nothing.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with the `.proto` files, and then nothing was written; or the
    /// system's reason why a file cannot be.
    pub fn write(&self) -> Result<Written, BuildError> {
        let sources = sources::read(&self.files, &self.includes)?;
        let generated = generate::generate(&sources.pool, &self.options)?;
        let from_cargo = || env::var_os("OUT_DIR").map(PathBuf::from);
        let folder = self.out_dir.clone().or_else(from_cargo).ok_or(BuildError::NoOutDir)?;
        let failed = |error| BuildError::Write { path: folder.clone(), error };
        fs::create_dir_all(&folder).map_err(failed)?;
        let written: Result<Vec<WrittenFile>, BuildError> =
            generated.iter().map(|file| write(&folder, file)).collect();
        Ok(Written { files: written?, sources: sources.paths })
    }
}

/// What [`Builder::write`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The generated files, sorted by name.
    pub files: Vec<WrittenFile>,
    /// The `.proto` files on disk that decided about them, imports included.
    pub sources: Vec<PathBuf>,
}

/// A generated file on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it was written; otherwise it had this content before.
    pub changed: bool,
}

/// What tells Cargo to run the build script again when one of the files changes.
fn rerun_lines(sources: &[PathBuf]) -> String {
    // A path that Cargo cannot be told is left out.
    let paths = sources.iter().filter_map(|path| path.to_str());
    let paths = paths.filter(|path| !path.contains('\n'));
    paths.map(|path| format!("cargo::rerun-if-changed={path}\n")).collect()
}

fn write(folder: &Path, file: &GeneratedFile) -> Result<WrittenFile, BuildError> {
    let path = folder.join(&file.name);
    // Whatever cannot be read is written anew.
    let changed = fs::read(&path).ok().as_deref() != Some(file.text.as_bytes());
    if changed {
        fs::write(&path, &file.text)
            .map_err(|error| BuildError::Write { path: path.clone(), error })?;
    }
    Ok(WrittenFile { path, changed })
}

#[cfg(test)]
mod tests {
    use super::rerun_lines;

    #[test]
    fn cargo_is_told_of_every_file() {
        let lines = rerun_lines(&["proto/a.proto".into(), "a\nb.proto".into(), "c.proto".into()]);
        assert_eq!(
            lines,
            "cargo::rerun-if-changed=proto/a.proto\ncargo::rerun-if-changed=c.proto\n"
        );
    }
}
