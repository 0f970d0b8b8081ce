//! What a build script changes of generated types and fields: attributes, and types of fields.
//!
//! # Invariants
//!
//! - Every attribute parses, and its path matches a type or field that is generated: prost ignores
//!   a path that matches nothing, so a slip would go unnoticed. So does that of another type.
//!
//! **Not here:** changing them, which prost does.

use prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use syn::Attribute;
use syn::parse::Parser;

use crate::error::BuildError;
use crate::extern_paths::ExternPaths;
use crate::options::Options;

/// Attributes, each with the path that it belongs to.
type Attributes = [(String, String)];

/// Checks the attributes of types (messages, enums, oneofs) and of fields, and the other types of
/// fields.
pub(crate) fn check(
    pool: &DescriptorPool,
    extern_paths: &ExternPaths,
    options: &Options,
) -> Result<(), BuildError> {
    let Options { type_attributes: of_types, field_attributes: of_fields, .. } = options;
    let messages = pool.all_messages().filter(|one| !extern_paths.contains(one.full_name()));
    let enums = pool.all_enums().filter(|one| !extern_paths.contains(one.full_name()));
    let (messages, enums): (Vec<_>, Vec<_>) = (messages.collect(), enums.collect());
    let types = messages.iter().flat_map(list_types);
    let types = types.chain(enums.iter().map(|one| one.full_name().to_owned()));
    check_one_kind(of_types, "type", &types.collect::<Vec<_>>())?;
    let fields = messages.iter().flat_map(list_fields).chain(enums.iter().flat_map(list_values));
    check_one_kind(of_fields, "field", &fields.collect::<Vec<_>>())?;
    let list = |is_listed: fn(&FieldDescriptor) -> bool| {
        // Those of a oneof, too, have the names that they have in the message.
        let fields = messages.iter().flat_map(MessageDescriptor::fields).filter(is_listed);
        fields.map(|field| field.full_name().to_owned()).collect::<Vec<_>>()
    };
    check_paths("btree_map", &options.btree_map, &list(FieldDescriptor::is_map))?;
    let bytes = list(|field| field.kind() == Kind::Bytes);
    check_paths("bytes", options.bytes.as_deref().unwrap_or(&[]), &bytes)
}

/// Checks that each path of an option matches a field that the option can change.
fn check_paths(option: &'static str, paths: &[String], names: &[String]) -> Result<(), BuildError> {
    match paths.iter().find(|path| *path != "." && !names.iter().any(|name| matches(path, name))) {
        Some(path) => Err(BuildError::UnknownFieldPath { option, path: path.clone() }),
        None => Ok(()),
    }
}

fn check_one_kind(
    attributes: &Attributes,
    kind: &'static str,
    names: &[String],
) -> Result<(), BuildError> {
    for (path, attribute) in attributes {
        if Attribute::parse_outer.parse_str(attribute).is_err() {
            let (path, attribute) = (path.clone(), attribute.clone());
            return Err(BuildError::BadAttribute { path, attribute });
        }
        if !names.iter().any(|name| matches(path, name)) {
            return Err(BuildError::UnknownAttributePath { path: path.clone(), kind });
        }
    }
    Ok(())
}

/// Returns whether prost takes `path` for the item with this full name: `.` is every item, a path
/// with a leading dot is the item or what it lies in, and any other is the end of the name.
fn matches(path: &str, full_name: &str) -> bool {
    match path.strip_prefix('.') {
        Some("") => true,
        Some(start) => {
            let rest = full_name.strip_prefix(start);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
        None => {
            let rest = full_name.strip_suffix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }
    }
}

fn list_types(message: &MessageDescriptor) -> Vec<String> {
    let oneofs = message.oneofs().map(|one| one.full_name().to_owned());
    [message.full_name().to_owned()].into_iter().chain(oneofs).collect()
}

/// A oneof is a field itself, and its fields are variants of the enum that is its type.
fn list_fields(message: &MessageDescriptor) -> Vec<String> {
    let name = |field: FieldDescriptor| match field.containing_oneof() {
        Some(oneof) if !oneof.is_synthetic() => format!("{}.{}", oneof.full_name(), field.name()),
        _ => field.full_name().to_owned(),
    };
    let oneofs = message.oneofs().map(|one| one.full_name().to_owned());
    message.fields().map(name).chain(oneofs).collect()
}

fn list_values(enumeration: &EnumDescriptor) -> Vec<String> {
    let start = enumeration.full_name();
    enumeration.values().map(|value| format!("{start}.{}", value.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_path_matches_as_prost_does() {
        let name = "a.v1.Room.name";
        for path in [".", ".a", ".a.v1", ".a.v1.Room", ".a.v1.Room.name", "name", "Room.name"] {
            assert!(matches(path, name), "{path}");
        }
        for path in ["", ".a.v", "Room", "oom.name", "a.v1.Room", ".Room.name", ".a.v1.Room.n"] {
            assert!(!matches(path, name), "{path}");
        }
    }
}
