//! Claims the Rust names of messages, enums and oneofs, and of what lies within them.
//!
//! # Invariants
//!
//! - A name is claimed in the Rust module, struct or enum that prost puts it into, by the rules of
//!   prost-build: types, modules, fields, variants, and the accessors of fields.
//! - What claims all its names compiles.
//!
//! **Not here:** the names of services (`clashes.rs`), and types of other crates, which take none.

use std::collections::BTreeSet;

use prost_reflect::{
    Cardinality, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
    OneofDescriptor, ServiceDescriptor,
};

use crate::error::{BuildError, Place};
use crate::extern_paths::ExternPaths;
use crate::names;
use crate::scopes::{Modules, Names};

/// Claims the names of all types of `file` in the module of its package.
pub(crate) fn claim_file(
    file: &FileDescriptor,
    modules: &mut Modules,
    extern_paths: &ExternPaths,
) -> Result<(), BuildError> {
    let path = names::module_path(file.package_name());
    let mut claims = Claims { modules, extern_paths };
    for message in file.messages() {
        claims.claim_message(&message, &path)?;
    }
    for enumeration in file.enums() {
        claims.claim_enum(&enumeration, &path)?;
    }
    let is_generated = |service: &ServiceDescriptor| !extern_paths.contains(service.full_name());
    for service in file.services().filter(is_generated) {
        for method in service.methods() {
            for message in [method.input(), method.output()] {
                let place = || Place::from_item(file, method.path());
                check_google_type(message.full_name(), place, extern_paths)?;
            }
        }
    }
    Ok(())
}

/// Refuses a type of `google.protobuf` that the runtime does not have.
fn check_google_type(
    name: &str,
    place: impl FnOnce() -> Place,
    extern_paths: &ExternPaths,
) -> Result<(), BuildError> {
    let local = local_name(name, "google.protobuf");
    let is_known = GOOGLE_TYPES.contains(&local.split('.').next().unwrap_or_default());
    match extern_paths.is_google(name) && !is_known {
        true => Err(BuildError::UnknownGoogleType { place: place(), name: name.to_owned() }),
        false => Ok(()),
    }
}

struct Claims<'a> {
    modules: &'a mut Modules,
    extern_paths: &'a ExternPaths,
}

impl Claims<'_> {
    /// Claims the names of a message in the module `path`, and of all within the message.
    fn claim_message(
        &mut self,
        message: &MessageDescriptor,
        path: &[String],
    ) -> Result<(), BuildError> {
        // The entries of maps have no type.
        if message.is_map_entry() || self.extern_paths.contains(message.full_name()) {
            return Ok(());
        }
        let place = Place::from_item(&message.parent_file(), message.path());
        let what = format!("message `{}`", local_name(message.full_name(), message.package_name()));
        let scope = self.modules.entry(path.to_vec()).or_default();
        scope.claim(names::to_upper_camel(message.name()), what.clone(), &place)?;
        let oneofs: Vec<OneofDescriptor> =
            message.oneofs().filter(|oneof| !oneof.is_synthetic()).collect();
        let has_types = message.child_messages().any(|child| !child.is_map_entry());
        if has_types || message.child_enums().len() > 0 || !oneofs.is_empty() {
            let module = names::to_snake(message.name());
            scope.claim_module(module.clone(), format!("the module of {what}"), &place)?;
            let inner = [path, &[module]].concat();
            for child in message.child_messages() {
                self.claim_message(&child, &inner)?;
            }
            for child in message.child_enums() {
                self.claim_enum(&child, &inner)?;
            }
            for oneof in &oneofs {
                self.claim_oneof(message, oneof, &inner)?;
            }
        }
        self.claim_fields(message, &oneofs)
    }

    fn claim_enum(
        &mut self,
        enumeration: &EnumDescriptor,
        path: &[String],
    ) -> Result<(), BuildError> {
        if self.extern_paths.contains(enumeration.full_name()) {
            return Ok(());
        }
        let file = enumeration.parent_file();
        let place = Place::from_item(&file, enumeration.path());
        let name = local_name(enumeration.full_name(), enumeration.package_name());
        let rust_name = names::to_upper_camel(enumeration.name());
        let scope = self.modules.entry(path.to_vec()).or_default();
        scope.claim(rust_name.clone(), format!("enum `{name}`"), &place)?;
        let mut variants = Names::default();
        let mut numbers = BTreeSet::new();
        // prost generates the first of several values with one number.
        for value in enumeration.values().filter(|value| numbers.insert(value.number())) {
            let place = Place::from_item(&file, value.path());
            let variant = names::to_variant(&rust_name, value.name());
            variants.claim(variant, format!("value `{}`", value.name()), &place)?;
        }
        Ok(())
    }

    /// Claims the name of the enum of a oneof in the module of its message.
    fn claim_oneof(
        &mut self,
        message: &MessageDescriptor,
        oneof: &OneofDescriptor,
        inner: &[String],
    ) -> Result<(), BuildError> {
        let mut name = names::to_upper_camel(oneof.name());
        let messages = message.child_messages().map(|child| child.name().to_owned());
        let enums = message.child_enums().map(|child| child.name().to_owned());
        if messages.chain(enums).any(|child| names::to_upper_camel(&child) == name) {
            name.push_str("OneOf");
        }
        let file = message.parent_file();
        let place = Place::from_item(&file, oneof.path());
        let what = format!("oneof `{}`", oneof.name());
        self.modules.entry(inner.to_vec()).or_default().claim(name, what, &place)?;
        let mut variants = Names::default();
        for field in oneof.fields() {
            let place = Place::from_item(&file, field.path());
            let what = format!("field `{}`", field.name());
            variants.claim(names::to_upper_camel(field.name()), what, &place)?;
            self.check_type(&field)?;
        }
        Ok(())
    }

    /// Claims the names of the fields of a struct, and those of their accessors.
    fn claim_fields(
        &self,
        message: &MessageDescriptor,
        oneofs: &[OneofDescriptor],
    ) -> Result<(), BuildError> {
        let file = message.parent_file();
        let (mut fields, mut accessors) = (Names::default(), Names::default());
        let in_oneof = |field: &FieldDescriptor| {
            field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic())
        };
        for field in message.fields().filter(|field| !in_oneof(field)) {
            let place = Place::from_item(&file, field.path());
            let what = format!("field `{}`", field.name());
            let name = names::to_snake(field.name());
            self.check_type(&field)?;
            for accessor in list_accessors(&field, &name) {
                if accessor.contains('#') {
                    return Err(BuildError::KeywordMap { place, field: field.name().to_owned() });
                }
                let what = format!("the accessor `{accessor}` of {what}");
                accessors.claim(accessor, what, &place)?;
            }
            fields.claim(name, what, &place)?;
        }
        for oneof in oneofs {
            let place = Place::from_item(&file, oneof.path());
            fields.claim(
                names::to_snake(oneof.name()),
                format!("oneof `{}`", oneof.name()),
                &place,
            )?;
        }
        Ok(())
    }

    fn check_type(&self, field: &FieldDescriptor) -> Result<(), BuildError> {
        let kind = match field.kind() {
            Kind::Message(map) if map.is_map_entry() => map.map_entry_value_field().kind(),
            kind => kind,
        };
        let name = match &kind {
            Kind::Message(message) => message.full_name(),
            Kind::Enum(enumeration) => enumeration.full_name(),
            _ => return Ok(()),
        };
        let place = || Place::from_item(&field.parent_message().parent_file(), field.path());
        check_google_type(name, place, self.extern_paths)
    }
}

