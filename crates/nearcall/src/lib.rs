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
//!
//! [`AsyncCall`]: client::AsyncCall
//! [`AsyncItemReceiver`]: stream::AsyncItemReceiver
//! [`AsyncItemSender`]: stream::AsyncItemSender
//! [`AsyncReplyStream`]: stream::AsyncReplyStream
//! [`AsyncRequestStream`]: stream::AsyncRequestStream
//! [`Blocking`]: service::Blocking
//! [`BlockingPool`]: service::BlockingPool
//! [`ItemReceiver`]: stream::ItemReceiver
//! [`ItemSender`]: stream::ItemSender
//! [`PendingCall`]: client::PendingCall
//! [`ReplyStream`]: stream::ReplyStream
//! [`RequestStream`]: stream::RequestStream
//! [`Responder`]: service::Responder
//! [`ServiceTask`]: service::ServiceTask
#![forbid(unsafe_code)]

// Generated code names the crate, and some of it is in the crate itself.
extern crate self as nearcall;

// The files, in order: a file uses those above it, and its own children. A loop, its connections
// and what they share belong to one thread, by `Rc` and `Cell`; the layers for several threads and
// for async programs stand on the same connection.
//
// - refusals.rs: what a server refuses: counters by kind and user of bounded size, and a limited
//   number of lines for the subscriber of `tracing`; the library itself writes nothing
// - panics.rs, thread_marker.rs: code of users whose panic ends nothing but itself; the mark of
//   types that stay in their thread
// - address.rs, instance.rs, interface.rs, peer.rs, metadata.rs, status.rs, deadline.rs, limits.rs,
//   options.rs with reconnect.rs, trust.rs, interceptor.rs: value types and the traits that users
//   implement; no I/O
// - decoded_size.rs, decoded_size/: what a long message takes in memory, judged by the shapes of
//   its types before it is decoded
// - borrowed.rs, bounded_prost.rs, codec.rs, waking.rs, nesting.rs: parts of a message that lie in
//   the peer's memory, the depth of a message that may contain itself, its marshalling; wakers, and
//   when a task yields; services that run inside each other
// - tasks/: what threads share with a loop: posts (`mailbox.rs`), the end of a call
//   (`cancellation.rs`), what goes with a reply beside its message (`reply_extras.rs`), futures
//   (`service_task.rs`, `executor.rs`)
// - streams/: items of streams that were received and not read, or written and not sent
// - auto.rs, auto/: which mechanism a connection with `via=auto` should be on: samples of calls
//   (`sampler.rs`), costs of the machine (`profile.rs`), the decision as a function of observations
//   (`decide.rs`). No I/O but the load of the machine; `clients/automatic.rs` looks and moves the
//   connection, of a thread or of tasks, to what its host can wait for
// - connection.rs, connection/: one connection: the channel and the call protocol on it. It
//   *returns* events and runs no service. Generic over its host: a loop or a blocking client
//   (`Rc`), or tasks (`Send`, behind a mutex). `activity.rs` is what connections report to their
//   loop, `streaming.rs` and `pumping.rs` move items, `switching.rs` moves it to another channel,
//   `upgrading.rs` from `tcp://` to shared memory, `traffic.rs` counts its messages by size,
//   `call_counts.rs` the calls that a server answers (by method in a table that is made with the
//   object, by connection; one call in 32 is timed), `switch_asks.rs` has a server ask for a
//   switch, and `switch_history.rs` remembers the last eight switches and why
// - services/: local_reply.rs, service_stream.rs, detached_sink.rs, reply_sink.rs: where the reply
//   and the items of a call go, and what may be known of its caller: all that a service sees of a
//   connection
// - services/: responder.rs, context.rs, call_context.rs, dispatcher.rs, streams.rs: the context of
//   a method, deferred replies, items of streams in services, the dispatcher of services of one
//   thread and the table that generated code gives it
// - services/: registry.rs, dispatch.rs: servers and objects of a thread; from an event of a
//   connection to a method and back, for loops and for clients without one
// - services/: async_service.rs, owned_call.rs, blocking.rs, intercepted.rs: the dispatcher of
//   services whose methods return futures, and dispatchers around others: methods in a pool of
//   threads that users share (`blocking/shares.rs`), methods that interceptors see
// - services/: forwarded.rs, library_reply.rs: a call that is handed on as bytes to a library, and
//   the answer of a library to its host
// - library.rs, library/: a service that is written once: the program, the exported library, its
//   calls (`served.rs`), its events for the host's log (`subscriber.rs`), what a host needs of this
//   crate (`hosting.rs`)
// - reactor.rs, reactor/: the event loop: rounds, the one turn loop (`turns.rs`), readiness
//   (`watching.rs`), the order of turns and the time of each user (`sharing.rs`), connections that
//   wake it for nothing (`wakes.rs`), polling of busy connections (`busy.rs`), who may connect
//   (`acceptor.rs`, `census.rs`, `listen_policy.rs`), the files of its sockets (`socket_files.rs`),
//   handshakes (`handshakes.rs`) and where their clients go (`placing.rs`), timers, posts from
//   other threads (`posts.rs`)
// - event_loop.rs, event_loop/: what users hold of a loop
// - async_connection.rs, async_connection/: a connection that tasks of any thread share, and the
//   driver thread that waits for all of them, and for the sockets that clients hunt for
//   (`driver/appearances.rs`)
// - clients.rs, clients/: what callers of all threads are made from (`shared.rs`), and what one
//   thread has of it (`thread.rs`, `core.rs`); where a connection leads (`route.rs`); opening
//   connections, waiting, reconnecting, when to try again (`attempts.rs`), what is watched between
//   two attempts (`hunting.rs`), by tasks or by the client itself (`async_routes/reopening.rs`);
//   attachments to servers (`attach.rs`), and why those are gone (`attach/ending.rs`); the loop in
//   which clients without one wait (`own_loop.rs`)
// - call.rs, call/: references to objects: calls over a connection, calls in the same thread
//   (`local.rs`), calls to another library of the same host (`hosted.rs`), pending calls
//   (`pending.rs`), streams, the forms that wait for room (`backpressure.rs`), calls that are sent
//   again (`resending.rs`), calls of threads that share a connection (`shared.rs`,
//   `async_call/by_threads.rs`)
// - async_call.rs, async_call/: the same as futures
// - dynamic.rs, dynamic/: calls by names and services of bytes, for interfaces that are known by
//   their descriptor sets (`description.rs`)
// - transport.rs: the seam to another crate that carries the calls to `grpc://` addresses: a server
//   in this process takes the place of the one on another machine
// - control.rs: the interface `nearcall.v1.Server`, generated from `proto/nearcall/v1/server.proto`
//   into `control/golden/`
// - servers.rs, servers/: servers of one loop, and of several (`builder.rs`, `running.rs`,
//   `group.rs`); what a listener lets in (`listen_options.rs`, and `listen_policy.rs` beside it);
//   what all loops know of their server (`state.rs`), and the service that every server answers
//   itself (`built_in.rs`; `switch_service.rs` has clients switch, `counting.rs` adds up what all
//   loops have counted, `gathering.rs` collects one answer from all loops, `record_service.rs`
//   streams a recording)
// - recording.rs: the events of a recording that wait to be sent, and their bounds;
//   `connection/recording.rs` adds them
// - names.rs, find.rs: the names in the runtime directory, each server asked what it is; which of
//   them have an interface
mod address;
mod async_call;
mod async_connection;
mod auto;
mod borrowed;
#[doc(hidden)]
pub mod bounded_prost;
mod call;
mod clients;
mod codec;
mod connection;
pub mod control;
mod deadline;
mod decoded_size;
pub mod dynamic;
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
mod recording;
mod refusals;
mod reservation;
mod servers;
mod services;
mod status;
mod streams;
mod tasks;
mod thread_marker;
pub mod transport;
mod trust;
mod waking;

