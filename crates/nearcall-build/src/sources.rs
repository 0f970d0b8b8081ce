//! Reads `.proto` files and everything that they import, and sets of descriptors.
//!
//! # Invariants
//!
//! - `nearcall/options.proto` is the one of this crate, whatever the include directories hold.
//! - `google/protobuf/*.proto` need no include directory. One that lies there is used, as by
//!   protoc: it may have options that the built-in one lacks.
//!
//! **Not here:** demands on an interface beyond correct syntax (`model.rs`), what the parser cannot
//! read (`source_text.rs`), and which packages a file may name (`visible_names.rs`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::{fs, io};

use prost_reflect::{DescriptorPool, FileDescriptor};
use protox::Compiler;
use protox::file::{
    ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver,
};

use crate::error::{BuildError, Place};
use crate::visible_names::VisibleNames;
use crate::{panics, source_text};

/// The descriptors of the files, and where they came from.
pub(crate) struct Sources {
    pub(crate) pool: DescriptorPool,
    /// The files on disk that the result depends on, imports included.
    pub(crate) paths: Vec<PathBuf>,
    /// The names of the files that were asked for: no imports, and the files of the sets apart from
    /// those of Google and of nearcall.
    pub(crate) requested: Vec<String>,
}

/// An encoded `FileDescriptorSet`.
#[derive(Debug, Clone)]
pub(crate) enum DescriptorSet {
    File(PathBuf),
    Bytes(Vec<u8>),
}

/// Reads `files` and `sets`. Without an include directory, the directory of each file is one.
pub(crate) fn read(
    files: &[PathBuf],
    includes: &[PathBuf],
    sets: &[DescriptorSet],
) -> Result<Sources, BuildError> {
    if files.is_empty() && sets.is_empty() {
        return Err(BuildError::NoFile);
    }
    let mut sources = match files.is_empty() {
        true => Sources { pool: DescriptorPool::new(), paths: Vec::new(), requested: Vec::new() },
        false => read_files(files, includes)?,
    };
    for set in sets {
        let (from, bytes) = match set {
            DescriptorSet::File(path) => {
                sources.paths.push(path.clone());
                (path.display().to_string(), fs::read(path).map_err(|error| error.to_string()))
            }
            DescriptorSet::Bytes(bytes) => ("descriptor_set_bytes".to_owned(), Ok(bytes.clone())),
        };
        let refuse = |text: String| BuildError::DescriptorSet { from: from.clone(), text };
        let bytes = bytes.map_err(refuse)?;
        let before: BTreeSet<String> = names(&sources.pool).collect();
        let decoded = sources.pool.decode_file_descriptor_set(bytes.as_slice());
        decoded.map_err(|error| refuse(format!("{error:?}")))?;
        let is_own = |name: &String| {
            !before.contains(name) && !name.starts_with(GOOGLE) && name != OPTIONS_NAME
        };
        sources.requested.extend(names(&sources.pool).filter(is_own));
    }
    let is_edition = |file: &FileDescriptor| file.file_descriptor_proto().syntax() == "editions";
    let edition = sources.pool.files().find(is_edition).map(|file| file.name().to_owned());
    match edition {
        None => Ok(sources),
        Some(file) => Err(BuildError::Edition { place: Place { file, at: None } }),
    }
}

fn read_files(files: &[PathBuf], includes: &[PathBuf]) -> Result<Sources, BuildError> {
    let directories = list_directories(files, includes);
    let opened = Opened::default();
    let mut compiler =
        Compiler::with_file_resolver(VisibleNames::new(build_resolver(&directories, &opened)));
    compiler.include_source_info(true).include_imports(true);
    for file in files {
        let result = panics::catch(|| compiler.open_file(file).map(|_| ()));
        let result = result.map_err(|text| BuildError::internal(file.display(), text))?;
        result.map_err(|error| BuildError::proto(&error))?;
        check_shadow(file, &directories, &opened.borrow())?;
    }
    let paths = compiler.files().filter_map(|file| opened.borrow().get(file.name()).cloned());
    let requested = compiler.files().filter(|file| !file.is_import());
    Ok(Sources {
        paths: paths.collect(),
        requested: requested.map(|file| file.name().to_owned()).collect(),
        pool: compiler.descriptor_pool(),
    })
}

fn names(pool: &DescriptorPool) -> impl Iterator<Item = String> {
    pool.files().map(|file| file.name().to_owned())
}

/// Where the files of Google lie.
const GOOGLE: &str = "google/protobuf/";

/// The files that were read from the disk: the path of each by the name of its imports.
type Opened = Rc<RefCell<BTreeMap<String, PathBuf>>>;

fn list_directories(files: &[PathBuf], includes: &[PathBuf]) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = includes.to_vec();
    if directories.is_empty() {
        for file in files {
            // The parent of a bare name is an empty path: the current directory.
            let directory = file.parent().map(Path::to_owned).unwrap_or_default();
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
    }
    directories
}

fn build_resolver(directories: &[PathBuf], opened: &Opened) -> ChainFileResolver {
    let mut resolver = ChainFileResolver::new();
    resolver.add(OptionsResolver);
    for directory in directories {
        let names = IncludeFileResolver::new(directory.clone());
        let (directory, opened) = (directory.clone(), Rc::clone(opened));
        resolver.add(DirectoryResolver { names, directory, opened });
    }
    resolver.add(GoogleFileResolver::new());
    resolver
}

/// Refuses a file whose name leads to another file, in a directory before its own.
fn check_shadow(
    file: &Path,
    directories: &[PathBuf],
    opened: &BTreeMap<String, PathBuf>,
) -> Result<(), BuildError> {
    let resolvers = directories.iter().cloned().map(IncludeFileResolver::new);
    let name = resolvers.filter_map(|resolver| resolver.resolve_path(file)).next();
    let used = name.and_then(|name| opened.get(&name));
    let same = |used: &Path| fs::canonicalize(used).ok() == fs::canonicalize(file).ok();
    match used.filter(|used| !same(used)) {
        None => Ok(()),
        Some(used) => Err(BuildError::Proto {
            text: format!(
                "{}: its name leads to {}; change the order of the include directories",
                file.display(),
                used.display()
            ),
        }),
    }
}

/// Resolves the files in one directory.
struct DirectoryResolver {
    names: IncludeFileResolver,
    directory: PathBuf,
    opened: Opened,
}

impl FileResolver for DirectoryResolver {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        self.names.resolve_path(path)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let path = self.directory.join(name);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(protox::Error::file_not_found(name));
            }
            Err(error) => return Err(refuse(format!("{}: cannot read: {error}", path.display()))),
        };
        let text = match str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(error) => {
                let at = error.valid_up_to();
                return Err(refuse(format!("{}: byte {at} is not UTF-8", path.display())));
            }
        };
        let text = source_text::prepare(name, text).map_err(protox::Error::new)?;
        let file = File::from_source(name, &text)?;
        self.opened.borrow_mut().insert(name.to_owned(), path);
        Ok(file)
    }
}

fn refuse(text: String) -> protox::Error {
    protox::Error::new(BuildError::Proto { text })
}

/// Resolves one file: `nearcall/options.proto`.
struct OptionsResolver;

impl FileResolver for OptionsResolver {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match name {
            OPTIONS_NAME => File::from_source(name, OPTIONS_TEXT),
            _ => Err(protox::Error::file_not_found(name)),
        }
    }
}

const OPTIONS_NAME: &str = "nearcall/options.proto";
const OPTIONS_TEXT: &str = include_str!("../proto/nearcall/options.proto");
