//! Calls of nearcall leave the machine as gRPC, and gRPC calls come in.
//!
//! **In.** A [`Gateway`] is a gRPC server in front of servers of nearcall, which need not know of
//! it:
//!
//! ```no_run
//! use nearcall_grpc::Gateway;
//!
//! let gateway = Gateway::builder()
//!     .expose("thermostat", &["home.v1.Thermostat"])
//!     .listen("127.0.0.1:50051")
//!     .start()?;
//! println!("{:?}", gateway.addresses());
//! # Ok::<(), nearcall_grpc::GatewayError>(())
//! ```
//!
//! **Invariants:** messages pass as bytes, and nothing here waits for all of a stream: a reader
//! that is slow at one side holds the sender at the other.
//! **Not here:** HTTP/2, TLS and compression (hyper, rustls, tonic), calls by names
//! (`nearcall::dynamic`).
#![forbid(unsafe_code)]

mod codec;
mod convert;
mod inbound;

pub use self::inbound::{
    Gateway, GatewayBuilder, GatewayCounters, GatewayError, GatewayLimits, RunningGateway,
    TlsOptions,
};
