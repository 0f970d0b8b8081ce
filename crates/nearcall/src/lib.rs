//! Calls a function in another process at close to the price of calling it in your own.
//!
//! An interface is a `service` of a `.proto` file, from which `nearcall-build` generates a trait, a
//! caller and a dispatcher. A [`Server`] serves objects in an [`EventLoop`]; a [`Client`] calls
//! them, over any mechanism that Linux has (`ADDRESS?via=MECHANISM`), or directly where caller and
//! service share a thread.
//!
//! Everything here belongs to one thread: one loop per thread, no locks. Errors are [`Status`]es
//! with the codes of gRPC.
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
//! - What a peer can make us do is bounded by [`Limits`].
//!
//! **Not here:** code generation (`nearcall-build`), mechanisms (`nearcall-channel`), the protocol
//! (`nearcall-wire`).
#![forbid(unsafe_code)]

mod acceptor;
mod address;
mod async_call;
mod async_connection;
mod async_service;
mod blocking;
mod borrowed;
mod buffer_pool;
mod call;
mod call_context;
mod call_stream;
mod cancellation;
mod census;
mod client;
mod codec;
mod connection;
mod connection_info;
mod context;
mod deadline;
mod detached_sink;
mod dispatch;
mod dispatcher;
pub mod event_loop;
mod executor;
mod instance;
mod intercepted;
mod interceptor;
mod interface;
mod item_outlet;
mod item_queue;
pub mod limits;
mod local_reply;
mod mailbox;
mod metadata;
mod nesting;
mod options;
mod owned_call;
mod peer;
mod poster;
mod reactor;
mod registry;
mod reply_extras;
mod reply_sink;
mod responder;
mod server;
mod service_stream;
mod service_task;
mod status;
mod streams;
mod trust;
mod waking;

pub use address::{Address, BadAddress};
pub use async_call::{
    AsyncCall, AsyncCallWithMetadata, AsyncObjectRef, AsyncReplyStream, AsyncRequestStream,
    AsyncSend,
};
pub use blocking::{Blocking, BlockingPool, BlockingPoolBuilder, WhenFull};
pub use borrowed::detach;
pub use bytes;
pub use bytes::Bytes;
pub use call::{BelongsToItsThread, ObjectRef, PendingCall, ReplyStream, RequestStream};
pub use call_context::CallContext;
pub use cancellation::Cancelled;
pub use client::{Client, ClientBuilder, ReconnectPolicy};
pub use codec::Message;
pub use connection_info::{ConnectionInfo, ThreadInfo};
pub use context::Context;
pub use deadline::Deadline;
pub use dispatcher::{Dispatcher, Incoming};
pub use event_loop::{Event, EventLoop, Stopper};
pub use interceptor::{CallEnd, CallSide, InterceptedCall, Interceptor};
pub use interface::{Interface, Method, MethodKind};
pub use limits::Limits;
pub use metadata::{BadMetadata, Metadata, ReplyMetadata};
pub use nearcall_channel::{HandshakeError, Loan, Mechanism, WaitPolicy};
pub use options::CallOptions;
pub use peer::{Peer, PeerIdentity};
pub use poster::{PostError, Poster};
pub use prost;
pub use prost_types;
pub use responder::Responder;
pub use server::{
    ListenError, RegisterError, RunningServer, Server, ServerBuilder, ServerError, StartError,
};
pub use service_task::{ServiceTask, TaskRunner};
pub use status::{Code, Status};
pub use streams::{AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender};
pub use trust::Trust;

/// Includes the file that `nearcall-build` has generated for a package, or the one that includes
/// all packages (`Builder::include_file`), in a crate with a build script.
///
/// The name is that of the file without `.rs`. Put a package into the modules of its name, so that
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
