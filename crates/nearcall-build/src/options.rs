//! The options of the generator, and those of a method: `nearcall/options.proto`, and
//! `idempotency_level` of protobuf itself.
//!
//! The typed descriptors of prost drop extensions; only the descriptor pool keeps them.

use std::collections::BTreeMap;

use prost_reflect::{MethodDescriptor, Value};

/// The language of generated files.
///
/// See [`Builder::language`](crate::Builder::language).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Language {
    /// Messages and services, a file for each package.
    #[default]
    Rust,
    /// Services, a header `NAME.nearcall.hpp` for each `.proto` file. Messages are those of `protoc
    /// --cpp_out`.
    Cpp,
    /// Services, a module `NAME_nearcall.py` for each `.proto` file. Messages are those of `protoc
    /// --python_out`.
    Python,
}

/// The options of the generator. [`Builder`](crate::Builder) has a function for each.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The name of a file that includes all others, each in the module of its package.
    pub include_file: Option<String>,
    /// Other names for Rust, by the full name of a service or method: `home.v1.Thermostat.Scan`.
    pub renames: BTreeMap<String, String>,
    /// Attributes of messages, enums and oneofs: a path as prost matches it, and the attribute.
    pub type_attributes: Vec<(String, String)>,
    /// Attributes of fields, variants of oneofs and values of enums.
    pub field_attributes: Vec<(String, String)>,
    /// Types that are not generated: a path such as `.common.v1`, and its Rust path.
    pub extern_paths: BTreeMap<String, String>,
    /// The maps that are a `BTreeMap`, by paths as prost matches them; all others are a `HashMap`.
    pub btree_map: Vec<String>,
    /// The `bytes` fields that are `nearcall::Bytes`, by paths as prost matches them; all others
    /// are `Vec<u8>`. `None`: every one.
    pub bytes: Option<Vec<String>>,
    /// The parts of services that are generated.
    pub parts: Parts,
}

/// The parts of services that are generated. The default is all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Callers, for clients.
    pub callers: bool,
    /// Traits to implement and dispatchers, for servers.
    pub dispatchers: bool,
    /// The caller that waits; the trait of services of one thread, and its dispatcher.
    pub sync_api: bool,
    /// The caller that returns futures; the trait with `async` methods, and its dispatcher.
    pub async_api: bool,
}

impl Parts {
    /// Returns whether nothing of a service is generated.
    pub(crate) fn is_empty(self) -> bool {
        !(self.callers || self.dispatchers) || !(self.sync_api || self.async_api)
    }
}

impl Default for Parts {
    fn default() -> Self {
        Self { callers: true, dispatchers: true, sync_api: true, async_api: true }
    }
}

/// The options of one method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MethodOptions {
    pub(crate) oneway: bool,
    pub(crate) deadline_ms: Option<u32>,
    pub(crate) idempotency: Idempotency,
}

/// Whether a call may be made again: the variants of `nearcall::service::Idempotency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idempotency {
    Unknown,
    NoSideEffects,
    Idempotent,
}

/// Reads the options of `method`. In a pool without `nearcall/options.proto` none is set.
pub(crate) fn read(method: &MethodDescriptor) -> MethodOptions {
    let options = method.options();
    let value = |name: &str| {
        let extension = method.parent_pool().get_extension_by_name(name)?;
        options.has_extension(&extension).then(|| options.get_extension(&extension).into_owned())
    };
    MethodOptions {
        oneway: value("nearcall.oneway").as_ref().and_then(Value::as_bool).unwrap_or(false),
        deadline_ms: value("nearcall.deadline_ms").as_ref().and_then(Value::as_u32),
        idempotency: match options.get_field_by_name("idempotency_level").as_deref() {
            Some(Value::EnumNumber(1)) => Idempotency::NoSideEffects,
            Some(Value::EnumNumber(2)) => Idempotency::Idempotent,
            _ => Idempotency::Unknown,
        },
    }
}
