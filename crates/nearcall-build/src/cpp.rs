//! Turns descriptors into C++: for each `.proto` file a header with a caller and a base of services
//! for each of its services. Messages are those of `protoc --cpp_out`, which it includes.
//!
//! # Invariants
//!
//! - The same descriptors give the same text on every machine: no files, no environment.
//! - A header names `nearcall.hpp`, the header of protoc, and nothing else outside itself; one that
//!   is compiled with another version of the former says so.
//!
//! **Not here:** the names of C++ (`names.rs`), the classes (`caller.rs`, `service.rs`).

mod caller;
mod model;
mod names;
mod service;
mod text;

use std::path::{Component, Path};

use prost_reflect::{DescriptorPool, FileDescriptor, MethodDescriptor};

use self::model::{CppMethod, CppService};
use crate::descriptor_set;
use crate::error::BuildError;
use crate::extern_paths::ExternPaths;
use crate::generate::GeneratedFile;
use crate::model::{self as interface, Service};
use crate::options::{Options, Parts};

/// The version of `nearcall.h` that the generated code is for.
const ABI: u32 = 1;
/// The version of `nearcall.hpp`.
const CPP_VERSION: u32 = 1;

/// Generates a header for each of the files with these names, sorted by name.
///
/// # Errors
///
/// The first part of an interface, or the first option, that cannot be used.
pub(crate) fn generate(
    pool: &DescriptorPool,
    requested: &[String],
    options: &Options,
) -> Result<Vec<GeneratedFile>, BuildError> {
    check_options(options)?;
    let extern_paths = ExternPaths::new(&options.extern_paths)?;
    let is_generated = |name: &str| !extern_paths.contains(name);
    let services = interface::check_services(pool, &options.renames, is_generated)?;
    let files = pool.files().filter(|file| requested.iter().any(|name| name == file.name()));
    let files = files.map(|file| generate_file(pool, &file, &services, options.parts));
    let mut files = files.collect::<Result<Vec<_>, _>>()?;
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// Refuses what only Rust has.
fn check_options(options: &Options) -> Result<(), BuildError> {
    let Options { parts, .. } = options;
    let of_rust = [
        ("include_file", options.include_file.is_some()),
        ("type_attribute", !options.type_attributes.is_empty()),
        ("field_attribute", !options.field_attributes.is_empty()),
        ("extern_path", !options.extern_paths.is_empty()),
        ("btree_map", !options.btree_map.is_empty()),
        ("bytes", options.bytes.is_some()),
        ("sync_api", !parts.sync_api),
        ("async_api", !parts.async_api),
    ];
    match of_rust.into_iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((name, _)) => {
            let text = format!("`{name}` is for Rust, and C++ is generated; leave it out");
            Err(BuildError::Options { text })
        }
    }
}

fn generate_file(
    pool: &DescriptorPool,
    file: &FileDescriptor,
    services: &[Service],
    parts: Parts,
) -> Result<GeneratedFile, BuildError> {
    let stem = stem(file)?;
    let mut taken = names::taken(pool, file.package_name());
    let set = format!("kDescriptorSetOf_{}", names::identifier(&stem));
    let mut classes = String::new();
    for descriptor in file.services() {
        let service = services.iter().find(|one| one.full_name == descriptor.full_name());
        // Both come from the same pool; what nearcall itself has is not generated.
        let Some(service) = service else { continue };
        let [caller, base] = taken.derive([
            format!("{}Caller", service.rust_name),
            format!("{}Service", service.rust_name),
        ]);
        let (methods, create) = name_methods(service, descriptor.methods())?;
        let service = CppService {
            service,
            caller: caller.to_string(),
            base: base.to_string(),
            create,
            comment: text::comment(file, descriptor.path()),
            methods,
            descriptor_set: set.clone(),
        };
        if parts.callers {
            classes += &caller::generate(&service);
        }
        if parts.dispatchers {
            classes += &service::generate(&service);
        }
    }
    let has_set = parts.dispatchers && !classes.is_empty();
    let set = match has_set {
        true => text::descriptor_set(&set, &descriptor_set::encode_file(pool, file)),
        false => String::new(),
    };
    let body = format!("{set}{classes}");
    let text = head(file, &stem) + &text::in_namespace(&names::namespace(file), &body);
    Ok(GeneratedFile { name: format!("{stem}.nearcall.hpp"), text })
}

/// Gives every method its functions: names of the interface first, then those that are derived.
fn name_methods<'a>(
    service: &'a Service,
    descriptors: impl Iterator<Item = MethodDescriptor>,
) -> Result<(Vec<CppMethod<'a>>, String), BuildError> {
    let mut taken = crate::derived_names::Taken::default();
    let mut named: Vec<CppMethod<'a>> = Vec::new();
    for (method, descriptor) in service.methods.iter().zip(descriptors) {
        let name = names::function(&method.snake);
        let refuse = |reason: String| BuildError::CppName {
            place: method.place.clone(),
            what: format!("method `{}`", method.name),
            reason,
        };
        if method.snake.is_empty() {
            return Err(refuse("has no letter or digit to make a C++ name from".to_owned()));
        }
        if let Some(first) = named.iter().find(|one| one.name == name) {
            let reason =
                format!("and method `{}` need the same C++ name `{name}`", first.method.name);
            return Err(refuse(reason));
        }
        taken.insert(&name);
        named.push(CppMethod {
            method,
            name,
            start: String::new(),
            awaitable: String::new(),
            input: names::class(&descriptor.input()),
            output: names::class(&descriptor.output()),
            comment: text::comment(&descriptor.parent_service().parent_file(), descriptor.path()),
        });
    }
    for one in &mut named {
        let snake = &one.method.snake;
        let names = taken.derive([format!("start_{snake}"), format!("async_{snake}")]);
        [one.start, one.awaitable] = names.map(|name| name.to_string());
    }
    let [create] = taken.derive(["create".to_owned()]);
    Ok((named, create.to_string()))
}

/// The name of a `.proto` file without its extension, which is a path below the output directory.
fn stem(file: &FileDescriptor) -> Result<String, BuildError> {
    let name = file.name();
    let is_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let is_text = !name.chars().any(|char| char.is_control() || matches!(char, '"' | '\\'));
    if !is_below || !is_text {
        return Err(BuildError::DescriptorSet {
            from: name.to_owned(),
            text: "its name is not a path below a directory".to_owned(),
        });
    }
    Ok(name.strip_suffix(".proto").unwrap_or(name).to_owned())
}

fn head(file: &FileDescriptor, stem: &str) -> String {
    format!(
        "// Generated by nearcall-build from {}, do not edit.\n\
         \n\
         #pragma once\n\
         \n\
         #include <cstddef>\n\
         #include <string>\n\
         #include <string_view>\n\
         #include <utility>\n\
         \n\
         #include \"{stem}.pb.h\"\n\
         #include \"nearcall.hpp\"\n\
         \n\
         static_assert(NEARCALL_ABI == {ABI} && NEARCALL_CPP_VERSION == {CPP_VERSION},\n\
         {:14}\"this file is for another version of nearcall.hpp: generate it again by the \"\n\
         {:14}\"`nearcall gen --lang cpp` of the version that is installed\");\n",
        file.name(),
        "",
        ""
    )
}
