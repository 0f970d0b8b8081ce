//! Compiles the golden files under strict lints against a stub of the runtime, and calls them.
//!
//! The crate is visible as `nearcall`, the only external name in generated code. The stub defines
//! the least that generated code needs. Not here: tests of the real runtime (`nearcall`).
#![deny(warnings, missing_docs, unreachable_pub, unused_qualifications)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

extern crate self as nearcall;

mod async_services;
mod packages;
mod runtime;
mod scanner;
mod thermostat;

pub use prost;
pub use prost_types;

pub use self::runtime::{
    AsyncCall, AsyncItemReceiver, AsyncItemSender, AsyncObjectRef, AsyncReplyStream,
    AsyncRequestStream, AsyncSend, BadAddress, CallContext, CallOptions, Client, Context,
    Dispatcher, Idempotency, Incoming, Interface, ItemReceiver, ItemSender, Loan, Method,
    MethodKind, ObjectRef, PendingCall, ReplyStream, RequestStream, Responder, ServiceTask, Status,
    TaskRunner,
};

#[deny(clippy::pedantic)]
#[rustfmt::skip]
#[path = "../golden/names.rs"]
mod names;
#[deny(clippy::pedantic)]
#[rustfmt::skip]
#[path = "../golden/scanner.rs"]
mod scan;
#[deny(clippy::pedantic)]
#[rustfmt::skip]
#[path = "../golden/thermostat.rs"]
mod home;
