//! Calls a function in another process at close to the price of calling it in your own.
//!
//! An interface is a `service` of a `.proto` file, from which `nearcall-build` generates a trait, a
//! caller and a dispatcher. A [`Server`] serves objects in an [`EventLoop`]; a [`Client`] calls
//! them, over any mechanism that Linux has (`ADDRESS?via=MECHANISM`), or directly where caller and
//! service share a thread.
//!
//! Errors are [`Status`]es with the codes of gRPC. Three ways lead beyond one thread and one reply:
//!
//! - **Threads.** A [`Client`] and its callers may be cloned and used by any thread: each has
//!   connections of its own, so calls take no lock. A loop and what it serves belong to one thread;
//!   [`Server::builder`] runs several loops over one service, [`Blocking`] has a [`BlockingPool`]
//!   run methods that block, and a [`Responder`] answers from any thread. What stays in its thread
//!   holds a [`BelongsToItsThread`], which says what to use instead.
//! - **Async.** The generated `ThermostatAsyncCaller` makes calls as futures ([`AsyncCall`]), for
//!   any executor; dropping one cancels its call. A service implements `ThermostatAsync`, whose
//!   futures ([`ServiceTask`]) run in the loop, or in a runtime by `.spawn_on(..)`.
//! - **Streams.** Where a method has `stream` in `.proto`, its caller gets a [`ReplyStream`] or a
//!   [`RequestStream`] ([`AsyncReplyStream`], [`AsyncRequestStream`]), and its service an
//!   [`ItemSender`] or an [`ItemReceiver`] ([`AsyncItemSender`], [`AsyncItemReceiver`]). A sender
//!   waits while its receiver has [`Limits::stream_window_bytes`] to read.
//!
//! # A tour
//!
//! A build script has generated `Thermostat` (the trait), `ThermostatDispatcher` and
//! `ThermostatCaller` from a service of that name. The service is implemented,
//!
//! ```
//! # mod home {
//! #     include!(concat!(
//! #         env!("CARGO_MANIFEST_DIR"),
//! #         "/../nearcall-build/tests/golden/thermostat.rs"
//! #     ));
//! # }
//! # use home::*;
//! use nearcall::{Client, Context, EventLoop, Server, Status};
//!
//! struct Room {
//!     wanted: std::cell::Cell<f64>,
//! }
//!
//! impl Thermostat for Room {
//!     fn set_target(
//!         &self,
//!         _context: &Context<'_>,
//!         request: &SetTargetRequest,
//!     ) -> Result<SetTargetReply, Status> {
//!         if request.celsius > 30.0 {
//!             return Err(Status::out_of_range("this is no sauna"));
//!         }
//!         Ok(SetTargetReply { celsius_before: self.wanted.replace(request.celsius) })
//!     }
//!     // ... and so on.
//! #   fn note(&self, _: &Context<'_>, _: &NoteRequest) {}
//! #   fn watch(&self, _: &Context<'_>, _: &WatchRequest) -> Result<WatchReply, Status> {
//! #       Ok(WatchReply::default())
//! #   }
//! #   fn reset(&self, _: &Context<'_>, _: &()) -> Result<(), Status> { Ok(()) }
//! }
//!
//! // ... registered in a server that listens somewhere,
//! let event_loop = EventLoop::new()?;
//! let server = Server::new(&event_loop);
//! server.register(ThermostatDispatcher::new(Room { wanted: 18.0.into() }))?;
//! server.listen("inproc:room")?; // or "room", "unix:/run/room.sock", "tcp://127.0.0.1:4000"
//!
//! // ... and called. In another process this is the same, with `Client::new()`.
//! let client = Client::in_loop(&event_loop);
//! let thermostat = ThermostatCaller::new(&client, "inproc:room")?;
//! let reply = thermostat.set_target(&SetTargetRequest { celsius: 21.5 })?;
//! assert_eq!(reply.celsius_before, 18.0);
//!
//! let refused = thermostat.set_target(&SetTargetRequest { celsius: 90.0 }).unwrap_err();
//! assert_eq!(refused.to_string(), "OUT_OF_RANGE: this is no sauna");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A server serves while its loop runs: [`EventLoop::run`], or [`EventLoop::next`], if you have
//!   your own timers, signals or descriptors.
//! - [`CallOptions`] set how one call is made; one that is waited for later is a [`PendingCall`].
//! - A [`Context`] holds what a service may know of its call; a [`Responder`] answers later.
//! - Where a server is and how messages travel is one text: an [`Address`].
//! - What a peer can make us do is bounded by [`Limits`]; what a server refuses is counted and
//!   logged ([`Server::refusals`]).
//!
//! **Not here:** code generation (`nearcall-build`), mechanisms (`nearcall-channel`), the protocol
//! (`nearcall-wire`).
#![forbid(unsafe_code)]

