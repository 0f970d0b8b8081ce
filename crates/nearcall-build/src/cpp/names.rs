//! Names of C++ for the names of `.proto` files, those of messages by the rules of protoc.
//!
//! # Invariants
//!
//! - No name is a keyword, a macro of the C library, or a function of the base of services.
//!
//! **Not here:** two names that become one (`cpp.rs`).

use prost_reflect::{DescriptorPool, EnumDescriptor, FileDescriptor, MessageDescriptor};

use crate::derived_names::Taken;

/// The namespaces of a package, as protoc names them.
pub(super) fn namespace(file: &FileDescriptor) -> Vec<String> {
    parts(file.package_name())
}

fn parts(package: &str) -> Vec<String> {
    package.split('.').filter(|part| !part.is_empty()).map(escape).collect()
}

/// The full name of a message class: a message within another one is joined to it by `_`.
pub(super) fn class(message: &MessageDescriptor) -> String {
    let package = parts(message.parent_file().package_name());
    let namespace: String = package.iter().map(|part| format!("{part}::")).collect();
    format!("::{namespace}{}", short_class(message))
}

fn short_class(message: &MessageDescriptor) -> String {
    match message.parent_message() {
        None => escape(message.name()),
        Some(parent) => escape(&format!("{}_{}", short_class(&parent), message.name())),
    }
}

/// The name of a function, from a name in snake case.
pub(super) fn function(snake: &str) -> String {
    match snake {
        name if name.starts_with(|first: char| first.is_ascii_digit()) => format!("_{name}"),
        name if OF_SERVICES.contains(&name) || OF_THE_LIBRARY.contains(&name) => format!("{name}_"),
        name => escape(name),
    }
}

/// A part of an identifier, from a path.
pub(super) fn identifier(path: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
    path.chars().map(plain).collect()
}

/// The names that protoc makes in the namespace of a package.
pub(super) fn taken(pool: &DescriptorPool, package: &str) -> Taken {
    let mut taken = Taken::default();
    for file in pool.files().filter(|file| file.package_name() == package) {
        file.messages().for_each(|message| take_message(&message, &mut taken));
        for one in file.enums() {
            taken.insert(one.name());
            one.values().for_each(|value| taken.insert(value.name()));
        }
        // Where the file has `cc_generic_services`.
        file.services().for_each(|service| taken.insert(service.name()));
        file.extensions().for_each(|extension| taken.insert(extension.name()));
    }
    taken
}

fn take_message(message: &MessageDescriptor, taken: &mut Taken) {
    let name = short_class(message);
    taken.insert(&name);
    message.child_messages().for_each(|child| take_message(&child, taken));
    message.child_enums().for_each(|child: EnumDescriptor| {
        taken.insert(&format!("{name}_{}", child.name()));
        child.values().for_each(|value| taken.insert(&format!("{name}_{}", value.name())));
    });
}

fn escape(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

/// Functions of `nearcall::Service`, which a method must not hide.
const OF_SERVICES: &[&str] = &["serve", "interface_name", "descriptor_set"];

/// Macros that the headers of the C library, or the compiler, may define.
const OF_THE_LIBRARY: &[&str] = &[
    "assert", "errno", "linux", "major", "makedev", "minor", "offsetof", "setjmp", "stderr",
    "stdin", "stdout", "unix",
];

/// Keywords, and words that stand for operators.
const KEYWORDS: &[&str] = &[
    "NULL",
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cpp_has_are_escaped() {
        assert_eq!(
            ["set_target", "delete", "serve", "errno", "1st"].map(function),
            ["set_target", "delete_", "serve_", "errno_", "_1st"]
        );
        assert_eq!(parts("a.namespace.v1"), ["a", "namespace_", "v1"]);
        assert_eq!(identifier("home/v1/thermostat-2"), "home_v1_thermostat_2");
    }
}
