//! Parts of generated C++: comments, namespaces, bytes.
//!
//! # Invariants
//!
//! - No comment of a `.proto` file can end a comment of C++, or go on in the next line.
//!
//! **Not here:** what is generated (`caller.rs`, `service.rs`).

use prost_reflect::FileDescriptor;

use crate::comments;

/// Renders the comment of an item as lines that begin with `//`; empty if there is none.
pub(super) fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    render(&comments::plain(file, path))
}

fn render(comment: &str) -> String {
    let mut out = String::new();
    for line in comment.trim_end().lines() {
        // One before the end of the line would continue the comment.
        let line = line.trim_end_matches(|char: char| char == '\\' || char.is_whitespace());
        let blank = if line.is_empty() || line.starts_with(' ') { "" } else { " " };
        out += &format!("//{blank}{line}\n");
    }
    out
}

/// Indents lines that are not empty.
pub(super) fn indent(text: &str) -> String {
    let indented = |line: &str| match line.chars().next() {
        None | Some('#') => format!("{line}\n"),
        Some(_) => format!("  {line}\n"),
    };
    text.lines().map(indented).collect()
}

/// Puts text into a namespace; none if the package has no name.
pub(super) fn in_namespace(parts: &[String], body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    if parts.is_empty() {
        return format!("\n{}\n", body.trim_end());
    }
    let name = parts.join("::");
    format!("\nnamespace {name} {{\n\n{}\n\n}}  // namespace {name}\n", body.trim_end())
}

/// Renders the constant with the descriptors.
pub(super) fn descriptor_set(name: &str, bytes: &[u8]) -> String {
    format!(
        "// The encoded FileDescriptorSet of this file and its imports, without\n\
         // google/protobuf/descriptor.proto and without comments.\n\
         inline constexpr char {name}[] ={};\n\n",
        literal(bytes)
    )
}

/// Renders bytes as literals that are joined, in lines of at most 100 columns.
fn literal(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for byte in bytes {
        match byte {
            b'"' | b'\\' => line.extend(['\\', char::from(*byte)]),
            b' '..=b'~' if *byte != b'?' => line.push(char::from(*byte)),
            // Three digits, so that the next character is none of it. `?` begins a trigraph.
            byte => line += &format!("\\{byte:03o}"),
        }
        if line.len() >= LITERAL_COLUMNS {
            out += &format!("\n    \"{line}\"");
            line.clear();
        }
    }
    out + &format!("\n    \"{line}\"")
}

/// A line of the literal ends at the first byte that reaches this column.
const LITERAL_COLUMNS: usize = 90;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_with_their_lines() {
        assert_eq!(render(" a */ b\n\n c \\ \\\n"), "// a */ b\n//\n// c\n");
        assert_eq!(render(" \n"), "");
    }

    #[test]
    fn bytes_are_literals() {
        assert_eq!(literal(b"a\"\\?\n1\xff"), "\n    \"a\\\"\\\\\\077\\0121\\377\"");
        let long = literal(&[0; 100]);
        assert!(long.lines().count() > 4 && long.lines().all(|line| line.len() <= 100), "{long}");
    }
}
