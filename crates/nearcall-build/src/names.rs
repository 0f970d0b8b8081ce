//! Rust names for the names of `.proto` files, by the rules of prost-build.
//!
//! prost-build keeps its rules private, so they are repeated here. The golden tests fail if the two
//! differ. Not here: two names that become one (`clashes.rs`).

use heck::{ToShoutySnakeCase, ToSnakeCase, ToUpperCamelCase};

/// Names a function or module: `SetTarget` becomes `set_target`, `Type` becomes `r#type`.
pub(crate) fn to_snake(name: &str) -> String {
    escape(name.to_snake_case())
}

/// As [`to_snake`] without the escape, for a part of a longer name.
pub(crate) fn to_plain_snake(name: &str) -> String {
    name.to_snake_case()
}

/// Names a type: `thermostat` becomes `Thermostat`.
pub(crate) fn to_upper_camel(name: &str) -> String {
    escape(name.to_upper_camel_case())
}

/// Names a static: `SetTarget` becomes `SET_TARGET`. No keyword has this form.
pub(crate) fn to_shouty(name: &str) -> String {
    name.to_shouty_snake_case()
}

/// Names a value of the enum with the Rust name `enumeration`: the name of the enum is left out at
/// the start of its values.
pub(crate) fn to_variant(enumeration: &str, value: &str) -> String {
    let name = to_upper_camel(value);
    let short = name.strip_prefix(enumeration);
    match short.filter(|short| short.starts_with(char::is_uppercase)) {
        Some(short) => escape(short.to_owned()),
        None => escape(name),
    }
}

/// The modules of a package: `google` and `r#type` for `google.type`.
pub(crate) fn module_path(package: &str) -> Vec<String> {
    package.split('.').filter(|part| !part.is_empty()).map(to_snake).collect()
}

/// The file of a package, by its name as it is written, so that `include_proto!` takes that name:
/// `google.type.rs` for `google.type`, `_.rs` for none.
pub(crate) fn file_name(package: &str) -> String {
    let stem = if package.is_empty() { NO_PACKAGE } else { package };
    format!("{stem}.rs")
}

/// Returns whether the name could be one of a `.proto` file, which every rule here can convert.
pub(crate) fn is_proto_name(name: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    name.starts_with(|char: char| char.is_ascii_alphabetic()) && name.chars().all(is_part)
}

fn escape(name: String) -> String {
    match name.as_str() {
        "_" | "super" | "self" | "Self" | "extern" | "crate" => name + "_",
        word if word.starts_with(char::is_numeric) => format!("_{name}"),
        word if KEYWORDS.contains(&word) => format!("r#{name}"),
        _ => name,
    }
}

/// The stem of the file for messages outside any package.
const NO_PACKAGE: &str = "_";

/// Keywords that may be names behind `r#`.
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
    fn keywords_are_escaped() {
        assert_eq!(
            ["SetTarget", "Type", "self", "move"].map(to_snake),
            ["set_target", "r#type", "self_", "r#move"]
        );
        assert_eq!(
            ["thermostat", "SELF", "A_b"].map(to_upper_camel),
            ["Thermostat", "Self_", "AB"]
        );
        assert_eq!(to_plain_snake("Type"), "type");
        assert_eq!(to_shouty("SetTarget"), "SET_TARGET");
    }

    #[test]
    fn a_package_is_a_file() {
        assert_eq!(file_name("home.v1"), "home.v1.rs");
        assert_eq!(file_name(""), "_.rs");
        assert_eq!(file_name("google.type.Self"), "google.type.Self.rs");
        assert_eq!(
            module_path("google.type.Self.fooBar"),
            ["google", "r#type", "self_", "foo_bar"]
        );
        assert!(module_path("").is_empty());
    }

    #[test]
    fn a_value_loses_the_name_of_its_enum() {
        let cases = [("FOO_BAR", "Bar"), ("FOOBAR", "Foobar"), ("FOO", "Foo"), ("FOO_1", "Foo1")];
        for (value, variant) in [&cases[..], &[("FOO_SELF", "Self_"), ("self", "Self_")]].concat() {
            assert_eq!(to_variant("Foo", value), variant, "{value}");
        }
    }
}
