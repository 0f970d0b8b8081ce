//! Reads `.proto` files and everything that they import into descriptors.
//!
//! # Invariants
//!
//! - `nearcall/options.proto` is the one of this crate, whatever the include directories hold.
//! - `google/protobuf/*.proto` need no include directory.
//!
//! **Not here:** demands on an interface beyond correct proto3 (`model.rs`).

use std::path::{Path, PathBuf};

use prost_reflect::DescriptorPool;
use protox::Compiler;
use protox::file::{
    ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver,
};

use crate::error::BuildError;

/// The descriptors of the files, and where they came from.
pub(crate) struct Sources {
    pub(crate) pool: DescriptorPool,
    /// The files on disk that the result depends on, imports included.
    pub(crate) paths: Vec<PathBuf>,
}

/// Reads `files`. Without an include directory, the directory of each file is one.
pub(crate) fn read(files: &[PathBuf], includes: &[PathBuf]) -> Result<Sources, BuildError> {
    if files.is_empty() {
        return Err(BuildError::NoFile);
    }
    let mut compiler = Compiler::with_file_resolver(build_resolver(files, includes));
    compiler.include_source_info(true).include_imports(true);
    for file in files {
        compiler.open_file(file).map_err(|error| BuildError::proto(&error))?;
    }
    let paths = compiler.files().filter_map(|file| file.path().map(Path::to_owned)).collect();
    Ok(Sources { pool: compiler.descriptor_pool(), paths })
}

fn build_resolver(files: &[PathBuf], includes: &[PathBuf]) -> ChainFileResolver {
    let mut resolver = ChainFileResolver::new();
    resolver.add(OptionsResolver);
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
    for directory in directories {
        resolver.add(IncludeFileResolver::new(directory));
    }
    resolver.add(GoogleFileResolver::new());
    resolver
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
