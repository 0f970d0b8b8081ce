//! Types that another crate or module provides (`Builder::extern_path`).
//!
//! # Invariants
//!
//! - A path covers what prost takes it to cover: the item itself and everything below it.
//!
//! **Not here:** the Rust paths of such types, which prost resolves for messages and services
//! alike.

use std::collections::BTreeMap;

use prost_reflect::FileDescriptor;

use crate::error::BuildError;

/// The paths of the `.proto` files whose types are not generated.
#[derive(Debug, Clone)]
pub(crate) struct ExternPaths(Vec<String>);

impl ExternPaths {
    /// Checks `paths`: from `.home.v1` or `.home.v1.Room` to a path of Rust.
    pub(crate) fn new(paths: &BTreeMap<String, String>) -> Result<Self, BuildError> {
        for (path, rust_path) in paths {
            let names = path.strip_prefix('.').unwrap_or_default();
            let is_rust = syn::parse_str::<syn::Type>(rust_path).is_ok();
            if names.split('.').any(str::is_empty) || !is_rust {
                let (path, rust_path) = (path.clone(), rust_path.clone());
                return Err(BuildError::BadExternPath { path, rust_path });
            }
        }
        let names = paths.keys().map(|path| path.trim_start_matches('.').to_owned());
        Ok(Self(names.chain([GOOGLE.to_owned()]).collect()))
    }

    /// Returns whether the message, enum or service with this full name is not generated.
    pub(crate) fn contains(&self, full_name: &str) -> bool {
        self.0.iter().any(|path| is_below(path, full_name))
    }

    /// Returns whether a type of `google.protobuf` with this full name comes from `prost-types`.
    pub(crate) fn is_google(&self, full_name: &str) -> bool {
        let is_replaced = |path: &String| path != GOOGLE && is_below(path, full_name);
        is_below(GOOGLE, full_name) && !self.0.iter().any(is_replaced)
    }

    /// Returns whether any message, enum or service of `file` is generated.
    pub(crate) fn leaves_some_of(&self, file: &FileDescriptor) -> bool {
        file.messages().any(|one| !self.contains(one.full_name()))
            || file.enums().any(|one| !self.contains(one.full_name()))
            || file.services().any(|one| !self.contains(one.full_name()))
    }
}

/// Returns whether `name` is the item or package `path`, or lies in it.
fn is_below(path: &str, name: &str) -> bool {
    name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The package whose types are part of `prost-types`.
const GOOGLE: &str = "google.protobuf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_covers_what_is_below_it() {
        let paths = [(".a.v1".to_owned(), "::other::a".to_owned())];
        let paths = ExternPaths::new(&BTreeMap::from(paths)).unwrap();
        assert_eq!(
            ["a.v1.X", "a.v1", "a.v1.X.Y", "a.v10.X", "a.X"].map(|name| paths.contains(name)),
            [true, true, true, false, false]
        );
        assert!(paths.contains("google.protobuf.Empty"));
    }
}
