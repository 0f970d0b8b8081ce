//! Reads `.proto` files into descriptors, with everything that they import.
//!
//! Always true: `nearcall/options.proto` is the one of this crate, whatever lies in the include
//! folders, and `google/protobuf/*.proto` need no folder. Not here: what we demand of an interface
//! beyond correct proto3 (`model.rs`).

use std::path::{Path, PathBuf};

use prost_reflect::DescriptorPool;
use protox::Compiler;
use protox::file::{
    ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver,
};

use crate::error::BuildError;

/// What was read.
pub(crate) struct Sources {
    pub(crate) pool: DescriptorPool,
    /// The files on disk that decide about the result, imports included.
    pub(crate) paths: Vec<PathBuf>,
}

/// Reads `files`. Without an include folder, the folder of each file is one.
pub(crate) fn read(files: &[PathBuf], includes: &[PathBuf]) -> Result<Sources, BuildError> {
    if files.is_empty() {
        return Err(BuildError::NoFile);
    }
    let mut compiler = Compiler::with_file_resolver(resolver(files, includes));
    compiler.include_source_info(true).include_imports(true);
    for file in files {
        compiler.open_file(file).map_err(|error| BuildError::proto(&error))?;
    }
    let paths = compiler.files().filter_map(|file| file.path().map(Path::to_owned)).collect();
    Ok(Sources { pool: compiler.descriptor_pool(), paths })
}

fn resolver(files: &[PathBuf], includes: &[PathBuf]) -> ChainFileResolver {
    let mut resolver = ChainFileResolver::new();
    resolver.add(OptionsResolver);
    let mut folders: Vec<PathBuf> = includes.to_vec();
    if folders.is_empty() {
        for file in files {
            // The parent of a bare name is an empty path, which means the current folder.
            let folder = file.parent().map(Path::to_owned).unwrap_or_default();
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    for folder in folders {
        resolver.add(IncludeFileResolver::new(folder));
    }
    resolver.add(GoogleFileResolver::new());
    resolver
}

/// Knows one file: our options.
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