// The names of every program. All others are in the module of what they are for.
pub use address::{Address, BadAddress};
pub use borrowed::detach;
pub use bytes;
pub use bytes::Bytes;
pub use clients::Client;
pub use codec::Message;
pub use deadline::Deadline;
pub use event_loop::EventLoop;
pub use limits::Limits;
pub use nearcall_channel::Mechanism;
pub use options::CallOptions;
pub use prost;
pub use prost_types;
pub use servers::Server;
pub use services::call_context::CallContext;
pub use services::context::Context;
pub use status::{Code, Status};
pub use thread_marker::BelongsToItsThread;

/// The result of a call: what was asked for, or the [`Status`] that says why there is none.
pub type Result<T> = std::result::Result<T, Status>;

/// The side that calls: what a [`Client`] is built from and returns, and what callers are made of.
///
/// A program makes a [`Client`] and the generated caller of an interface, and calls. It comes here
/// for the types of what it keeps: a call that is [under way](client::PendingCall), a
/// [policy](client::ReconnectPolicy), an [attachment](client::Attachment) to a server.
pub mod client {
    pub use crate::async_call::{AsyncCall, AsyncCallWithMetadata, AsyncObjectRef, AsyncSend};
    pub use crate::call::{ObjectRef, PendingCall};
    pub use crate::clients::{
        AttachOptions, Attachment, Cause, ClientBuilder, Notice, NoticeSource,
    };
    pub use crate::find::{Found, FoundObject, find, find_within};
    pub use crate::metadata::{BadMetadata, Metadata, ReplyMetadata};
    pub use crate::reconnect::ReconnectPolicy;
    pub use crate::trust::Trust;
    pub use nearcall_channel::{HandshakeError, Loan, OpenError, Refusal, WaitPolicy};
}

