//! `libnearcall`: calls and services for C, and for languages that call C.
//!
//! `include/nearcall.h` is generated from here, with the rules for whoever calls.
//! **Invariants:** no panic crosses the border; a handle is a number, so that one that is null, was
//! freed or is another library's is an error; every struct that may grow has its size first, and
//! what its owner does not know of is zero.
//! **Not here:** calls themselves (`nearcall::dynamic`), messages (the caller's protobuf library).
#![allow(
    unsafe_code,
    reason = "this crate is the border with C: each function relies on the rules in the header"
)]
#![allow(non_camel_case_types, reason = "the names of types in C")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the rules for pointers are the same for all functions, and stand in the header"
)]

pub mod border;
pub mod caller;
pub mod client;
pub mod counters;
pub mod event_loop;
mod handles;
pub mod library;
pub mod loans;
pub mod metadata;
mod notified;
pub mod pending;
mod prepared;
pub mod results;
pub mod server;
pub mod service;
pub mod status;
pub mod streams;
pub mod types;

/// The version of this binary interface. What creates something is given that of the header.
pub const NEARCALL_ABI: u32 = 1;

/// Returns the version of the binary interface of this library.
#[unsafe(no_mangle)]
pub extern "C" fn nearcall_abi() -> u32 {
    NEARCALL_ABI
}
