//! Reads the options of a method from the descriptor pool: those of `nearcall/options.proto`, and
//! `idempotency_level` of protobuf itself.
//!
//! The typed descriptors of prost drop extensions; only the pool keeps them.

use prost_reflect::{MethodDescriptor, Value};

/// The options of one method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MethodOptions {
    pub(crate) oneway: bool,
    pub(crate) deadline_ms: Option<u32>,
    pub(crate) idempotency: Idempotency,
}

/// Whether a call may be made again: the variants of `nearcall::Idempotency`.
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
