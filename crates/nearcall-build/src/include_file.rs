//! Generates the file that includes all others, each in the module of its package.
//!
//! A package and a message may need one module: `cart` for the package `shop.v1.cart` and for the
//! types within the message `shop.v1.Cart`. The file of the package is then included in the module
//! of the message.
//!
//! # Invariants
//!
//! - A package lies as many modules below the file as its name has parts, since types of other
//!   packages are named by that many `super`.
//! - No module is written twice.
//! - Files are included by their names alone, so the directory can be moved.
//!
//! **Not here:** names that clash within one module (`clashes.rs`).

use std::collections::BTreeMap;

use prost_build::Module;
use syn::{File, Item};

use crate::error::BuildError;
use crate::{names, polish};

/// Generates the text of the file `name`, which includes `files` as `tree` has them.
pub(crate) fn generate(
    name: &str,
    mut files: Vec<String>,
    tree: &Tree,
) -> Result<String, BuildError> {
    let refuse = |reason| Err(BuildError::BadIncludeFile { name: name.to_owned(), reason });
    if !name.ends_with(".rs") || name.starts_with('.') || name.contains('/') {
        return refuse("is not the name of a Rust file in the output directory");
    }
    if files.iter().any(|file| file == name) {
        return refuse("is the name of a package's file");
    }
    files.sort();
    Ok(polish::format(&files.join(", "), tree.parse("")))
}

/// A module: the file of its package, if there is one, and the packages below.
#[derive(Default)]
pub(crate) struct Tree {
    file: Option<String>,
    /// The name of each module as it is in the package, and the module.
    modules: BTreeMap<String, (String, Tree)>,
}

impl Tree {
    /// Adds the file of a package.
    pub(crate) fn insert(&mut self, module: &Module, package: &str) {
        let parts = module.parts().zip(package.split('.'));
        let inner = parts.fold(self, |tree, (part, name)| {
            &mut tree
                .modules
                .entry(part.to_owned())
                .or_insert_with(|| (name.to_owned(), Self::default()))
                .1
        });
        inner.file = Some(names::file_name(package));
    }

    /// Moves the packages that share a module with a message of the package `module` into the file
    /// of that package.
    pub(crate) fn merge_into(&mut self, module: &Module, file: &mut File) {
        let inner = module
            .parts()
            .try_fold(self, |tree, part| tree.modules.get_mut(part).map(|(_, inner)| inner));
        // A package that was moved itself is found no more: its modules went with it.
        if let Some(tree) = inner {
            tree.merge(&mut file.items);
        }
    }

    fn merge(&mut self, items: &mut [Item]) {
        self.modules.retain(|name, (package, tree)| {
            let modules = items.iter_mut().filter_map(|item| match item {
                Item::Mod(module) if module.ident == name => module.content.as_mut(),
                _ => None,
            });
            match modules.map(|(_, inner)| inner).next() {
                None => true,
                Some(inner) => {
                    tree.merge(inner);
                    inner.extend(tree.parse(&format!("{package}.")).items);
                    false
                }
            }
        });
    }

    fn parse(&self, path: &str) -> File {
        let mut text = String::new();
        self.render(path, &mut text);
        polish::parse(&text)
    }

    fn render(&self, path: &str, text: &mut String) {
        if let Some(file) = &self.file {
            text.push_str(&format!("include!({file:?});\n"));
        }
        for (name, (package, tree)) in &self.modules {
            let path = format!("{path}{package}");
            text.push_str(&format!("/// The package `{path}`.\npub mod {name} {{\n"));
            tree.render(&format!("{path}."), text);
            text.push_str("}\n");
        }
    }
}
