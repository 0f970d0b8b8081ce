//! The descriptors that are embedded in generated code, for those who ask at run time.
//!
//! Always true: complete (every import is there, before the file that needs it), with our options,
//! and without the places of items that have no comment. Re-encoding prost's typed descriptors
//! would lose the options, so this goes through reflection.

use std::collections::BTreeSet;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, FileDescriptor, ReflectMessage, Value};
use prost_types::{FileDescriptorProto, FileDescriptorSet};

/// The encoded `FileDescriptorSet` of the files of `package` and of what they import.
pub(crate) fn of_package(pool: &DescriptorPool, package: &str) -> Vec<u8> {
    let mut needed = BTreeSet::new();
    for file in pool.files().filter(|file| file.package_name() == package) {
        need(&file, &mut needed);
    }
    let files = pool.files().filter(|file| needed.contains(file.name()));
    let files = files.map(|file| Value::Message(slim(&file))).collect();
    let mut set = FileDescriptorSet::default().transcode_to_dynamic();
    set.set_field_by_name("file", Value::List(files));
    set.encode_to_vec()
}

fn need(file: &FileDescriptor, needed: &mut BTreeSet<String>) {
    if needed.insert(file.name().to_owned()) {
        file.dependencies().for_each(|import| need(&import, needed));
    }
}

/// The file with the comments and without the other places, which are most of its bytes.
fn slim(file: &FileDescriptor) -> DynamicMessage {
    let bytes = file.encode_to_vec();
    let descriptor = FileDescriptorProto::default().descriptor();
    let decoded = DynamicMessage::decode(descriptor, bytes.as_slice());
    // What the pool has encoded itself is a correct message.
    let mut message = decoded.expect("a descriptor that the pool has encoded");
    if let Some(mut info) = file.file_descriptor_proto().source_code_info.clone() {
        info.location.retain(|location| {
            location.leading_comments.is_some() || location.trailing_comments.is_some()
        });
        message.set_field_by_name("source_code_info", Value::Message(info.transcode_to_dynamic()));
    }
    message
}

/// The bytes as a byte string of Rust, in lines that fit a screen.
pub(crate) fn literal(bytes: &[u8]) -> String {
    let mut out = String::from("b\"\\\n");
    let mut columns = 0;
    for (index, byte) in bytes.iter().enumerate() {
        // A line that is continued swallows blanks at the start of the next one.
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

/// Where a line of the literal ends at the latest, but for the last escape.
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
