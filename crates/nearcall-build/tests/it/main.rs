//! The crate from the outside: golden files, errors, and what a build script sees.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod builder;
mod errors;
mod folder;
mod golden;
