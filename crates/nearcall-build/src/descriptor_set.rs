//! The descriptor set that generated code embeds, for reflection at run time.
//!
//! # Invariants
//!
//! - The set holds every import, before the file that needs it, except [`BUILT_IN`].
//! - Custom options such as `nearcall.oneway` are kept. prost's typed descriptors lose them, so
//!   the files are copied through reflection.
//! - The set has no source information: no comments and no positions.
//!
//! **Not here:** comments in the docs of generated code (`comments.rs`).

use std::collections::BTreeSet;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, FileDescriptor, ReflectMessage, Value};
use prost_types::{FileDescriptorProto, FileDescriptorSet};

/// The file that describes descriptors. It is left out of the set (11 KB): every reflection library
/// has it built in, because it cannot read a descriptor otherwise.
const BUILT_IN: &str = "google/protobuf/descriptor.proto";

/// Encodes a `FileDescriptorSet` of the files of `package` and of their imports.
pub(crate) fn encode_package(pool: &DescriptorPool, package: &str) -> Vec<u8> {
    encode(pool, pool.files().filter(|file| file.package_name() == package))
}

/// Encodes a `FileDescriptorSet` of `file` and its imports.
pub(crate) fn encode_file(pool: &DescriptorPool, file: &FileDescriptor) -> Vec<u8> {
    encode(pool, [file.clone()])
}

fn encode(pool: &DescriptorPool, files: impl IntoIterator<Item = FileDescriptor>) -> Vec<u8> {
    let mut needed = BTreeSet::new();
    files.into_iter().for_each(|file| add_with_imports(&file, &mut needed));
    let files = pool.files().filter(|file| needed.contains(file.name()));
    let files = files.map(|file| Value::Message(without_source_info(&file))).collect();
    let mut set = FileDescriptorSet::default().transcode_to_dynamic();
    set.set_field_by_name("file", Value::List(files));
    set.encode_to_vec()
}

fn add_with_imports(file: &FileDescriptor, needed: &mut BTreeSet<String>) {
    if file.name() != BUILT_IN && needed.insert(file.name().to_owned()) {
        file.dependencies().for_each(|import| add_with_imports(&import, needed));
    }
}

/// Copies the descriptor of `file`. Comments and positions are most of its bytes.
fn without_source_info(file: &FileDescriptor) -> DynamicMessage {
    let bytes = file.encode_to_vec();
    let descriptor = FileDescriptorProto::default().descriptor();
    let decoded = DynamicMessage::decode(descriptor, bytes.as_slice());
    // The pool encoded these bytes, so they decode.
    let mut message = decoded.expect("a descriptor that the pool has encoded");
    message.clear_field_by_name("source_code_info");
    message
}

/// Renders the bytes as a byte string of Rust, in lines of at most 100 columns.
pub(crate) fn literal(bytes: &[u8]) -> String {
    let mut out = String::from("b\"\\\n");
    let mut columns = 0;
    for (index, byte) in bytes.iter().enumerate() {
        // A continued line drops the blanks at the start of the next one.
        let piece = match byte {
            b' ' if columns == 0 => "\\x20".to_owned(),
            byte => byte.escape_ascii().to_string(),
        };
        columns += piece.len();
        out.push_str(&piece);
        if columns >= LITERAL_COLUMNS && index + 1 < bytes.len() {
            out.push_str("\\\n");
            columns = 0;
        }
    }
    out.push('"');
    out
}

/// A line of the literal is broken at the first byte that reaches this column.
const LITERAL_COLUMNS: usize = 92;

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn a_literal_is_broken_into_lines() {
        assert_eq!(literal(b"a\"\n\xff"), "b\"\\\na\\\"\\n\\xff\"");
        let long = literal(&[b' '; 100]);
        let lines: Vec<&str> = long.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with("\\x20 ") && lines[2].starts_with("\\x20 "), "{long}");
        assert!(lines.iter().all(|line| line.len() < 100));
    }
}
