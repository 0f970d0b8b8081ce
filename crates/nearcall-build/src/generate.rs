//! Turns descriptors into Rust: messages by prost, services by us. Pure: no files, no environment.
//!
//! Always true: the same descriptors give the same text, whatever else is on the machine. Generated
//! code names `::nearcall` and nothing else outside itself. Not here: reading (`sources.rs`),
//! judging (`model.rs`, `clashes.rs`) and writing (`lib.rs`).

use std::collections::{BTreeMap, BTreeSet};

use prost_build::{Config, Module, ServiceGenerator};
use prost_reflect::DescriptorPool;

use crate::error::BuildError;
use crate::model::{self, Service};
use crate::{caller, clashes, comments, descriptor_set, dispatcher, interface, names, polish};

/// What the author of the build script chooses.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Methods whose service gives the answer later, through a `Responder`: full names with dots
    /// such as `home.v1.Thermostat.Watch`.
    pub answer_later: BTreeSet<String>,
}

/// A file of Rust, not written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedFile {
    /// `home.v1.rs` for the package `home.v1`.
    pub name: String,
    /// The whole file.
    pub text: String,
}

/// Generates one file for each package in `pool` that has messages, enums or services, sorted by
/// name; those of Google and of nearcall itself are part of the runtime.
///
/// The pool should have source information: without it there are no docs, and errors name no line.
///
/// # Errors
///
/// The first thing that an interface must not have; nothing was generated.
pub fn generate(
    pool: &DescriptorPool,
    options: &Options,
) -> Result<Vec<GeneratedFile>, BuildError> {
    let services = model::services(pool, &options.answer_later)?;
    clashes::refuse(pool, &services)?;
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
    // Received ones are slices of the buffer, and sent ones may be loaned: neither is copied.
    config.bytes(["."]);
    config.service_generator(Box::new(Services { pool: pool.clone(), services }));
    let modules = config.generate(requests);
    // It fails for settings that contradict each other, and these are fixed.
    let modules = modules.expect("settings of prost-build that fit together");
    let mut files = Vec::new();
    for (module, text) in modules {
        let name = names::module_file_name(&module);
        let from = sources.get(&name).map(|files| files.join(", ")).unwrap_or_default();
        let text = polish::polished(&from, &text);
        files.push(GeneratedFile { name, text });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// Writes our part into prost's text.
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
        let set = descriptor_set::of_package(&self.pool, package);
        let literal = descriptor_set::literal(&set);
        text.push_str(&format!(
            "/// The files above and what they import, as an encoded `FileDescriptorSet`.\n\
             const {}: &[u8] = {literal};\n",
            interface::DESCRIPTOR_SET
        ));
    }
}
