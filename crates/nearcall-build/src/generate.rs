//! Turns descriptors into Rust: prost generates the messages, this crate the services.
//!
//! # Invariants
//!
//! - The same descriptors give the same text on every machine: no files, no environment.
//! - Generated code names `::nearcall` and nothing else outside itself.
//!
//! **Not here:** reading (`sources.rs`), checks (`model.rs`, `clashes.rs`) and writing
//! (`builder.rs`).
//!
//! **Invariant:** generated text is a function of the descriptors. `generate` reads no file, no
//! clock and no environment. *Checked by* `tests/it/golden.rs`,
//! `the_same_files_give_the_same_text`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use prost_build::{Config, Module, ServiceGenerator};
use prost_reflect::DescriptorPool;

use crate::error::BuildError;
use crate::extern_paths::ExternPaths;
use crate::include_file::{self, Tree};
use crate::model::{self, Service};
use crate::options::{Options, Parts};
use crate::{
    attributes, caller, clashes, comments, descriptor_set, dispatcher, interface, names, nesting,
    panics, polish,
};

/// A generated file that is not written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedFile {
    /// The name of the file: `home.v1.rs` for the package `home.v1`.
    pub name: String,
    /// The content of the file.
    pub text: String,
}

/// Generates one file for each package in `pool` that has messages, enums or services, sorted by
/// name. The packages of Google and of nearcall itself are part of the runtime.
///
/// Without source information in the pool there are no docs, and errors name no line.
///
/// # Errors
///
/// The first part of an interface that cannot be generated.
pub fn generate(
    pool: &DescriptorPool,
    options: &Options,
) -> Result<Vec<GeneratedFile>, BuildError> {
    let extern_paths = ExternPaths::new(&options.extern_paths)?;
    let is_generated = |name: &str| !extern_paths.contains(name);
    let mut services = model::check_services(pool, &options.renames, is_generated)?;
    services.iter_mut().for_each(|service| service.parts = options.parts);
    clashes::assign_names(pool, &mut services, &extern_paths)?;
    attributes::check(pool, &extern_paths, options)?;
    let mut config = configure(options);
    nesting::mark(pool, &mut config);
    let mut packages: BTreeMap<Module, Package> = BTreeMap::new();
    let mut requests = Vec::new();
    for file in pool.files() {
        let module = Module::from_protobuf_package_name(file.package_name());
        let package = packages.entry(module.clone()).or_default();
        // One package at most is generated into a module, but others may have files without types.
        if package.name.is_empty() || extern_paths.leaves_some_of(&file) {
            package.name = file.package_name().to_owned();
        }
        package.sources.push(file.name().to_owned());
        let mut proto = file.file_descriptor_proto().clone();
        let full_name = |name: &str| format!("{}.{name}", file.package_name());
        comments::prepare(&mut proto);
        proto.service.retain(|one| is_generated(full_name(one.name()).trim_start_matches('.')));
        requests.push((module, proto));
    }
    config.service_generator(Box::new(Services { pool: pool.clone(), services }));
    let names = || pool.files().map(|file| file.name().to_owned()).collect::<Vec<_>>().join(", ");
    let written = panics::catch(|| {
        let modules = config.generate(requests);
        let modules = modules.map_err(|error| BuildError::Options { text: error.to_string() })?;
        write_files(modules, &packages, options)
    });
    written.map_err(|text| BuildError::internal(names(), text))?
}

/// A package, and the `.proto` files that it consists of.
#[derive(Default)]
struct Package {
    name: String,
    sources: Vec<String>,
}

/// Formats the text that prost has generated for each module, and adds the file that includes all.
fn write_files(
    modules: HashMap<Module, String>,
    packages: &BTreeMap<Module, Package>,
    options: &Options,
) -> Result<Vec<GeneratedFile>, BuildError> {
    let mut tree = Tree::default();
    for module in modules.keys() {
        tree.insert(module, &packages[module].name);
    }
    // A package that is merged into another one takes along what was merged into it before.
    let mut modules: Vec<(Module, String)> = modules.into_iter().collect();
    modules.sort_by_key(|(module, _)| (Reverse(module.len()), module.clone()));
    let mut files = Vec::new();
    for (module, text) in modules {
        let Package { name, sources } = &packages[&module];
        let mut file = polish::parse(&text);
        if options.include_file.is_some() {
            tree.merge_into(&module, &mut file);
        }
        let text = polish::format(&sources.join(", "), file);
        files.push(GeneratedFile { name: names::file_name(name), text });
    }
    if let Some(name) = &options.include_file {
        let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
        let text = include_file::generate(name, names, &tree)?;
        files.push(GeneratedFile { name: name.clone(), text });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// Sets prost up.
fn configure(options: &Options) -> Config {
    let mut config = Config::new();
    config.prost_path("::nearcall::prost").prost_types_path("::nearcall::prost_types");
    // `Bytes`: received fields are slices of the buffer, and sent ones may be loaned.
    match &options.bytes {
        None => config.bytes(["."]),
        Some(paths) => config.bytes(paths),
    };
    config.btree_map(&options.btree_map);
    for (path, rust_path) in &options.extern_paths {
        config.extern_path(path, rust_path);
    }
    for (path, attribute) in &options.type_attributes {
        config.type_attribute(path, attribute);
    }
    for (path, attribute) in &options.field_attributes {
        config.field_attribute(path, attribute);
    }
    config
}

/// Adds the code of the services to the text of prost.
struct Services {
    pool: DescriptorPool,
    services: Vec<Service>,
}

impl ServiceGenerator for Services {
    fn generate(&mut self, types: prost_build::Service, text: &mut String) {
        let is_it = |one: &&Service| one.package == types.package && one.name == types.proto_name;
        // Both come from the same pool.
        let service = self.services.iter().find(is_it).expect("a service of the pool");
        let parts = service.parts;
        if parts.is_empty() {
            return;
        }
        let (dispatchers, callers) = (parts.dispatchers, parts.callers);
        if dispatchers && parts.sync_api {
            *text += &interface::sync_trait(service, &types);
        }
        if dispatchers && parts.async_api {
            *text += &interface::async_trait(service, &types);
        }
        *text += &interface::statics(service);
        if callers && parts.sync_api {
            *text += &caller::sync_caller(service, &types);
        }
        if callers && parts.async_api {
            *text += &caller::async_caller(service, &types);
        }
        if dispatchers && parts.sync_api {
            *text += &dispatcher::sync_dispatcher(service);
        }
        if dispatchers && parts.async_api {
            *text += &dispatcher::async_dispatcher(service);
        }
    }

    fn finalize_package(&mut self, package: &str, text: &mut String) {
        let parts = self.services.first().map(|service| service.parts);
        if parts.is_none_or(Parts::is_empty) {
            return;
        }
        let set = descriptor_set::encode_package(&self.pool, package);
        let literal = descriptor_set::literal(&set);
        text.push_str(&format!(
            "/// The encoded `FileDescriptorSet` of this package and its imports, without\n\
             /// `google/protobuf/descriptor.proto` and without comments.\n\
             const {}: &[u8] = {literal};\n",
            interface::DESCRIPTOR_SET
        ));
    }
}
