//! Generates Rust from `.proto` files: messages, and for each service traits to implement, callers
//! (client stubs) and dispatchers (server skeletons).
//!
//! A build script gets one file for each package in `OUT_DIR`:
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), nearcall_build::BuildError> {
//!     nearcall_build::Builder::new()
//!         .file("proto/home/v1/thermostat.proto")
//!         .include("proto")
//!         .compile()
//! }
//! ```
//!
//! The program depends on `nearcall` and includes each file in a module with the name of the
//! package:
//!
//! ```text
//! pub mod home { pub mod v1 { nearcall::include_proto!("home.v1"); } }
//! ```
//!
//! or all of them by one file, which has these modules ([`Builder::include_file`]). Packages that
//! import each other need exactly this tree, since they find each other by `super`. A file has the
//! name of its package as it is written, and a module the one that Rust allows: `google.type` is
//! `pub mod google { pub mod r#type { nearcall::include_proto!("google.type"); } }`. The types
//! within a message `shop.v1.Cart` and a package `shop.v1.cart` have one module, which only the one
//! file makes.
//!
//! For `service Thermostat { rpc SetTarget(Temperature) returns (Temperature); }` the file has
//!
//! - `trait Thermostat` with `set_target(&self, &Context, &Temperature) -> Result<Temperature,
//!   Status>`, to implement, and `ThermostatDispatcher::new(service)`, for `Server::register`;
//! - `trait ThermostatAsync` with `async fn set_target(&self, CallContext, Temperature) ->
//!   Result<Temperature, Status>`, which owns context and request, and `ThermostatAsyncDispatcher`;
//! - `ThermostatCaller::new(&client, address)`, which waits, and `ThermostatAsyncCaller`, which
//!   returns futures;
//! - a struct for each message: `string` is `String`, `bytes` is `nearcall::Bytes`
//!   ([`Builder::bytes`]), a map is a `HashMap` ([`Builder::btree_map`]).
//!
//! A method that `returns (stream R)` has one more parameter, `items: ItemSender<R>`
//! (`AsyncItemSender<R>`), and returns `Result<(), Status>`; one that takes `(stream Q)` has
//! `ItemReceiver<Q>` (`AsyncItemReceiver<Q>`) in the place of the request.
//!
//! How a method replies (at once, later, from a pool of threads, by `async`) is chosen where the
//! service is implemented. The functions of the callers are
//!
//! | method | `ThermostatCaller` | `ThermostatAsyncCaller`, awaited |
//! |---|---|---|
//! | `rpc Get(Q) returns (R)` | `get(&q)`: `Result<R>` | `Result<R>` |
//! | | `start_get(&q)`: `PendingCall<R>` | |
//! | with `oneway` | `note(&q)`: `Result<()>` | `Result<()>` |
//! | `returns (stream R)` | `watch(&q)`: `Result<ReplyStream<R>>` | `Result<AsyncReplyStream<R>>` |
//! | `(stream Q)` | `upload()`: `Result<RequestStream<Q, R>>` | `Result<AsyncRequestStream<..>>` |
//! | both | `chat()`: `Result` of a pair of them | `Result` of a pair of them |
//! | none | `new(&client, address)`, `with(options)`, `loan(bytes)` | the same |
//!
//! Deadlines, metadata and what a call does that would have to wait are options of a caller:
//! `thermostat.with(CallOptions::new().deadline(timeout)).get(&q)`. `with` makes another caller of
//! the same object over the same connections, which may be kept.
//!
//! What a program does not need can be left out: [`Builder::callers`], [`Builder::dispatchers`],
//! [`Builder::sync_api`] and [`Builder::async_api`].
//!
//! `cargo doc` of the program documents all of it with the comments of the `.proto` file.
//!
//! # Names that clash
//!
//! Names of the interface stay as they are. A name that is made here and that the interface takes
//! ends in `_`: beside a method `StartScan` the started call of `Scan` is `start_scan_`; beside a
//! method `New` the caller is made by `new_`. The docs of the function say so. [`Builder::rename`]
//! gives a service or method any other name, also where two names of the interface are the same in
//! Rust. Two types, fields or values that are the same in Rust are an error, which names both
//! places.
//!
//! # `.proto` files
//!
//! `protoc` is not needed. `import "nearcall/options.proto"` and `google/protobuf/*.proto` work
//! without an include directory; those of an include directory win. Editions are not supported;
//! proto2 is, apart from extensions of messages, which prost does not keep. A method may have
//! `option (nearcall.oneway) = true;` or `option (nearcall.deadline_ms) = 250;`; its file imports
//! `nearcall/options.proto`.
//!
//! # C++
//!
//! [`Builder::language`] generates callers and bases of services for C++ in the place of Rust, over
//! the messages of `protoc --cpp_out` and `nearcall.hpp`.
//!
//! # Invariants
//!
//! - Generated text depends on the descriptors and the options alone.
//! - A file that would not change is not written, so nothing is compiled again.
//!
//! **Not here:** the runtime (`nearcall`).
//!
//! # Inside
//!
//! `sources.rs` reads, `model.rs`, `clashes.rs` and `type_names.rs` validate, `generate.rs` calls
//! prost and adds the output of `interface.rs`, `caller.rs` and `dispatcher.rs` for each service,
//! `include_file.rs` puts packages into modules, `nesting.rs` finds the messages that may contain
//! themselves, `builder.rs` writes. A dispatcher is a name for `SyncDispatcher` or
//! `AsyncDispatcher` of the runtime with a table of methods. All items are the input of
//! `nearcall::generated_items!`, which allows the lints that generated code trips: an included file
//! has no attributes of its own.
#![forbid(unsafe_code)]

mod attributes;
mod builder;
mod caller;
mod clashes;
mod comments;
mod cpp;
mod derived_names;
mod descriptor_set;
mod dispatcher;
mod docs;
mod error;
mod extern_paths;
mod generate;
mod include_file;
mod interface;
mod method_id;
mod model;
mod names;
mod nesting;
mod options;
mod panics;
mod polish;
mod python;
mod scopes;
mod source_text;
mod sources;
mod type_names;
mod visible_names;

pub use prost_reflect::DescriptorPool;

pub use self::builder::{Builder, Written, WrittenFile};
pub use self::error::{BuildError, Place};
pub use self::generate::{GeneratedFile, generate};
pub use self::options::{Language, Options, Parts};