/// What [mechanisms](Mechanism) can do, and what a message over one costs.
///
/// ```
/// use nearcall::Mechanism;
///
/// // A program that waits in `poll` and must survive a peer that is killed.
/// let fit = Mechanism::all().filter(|mechanism| {
///     let capabilities = mechanism.capabilities();
///     capabilities.pollable && capabilities.kill_safe
/// });
/// assert!(fit.collect::<Vec<_>>().contains(&Mechanism::UnixStream));
/// ```
pub mod mechanism {
    pub use nearcall_channel::mechanism::{
        Calls, Capabilities, Copies, Costs, DataPath, MechanismSet,
    };
}

/// The side that listens: what a [`Server`] is built from and returns.
///
/// [`Server::new`] serves in a loop of the program, [`Server::builder`] in threads of its own
/// ([`RunningServer`](server::RunningServer)); [`ListenOptions`](server::ListenOptions) say who may
/// connect to an address, and how.
pub mod server {
    pub use crate::control::Health;
    pub use crate::servers::{
        ListenError, ListenOptions, RegisterError, RunningServer, ServerBuilder, ServerError,
        StartError,
    };
    pub use nearcall_os::signal::TerminationSignals;
}

/// What serves a call: dispatchers and their services, the threads that run methods, replies that
/// come later, services in libraries, and the descriptions of interfaces.
///
/// A service implements the generated trait and knows of its call what its [`Context`] or
/// [`CallContext`] holds. It comes here to reply [later](service::Responder), or to have its
/// methods run in a [pool](service::BlockingPool).
pub mod service {
    pub use crate::interface::{Idempotency, Interface, Method, MethodKind};
    pub use crate::library::{LISTEN_VARIABLE, MakeService, ServiceSetup, run_service};
    pub use crate::metadata::{BadMetadata, Metadata};
    pub use crate::services::async_service::{
        AsyncDispatcher, AsyncIncoming, AsyncMethod, AsyncSkeleton,
    };
    pub use crate::services::blocking::{Blocking, BlockingPool, BlockingPoolBuilder, WhenFull};
    pub use crate::services::dispatcher::{
        Dispatcher, Incoming, SharedService, SyncDispatcher, SyncSkeleton,
    };
    pub use crate::services::forwarded::ForwardedCall;
    pub use crate::services::responder::Responder;
    pub use crate::tasks::cancellation::Cancelled;
    pub use crate::tasks::service_task::{ServiceTask, TaskRunner};
}

/// The handles of streams: callers hold a [`ReplyStream`](stream::ReplyStream) or a
/// [`RequestStream`](stream::RequestStream), services an [`ItemSender`](stream::ItemSender) or an
/// [`ItemReceiver`](stream::ItemReceiver), each also as futures.
pub mod stream {
    pub use crate::async_call::{AsyncReplyStream, AsyncRequestStream};
    pub use crate::call::{ReplyStream, RequestStream};
    pub use crate::services::streams::{
        AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender,
    };
}

/// What can be seen of running programs: [interceptors](observe::Interceptor) of calls, the
/// [connections](observe::ConnectionInfo) of clients and servers and their peers, what a server
/// refused, and the [names](observe::names) of the servers of this user.
pub mod observe {
    pub use crate::connection::call_counts::{CallCounts, CallTimes};
    pub use crate::connection::connection_info::{ConnectionInfo, ThreadInfo};
    pub use crate::connection::switch_history::{SwitchCause, SwitchRecord};
    pub use crate::connection::traffic::{MessageCounts, Traffic};
    pub use crate::interceptor::{CallEnd, CallSide, InterceptedCall, Interceptor};
    pub use crate::names::{NameEntry, NameProblem, names, names_within};
    pub use crate::peer::{Peer, PeerIdentity};
    pub use crate::refusals::{RefusalCount, RefusalKind, RefusedUser};
    pub use nearcall_channel::WakeCounts;
}

/// What [`service_main!`] names.
#[doc(hidden)]
pub mod __library {
    pub use crate::library::ServedLibrary;
    pub use nearcall_os::export_service;
    pub use nearcall_os::library::abi::{HostTable, ObjectFields, RequestFields};
    pub use nearcall_os::library::{Export, HostLink, destroy, dispatch, expose, objects};
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
