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
//! **Invariants:** messages pass as bytes, and nothing here waits for all of a stream: a reader that
//! is slow at one side holds the sender at the other.
//! **Not here:** HTTP/2, TLS and compression (tonic), calls by names (`nearcall::dynamic`).
#![forbid(unsafe_code)]

mod codec;
mod convert;
mod outbound;

pub use self::outbound::{Outbound, install};
