//! The model of an interface for the generator: checked services and methods, with Rust names.
//!
//! # Invariants
//!
//! - Every model can be generated. What is demanded beyond correct proto3 is checked here or in
//!   `clashes.rs`.
//!
//! **Not here:** types and comments, which prost resolves (`generate.rs`).
//!
//! **Invariant:** an interface that could not be called correctly is refused before anything is
//! written, with file, line and column. *Checked by* `tests/it/errors.rs`.

use std::collections::BTreeMap;

use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};

use crate::derived_names::{CallerNames, MethodNames, TypeNames};
use crate::error::{BuildError, Place};
use crate::method_id::method_id;
use crate::names;
use crate::options::{self, Idempotency, Parts};

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
    /// The name of the static that describes the service.
    pub(crate) interface: String,
    pub(crate) types: TypeNames,
    pub(crate) caller: CallerNames,
    pub(crate) package: String,
    pub(crate) methods: Vec<Method>,
    pub(crate) parts: Parts,
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
    /// The name of the static that describes the method.
    pub(crate) shouty: String,
    pub(crate) names: MethodNames,
    pub(crate) id: u32,
    pub(crate) kind: Kind,
    pub(crate) deadline_ms: Option<u32>,
    pub(crate) idempotency: Idempotency,
    pub(crate) place: Place,
}

/// The shape of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One request, one reply.
    Unary,
    /// One request, no reply.
    Oneway,
    /// One request, a stream of replies.
    ReplyStream,
    /// A stream of requests, one reply.
    RequestStream,
    /// A stream of requests and a stream of replies.
    BothStreams,
}

/// Other names for Rust, by the full names of methods and services in the `.proto` file.
pub(crate) type Renames = BTreeMap<String, String>;

/// Checks every service of the pool that `is_generated` selects by its full name, in the order of
/// the files.
pub(crate) fn check_services(
    pool: &DescriptorPool,
    renames: &Renames,
    is_generated: impl Fn(&str) -> bool,
) -> Result<Vec<Service>, BuildError> {
    let services = pool.services().filter(|service| is_generated(service.full_name()));
    let services: Result<Vec<Service>, BuildError> =
        services.map(|service| check_service(&service, renames)).collect();
    let services = services?;
    let paths = |service: &Service| {
        let start = service.full_name.clone();
        let methods = service.methods.iter().map(|method| format!("{start}.{}", method.name));
        [vec![start.clone()], methods.collect()].concat()
    };
    let known: Vec<String> = services.iter().flat_map(paths).collect();
    match renames.keys().find(|path| !known.contains(path)) {
        Some(path) => Err(BuildError::UnknownRename { path: path.clone(), known }),
        None => Ok(services),
    }
}

fn check_service(service: &ServiceDescriptor, renames: &Renames) -> Result<Service, BuildError> {
    let methods: Result<Vec<Method>, BuildError> =
        service.methods().map(|method| check_method(&method, renames)).collect();
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
    let base = rename(renames, service.full_name(), service.name())?;
    Ok(Service {
        full_name: service.full_name().to_owned(),
        name: service.name().to_owned(),
        rust_name: names::to_upper_camel(base),
        snake: names::to_plain_snake(base),
        interface: format!("{}_INTERFACE", names::to_shouty(base)),
        types: TypeNames::default(),
        caller: CallerNames::default(),
        package: service.package_name().to_owned(),
        methods,
        parts: Parts::default(),
        place: Place::from_item(&service.parent_file(), service.path()),
    })
}

fn check_method(method: &MethodDescriptor, renames: &Renames) -> Result<Method, BuildError> {
    let service = method.parent_service();
    let options = options::read(method);
    let place = Place::from_item(&service.parent_file(), method.path());
    let name = method.name().to_owned();
    let kind = match (options.oneway, method.is_client_streaming(), method.is_server_streaming()) {
        (true, false, false) => Kind::Oneway,
        (true, ..) => return Err(BuildError::OnewayStreams { place, method: name }),
        (false, false, false) => Kind::Unary,
        (false, false, true) => Kind::ReplyStream,
        (false, true, false) => Kind::RequestStream,
        (false, true, true) => Kind::BothStreams,
    };
    if kind == Kind::Oneway && method.output().full_name() != EMPTY {
        let output = method.output().full_name().to_owned();
        return Err(BuildError::OnewayAnswers { place, method: name, output });
    }
    if options.deadline_ms == Some(0) {
        return Err(BuildError::ZeroDeadline { place, method: name });
    }
    let base = rename(renames, method.full_name(), &name)?;
    Ok(Method {
        rust_name: names::to_snake(base),
        snake: names::to_plain_snake(base),
        shouty: names::to_shouty(base),
        names: MethodNames::default(),
        id: method_id(service.full_name(), &name),
        kind,
        deadline_ms: options.deadline_ms,
        idempotency: options.idempotency,
        place,
        name,
    })
}

/// Returns the name from which the Rust names of `path` are made: the one in the file, or another.
fn rename<'a>(renames: &'a Renames, path: &str, name: &'a str) -> Result<&'a str, BuildError> {
    match renames.get(path) {
        None => Ok(name),
        Some(other) if names::is_proto_name(other) => Ok(other),
        Some(other) => Err(BuildError::BadRename { path: path.to_owned(), name: other.to_owned() }),
    }
}

/// The type that a method without a result returns.
const EMPTY: &str = "google.protobuf.Empty";
