//! The front of the crate: reads `.proto` files, generates, and writes what has changed.
//!
//! # Invariants
//!
//! - Nothing is written before every file was read and checked.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::cpp;
use crate::error::BuildError;
use crate::generate::{self, GeneratedFile};
use crate::options::{Language, Options};
use crate::python;
use crate::sources::{self, DescriptorSet};

/// Collects the input and the options of a build script. [`Builder::compile`] generates the code.
#[derive(Debug, Clone, Default)]
#[must_use = "nothing happens before `compile` or `write`"]
pub struct Builder {
    files: Vec<PathBuf>,
    descriptor_sets: Vec<DescriptorSet>,
    includes: Vec<PathBuf>,
    out_dir: Option<PathBuf>,
    language: Language,
    options: Options,
}

impl Builder {
    /// Creates a builder without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a `.proto` file. Code for the packages that it imports is generated too.
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        self.files.push(path.as_ref().to_owned());
        self
    }

    /// Adds the interfaces of an encoded `google.protobuf.FileDescriptorSet`, such as another build
    /// system writes: `protoc --include_imports --include_source_info --descriptor_set_out FILE`.
    /// Without source information there are no docs, and errors name no line.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// nearcall_build::Builder::new().descriptor_set("interfaces.binpb").compile()?;
    /// # Ok::<(), nearcall_build::BuildError>(())
    /// ```
    pub fn descriptor_set(mut self, path: impl AsRef<Path>) -> Self {
        self.descriptor_sets.push(DescriptorSet::File(path.as_ref().to_owned()));
        self
    }

    /// As [`descriptor_set`](Self::descriptor_set), for a set that is in memory.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn read_from_registry() -> Vec<u8> { Vec::new() }
    /// let set: Vec<u8> = read_from_registry();
    /// nearcall_build::Builder::new().descriptor_set_bytes(set).compile()?;
    /// # Ok::<(), nearcall_build::BuildError>(())
    /// ```
    pub fn descriptor_set_bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.descriptor_sets.push(DescriptorSet::Bytes(bytes.into()));
        self
    }

    /// Adds a directory in which imports are looked up; the files must be below one of them. The
    /// default is the directory of each file.
    pub fn include(mut self, directory: impl AsRef<Path>) -> Self {
        self.includes.push(directory.as_ref().to_owned());
        self
    }

    /// Writes another file, `name`, that includes all the generated ones, each in the module of
    /// its package. Packages that import each other need this tree, and so does a package `a.cart`
    /// beside a message `a.Cart` with types in it, which then share a module. Include it at the
    /// root of the program, or in any module: `nearcall::include_proto!("interfaces")` for
    /// `interfaces.rs`.
    pub fn include_file(mut self, name: impl Into<String>) -> Self {
        self.options.include_file = Some(name.into());
        self
    }

    /// Gives a service or method another name in Rust. `path` is its full name in the `.proto`
    /// file: `home.v1.Thermostat` or `home.v1.Thermostat.Scan`. `name` is written in the style of
    /// the file: `ScanRooms` becomes `scan_rooms`, `start_scan_rooms` and so on. Other programs
    /// need not know: the name on the wire stays.
    pub fn rename(mut self, path: impl Into<String>, name: impl Into<String>) -> Self {
        self.options.renames.insert(path.into(), name.into());
        self
    }

    /// Adds an attribute, such as `#[derive(serde::Serialize)]`, to the messages, enums and oneofs
    /// that `path` matches: `.` for all, `.home.v1` for a package, `.home.v1.Room` or `Room` for
    /// one, as in prost.
    pub fn type_attribute(mut self, path: impl Into<String>, attribute: impl Into<String>) -> Self {
        self.options.type_attributes.push((path.into(), attribute.into()));
        self
    }

    /// Adds an attribute to the fields, variants of oneofs and values of enums that `path` matches,
    /// such as `.home.v1.Room.name`.
    pub fn field_attribute(
        mut self,
        path: impl Into<String>,
        attribute: impl Into<String>,
    ) -> Self {
        self.options.field_attributes.push((path.into(), attribute.into()));
        self
    }

    /// Uses types of another crate or module in the place of generated ones, for messages and
    /// services alike: `.extern_path(".common.v1", "::common::v1")` for a package, or
    /// `(".common.v1.Id", "::common::Id")` for one type, which must implement
    /// `nearcall::prost::Message`. Services below `path` are not generated.
    pub fn extern_path(mut self, path: impl Into<String>, rust_path: impl Into<String>) -> Self {
        self.options.extern_paths.insert(path.into(), rust_path.into());
        self
    }

    /// Has the maps that a path matches be a `BTreeMap`, which has an order, in the place of a
    /// `HashMap`. Paths are those of [`field_attribute`](Self::field_attribute); `.` is every map.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// nearcall_build::Builder::new()
    ///     .file("proto/home/v1/thermostat.proto")
    ///     .btree_map([".home.v1.Plan.celsius_by_room"])
    ///     .compile()?;
    /// # Ok::<(), nearcall_build::BuildError>(())
    /// ```
    pub fn btree_map(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.btree_map.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Has only the `bytes` fields that a path matches be `nearcall::Bytes`, and all others
    /// `Vec<u8>`. The default is `.`, every one: a received `Bytes` is a slice of the message, and
    /// one that is sent may be a loan, while a `Vec<u8>` is copied.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// nearcall_build::Builder::new()
    ///     .file("proto/home/v1/camera.proto")
    ///     .bytes([".home.v1.Picture.pixels"])
    ///     .compile()?;
    /// # Ok::<(), nearcall_build::BuildError>(())
    /// ```
    pub fn bytes(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let all = self.options.bytes.get_or_insert_default();
        all.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Sets whether callers are generated, which clients need. The default is true. Without
    /// [`dispatchers`](Self::dispatchers) too, only messages are left.
    ///
    /// # Examples
    ///
    /// A program that only serves:
    ///
    /// ```no_run
    /// nearcall_build::Builder::new().file("proto/home.proto").callers(false).compile()?;
    /// # Ok::<(), nearcall_build::BuildError>(())
    /// ```
    pub fn callers(mut self, are_generated: bool) -> Self {
        self.options.parts.callers = are_generated;
        self
    }

    /// Sets whether the traits to implement and the dispatchers are generated, which servers need.
    /// The default is true. Without them a call of an object of the same thread is a message.
    ///
    /// # Examples
    ///
    /// A program that only calls, and only by futures:
    ///
    /// ```no_run
    /// nearcall_build::Builder::new()
    ///     .file("proto/home.proto")
    ///     .dispatchers(false)
    ///     .sync_api(false)
    ///     .compile()?;
    /// # Ok::<(), nearcall_build::BuildError>(())
    /// ```
    pub fn dispatchers(mut self, are_generated: bool) -> Self {
        self.options.parts.dispatchers = are_generated;
        self
    }

    /// Sets whether there are the caller that waits, and the trait whose methods return results.
    /// The default is true.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// nearcall_build::Builder::new().file("proto/home.proto").sync_api(false).compile()?;
    /// # Ok::<(), nearcall_build::BuildError>(())
    /// ```
    pub fn sync_api(mut self, is_generated: bool) -> Self {
        self.options.parts.sync_api = is_generated;
        self
    }

    /// Sets whether there are the caller that returns futures, and the trait whose methods are
    /// `async`. The default is true.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// nearcall_build::Builder::new().file("proto/home.proto").async_api(false).compile()?;
    /// # Ok::<(), nearcall_build::BuildError>(())
    /// ```
    pub fn async_api(mut self, is_generated: bool) -> Self {
        self.options.parts.async_api = is_generated;
        self
    }

    /// Sets the language of the generated files. The default is Rust; the options that name types,
    /// attributes and parts are for Rust only.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use nearcall_build::{Builder, Language};
    ///
    /// let builder = Builder::new().file("proto/home.proto").language(Language::Cpp);
    /// builder.out_dir("generated").write()?;
    /// # Ok::<(), nearcall_build::BuildError>(())
    /// ```
    pub fn language(mut self, language: Language) -> Self {
        self.language = language;
        self
    }

    /// Sets the directory to write to. The default is the variable `OUT_DIR`. A missing directory
    /// is created.
    pub fn out_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.out_dir = Some(directory.as_ref().to_owned());
        self
    }

    /// Writes the files, and prints on stdout which files Cargo must watch. For build scripts.
    ///
    /// # Errors
    ///
    /// As [`Builder::write`].
    pub fn compile(&self) -> Result<(), BuildError> {
        let written = self.write()?;
        // Cargo reads this. If it does not, nothing depends on it.
        let _ = io::stdout().lock().write_all(render_rerun_lines(&written.sources).as_bytes());
        Ok(())
    }

    /// Writes the files and prints nothing.
    ///
    /// # Errors
    ///
    /// The first error in the `.proto` files; then nothing was written. [`BuildError::Write`] if a
    /// file cannot be written; then others may have been.
    pub fn write(&self) -> Result<Written, BuildError> {
        let sources = sources::read(&self.files, &self.includes, &self.descriptor_sets)?;
        let generated = match self.language {
            Language::Rust => generate::generate(&sources.pool, &self.options)?,
            Language::Cpp => cpp::generate(&sources.pool, &sources.requested, &self.options)?,
            Language::Python => python::generate(&sources.pool, &self.options)?,
        };
        let cargo_dir = || env::var_os("OUT_DIR").map(PathBuf::from);
        let directory = self.out_dir.clone().or_else(cargo_dir).ok_or(BuildError::NoOutDir)?;
        let failed = |error| BuildError::Write { path: directory.clone(), error };
        fs::create_dir_all(&directory).map_err(failed)?;
        let written: Result<Vec<WrittenFile>, BuildError> =
            generated.iter().map(|file| write(&directory, file)).collect();
        Ok(Written { files: written?, sources: sources.paths })
    }
}

