//! Generates the file that includes all others, each in the module of its package.
//!
//! # Invariants
//!
//! - A package lies as many modules below the file as its name has parts, since types of other
//!   packages are named by that many `super`.
//! - Files are included by their names alone, so the directory can be moved.

use std::collections::BTreeMap;

use prost_build::Module;

use crate::error::BuildError;
use crate::polish;

/// Generates the text of the file `name` for packages, each with the name of its file.
pub(crate) fn generate(name: &str, packages: Vec<(Module, String)>) -> Result<String, BuildError> {
    let refuse = |reason| Err(BuildError::BadIncludeFile { name: name.to_owned(), reason });
    if !name.ends_with(".rs") || name.starts_with('.') || name.contains('/') {
        return refuse("is not the name of a Rust file in the output directory");
    }
    if packages.iter().any(|(_, file)| file == name) {
        return refuse("is the name of a package's file");
    }
    let mut root = Tree::default();
    let mut names: Vec<String> = Vec::new();
    for (module, file) in packages {
        names.push(file.clone());
        let inner = module
            .parts()
            .fold(&mut root, |tree, part| tree.modules.entry(part.to_owned()).or_default());
        inner.file = Some(file);
    }
    names.sort();
    let mut text = String::new();
    root.render("", &mut text);
    Ok(polish::format_file(&names.join(", "), &text))
}

/// A module: the file of its package, if there is one, and the packages below.
#[derive(Default)]
struct Tree {
    file: Option<String>,
    modules: BTreeMap<String, Tree>,
}

impl Tree {
    fn render(&self, path: &str, text: &mut String) {
        if let Some(file) = &self.file {
            text.push_str(&format!("include!({file:?});\n"));
        }
        for (name, tree) in &self.modules {
            let path = format!("{path}{name}");
            text.push_str(&format!("/// The package `{path}`.\npub mod {name} {{\n"));
            tree.render(&format!("{path}."), text);
            text.push_str("}\n");
        }
    }
}
