//! Generates Rust from `.proto` files: messages, and a trait, a caller (client stub) and a
//! dispatcher (server skeleton) for each service.
//!
//! A build script gets one file for each package in `OUT_DIR`:
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), nearcall_build::BuildError> {
//!     nearcall_build::Builder::new()
//!         .file("proto/home/v1/thermostat.proto")
//!         .include("proto")
//!         .answer_later("home.v1.Thermostat.Watch")
//!         .compile()
//! }
//! ```
//!
//! The program depends on `nearcall` and includes each file in a module with the name of the
//! package:
//!
//! ```text
//! pub mod home { pub mod v1 { include!(concat!(env!("OUT_DIR"), "/home.v1.rs")); } }
//! ```
//!
//! For `service Thermostat { rpc SetTarget(Temperature) returns (Temperature); }` the file has
//!
//! - `trait Thermostat` with `set_target(&self, &Context, &Temperature) -> Result<Temperature,
//!   Status>`, to implement. A method that is named by [`Builder::answer_later`] gets a
//!   `Responder<Temperature>` instead of returning, and may reply from a timer or another call;
//! - `ThermostatDispatcher::new(service)`, for `Server::register`;
//! - `ThermostatCaller::new(&client, address)` with `set_target(&request)`,
//!   `set_target_with(&request, &CallOptions)` and `start_set_target(..)`, which returns a
//!   `PendingCall`;
//! - a struct for each message: `string` is `String`, `bytes` is `nearcall::Bytes`.
//!
//! `cargo doc` of the program documents them with the comments of the `.proto` file.
//!
//! `protoc` is not needed. `import "nearcall/options.proto"` and `google/protobuf/*.proto` work
//! without an include directory. A method may have `option (nearcall.oneway) = true;` or
//! `option (nearcall.deadline_ms) = 250;`.
//!
//! # Invariants
//!
//! - Generated text depends on the descriptors alone.
//! - A file that would not change is not written, so nothing is compiled again.
//!
//! **Not here:** the runtime (`nearcall`).
#![forbid(unsafe_code)]

mod async_caller;
mod builder;
mod caller;
mod clashes;
mod comments;
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
mod options;
mod polish;
mod sources;

pub use prost_reflect::DescriptorPool;

pub use self::builder::{Builder, Written, WrittenFile};
pub use self::error::{BuildError, Place};
pub use self::generate::{GeneratedFile, Options, generate};
