//! Calls of nearcall leave the machine as gRPC, and gRPC calls come in.
//!
//! **Out.** After one line, callers take addresses like `grpc://HOST:PORT` and `grpcs://HOST:PORT`,
//! and the generated caller is the same as for shared memory:
//!
//! ```no_run
//! # mod home {
//! #     include!(concat!(
//! #         env!("CARGO_MANIFEST_DIR"),
//! #         "/../nearcall-build/tests/golden/thermostat.rs"
//! #     ));
//! # }
//! # use home::*;
//! nearcall_grpc::install()?;
//! let client = nearcall::Client::new();
//! let thermostat = ThermostatCaller::new(&client, "grpcs://node2:50051")?;
//! thermostat.set_target(&SetTargetRequest { celsius: 21.5 })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
//! Programs that do not use this crate call gRPC servers through a [`Forwarder`].
//!
//! **Invariants:** messages pass as bytes, and nothing here waits for all of a stream: a reader
//! that is slow at one side holds the sender at the other.
//! **Not here:** HTTP/2, TLS and compression (hyper, rustls, tonic), calls by names
//! (`nearcall::dynamic`).
//!
//! # Inside
//!
//! Out: `outbound.rs` installs the transport of `grpc://` addresses, a server of nearcall and a
//! runtime of tokio in one thread; `remote.rs` is a machine with its addresses and connections,
//! `forward.rs` one call to it, `reflection.rs` asks it for descriptions, `forwarder.rs` serves it
//! to other programs. In: `inbound.rs` says what a gateway is made of; `connections.rs` takes
//! connections of HTTP/2 and ends those that send nothing; `calls.rs` makes each call one of
//! `nearcall::dynamic`, by the shape that its server reports (`exposed.rs`); `health.rs` and
//! `reflection.rs` answer for the servers, `own_server.rs` for the gateway itself. `codec.rs`
//! passes messages as bytes, and `convert.rs` holds what statuses and metadata of the two sides
//! have in common.
#![forbid(unsafe_code)]

mod codec;
mod convert;
mod inbound;
mod outbound;

pub use self::inbound::{
    Gateway, GatewayBuilder, GatewayCounters, GatewayError, GatewayLimits, RunningGateway,
    TlsOptions, descriptor_pool,
};
pub use self::outbound::{Forwarder, ForwarderError, Outbound, RunningForwarder, install};

/// The interface of a gateway that has a name ([`GatewayBuilder::name`]), generated from
/// `proto/nearcall/v1/gateway.proto`.
pub mod proto {
    include!("golden/gateway.rs");
}

/// Returns whether an interface is one that gateways and servers answer themselves.
fn is_reserved(interface: &str) -> bool {
    ["nearcall.", "grpc.health.", "grpc.reflection."].iter().any(|it| interface.starts_with(it))
}
