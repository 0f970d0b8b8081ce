//! Turns descriptors into Rust: prost generates the messages, this crate the services.
//!
//! # Invariants
//!
//! - The same descriptors give the same text on every machine: no files, no environment.
//! - Generated code names `::nearcall` and nothing else outside itself.
//!
//! **Not here:** reading (`sources.rs`), checks (`model.rs`, `clashes.rs`) and writing
//! (`builder.rs`).

use std::collections::{BTreeMap, BTreeSet};

use prost_build::{Config, Module, ServiceGenerator};
use prost_reflect::DescriptorPool;

use crate::error::BuildError;
use crate::model::{self, Service};
use crate::{caller, clashes, comments, descriptor_set, dispatcher, interface, names, polish};

/// The options of the generator.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Methods whose service may reply after the function has returned, through a `Responder`.
    /// Full names with dots, such as `home.v1.Thermostat.Watch`.
    pub answer_later: BTreeSet<String>,
}

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
    let services = model::check_services(pool, &options.answer_later)?;
    clashes::check(pool, &services)?;
    let mut sources: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut requests = Vec::new();
    for file in pool.files() {
        let name = names::file_name(file.package_name());
        sources.entry(name).or_default().push(file.name().to_owned());
        let mut proto = file.file_descriptor_proto().clone();
        comments::prepare(&mut proto);
        requests.push((Module::from_protobuf_package_name(proto.package()), proto));
    }
    let mut config = Config::new();
    config.prost_path("::nearcall::prost").prost_types_path("::nearcall::prost_types");
    // `Bytes`: received fields are slices of the buffer, and sent ones may be loaned.
    config.bytes(["."]);
    config.service_generator(Box::new(Services { pool: pool.clone(), services }));
    let modules = config.generate(requests);
    // It fails only for settings that contradict each other.
    let modules = modules.expect("settings of prost-build that fit together");
    let mut files = Vec::new();
    for (module, text) in modules {
        let name = names::module_file_name(&module);
        let from = sources.get(&name).map(|files| files.join(", ")).unwrap_or_default();
        let text = polish::format_file(&from, &text);
        files.push(GeneratedFile { name, text });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
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
        text.push_str(&interface::text(service, &types));
        text.push_str(&caller::text(service, &types));
        text.push_str(&dispatcher::text(service));
    }

    fn finalize_package(&mut self, package: &str, text: &mut String) {
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
