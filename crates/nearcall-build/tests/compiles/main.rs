//! Compiles the golden files under strict lints, against a runtime of one page, and calls them.
//!
//! The crate calls itself `nearcall`, which is the only name that generated code knows. What it
//! defines is the least that generated code needs; the real runtime is tested in its own crate.
#![deny(warnings, missing_docs, unreachable_pub, unused_qualifications)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

extern crate self as nearcall;

mod runtime;
mod thermostat;

pub use prost;
pub use prost_types;

pub use self::runtime::{
    BadAddress, CallOptions, Client, Context, Dispatcher, Incoming, Interface, Loan, Method,
    ObjectRef, PendingCall, Responder, Status,
};

#[deny(clippy::pedantic)]
#[rustfmt::skip]
#[path = "../golden/names.rs"]
mod names;
#[deny(clippy::pedantic)]
#[rustfmt::skip]
#[path = "../golden/thermostat.rs"]
mod home;
