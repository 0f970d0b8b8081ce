//! The model of an interface for the generator: checked services and methods, with Rust names.
//!
//! # Invariants
//!
//! - Every model can be generated. What is demanded beyond correct proto3 is checked here or in
//!   `clashes.rs`.
//!
//! **Not here:** types and comments, which prost resolves (`generate.rs`).

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};

use crate::error::{BuildError, Place};
use crate::method_id::method_id;
use crate::{names, options};

/// A service that can be generated.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    /// The name with the package: `home.v1.Thermostat`.
    pub(crate) full_name: String,
    /// The name in the file: `Thermostat`.
    pub(crate) name: String,
    /// The name of the trait.
    pub(crate) rust_name: String,
    /// The stem of derived names: `thermostat`.
    pub(crate) snake: String,
    pub(crate) package: String,
    pub(crate) methods: Vec<Method>,
    pub(crate) place: Place,
}

/// A method that can be generated.
#[derive(Debug, Clone)]
pub(crate) struct Method {
    /// The name in the file: `SetTarget`.
    pub(crate) name: String,
    /// The name of the function, escaped if it is a keyword.
    pub(crate) rust_name: String,
    /// The stem of derived names: the same without the escape.
    pub(crate) snake: String,
    pub(crate) id: u32,
    pub(crate) kind: Kind,
    pub(crate) deadline_ms: Option<u32>,
    pub(crate) place: Place,
}

/// The way in which a method replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The function returns the reply.
    Answer,
    /// The service replies through a `Responder`, possibly later.
    AnswerLater,
    /// There is no reply.
    Oneway,
}

/// Checks every service of the pool, in the order of the files. `answer_later` holds full method
/// names with dots: `home.v1.Thermostat.Watch`.
pub(crate) fn check_services(
    pool: &DescriptorPool,
    answer_later: &BTreeSet<String>,
) -> Result<Vec<Service>, BuildError> {
    let services: Result<Vec<Service>, BuildError> =
        pool.services().map(|service| check_service(&service, answer_later)).collect();
    let services = services?;
    let paths = |service: &Service| {
        let start = service.full_name.clone();
        let paths = service.methods.iter().map(move |method| format!("{start}.{}", method.name));
        paths.collect::<Vec<_>>()
    };
    let known: Vec<String> = services.iter().flat_map(paths).collect();
    match answer_later.iter().find(|path| !known.contains(path)) {
        Some(path) => Err(BuildError::UnknownMethod { path: path.clone(), known }),
        None => Ok(services),
    }
}

fn check_service(
    service: &ServiceDescriptor,
    answer_later: &BTreeSet<String>,
) -> Result<Service, BuildError> {
    let methods: Result<Vec<Method>, BuildError> =
        service.methods().map(|method| check_method(&method, answer_later)).collect();
    let methods = methods?;
    let mut by_id: BTreeMap<u32, &Method> = BTreeMap::new();
    for method in &methods {
        if let Some(first) = by_id.insert(method.id, method) {
            return Err(BuildError::IdCollision {
                place: method.place.clone(),
                first: first.name.clone(),
                second: method.name.clone(),
                id: method.id,
            });
        }
    }
    Ok(Service {
        full_name: service.full_name().to_owned(),
        name: service.name().to_owned(),
        rust_name: names::to_upper_camel(service.name()),
        snake: names::to_plain_snake(service.name()),
        package: service.package_name().to_owned(),
        methods,
        place: Place::from_item(&service.parent_file(), service.path()),
    })
}

fn check_method(
    method: &MethodDescriptor,
    answer_later: &BTreeSet<String>,
) -> Result<Method, BuildError> {
    let service = method.parent_service();
    let options = options::read(method);
    let place = Place::from_item(&service.parent_file(), method.path());
    let name = method.name().to_owned();
    if method.is_client_streaming() || method.is_server_streaming() {
        return Err(BuildError::Streaming { place, method: name });
    }
    if options.oneway && method.output().full_name() != EMPTY {
        let output = method.output().full_name().to_owned();
        return Err(BuildError::OnewayAnswers { place, method: name, output });
    }
    if options.deadline_ms == Some(0) {
        return Err(BuildError::ZeroDeadline { place, method: name });
    }
    let kind = match (options.oneway, answer_later.contains(method.full_name())) {
        (true, true) => return Err(BuildError::OnewayLater { place, method: name }),
        (true, false) => Kind::Oneway,
        (false, true) => Kind::AnswerLater,
        (false, false) => Kind::Answer,
    };
    Ok(Method {
        rust_name: names::to_snake(&name),
        snake: names::to_plain_snake(&name),
        id: method_id(service.full_name(), &name),
        kind,
        deadline_ms: options.deadline_ms,
        place,
        name,
    })
}

/// The type that a method without a result returns.
const EMPTY: &str = "google.protobuf.Empty";
