//! Tests through the public interface: golden files, errors, and the builder.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod builder;
mod directory;
mod errors;
mod golden;
