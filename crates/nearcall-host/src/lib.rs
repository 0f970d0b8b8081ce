//! Runs a set of services that a file names: as processes, or as libraries that share a process.
//!
//! The host binds the socket of each service and hands it over to the process that serves it, so
//! that clients who connect during a restart wait in its queue and lose no call.
//!
//! [`Config`] reads the file, [`run`] runs what it says until a signal ends the host,
//! [`run_worker`] is the process of a group of libraries. [`proto`] has the interface by which a
//! host is asked.
//!
//! **Invariants:** what the host has started ends with it, however it ends.
//! **Not here:** calls and servers (`nearcall`), processes and sockets as the kernel has them
//! (`nearcall-os`), what is printed (`nearcall-cli`).
#![forbid(unsafe_code)]

mod config;
mod host;
pub mod library;
mod limits;
mod supervisor;
mod worker;

pub use config::{Config, ConfigError, LISTEN_DEFAULT};
pub use host::{HostError, HostOptions, run};
pub use supervisor::Ending;
pub use worker::run_worker;

/// The interface of a host, generated from `proto/nearcall/v1/host.proto`.
pub mod proto {
    nearcall::include_proto!("nearcall.v1");
}