// Generated code names the crate, and some of it is in the crate itself.
extern crate self as nearcall;

mod address;
mod async_call;
mod async_connection;
mod auto;
mod borrowed;
#[doc(hidden)]
pub mod bounded_prost;
mod call;
mod client;
mod codec;
mod connection;
pub mod control;
mod deadline;
mod decoded_size;
pub mod event_loop;
mod find;
mod instance;
mod interceptor;
mod interface;
mod library;
pub mod limits;
mod listen_policy;
mod metadata;
mod names;
mod nesting;
mod options;
mod panics;
mod peer;
mod reactor;
mod reconnect;
mod refusals;
mod reservation;
mod server;
mod service;
mod status;
mod stream;
mod tasks;
mod thread_marker;
mod trust;
mod waking;

pub use address::{Address, BadAddress};
pub use async_call::{
    AsyncCall, AsyncCallWithMetadata, AsyncObjectRef, AsyncReplyStream, AsyncRequestStream,
    AsyncSend,
};
pub use borrowed::detach;
pub use bytes;
pub use bytes::Bytes;
pub use call::{ObjectRef, PendingCall, ReplyStream, RequestStream};
pub use client::{AttachOptions, Attachment, Cause, Client, ClientBuilder, Notice, NoticeSource};
pub use codec::Message;
pub use connection::connection_info::{ConnectionInfo, ThreadInfo};
pub use connection::switch_history::{SwitchCause, SwitchRecord};
pub use connection::traffic::{MessageCounts, Traffic};
pub use control::Health;
pub use deadline::Deadline;
pub use event_loop::poster::{PostError, Poster};
pub use event_loop::{Event, EventLoop, Stopper};
pub use find::{Found, FoundObject, find, find_within};
pub use interceptor::{CallEnd, CallSide, InterceptedCall, Interceptor};
pub use interface::{Idempotency, Interface, Method, MethodKind};
pub use library::{LISTEN_VARIABLE, MakeService, ServiceSetup, run_service};
pub use limits::Limits;
pub use metadata::{BadMetadata, Metadata, ReplyMetadata};
pub use names::{NameEntry, NameProblem, names, names_within};
pub use nearcall_channel::{HandshakeError, Loan, Mechanism, MechanismSet, WaitPolicy};
pub use nearcall_os::signal::TerminationSignals;
pub use options::CallOptions;
pub use peer::{Peer, PeerIdentity};
pub use prost;
pub use prost_types;
pub use reconnect::ReconnectPolicy;
pub use refusals::{RefusalCount, RefusalKind, RefusedUser};
pub use server::{
    ListenError, ListenOptions, RegisterError, RunningServer, Server, ServerBuilder, ServerError,
    StartError,
};
pub use service::async_service::{AsyncDispatcher, AsyncIncoming, AsyncMethod, AsyncSkeleton};
pub use service::blocking::{Blocking, BlockingPool, BlockingPoolBuilder, WhenFull};
pub use service::call_context::CallContext;
pub use service::context::Context;
pub use service::dispatcher::{Dispatcher, Incoming, SharedService, SyncDispatcher, SyncSkeleton};
pub use service::forwarded::ForwardedCall;
pub use service::responder::Responder;
pub use service::streams::{AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender};
pub use status::{Code, Status};
pub use tasks::cancellation::Cancelled;
pub use tasks::service_task::{ServiceTask, TaskRunner};
pub use thread_marker::BelongsToItsThread;

/// The result of a call: what was asked for, or the [`Status`] that says why there is none.
pub type Result<T> = std::result::Result<T, Status>;

pub use trust::Trust;

/// What [`service_main!`] names.
#[doc(hidden)]
pub mod __library {
    pub use crate::library::ServedLibrary;
    pub use nearcall_os::export_service;
    pub use nearcall_os::library::{Export, HostLink};
}

/// What a host of libraries needs.
#[doc(hidden)]
pub mod __host {
    pub use crate::library::hosting::{ThreadLoop, log};
}

/// Includes the file that `nearcall-build` has generated for a package, or the one that includes
/// all packages (`Builder::include_file`), in a crate with a build script.
///
/// The name is that of the file without `.rs`: the package as it is written, such as `google.type`,
/// whose module is `r#type`. Put a package into the modules of its name, so that
/// other packages find its types:
///
/// ```ignore
/// pub mod home {
///     pub mod v1 {
///         nearcall::include_proto!("home.v1");
///     }
/// }
/// ```
#[macro_export]
macro_rules! include_proto {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
    };
}

/// Marks the items of a generated file, so that the lints of the program do not fire in them: a
/// program rarely uses all of a file, and its style follows the `.proto` file.
///
/// An included file cannot have attributes of its own.
#[doc(hidden)]
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