/// Returns the functions that prost-derive generates for a field with the Rust name `name`.
fn list_accessors(field: &FieldDescriptor, name: &str) -> Vec<String> {
    let plain = name.strip_prefix("r#").unwrap_or(name);
    let with = |start: &str| format!("{start}_{plain}");
    match field.kind() {
        // The raw name is kept within the longer one, which no compiler accepts.
        Kind::Message(map) if map.is_map_entry() => match map.map_entry_value_field().kind() {
            Kind::Enum(_) => vec![format!("get_{name}"), format!("insert_{name}")],
            _ => Vec::new(),
        },
        Kind::Message(_) => Vec::new(),
        Kind::Enum(_) if field.is_list() => vec![plain.to_owned(), with("push")],
        Kind::Enum(_) => vec![plain.to_owned(), with("set")],
        _ if field.cardinality() == Cardinality::Optional && field.supports_presence() => {
            vec![plain.to_owned()]
        }
        _ => Vec::new(),
    }
}

/// Returns the name without the package.
fn local_name<'a>(full_name: &'a str, package: &str) -> &'a str {
    let rest = full_name.strip_prefix(package).unwrap_or(full_name);
    rest.trim_start_matches('.')
}

/// The types of `google.protobuf` that prost-types 0.14 has, or for which prost uses types of Rust.
const GOOGLE_TYPES: &[&str] = &[
    "Any",
    "Api",
    "BoolValue",
    "BytesValue",
    "DescriptorProto",
    "DoubleValue",
    "Duration",
    "Empty",
    "Enum",
    "EnumDescriptorProto",
    "EnumOptions",
    "EnumValue",
    "EnumValueDescriptorProto",
    "EnumValueOptions",
    "ExtensionRangeOptions",
    "Field",
    "FieldDescriptorProto",
    "FieldMask",
    "FieldOptions",
    "FileDescriptorProto",
    "FileDescriptorSet",
    "FileOptions",
    "FloatValue",
    "GeneratedCodeInfo",
    "Int32Value",
    "Int64Value",
    "ListValue",
    "MessageOptions",
    "Method",
    "MethodDescriptorProto",
    "MethodOptions",
    "Mixin",
    "NullValue",
    "OneofDescriptorProto",
    "OneofOptions",
    "Option",
    "ServiceDescriptorProto",
    "ServiceOptions",
    "SourceCodeInfo",
    "SourceContext",
    "StringValue",
    "Struct",
    "Syntax",
    "Timestamp",
    "Type",
    "UInt32Value",
    "UInt64Value",
    "UninterpretedOption",
    "Value",
    "compiler",
];
