//! Services and methods with their names in C++.
//!
//! # Invariants
//!
//! - The methods of a service are in the order of the `.proto` file.
//!
//! **Not here:** how the names are found (`cpp.rs`).

use crate::model::{Method, Service};

/// A method with its types and its name in C++.
pub(super) struct CppMethod<'a> {
    pub(super) method: &'a Method,
    /// Of the function.
    pub(super) name: String,
    /// Of the function that starts it.
    pub(super) start: String,
    /// Of the function whose result a coroutine awaits.
    pub(super) awaitable: String,
    pub(super) input: String,
    pub(super) output: String,
    pub(super) comment: String,
}

/// A service with its names in C++.
pub(super) struct CppService<'a> {
    pub(super) service: &'a Service,
    pub(super) caller: String,
    pub(super) base: String,
    /// Of the function that makes a caller.
    pub(super) create: String,
    pub(super) comment: String,
    /// In the order of the `.proto` file.
    pub(super) methods: Vec<CppMethod<'a>>,
    /// The name of the constant with the descriptors.
    pub(super) descriptor_set: String,
}
