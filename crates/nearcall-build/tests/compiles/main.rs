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
    AsyncCall, AsyncDispatcher, AsyncIncoming, AsyncItemReceiver, AsyncItemSender, AsyncObjectRef,
    AsyncReplyStream, AsyncRequestStream, AsyncSend, AsyncSkeleton, BadAddress, CallContext,
    CallOptions, Client, Context, Dispatcher, Idempotency, Incoming, Interface, ItemReceiver,
    ItemSender, Loan, Method, MethodKind, ObjectRef, PendingCall, ReplyStream, RequestStream,
    Responder, ServiceTask, SharedService, Status, SyncDispatcher, SyncSkeleton, TaskRunner,
};

/// Marks generated items, as that of the runtime does.
#[macro_export]
macro_rules! generated_items {
    ($($item:item)*) => {
        $(
            #[allow(
                clippy::all,
                clippy::pedantic,
                dead_code,
                missing_docs,
                unreachable_pub,
                unused_imports,
                unused_qualifications,
                unused_variables,
                reason = "generated"
            )]
            $item
        )*
    };
}

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
