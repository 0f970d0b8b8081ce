//! Calls a function in another process at close to the price of calling it in your own.
//!
//! An interface is a `service` of a `.proto` file, from which `nearcall-build` generates a trait, a
//! caller and a dispatcher. A [`Server`] serves objects in an [`EventLoop`]; a [`Client`] calls
//! them, over any mechanism that Linux has (`ADDRESS?via=MECHANISM`), or directly where caller and
//! service share a thread.
//!
//! Everything here belongs to one thread: one loop per thread, no locks. Errors are [`Status`]es
//! with the codes of gRPC.
//! Not here: code generation (`nearcall-build`), mechanisms (`nearcall-channel`), the protocol
//! (`nearcall-wire`).
#![forbid(unsafe_code)]

mod address;
mod buffers;
mod client;
mod codec;
mod context;
mod core;
mod dispatch;
pub mod event_loop;
mod interface;
pub mod limits;
mod link;
mod meet;
mod metadata;
mod options;
mod peer;
mod reactor;
mod remote;
mod responder;
mod server;
mod started;
mod status;

pub use address::{Address, BadAddress};
pub use client::Client;
pub use codec::Message;
pub use context::Context;
pub use dispatch::{Dispatcher, Incoming};
pub use event_loop::{Event, EventLoop, Stopper};
pub use interface::{Interface, Method};
pub use limits::Limits;
pub use metadata::{BadMetadata, Metadata};
pub use nearcall_channel::{Deadline, Mechanism, WaitPolicy};
pub use options::CallOptions;
pub use peer::{Peer, PeerIdentity};
pub use prost;
pub use prost_types;
pub use remote::RemoteObject;
pub use responder::Responder;
pub use server::{ListenError, RegisterError, Server};
pub use started::Started;
pub use status::{Code, Status};
