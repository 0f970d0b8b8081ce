//! Names of `.proto` files as Rust names, by the same rules as prost-build.
//!
//! The rules are prost's and private there, so they are written down again; the golden tests fail
//! if they ever differ. Not here: what happens when two names become one (`clashes.rs`).

use heck::{ToShoutySnakeCase, ToSnakeCase, ToUpperCamelCase};
use prost_build::Module;

/// A function or module: `SetTarget` becomes `set_target`, `Type` becomes `r#type`.
pub(crate) fn snake(name: &str) -> String {
    escaped(name.to_snake_case())
}

/// As [`snake`], not escaped: only good as a part of a longer name.
pub(crate) fn plain_snake(name: &str) -> String {
    name.to_snake_case()
}

/// A type: `thermostat` becomes `Thermostat`.
pub(crate) fn upper_camel(name: &str) -> String {
    escaped(name.to_upper_camel_case())
}

/// A static: `SetTarget` becomes `SET_TARGET`. No word of the language looks like this.
pub(crate) fn shouty(name: &str) -> String {
    name.to_shouty_snake_case()
}

/// The file of a package, as prost names it: `home.v1` becomes `home.v1.rs`, no package `_.rs`.
pub(crate) fn file_name(package: &str) -> String {
    module_file_name(&Module::from_protobuf_package_name(package))
}

/// As [`file_name`], for a package that prost has already taken apart.
pub(crate) fn module_file_name(module: &Module) -> String {
    module.to_file_name_or(NO_PACKAGE)
}

fn escaped(name: String) -> String {
    match name.as_str() {
        "_" | "super" | "self" | "Self" | "extern" | "crate" => name + "_",
        word if word.starts_with(char::is_numeric) => format!("_{name}"),
        word if KEYWORDS.contains(&word) => format!("r#{name}"),
        _ => name,
    }
}

/// The stem of the file for messages outside any package.
const NO_PACKAGE: &str = "_";

/// Words of the language that may be names behind `r#`.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static",
    "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_language_are_escaped() {
        assert_eq!(
            ["SetTarget", "Type", "self", "move"].map(snake),
            ["set_target", "r#type", "self_", "r#move"]
        );
        assert_eq!(["thermostat", "SELF", "A_b"].map(upper_camel), ["Thermostat", "Self_", "AB"]);
        assert_eq!(plain_snake("Type"), "type");
        assert_eq!(shouty("SetTarget"), "SET_TARGET");
    }

    #[test]
    fn a_package_is_a_file() {
        assert_eq!(file_name("home.v1"), "home.v1.rs");
        assert_eq!(file_name(""), "_.rs");
    }
}