/// The result of [`Builder::write`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The generated files, sorted by name.
    pub files: Vec<WrittenFile>,
    /// The `.proto` files and descriptor sets on disk that they depend on, imports included.
    pub sources: Vec<PathBuf>,
}

/// A generated file on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// The path of the file.
    pub path: PathBuf,
    /// True if it was written; false if it had this content already.
    pub changed: bool,
}

/// Renders the lines that make Cargo run the build script again when a source changes.
fn render_rerun_lines(sources: &[PathBuf]) -> String {
    // Cargo's format has no way to write other paths.
    let paths = sources.iter().filter_map(|path| path.to_str());
    let paths = paths.filter(|path| !path.contains('\n'));
    paths.map(|path| format!("cargo::rerun-if-changed={path}\n")).collect()
}

fn write(directory: &Path, file: &GeneratedFile) -> Result<WrittenFile, BuildError> {
    let path = directory.join(&file.name);
    // A file that cannot be read is written again.
    let changed = fs::read(&path).ok().as_deref() != Some(file.text.as_bytes());
    if changed {
        let failed = |error| BuildError::Write { path: path.clone(), error };
        // Those of C++ and Python have the directories of their `.proto` files.
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        fs::write(&path, &file.text).map_err(failed)?;
    }
    Ok(WrittenFile { path, changed })
}

#[cfg(test)]
mod tests {
    use super::render_rerun_lines;

    #[test]
    fn cargo_watches_every_file() {
        let lines =
            render_rerun_lines(&["proto/a.proto".into(), "a\nb.proto".into(), "c.proto".into()]);
        assert_eq!(
            lines,
            "cargo::rerun-if-changed=proto/a.proto\ncargo::rerun-if-changed=c.proto\n"
        );
    }
}
