//! Reads the method options of `nearcall/options.proto` from the descriptor pool.
//!
//! The typed descriptors of prost drop extensions; only the pool keeps them.

use prost_reflect::{MethodDescriptor, Value};

/// The nearcall options of one method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MethodOptions {
    pub(crate) oneway: bool,
    pub(crate) deadline_ms: Option<u32>,
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
    }
}
